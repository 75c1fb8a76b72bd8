# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Raw pictures of any size, row length and label: right whatever the filler, or refused (R-01 to R-06)."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flashrt_core.types import CameraFrame
from flashrt_ros.conversions import check_frame, decode_frame, undecoded_frame
from flashrt_ros.inputs import Rejected

MAX_SIDE = 4096
# Label -> bytes of a pixel in a row, step of the sides, data rows per two pixel rows.
LABELS = {
    'rgb8': (3, 1, 2), 'bgr8': (3, 1, 2), 'rgba8': (4, 1, 2), 'bgra8': (4, 1, 2), 'mono8': (1, 1, 2),
    '8UC1': (1, 1, 2), '8UC3': (3, 1, 2), '8UC4': (4, 1, 2),
    'uyvy': (2, 2, 2), 'yuv422': (2, 2, 2), 'yuyv': (2, 2, 2), 'yuv422_yuy2': (2, 2, 2),
    'nv12': (1, 2, 3), 'nv21': (1, 2, 3),
    'bayer_rggb8': (1, 1, 2), 'bayer_bggr8': (1, 1, 2), 'bayer_gbrg8': (1, 1, 2), 'bayer_grbg8': (1, 1, 2),
}  # fmt: skip
# Which bytes of a pixel are red, green and blue.
CHANNELS = {
    ('rgb8', ''): (0, 1, 2), ('bgr8', ''): (2, 1, 0), ('rgba8', ''): (0, 1, 2), ('bgra8', ''): (2, 1, 0),
    ('mono8', ''): (0, 0, 0), ('8UC1', ''): (0, 0, 0), ('8UC3', 'rgb'): (0, 1, 2), ('8UC3', 'bgr'): (2, 1, 0),
    ('8UC4', 'rgb'): (0, 1, 2), ('8UC4', 'bgr'): (2, 1, 0),
}  # fmt: skip
# Label -> channel of the pixels in the even and odd columns of the even and odd rows.
BAYER = {
    'bayer_rggb8': [[0, 1], [1, 2]], 'bayer_bggr8': [[2, 1], [1, 0]],
    'bayer_gbrg8': [[1, 2], [0, 1]], 'bayer_grbg8': [[1, 0], [2, 1]],
}  # fmt: skip
many = settings(max_examples=250, deadline=None, derandomize=True)
few = settings(max_examples=80, deadline=None, derandomize=True)


def least_side(label: str) -> int:
    return 3 if label in BAYER else LABELS[label][1]


