# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What happens to a camera picture before a GR00T N1.6 model sees it, byte by byte as in training."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from flashrt_core.area_resize import resize_area
from flashrt_core.errors import Error
from flashrt_core.resample import resample

# A patch of the vision tower has 14 pixels, and two by two of its tokens become one of the language model.
TOKEN_PIXELS = 28
# Beyond these the original would scale in yet another way.
_LEAST_PIXELS, _MOST_PIXELS, _LONGEST_SIDE = 3136, 3211264, 7000


class PictureStep(Protocol):
    """[rows, columns, 3] -> the same of another size, and that size alone."""

    def __call__(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]: ...

    def size(self, rows: int, columns: int) -> tuple[int, int]: ...


@dataclass(frozen=True)
class PadToSquare:
    """Black bars around the shorter side; an odd pixel goes below or to the right."""

    def size(self, rows: int, columns: int) -> tuple[int, int]:
        return max(rows, columns), max(rows, columns)

    def __call__(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        rows, columns, channels = image.shape
        if rows == columns:
            return image
        side = max(rows, columns)
        top, left = (side - rows) // 2, (side - columns) // 2
        canvas = np.zeros((side, side, channels), np.uint8)
        canvas[top : top + rows, left : left + columns] = image
        return canvas


@dataclass(frozen=True)
class ShortestSide:
    """Scales so that the shorter side has so many pixels; the aspect ratio stays, but for rounding."""

    pixels: int

    def size(self, rows: int, columns: int) -> tuple[int, int]:
        scale = self.pixels / min(rows, columns)
        return round(rows * scale), round(columns * scale)  # halves to even

    def __call__(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return resize_area(image, *self.size(*image.shape[:2]))


@dataclass(frozen=True)
class CropCentre:
    """Keeps a part of each side; both are rounded down."""

    fraction: float

    def size(self, rows: int, columns: int) -> tuple[int, int]:
        return int(self.fraction * rows), int(self.fraction * columns)

    def __call__(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        rows, columns = image.shape[:2]
        height, width = self.size(rows, columns)
        top, left = (rows - height) // 2, (columns - width) // 2
        return image[top : top + height, left : left + width]


@dataclass(frozen=True)
class FitTokens:
    """Sides that whole tokens cover, by Pillow's bicubic interpolation."""

    def size(self, rows: int, columns: int) -> tuple[int, int]:
        height, width = (max(1, round(side / TOKEN_PIXELS)) * TOKEN_PIXELS for side in (rows, columns))
        if not _LEAST_PIXELS <= height * width <= _MOST_PIXELS or max(height, width) > _LONGEST_SIDE:
            raise Error(
                f'pictures: {columns}x{rows} (width x height) would become {width}x{height}; the model takes '
                f'{_LEAST_PIXELS} to {_MOST_PIXELS} pixels and sides up to {_LONGEST_SIDE}; use letterbox on'
            )
        return height, width

    def __call__(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        height, width = self.size(*image.shape[:2])
        planes = resample(image.transpose(2, 0, 1), height, width, 'pil_bicubic')
        return np.ascontiguousarray(planes.transpose(1, 2, 0)).astype(np.uint8)


def picture_steps(letterbox: bool, shortest_side: int, crop_fraction: float) -> tuple[PictureStep, ...]:
    """In the order of the original; without letterbox pictures keep their aspect ratio."""
    square: tuple[PictureStep, ...] = (PadToSquare(),) if letterbox else ()
    scale = ShortestSide(shortest_side)
    return *square, scale, CropCentre(crop_fraction), scale, FitTokens()


def size_after(steps: tuple[PictureStep, ...], rows: int, columns: int) -> tuple[int, int]:
    """Height and width of what becomes of a picture of that size."""
    for step in steps:
        rows, columns = step.size(rows, columns)
    return rows, columns
