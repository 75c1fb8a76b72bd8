# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Scales pictures with the arithmetic of the library a checkpoint's pictures were scaled with.

Both axes are matrix products, horizontal before vertical. Output pixels are grouped so that the matrices
stay small: 8 neighbours share one block of the banded weight matrix. Where a library works in fixed point,
weights and pixels are integers (over a power of two) and every sum is exact in float64, so results do not
depend on the order of additions, the BLAS library or its number of threads.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Arithmetic = Literal['pil', 'pil_bicubic', 'torch', 'torch_u8', 'jax']
Kernel = Callable[[NDArray[np.float64]], NDArray[np.float64]]
_OUTPUTS_PER_BLOCK = 8
# A strip of this height stays in the cache, and its products are too small for BLAS to start threads.
_ROWS_AT_ONCE = 32


def _linear(distance: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(distance < 1.0, 1.0 - distance, 0.0)


def _cubic(distance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pillow's, with a = -0.5."""
    near = (1.5 * distance - 2.5) * distance * distance + 1.0
    far = (((distance - 5.0) * distance + 8.0) * distance - 4.0) * -0.5
    return np.where(distance < 1.0, near, np.where(distance < 2.0, far, 0.0))


def _antialiased(inputs: int, outputs: int, kernel: Kernel, reach: float) -> NDArray[np.float64]:
    """[outputs, inputs] weights, term by term as in Pillow's precompute_coeffs (Resample.c).

    reach: pixels on either side of the centre that the kernel takes where a picture is not made smaller.
    """
    scale = inputs / outputs
    filter_scale = max(1.0, scale)
    width = reach * filter_scale
    centre = (np.arange(outputs) + 0.5) * scale
    first = np.maximum(0, (centre - width + 0.5).astype(np.int64))
    last = np.minimum(inputs, (centre + width + 0.5).astype(np.int64))
    taps = first[:, None] + np.arange((last - first).max())
    distance = np.abs((taps - centre[:, None] + 0.5) * (1.0 / filter_scale))
    weights = np.where(taps < last[:, None], kernel(distance), 0.0)
    weights /= np.cumsum(weights, axis=1)[:, -1:]  # cumsum adds from left to right, as the original does
    return _dense(taps, weights, inputs)


def _triangle(inputs: int, outputs: int) -> NDArray[np.float64]:
    return _antialiased(inputs, outputs, _linear, 1.0)


def _two_taps(source: NDArray[np.floating], inputs: int) -> NDArray[np.float64]:
    """[outputs, inputs] weights of the two pixels around each source position, the last pixel repeated."""
    left = np.minimum(source.astype(np.int64), inputs - 1)
    fraction = np.where(left == inputs - 1, 0, source - left)
    return _dense(left[:, None] + np.arange(2), np.stack([1 - fraction, fraction], axis=1), inputs)


def _dense(taps: NDArray[np.int64], weights: NDArray[np.floating], inputs: int) -> NDArray[np.float64]:
    matrix = np.zeros((len(taps), inputs))
    np.add.at(matrix, (np.arange(len(taps))[:, None], np.minimum(taps, inputs - 1)), weights)
    return matrix


def _pil(inputs: int, outputs: int) -> NDArray[np.float64]:
    return np.floor(_triangle(inputs, outputs) * 2.0**22 + 0.5) * 2.0**-22


def _pil_bicubic(inputs: int, outputs: int) -> NDArray[np.float64]:
    weights = _antialiased(inputs, outputs, _cubic, 2.0) * 2.0**22
    return np.copysign(np.floor(np.abs(weights) + 0.5), weights) * 2.0**-22


def _torch(inputs: int, outputs: int) -> NDArray[np.float64]:
    scale = np.float32(inputs) / np.float32(outputs)
    half = np.float32(0.5)
    source = (np.arange(outputs, dtype=np.float32) + half) * scale - half
    return _two_taps(np.maximum(source, np.float32(0)), inputs)


def _torch_u8(inputs: int, outputs: int) -> NDArray[np.float64]:
    weights = _two_taps(np.maximum((np.arange(outputs) + 0.5) * (inputs / outputs) - 0.5, 0.0), inputs)
    bits = max(p for p in range(23) if np.floor(weights.max() * 2.0**p + 0.5) < 2**15)
    return np.floor(weights * 2.0**bits + 0.5) * 2.0**-bits


@dataclass(frozen=True)
class _Rules:
    weights: Callable[[int, int], NDArray[np.float64]]  # (inputs, outputs) -> [outputs, inputs]
    dtype: type[np.floating]  # of pixels, weights and sums
    rounds_each_pass: bool  # to whole numbers, halves up
    overshoots: bool = False  # the kernel reaches beyond the values it is given: cut to bytes


_RULES: dict[Arithmetic, _Rules] = {
    'pil': _Rules(_pil, np.float64, True),
    'pil_bicubic': _Rules(_pil_bicubic, np.float64, True, overshoots=True),
    'torch': _Rules(_torch, np.float32, False),
    'torch_u8': _Rules(_torch_u8, np.float64, True),
    'jax': _Rules(_triangle, np.float32, False),
}


@dataclass(frozen=True, eq=False)
class _Block:
    outputs: slice
    inputs: slice
    weights: NDArray[np.floating]  # [outputs, inputs]


@lru_cache(maxsize=64)
def _blocks(arithmetic: Arithmetic, inputs: int, outputs: int) -> tuple[_Block, ...]:
    rules = _RULES[arithmetic]
    matrix = rules.weights(inputs, outputs).astype(rules.dtype)
    blocks = []
    for start in range(0, outputs, _OUTPUTS_PER_BLOCK):
        rows = matrix[start : start + _OUTPUTS_PER_BLOCK]
        used = np.flatnonzero(rows.any(axis=0))
        columns = slice(int(used[0]), int(used[-1]) + 1)
        blocks.append(
            _Block(slice(start, start + len(rows)), columns, np.ascontiguousarray(rows[:, columns]))
        )
    return tuple(blocks)


def resample(planes: NDArray, height: int, width: int, arithmetic: Arithmetic) -> NDArray[np.floating]:
    """[channels, rows, columns] -> [channels, height, width], in the float type the arithmetic works in."""
    rules = _RULES[arithmetic]
    channels, rows, columns = planes.shape
    if columns == width:
        planes = planes.astype(rules.dtype, order='C', copy=False)
    else:
        scaled = np.empty((channels, rows, width), rules.dtype)
        for first in range(0, rows, _ROWS_AT_ONCE):
            strip = slice(first, first + _ROWS_AT_ONCE)
            scaled[:, strip] = _scale_columns(planes[:, strip], width, arithmetic)
        planes = scaled
    if rows != height:
        scaled = np.empty((channels, height, width), rules.dtype)
        for block in _blocks(arithmetic, rows, height):
            np.matmul(block.weights, planes[:, block.inputs], out=scaled[:, block.outputs])
        planes = _rounded(scaled, rules)
    return planes


def _scale_columns(planes: NDArray, width: int, arithmetic: Arithmetic) -> NDArray[np.floating]:
    """[channels, rows, columns] -> [channels, rows, width]."""
    rules = _RULES[arithmetic]
    channels, rows, columns = planes.shape
    lines = planes.astype(rules.dtype, order='C', copy=False).reshape(channels * rows, columns)
    scaled = np.empty((channels * rows, width), rules.dtype)
    for block in _blocks(arithmetic, columns, width):
        np.matmul(lines[:, block.inputs], block.weights.T, out=scaled[:, block.outputs])
    return _rounded(scaled, rules).reshape(channels, rows, width)


def _rounded(pixels: NDArray[np.floating], rules: _Rules) -> NDArray[np.floating]:
    if rules.rounds_each_pass:
        pixels += 0.5
        np.floor(pixels, out=pixels)
    if rules.overshoots:
        np.clip(pixels, 0, 255, out=pixels)
    return pixels