@st.composite
def contents(draw, label: str) -> tuple[np.ndarray, int, int]:
    """Rows of bytes without filler, height and width."""
    pixel_bytes, side_step, rows_of_two = LABELS[label]
    least = least_side(label) // side_step
    height, width = (side_step * draw(st.integers(least, 67 // side_step)) for _ in range(2))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    rows = random.integers(0, 256, (height * rows_of_two // 2, width * pixel_bytes), np.uint8)
    return rows, height, width


def padded(rows: np.ndarray, label: str, height: int, width: int, filler: bytes) -> CameraFrame:
    """With the filler bytes behind every row."""
    step = rows.shape[1] + len(filler)
    data = b''.join(row.tobytes() + filler for row in rows)
    return CameraFrame(data, label, height, width, step)


def rgb(frame: CameraFrame, order: str = '') -> np.ndarray:
    check_frame(frame, MAX_SIDE, order)
    return decode_frame(frame, order)


@pytest.mark.parametrize('label', LABELS)
@few
@given(data=st.data())
def test_filler_is_never_seen(label, data):
    rows, height, width = data.draw(contents(label))
    order = 'rgb' if label in ('8UC3', '8UC4') else ''
    tight = rgb(padded(rows, label, height, width, b''), order)
    assert tight.shape == (height, width, 3)
    assert tight.dtype == np.uint8
    frame = padded(rows, label, height, width, data.draw(st.binary(max_size=70), label='filler'))
    np.testing.assert_array_equal(rgb(frame, order), tight)


@many
@given(st.sampled_from(sorted(CHANNELS)), st.binary(max_size=70), st.data())
def test_channels_are_where_the_label_says(names, filler, data):
    label, order = names
    rows, height, width = data.draw(contents(label))
    frame = padded(rows, label, height, width, filler)
    expected = rows.reshape(height, width, -1)[..., CHANNELS[names]]
    np.testing.assert_array_equal(rgb(frame, order), expected)
    np.testing.assert_array_equal(undecoded_frame(frame, order).rgb(), expected)


@few
@given(st.sampled_from([('yuyv', 'yuv422_yuy2'), ('uyvy', 'yuv422')]), st.binary(max_size=70), st.data())
def test_names_of_one_byte_order_are_equal(names, filler, data):
    rows, height, width = data.draw(contents(names[0]))
    first, second = (rgb(padded(rows, name, height, width, filler)) for name in names)
    np.testing.assert_array_equal(first, second)


@few
@given(st.sampled_from(['yuyv', 'uyvy']), st.integers(0, 255), st.data())
def test_byte_orders_differ_by_a_swap_of_neighbours(label, luma, data):
    rows, height, width = data.draw(contents(label))
    swapped = rows.reshape(height, -1, 2)[..., ::-1].reshape(rows.shape)
    other = {'yuyv': 'uyvy', 'uyvy': 'yuyv'}[label]
    np.testing.assert_array_equal(
        rgb(padded(rows, label, height, width, b'')), rgb(padded(swapped, other, height, width, b''))
    )


BYTE = st.integers(0, 255)
SIDE = st.integers(3, 67)


@few
@given(st.sampled_from(sorted(BAYER)), SIDE, SIDE, st.tuples(BYTE, BYTE, BYTE), st.binary(max_size=9))
def test_mosaic_of_one_colour_is_that_colour(label, height, width, colour, filler):
    tile = np.array(colour, np.uint8)[np.array(BAYER[label])]
    rows = np.tile(tile, (34, 34))[:height, :width]
    picture = rgb(padded(rows, label, height, width, filler))
    # Each pixel takes what it lacks from its neighbours; the border repeats the pixels beside it.
    np.testing.assert_array_equal(picture, np.broadcast_to(np.array(colour, np.uint8), picture.shape))


@few
@given(st.sampled_from(['yuyv', 'uyvy', 'nv12', 'nv21']), st.data())
def test_luma_without_colour_is_grey(label, data):
    rows, height, width = data.draw(contents(label))
    luma = rows[:height, :width].copy()
    if label.startswith('nv'):
        rows[:] = 128
        rows[:height] = luma
    else:
        rows[:] = 128
        rows[:, (0 if label == 'yuyv' else 1) :: 2] = luma
    picture = rgb(padded(rows, label, height, width, b'')).astype(int)
    expected = np.clip((luma.astype(float) - 16) * 255 / 219, 0, 255)  # BT.601, limited range
    assert np.abs(picture - expected[..., np.newaxis]).max() <= 2


U32 = st.integers(0, 2**32 - 1)
SIDES = st.integers(0, 70) | st.integers(MAX_SIDE - 2, MAX_SIDE + 2) | U32
ANY_LABEL = st.sampled_from(sorted(LABELS))


def is_right(label: str, height: int, width: int, step: int, size: int) -> bool:
    pixel_bytes, side_step, rows_of_two = LABELS[label]
    sides = (height, width) if rows_of_two == 3 else (width,)
    return (
        least_side(label) <= height <= MAX_SIDE
        and least_side(label) <= width <= MAX_SIDE
        and not any(side % side_step for side in sides)
        and step >= width * pixel_bytes
        and 2 * size == step * height * rows_of_two
    )


@many
@given(ANY_LABEL, SIDES, SIDES, st.integers(0, 300) | U32, st.data())
def test_fields_that_contradict_each_other_are_refused_before_anything_is_made(
    label, height, width, step, data
):
    rows = height * LABELS[label][2] // 2
    near = step * rows + data.draw(st.integers(-3, 3), label='off by')
    size = near if 0 <= near <= 100_000 else data.draw(st.integers(0, 100_000), label='size')
    frame = CameraFrame(bytes(size), label, height, width, step)
    order = 'rgb'
    tracemalloc.start()
    try:
        check_frame(frame, MAX_SIDE, order)
        is_accepted = True
    except Rejected as refusal:
        is_accepted = False
        reason = refusal.reason
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert is_accepted == is_right(label, height, width, step, size)
    assert is_accepted or reason in ('bad_size', 'too_large')
    assert peak < 20_000


@many
@given(ANY_LABEL, st.data())
def test_fields_that_agree_are_decoded(label, data):
    rows, height, width = data.draw(contents(label))
    frame = padded(rows, label, height, width, data.draw(st.binary(max_size=9)))
    assert is_right(label, height, width, frame.step, len(frame.data))
    assert rgb(frame, 'bgr').shape == (height, width, 3)


KNOWN = st.sampled_from([
    'RGB8', 'Bgr8', 'rgb16', 'bgra16', 'mono12', 'mono16', '16UC1', '16SC3', '32FC1', '64FC1', '8UC2',
    '8SC1', 'bayer_rggb16', 'yuv444', 'yuv420', 'nv24', 'nv16', 'jpeg', 'h264', ' rgb8', 'rgb8 ', 'rgb8\0',
])  # fmt: skip


@many
@given(st.text(max_size=20) | KNOWN, st.integers(1, 8), st.integers(1, 8))
def test_labels_that_are_not_known_are_refused_by_name(label, height, width):
    if label in LABELS:
        return
    frame = CameraFrame(bytes(height * width * 8), label, height, width, width * 8)
    with pytest.raises(Rejected) as refusal:
        check_frame(frame, MAX_SIDE, 'rgb')
    assert refusal.value.reason in ('unsupported_encoding', 'not_8bit_colour')
    assert f"'{label}'" in str(refusal.value)
    assert 'supported: rgb8, bgr8' in str(refusal.value)
