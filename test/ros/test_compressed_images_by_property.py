# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""JPEG and PNG cut or changed anywhere: refused or decoded as a whole, and the same twice (R-06 to R-09)."""

from functools import cache

import cv2
import numpy as np
import pytest
import simplejpeg
from fake_policy import CASES
from hypothesis import given, settings
from hypothesis import strategies as st

from flashrt_ros.compressed_images import (
    CompressedFrame,
    check_compressed,
    decode_compressed,
    orientation_tag,
)
from flashrt_ros.inputs import Rejected

MAX_SIDE = 1024
NOISE = ('colour', 'grey', 'halved chroma', 'progressive')
KINDS = (*NOISE, 'cmyk.jpg', 'exif_orientation_6.jpg')
many = settings(max_examples=200, deadline=None, derandomize=True)
few = settings(max_examples=60, deadline=None, derandomize=True)


def noise(height: int, width: int, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(7).integers(0, 256, (height, width, channels), np.uint8)


@cache
def jpeg(kind: str) -> bytes:
    if kind.endswith('.jpg'):
        return (CASES / 'compressed' / kind).read_bytes()
    if kind == 'progressive':
        return cv2.imencode('.jpg', noise(40, 56), [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])[1].tobytes()
    if kind == 'grey':
        return simplejpeg.encode_jpeg(noise(40, 56, 1), colorspace='GRAY')
    subsampling = '420' if kind == 'halved chroma' else '444'
    return simplejpeg.encode_jpeg(noise(40, 56), colorsubsampling=subsampling)


@cache
def png(channels: int) -> bytes:
    pixels = noise(21, 33, channels)
    return cv2.imencode('.png', pixels)[1].tobytes()


def answer(data: bytes, label: str = 'jpeg', max_side: int = MAX_SIDE) -> np.ndarray | str:
    """RGB, or the reason of the refusal; whatever else is raised fails the test."""
    frame = CompressedFrame(data, label)
    try:
        check_compressed(frame, max_side)
        return decode_compressed(frame)
    except Rejected as refusal:
        return refusal.reason


def same_answer_twice(data: bytes, label: str = 'jpeg') -> np.ndarray | str:
    first, second = answer(data, label), answer(data, label)
    np.testing.assert_array_equal(first, second)
    return first


@pytest.mark.parametrize('kind', KINDS)
def test_what_is_whole_is_decoded(kind):
    picture = answer(jpeg(kind))
    assert picture.dtype == np.uint8
    assert picture.shape == ((48, 64, 3) if kind.endswith('.jpg') else (40, 56, 3))


@pytest.mark.parametrize('kind', KINDS)
def test_jpeg_cut_at_any_byte_is_refused(kind):
    whole = jpeg(kind)
    assert {answer(whole[:cut]) for cut in range(len(whole))} == {'damaged'}


@pytest.mark.parametrize('kind', NOISE)
@pytest.mark.parametrize('difference', [0x01, 0xFF])
def test_jpeg_with_any_byte_changed_is_refused_or_decoded_to_its_last_row(kind, difference):
    """A decoder that gives up in the middle leaves rows of one colour behind, which noise never has."""
    whole = jpeg(kind)
    refusals = set()
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= difference
        picture = answer(bytes(changed))
        if isinstance(picture, str):
            refusals.add(picture)
        else:
            assert np.ptp(picture[-1].astype(int), axis=0).max() > 0, at
    assert 'damaged' in refusals
    assert refusals <= {'damaged', 'too_large', 'not_8bit_colour'}


@many
@given(st.sampled_from(KINDS), st.data())
def test_changed_jpeg_has_the_same_answer_twice(kind, data):
    changed = bytearray(jpeg(kind))
    changes = st.tuples(st.integers(0, len(changed) - 1), st.integers(1, 255))
    for at, difference in data.draw(st.lists(changes, min_size=1, max_size=5), label='changes'):
        changed[at] ^= difference
    same_answer_twice(bytes(changed))


@few
@given(st.sampled_from(KINDS), st.data())
def test_picture_data_that_lose_bytes_in_the_middle_are_no_picture_twice(kind, data):
    whole = jpeg(kind)
    start = data.draw(st.integers(2, len(whole) - 2), label='start')
    end = data.draw(st.integers(start + 1, len(whole) - 1), label='end')
    same_answer_twice(whole[:start] + whole[end:])


@many
@given(st.integers(1, 67), st.integers(1, 67), st.sampled_from(['444', '422', '420', 'Gray']))
def test_jpeg_of_any_size_is_decoded(height, width, subsampling):
    pixels = noise(height, width)
    flat = np.full_like(pixels, (200, 40, 90))
    picture = answer(simplejpeg.encode_jpeg(flat, colorsubsampling=subsampling))
    expected = (200, 40, 90) if subsampling != 'Gray' else (94, 94, 94)
    assert picture.shape == (height, width, 3)
    assert np.abs(picture.astype(int) - expected).max() <= 3


@many
@given(st.integers(1, 67), st.integers(1, 67), st.sampled_from([1, 3, 4]))
def test_png_of_any_size_is_decoded(height, width, channels):
    pixels = noise(height, width, channels)
    picture = answer(cv2.imencode('.png', pixels)[1].tobytes(), 'png')
    expected = np.repeat(pixels, 3, axis=2) if channels == 1 else pixels[..., 2::-1]
    np.testing.assert_array_equal(picture, expected)


@many
@given(st.sampled_from([1, 3, 4]), st.data())
def test_png_cut_or_changed_anywhere_is_refused(channels, data):
    whole = bytearray(png(channels))
    if data.draw(st.booleans(), label='is_cut'):
        whole = whole[: data.draw(st.integers(0, len(whole) - 1), label='cut')]
    else:
        whole[data.draw(st.integers(0, len(whole) - 1), label='at')] ^= data.draw(st.integers(1, 255))
    assert isinstance(same_answer_twice(bytes(whole), 'png'), str)


@many
@given(
    st.sampled_from([b'', b'\xff\xd8', b'\xff\xd8\xff\xe1', b'\x89PNG\r\n\x1a\n']), st.binary(max_size=300)
)
def test_any_bytes_are_refused_and_have_no_orientation_that_fails(start, rest):
    assert isinstance(same_answer_twice(start + rest), str)
    orientation_tag(CompressedFrame(start + rest, 'jpeg'))


@few
@given(st.binary(max_size=120), st.sampled_from([b'II*\0', b'MM\0*', b'']))
def test_any_exif_leaves_the_picture_as_it_is(content, order):
    whole = jpeg('colour')
    exif = b'Exif\0\0' + order + content
    segment = b'\xff\xe1' + (len(exif) + 2).to_bytes(2, 'big') + exif
    data = whole[:2] + segment + whole[2:]
    np.testing.assert_array_equal(answer(data), answer(whole))
    assert isinstance(orientation_tag(CompressedFrame(data, 'jpeg')), int)


@few
@given(st.integers(65, 2**16 - 1), st.integers(1, 2**16 - 1), st.booleans())
def test_any_declared_size_above_the_limit_is_refused_from_the_header(large, other, is_high):
    data = bytearray(jpeg('colour'))
    at = data.index(b'\xff\xc0') + 5
    height, width = (large, other) if is_high else (other, large)
    data[at : at + 4] = height.to_bytes(2, 'big') + width.to_bytes(2, 'big')
    with pytest.raises(Rejected, match=f'height {height}, width {width}: the longest allowed side is 64'):
        check_compressed(CompressedFrame(bytes(data), 'jpeg'), 64)


@few
@given(st.text(max_size=20))
def test_formats_that_are_not_known_are_refused_by_name(label):
    if any(codec in label.lower() for codec in ('jpeg', 'jpg', 'png')):
        return
    with pytest.raises(Rejected) as refusal:
        check_compressed(CompressedFrame(jpeg('colour'), label), MAX_SIDE)
    assert f"'{label}'" in str(refusal.value)
