# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Raw pictures of every encoding to RGB, and refusal of those that lie about themselves (R-01 to R-06)."""

import base64
import json
from types import SimpleNamespace

import numpy as np
import pytest
from fake_policy import CASES

from flashrt_core.types import CameraFrame
from flashrt_ros.conversions import check_frame, decode_frame, raw_frame, undecoded_frame
from flashrt_ros.inputs import Rejected

MAX_SIDE = 4096
BAD_SIZES = {
    'rgb8_one_row_short': ('1980 bytes', '2079'),
    'rgb8_five_bytes_long': ('2084 bytes', '2079'),
    'rgb8_step_below_row': ('step 66', 'width 33'),
    'rgb8_absurd_height': ('4294967295', str(MAX_SIDE)),
    'rgb8_zero_size': ('height 0', 'width 0'),
}


def load(name: str) -> CameraFrame:
    fields = json.loads((CASES / 'images' / f'{name}.json').read_text())
    message = SimpleNamespace(**fields, data=base64.b64decode(fields['data_base64']))
    return raw_frame(message)


def rgb(frame: CameraFrame, channel_order: str = '') -> np.ndarray:
    check_frame(frame, MAX_SIDE, channel_order)
    return decode_frame(frame, channel_order)


def expected(name: str) -> dict:
    return json.loads((CASES / 'images' / f'{name}.json').read_text())['expect']


@pytest.mark.parametrize(
    'name',
    [
        'rgb8_tight', 'rgb8_step100', 'rgb8_step128', 'bgr8_step112', 'mono8_step40',
        'yuyv', 'yuv422_yuy2', 'uyvy', 'yuv422',
    ],
)  # fmt: skip
def test_probe_pixels(name: str):
    picture, expect = rgb(load(name)), expected(name)
    assert picture.dtype == np.uint8
    assert list(picture.shape) == expect['shape']
    for probe in expect['probes']:
        pixel = picture[probe['row'], probe['col']].astype(int)
        assert np.abs(pixel - probe['rgb']).max() <= expect.get('tolerance', 0), probe


@pytest.mark.parametrize('name', ['rgb8_step100', 'rgb8_step128', 'bgr8_step112'])
def test_padding_and_channel_order_do_not_change_the_picture(name: str):
    np.testing.assert_array_equal(rgb(load(name)), rgb(load('rgb8_tight')))


def test_two_names_of_one_byte_order_are_equal():
    np.testing.assert_array_equal(rgb(load('yuyv')), rgb(load('yuv422_yuy2')))
    np.testing.assert_array_equal(rgb(load('uyvy')), rgb(load('yuv422')))


def test_tight_rgb_is_a_view_of_the_message():
    frame = load('rgb8_tight')
    assert np.shares_memory(rgb(frame), np.frombuffer(frame.data, np.uint8))


@pytest.mark.parametrize(('name', 'numbers'), BAD_SIZES.items())
def test_sizes_that_disagree_are_refused_with_the_numbers(name: str, numbers: tuple[str, ...]):
    with pytest.raises(Rejected) as refusal:
        check_frame(load(name), MAX_SIDE, '')
    assert refusal.value.reason in ('bad_size', 'too_large')
    for number in numbers:
        assert number in str(refusal.value)


@pytest.mark.parametrize(
    ('name', 'reason'),
    [
        ('BGR8_upper_case', 'unsupported_encoding'),
        ('empty_encoding', 'unsupported_encoding'),
        ('mono16', 'not_8bit_colour'),
        ('16UC1', 'not_8bit_colour'),
        ('32FC1', 'not_8bit_colour'),
    ],
)
def test_other_labels_are_refused_by_name(name: str, reason: str):
    frame = load(name)
    with pytest.raises(Rejected, match=f"'{frame.encoding}'.*supported: rgb8, bgr8") as refusal:
        check_frame(frame, MAX_SIDE, '')
    assert refusal.value.reason == reason


def test_bayer_mosaic_has_the_right_colours():
    picture = rgb(load('bayer_rggb8')).astype(int)
    assert np.abs(picture[4:-4, 4:-4] - [200, 120, 40]).max() <= 4


