# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Raw pictures: from the fields of sensor_msgs/Image to [height, width, 3] RGB."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from flashrt_core.types import BYTE_ENCODINGS, CameraFrame
from flashrt_ros.inputs import Rejected

Picture = NDArray[np.uint8]  # [height, width, 3], RGB


@dataclass(frozen=True)
class _Encoding:
    row_bytes: int  # per pixel
    even: tuple[str, ...]  # sides that have to be even
    rows: Callable[[int], int]  # data rows for that many pixel rows
    to_rgb: Callable[[Picture], Picture]  # from [rows, width, row_bytes]
    least_side: int = 1


def _packed(row_bytes: int, to_rgb: Callable[[Picture], Picture]) -> _Encoding:
    return _Encoding(row_bytes, (), lambda height: height, to_rgb)


def _opencv(row_bytes: int, code: int, even: tuple[str, ...]) -> _Encoding:
    return _Encoding(row_bytes, even, lambda height: height, lambda rows: cv2.cvtColor(rows, code))


def _half_chroma(code: int) -> _Encoding:
    """`height` rows of luma, then `height` / 2 rows of chroma pairs."""
    return _Encoding(
        1, ('height', 'width'), lambda height: height * 3 // 2, lambda rows: cv2.cvtColor(rows[..., 0], code)
    )


def _bayer(code: int) -> _Encoding:
    """A pixel takes two of its colours from its neighbours; OpenCV makes smaller pictures black."""
    return replace(_opencv(1, code, ()), least_side=3)


def _repeat(rows: Picture) -> Picture:
    return np.repeat(rows, 3, axis=2)


def _swap(rows: Picture) -> Picture:
    return np.ascontiguousarray(rows[..., 2::-1])


def _first_three(rows: Picture) -> Picture:
    return np.ascontiguousarray(rows[..., :3])


# OpenCV names a Bayer pattern by its second row, ROS by its first: rggb here is BG there.
_UYVY = _opencv(2, cv2.COLOR_YUV2RGB_UYVY, ('width',))
_YUYV = _opencv(2, cv2.COLOR_YUV2RGB_YUY2, ('width',))
_ENCODINGS = {
    'rgb8': _packed(3, lambda rows: rows),
    'bgr8': _packed(3, _swap),
    'rgba8': _packed(4, _first_three),
    'bgra8': _packed(4, _swap),
    'mono8': _packed(1, _repeat),
    '8UC1': _packed(1, _repeat),
    'uyvy': _UYVY,
    'yuv422': _UYVY,
    'yuyv': _YUYV,
    'yuv422_yuy2': _YUYV,
    'nv12': _half_chroma(cv2.COLOR_YUV2RGB_NV12),
    'nv21': _half_chroma(cv2.COLOR_YUV2RGB_NV21),
    'bayer_rggb8': _bayer(cv2.COLOR_BayerBG2RGB),
    'bayer_bggr8': _bayer(cv2.COLOR_BayerRG2RGB),
    'bayer_gbrg8': _bayer(cv2.COLOR_BayerGR2RGB),
    'bayer_grbg8': _bayer(cv2.COLOR_BayerGB2RGB),
}
_UNORDERED = {
    ('8UC3', 'rgb'): 'rgb8',
    ('8UC3', 'bgr'): 'bgr8',
    ('8UC4', 'rgb'): 'rgba8',
    ('8UC4', 'bgr'): 'bgra8',
}
_ONE_CHANNEL = {'8UC1': 'mono8'}
_NOT_COLOUR = (
    'mono16',
    '16UC',
    '16SC',
    '32FC',
    '32SC',
    '64FC',
    'rgb16',
    'bgr16',
    'rgba16',
    'bgra16',
    'bayer_',
)


def check_raw(frame: CameraFrame, max_side: int, channel_order: str = '') -> None:
    """Raises Rejected unless label and sizes agree with the data; allocates nothing."""
    encoding = _encoding(frame.encoding, channel_order)
    height, width, step, size = frame.height, frame.width, frame.step, len(frame.data)
    if height < 1 or width < 1:
        raise Rejected('bad_size', f'height {height} and width {width} must be positive')
    if max(height, width) > max_side:
        raise Rejected('too_large', f'height {height}, width {width}: the longest allowed side is {max_side}')
    if min(height, width) < encoding.least_side:
        raise Rejected(
            'bad_size',
            f'height {height}, width {width}: {frame.encoding} needs sides of at least {encoding.least_side}',
        )
    for side in encoding.even:
        if getattr(frame, side) % 2:
            raise Rejected(
                'bad_size', f'{side} {getattr(frame, side)} is odd, {frame.encoding} needs it even'
            )
    if step < width * encoding.row_bytes:
        raise Rejected(
            'bad_size',
            f'step {step} is less than width {width} x {encoding.row_bytes} bytes of {frame.encoding}',
        )
    rows = encoding.rows(height)
    if size != step * rows:
        raise Rejected(
            'bad_size',
            f'{size} bytes of data, but {frame.encoding} with height {height} and step {step} '
            f'has {step} x {rows} = {step * rows}',
        )


def decode_raw(frame: CameraFrame, channel_order: str = '') -> Picture:
    """RGB of a frame that passed check_raw; a view of its data where nothing has to change."""
    encoding = _encoding(frame.encoding, channel_order)
    rows = np.frombuffer(frame.data, np.uint8).reshape(encoding.rows(frame.height), frame.step)
    pixels = np.ascontiguousarray(rows[:, : frame.width * encoding.row_bytes])
    return encoding.to_rgb(pixels.reshape(len(rows), frame.width, encoding.row_bytes))


def byte_frame(frame: CameraFrame, channel_order: str = '') -> CameraFrame | None:
    """The same frame, under a label that says the order of its colours; None where it has to be decoded."""
    label = _UNORDERED.get((frame.encoding, channel_order), _ONE_CHANNEL.get(frame.encoding, frame.encoding))
    return replace(frame, encoding=label) if label in BYTE_ENCODINGS else None


def _encoding(label: str, channel_order: str) -> _Encoding:
    if label in ('8UC3', '8UC4') and not channel_order:
        raise Rejected(
            'unsupported_encoding',
            f"encoding '{label}' does not say the order of its colours; set cameras.<slot>.channel_order",
        )
    found = _ENCODINGS.get(_UNORDERED.get((label, channel_order), label))
    if found is not None:
        return found
    supported = ', '.join([*_ENCODINGS, '8UC3', '8UC4'])
    if label.startswith(_NOT_COLOUR):
        raise Rejected(
            'not_8bit_colour', f"encoding '{label}' is not an 8-bit colour picture; supported: {supported}"
        )
    raise Rejected('unsupported_encoding', f"encoding '{label}' is not supported; supported: {supported}")
