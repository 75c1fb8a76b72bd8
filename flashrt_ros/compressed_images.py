# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Compressed pictures: JPEG and PNG to [height, width, 3] RGB, damage refused, orientation tags ignored."""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np
import simplejpeg

from flashrt_ros.inputs import Rejected
from flashrt_ros.raw_images import Picture

_PNG_SIGNATURE = b'\x89PNG\r\n\x1a\n'
_JPEG_SIGNATURE = b'\xff\xd8'
_NO_LENGTH = frozenset({0x01, *range(0xD0, 0xD8)})  # markers that stand alone
_START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # the others define tables
_EXIF_ORIENTATION = 0x0112


@dataclass(frozen=True)
class CompressedFrame:
    """One picture as sensor_msgs/CompressedImage carries it."""

    data: bytes
    format: str


def check_compressed(frame: CompressedFrame, max_side: int) -> None:
    """Raises Rejected from the header alone: wrong kind of picture, too large, or no picture at all."""
    _check_format(frame.format)
    if frame.data.startswith(_PNG_SIGNATURE):
        height, width = _check_png_header(frame.data)
    elif frame.data.startswith(_JPEG_SIGNATURE):
        height, width = _jpeg_size(frame.data)
    else:
        start = frame.data[:8].hex(' ') or 'nothing'
        raise Rejected(
            'damaged', f'{len(frame.data)} bytes are neither JPEG nor PNG: they begin with {start}'
        )
    if height < 1 or width < 1:
        raise Rejected('damaged', f'height {height} and width {width} must be positive')
    if max(height, width) > max_side:
        raise Rejected('too_large', f'height {height}, width {width}: the longest allowed side is {max_side}')


def decode_compressed(frame: CompressedFrame) -> Picture:
    """RGB of a frame that passed check_compressed, pixels as stored; any damage raises Rejected."""
    if frame.data.startswith(_PNG_SIGNATURE):
        return _decode_png(frame.data)
    try:
        return simplejpeg.decode_jpeg(frame.data, colorspace='RGB', strict=True)
    except ValueError as error:
        raise Rejected('damaged', f'JPEG of {len(frame.data)} bytes is damaged: {error}') from None


def orientation_tag(frame: CompressedFrame) -> int:
    """The EXIF orientation of a JPEG, 1 (upright) where there is none."""
    if not frame.data.startswith(_JPEG_SIGNATURE):
        return 1
    for marker, start, end in _jpeg_segments(frame.data):
        if marker == 0xE1 and frame.data[start : start + 6] == b'Exif\0\0':
            return _exif_orientation(frame.data[start + 6 : end])
        if marker in _START_OF_FRAME:
            break
    return 1


def _check_format(label: str) -> None:
    """Formats look like 'rgb8; jpeg compressed bgr8', '16UC1; compressedDepth png', or 'jpeg'."""
    if 'compressedDepth' in label or label.startswith(('16UC', '32FC', 'mono16')):
        raise Rejected('not_8bit_colour', f"format '{label}' is not an 8-bit colour picture")
    if not any(codec in label.lower() for codec in ('jpeg', 'jpg', 'png')):
        raise Rejected('unsupported_encoding', f"format '{label}' is not supported; supported: jpeg, png")


def _jpeg_segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """(marker, first byte, end) of each segment before the picture data."""
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # filler
            at += 1
            continue
        if marker in _NO_LENGTH:
            at += 2
            continue
        if marker == 0xDA:  # start of scan
            return
        length = int.from_bytes(data[at + 2 : at + 4], 'big')
        yield marker, at + 4, at + 2 + length
        at += 2 + max(length, 2)


def _jpeg_size(data: bytes) -> tuple[int, int]:
    for marker, start, _ in _jpeg_segments(data):
        if marker in _START_OF_FRAME and start + 6 <= len(data):
            precision, height, width, _ = struct.unpack_from('>BHHB', data, start)
            if precision != 8:
                raise Rejected('not_8bit_colour', f'JPEG has {precision} bits per colour, wanted 8')
            return height, width
    raise Rejected('damaged', f'JPEG of {len(data)} bytes ends before its size is given')


def _exif_orientation(tiff: bytes) -> int:
    order = {b'II': '<', b'MM': '>'}.get(tiff[:2])
    if order is None:
        return 1
    try:
        (directory,) = struct.unpack_from(f'{order}I', tiff, 4)
        (count,) = struct.unpack_from(f'{order}H', tiff, directory)
        for i in range(count):
            tag, _, _, value = struct.unpack_from(f'{order}HHIH', tiff, directory + 2 + 12 * i)
            if tag == _EXIF_ORIENTATION:
                return value
    except struct.error:  # a directory that points outside the segment says nothing
        return 1
    return 1


def _check_png_header(data: bytes) -> tuple[int, int]:
    if len(data) < 33 or data[12:16] != b'IHDR':
        raise Rejected('damaged', f'PNG of {len(data)} bytes has no header')
    width, height, depth = struct.unpack_from('>IIB', data, 16)
    if depth == 16:
        raise Rejected('not_8bit_colour', 'PNG has 16 bits per colour, wanted 8')
    return height, width


def _decode_png(data: bytes) -> Picture:
    _check_png_sums(data)
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    decoded = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    if decoded is None:
        raise Rejected('damaged', f'PNG of {len(data)} bytes cannot be decoded')
    return np.ascontiguousarray(decoded[..., ::-1])


def _check_png_sums(data: bytes) -> None:
    """The decoder fills what is missing; the sums of the chunks tell."""
    at = len(_PNG_SIGNATURE)
    while at + 12 <= len(data):
        (length,) = struct.unpack_from('>I', data, at)
        kind, end = data[at + 4 : at + 8], at + 8 + length
        if end + 4 > len(data):
            break
        if zlib.crc32(data[at + 4 : end]) != int.from_bytes(data[end : end + 4], 'big'):
            raise Rejected(
                'damaged', f"PNG of {len(data)} bytes: chunk '{kind.decode('latin-1')}' is damaged"
            )
        if kind == b'IEND':
            return
        at = end + 4
    raise Rejected('damaged', f'PNG of {len(data)} bytes is cut short')
