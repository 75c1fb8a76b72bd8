# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Brings a camera picture to the size and the value range of the model."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error
from flashrt_core.resample import Arithmetic, resample

Fit = Literal['letterbox', 'stretch']


@dataclass(frozen=True)
class Letterbox:
    """Where a picture lies in the model's square: scaled size, black rows and columns before it."""

    height: int
    width: int
    top: int
    left: int


def letterbox(rows: int, columns: int, height: int, width: int) -> Letterbox:
    """The largest size of the same aspect ratio, both sides rounded down, centred, odd pixel right or below.

    Evaluated exactly in this order: for some sizes the result is one below the rational value (40x58 -> 223).
    """
    ratio = max(columns / width, rows / height)
    inner_height, inner_width = int(rows / ratio), int(columns / ratio)
    if inner_height < 1 or inner_width < 1:
        raise Error(
            f'resize: a picture of {columns}x{rows} (width x height) scaled into {width}x{height} would be '
            f'{inner_width}x{inner_height}; a side would become 0 pixels'
        )
    return Letterbox(inner_height, inner_width, (height - inner_height) // 2, (width - inner_width) // 2)


@dataclass(frozen=True)
class Resize:
    """[rows, columns, 3] -> [height, width, 3]; a picture that fits already is returned unchanged in value.

    'pil'       uint8 -> uint8, the bytes of Pillow 11 and 12 whatever Pillow is installed (openpi's server)
    'pil_bicubic'  the same with Pillow's bicubic kernel (GR00T)
    'torch'     uint8 -> float32 in [0, 1], bilinear without antialiasing (lerobot)
    'torch_u8'  uint8 -> uint8, the same in fixed point (openpi's PyTorch helper)
    'jax'       uint8 -> uint8 or float32 in [-1, 1] -> the same, antialiased (openpi's JAX model)
    """

    height: int
    width: int
    arithmetic: Arithmetic
    fit: Fit = 'letterbox'
    padding: float | None = None  # value of the bars; None: black

    def __call__(self, image: NDArray) -> NDArray:
        rows, columns, channels = image.shape
        place = Letterbox(self.height, self.width, 0, 0)
        if self.fit == 'letterbox':
            place = letterbox(rows, columns, self.height, self.width)
        planes = image.transpose(2, 0, 1)
        if self.arithmetic == 'torch':
            planes = planes.astype(np.float32, order='C') / np.float32(255)
        scaled = resample(planes, place.height, place.width, self.arithmetic)
        if self.arithmetic == 'torch':
            scaled = np.clip(scaled, 0, 1)
        elif self.arithmetic == 'jax' and image.dtype == np.uint8:
            scaled = np.rint(scaled)
        black = -1 if self.arithmetic == 'jax' and image.dtype != np.uint8 else 0
        padding = black if self.padding is None else self.padding
        dtype = np.float32 if self.arithmetic == 'torch' else image.dtype
        canvas = np.full((self.height, self.width, channels), padding, dtype)
        inside = (slice(place.top, place.top + place.height), slice(place.left, place.left + place.width))
        canvas[inside] = scaled.transpose(1, 2, 0)
        return canvas


@dataclass(frozen=True)
class Rotate:
    """Quarter turns, counter-clockwise; LIBERO's training pictures were turned by 180 degrees."""

    degrees: Literal[0, 90, 180, 270]

    def __call__(self, image: NDArray) -> NDArray:
        return np.rot90(image, self.degrees // 90)


def unit_to_model_range(image: NDArray[np.float32]) -> NDArray[np.float32]:
    """[0, 1] -> [-1, 1], not rounded to bytes: what lerobot's models are given."""
    return image * np.float32(2) - np.float32(1)


def model_range_to_bytes(image: NDArray[np.float32]) -> NDArray[np.uint8]:
    """[-1, 1] to the nearest of 256 levels, for people to look at; bars below -1 are black."""
    return np.rint((np.clip(image, -1, 1) + 1) * np.float32(127.5)).astype(np.uint8)


def float_to_bytes(image: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Float camera pictures in [0, 1] to bytes as openpi's platforms do it: 255 x, cut off."""
    return (255 * image).astype(np.uint8)


def to_model_range(image: NDArray[np.uint8]) -> NDArray[np.float32]:
    """[height, width, 3] bytes -> what the vision tower sees, [-1, 1]; the engine does this by itself."""
    return image.astype(np.float32) / np.float32(255) * np.float32(2) - np.float32(1)
