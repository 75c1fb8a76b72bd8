# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""JPEG and PNG to RGB; damage, orientation tags and odd channel counts (R-03, R-06 to R-09)."""

import json
import struct
import zlib
from contextlib import suppress

import numpy as np
import pytest
import simplejpeg
from fake_policy import CASES

from flashrt_ros.compressed_images import (
    CompressedFrame,
    check_compressed,
    decode_compressed,
    orientation_tag,
)
from flashrt_ros.inputs import Rejected

MAX_SIDE = 4096
INDEX = json.loads((CASES / 'compressed' / 'index.json').read_text())
DAMAGED = [
    'truncated_60_percent.jpg', 'truncated_in_header.jpg', 'zero_bytes.jpg', 'scrambled_middle.jpg',
    'no_end_marker.jpg',
]  # fmt: skip


def load(name: str) -> CompressedFrame:
    return CompressedFrame((CASES / 'compressed' / name).read_bytes(), INDEX[name]['format'])


def rgb(frame: CompressedFrame) -> np.ndarray:
    check_compressed(frame, MAX_SIDE)
    return decode_compressed(frame)


def check_probes(picture: np.ndarray, expect: dict, tolerance: int) -> None:
    assert list(picture.shape) == expect['shape']
    for probe in expect['probes']:
        pixel = picture[probe['row'], probe['col']].astype(int)
        assert np.abs(pixel - probe['rgb']).max() <= tolerance, probe


@pytest.mark.parametrize(
    'name', ['good.jpg', 'progressive.jpg', 'gray.jpg', 'exif_orientation_6.jpg', 'rgb8.png']
)
def test_probe_pixels(name: str):
    check_probes(rgb(load(name)), INDEX[name]['expect'], INDEX[name]['expect']['tolerance'])


def test_four_channel_jpeg_has_the_colours_of_the_good_one():
    check_probes(rgb(load('cmyk.jpg')), INDEX['good.jpg']['expect'], 25)


@pytest.mark.parametrize('name', DAMAGED)
def test_damaged_jpeg_is_refused_each_time(name: str):
    for _ in range(3):
        with pytest.raises(Rejected) as refusal:
            rgb(load(name))
        assert refusal.value.reason == 'damaged'


@pytest.mark.parametrize('share', [0.3, 0.6, 0.9, 0.99])
def test_jpeg_cut_anywhere_is_refused(share: float):
    noise = np.random.default_rng(1).integers(0, 255, (240, 320, 3), np.uint8)
    data = simplejpeg.encode_jpeg(noise, quality=80)
    with pytest.raises(Rejected, match='damaged'):
        rgb(CompressedFrame(data[: int(len(data) * share)], 'jpeg'))


def test_orientation_tag_is_found_and_not_applied():
    frame = load('exif_orientation_6.jpg')
    assert orientation_tag(frame) == 6
    assert rgb(frame).shape == (48, 64, 3)
    assert orientation_tag(load('good.jpg')) == 1
    assert orientation_tag(load('rgb8.png')) == 1


def test_sixteen_bit_png_is_refused_by_label_and_by_content():
    frame = load('gray16.png')
    with pytest.raises(Rejected, match='16UC1') as refusal:
        check_compressed(frame, MAX_SIDE)
    assert refusal.value.reason == 'not_8bit_colour'
    with pytest.raises(Rejected, match='16 bits'):
        check_compressed(CompressedFrame(frame.data, 'png'), MAX_SIDE)


def test_depth_codec_and_other_codecs_are_refused_by_name():
    data = load('rgb8.png').data
    for label, reason in (
        ('16UC1; compressedDepth png', 'not_8bit_colour'),
        ('h264', 'unsupported_encoding'),
    ):
        with pytest.raises(Rejected, match=label) as refusal:
            check_compressed(CompressedFrame(data, label), MAX_SIDE)
        assert refusal.value.reason == reason


def test_size_is_limited_before_decoding():
    with pytest.raises(Rejected, match='height 48, width 64: the longest allowed side is 32'):
        check_compressed(load('good.jpg'), 32)
    header = struct.pack('>IIBBBBB', 60000, 60000, 8, 2, 0, 0, 0)
    bomb = b'\x89PNG\r\n\x1a\n' + struct.pack('>I', 13) + b'IHDR' + header
    bomb += struct.pack('>I', zlib.crc32(b'IHDR' + header))
    with pytest.raises(Rejected, match='60000') as refusal:
        check_compressed(CompressedFrame(bomb, 'png'), MAX_SIDE)
    assert refusal.value.reason == 'too_large'


@pytest.mark.parametrize('keep', [20, 60, -12, -1])
def test_png_cut_anywhere_is_refused(keep: int):
    with pytest.raises(Rejected, match=r'damaged|cut short|no header'):
        rgb(CompressedFrame(load('rgb8.png').data[:keep], 'png'))


def test_png_with_a_flipped_byte_is_refused():
    data = bytearray(load('rgb8.png').data)
    data[data.index(b'IDAT') + 10] ^= 0x55
    with pytest.raises(Rejected, match="chunk 'IDAT' is damaged"):
        rgb(CompressedFrame(bytes(data), 'png'))


def test_random_bytes_never_raise_anything_else():
    random = np.random.default_rng(2)
    good = load('good.jpg').data
    for _ in range(300):
        data = bytearray(good)
        for at in random.integers(2, len(data), 5):
            data[at] = random.integers(0, 256)
        with suppress(Rejected):
            assert rgb(CompressedFrame(bytes(data), 'jpeg')).shape[2] == 3


def test_size_behind_a_marker_without_length_is_found():
    """A reader that took the next two bytes for a length would jump to the small size planted there."""
    large = simplejpeg.encode_jpeg(np.zeros((600, 800, 3), np.uint8))
    (length,) = struct.unpack_from('>H', large, 4)
    start, rest = b'\xff\xd8\xff\x01' + large[2 : 4 + length], large[4 + length :]
    planted = b'\xff\xc0' + struct.pack('>HBHHB', 17, 8, 48, 64, 3) + bytes(9)
    filler = b'\xff\xfe' + struct.pack('>H', 65000) + bytes(64998)
    gap = 4 + 0xFFE0 - len(start) - len(filler) - 4
    comment = b'\xff\xfe' + struct.pack('>H', 2 + gap + len(planted)) + bytes(gap) + planted
    with pytest.raises(Rejected, match='height 600, width 800'):
        check_compressed(CompressedFrame(start + filler + comment + rest, 'jpeg'), 500)