@pytest.mark.parametrize(
    ('encoding', 'tile'),
    [
        ('bayer_rggb8', [[0, 1], [1, 2]]),
        ('bayer_bggr8', [[2, 1], [1, 0]]),
        ('bayer_gbrg8', [[1, 2], [0, 1]]),
        ('bayer_grbg8', [[1, 0], [2, 1]]),
    ],
)
def test_each_bayer_pattern_starts_where_its_name_says(encoding: str, tile: list[list[int]]):
    colour = np.array([200, 120, 40], np.uint8)
    mosaic = np.tile(colour[np.array(tile)], (8, 8))
    picture = rgb(CameraFrame(mosaic.tobytes(), encoding, 16, 16, 16))
    np.testing.assert_array_equal(picture[4:-4, 4:-4], np.broadcast_to(colour, (8, 8, 3)))


@pytest.mark.parametrize(('encoding', 'chroma'), [('nv12', (90, 240)), ('nv21', (240, 90))])
def test_half_chroma_red(encoding: str, chroma: tuple[int, int]):
    step, height, width = 40, 20, 34  # luma 81, Cb 90, Cr 240 is red in BT.601
    data = np.full((height * 3 // 2, step), 0xEE, np.uint8)
    data[:height, :width] = 81
    data[height:, 0:width:2], data[height:, 1:width:2] = chroma
    picture = rgb(CameraFrame(data.tobytes(), encoding, height, width, step)).astype(int)
    assert picture.shape == (height, width, 3)
    assert np.abs(picture - [254, 0, 0]).max() <= 3


def test_nv21_chroma_rows_are_no_picture_rows():
    picture = rgb(load('nv21')).astype(int)  # luma 126 and 81, all chroma neutral
    assert picture.shape == (20, 34, 3)
    assert np.abs(picture[:, :16] - 128).max() <= 3
    assert np.abs(picture[:, 18:] - 76).max() <= 3


def test_odd_sides_of_shared_chroma_are_refused():
    with pytest.raises(Rejected, match='width 33 is odd'):
        check_frame(CameraFrame(bytes(66 * 20), 'yuyv', 20, 33, 66), MAX_SIDE, '')
    with pytest.raises(Rejected, match='height 21 is odd'):
        check_frame(CameraFrame(bytes(34 * 31), 'nv12', 21, 34, 34), MAX_SIDE, '')


@pytest.mark.parametrize(('encoding', 'order', 'value'), [
    ('rgba8', '', [1, 2, 3, 9]), ('bgra8', '', [3, 2, 1, 9]), ('8UC3', 'rgb', [1, 2, 3]),
    ('8UC3', 'bgr', [3, 2, 1]), ('8UC4', 'bgr', [3, 2, 1, 9]), ('8UC1', '', [7]),
])  # fmt: skip
def test_channels(encoding: str, order: str, value: list[int]):
    data = np.tile(np.array(value, np.uint8), (2, 2))
    picture = rgb(CameraFrame(data.tobytes(), encoding, 2, 2, 2 * len(value)), order)
    assert picture[1, 1].tolist() == ([7, 7, 7] if len(value) == 1 else [1, 2, 3])


@pytest.mark.parametrize(('encoding', 'order', 'label'), [
    ('rgb8', '', 'rgb8'), ('bgra8', 'rgb', 'bgra8'), ('mono8', '', 'mono8'), ('8UC1', '', 'mono8'),
    ('8UC3', 'bgr', 'bgr8'), ('8UC4', 'rgb', 'rgba8'), ('yuyv', '', None), ('bayer_rggb8', '', None),
])  # fmt: skip
def test_frames_of_whole_bytes_keep_them(encoding: str, order: str, label: str | None):
    frame = CameraFrame(bytes(range(16)), encoding, 2, 2, 8)
    kept = undecoded_frame(frame, order)
    assert (kept and kept.encoding) == label
    if kept is not None:
        assert kept.data is frame.data
        np.testing.assert_array_equal(kept.rgb(), rgb(frame, order))


def test_unlabelled_colour_order_is_never_guessed():
    with pytest.raises(Rejected, match='channel_order'):
        check_frame(CameraFrame(bytes(12), '8UC3', 2, 2, 6), MAX_SIDE, '')
