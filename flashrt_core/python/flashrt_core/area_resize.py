# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Scales byte pictures as OpenCV's INTER_AREA does, whatever OpenCV is installed.

Shrinking averages the area under an output pixel in float32, in OpenCV's order of additions; whole factors
are averaged exactly. Enlarging is no area average at all but two taps in fixed point.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error

# Fixed point of enlarging: weights have 11 bits; 4 bits of the first pass are dropped before the second.
_WEIGHT_ONE = 2048
# Overlaps narrower than this part of a pixel are left out.
_LEAST_OVERLAP = 1e-3
# Strips of this size stay in the cache.
_ROWS_AT_ONCE, _VALUES_AT_ONCE = 32, 256


def resize_area(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """[rows, columns, channels] -> [height, width, channels]; both axes grow, or both shrink."""
    rows, columns, _ = image.shape
    if (rows, columns) == (height, width):
        return image
    if rows >= height and columns >= width:
        if rows % height == 0 and columns % width == 0:
            return _average_blocks(image, rows // height, columns // width)
        return _shrink(image, height, width)
    if rows > height or columns > width:
        raise Error(
            f'resize: a picture of {columns}x{rows} (width x height) cannot become {width}x{height}: one '
            'side would grow and the other shrink'
        )
    return _enlarge(image, height, width)


def _average_blocks(image: NDArray[np.uint8], down: int, across: int) -> NDArray[np.uint8]:
    """Means of blocks of down x across pixels."""
    rows, columns, channels = image.shape
    lines = image[::down].astype(np.int32)
    for row in range(1, down):
        lines += image[row::down]
    blocks = lines.reshape(rows // down, columns // across, across, channels)
    sums = blocks[:, :, 0].copy()
    for column in range(1, across):
        sums += blocks[:, :, column]
    if down == across == 2:
        return ((sums + 2) >> 2).astype(np.uint8)
    return np.rint(sums.astype(np.float32) * np.float32(1 / (down * across))).astype(np.uint8)


@lru_cache(maxsize=64)
def _overlaps(inputs: int, outputs: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Taps and weights [most taps, outputs]: the parts of input pixels under each output pixel, in order."""
    scale = inputs / outputs
    lists = []
    for output in range(outputs):
        left = output * scale
        right = left + scale
        cell = min(scale, inputs - left)
        last = min(int(right), inputs - 1)
        first = min(int(np.ceil(left)), last)
        taps = []
        if first - left > _LEAST_OVERLAP:
            taps.append((first - 1, (first - left) / cell))
        taps += [(pixel, 1.0 / cell) for pixel in range(first, last)]
        if right - last > _LEAST_OVERLAP:
            taps.append((last, min(min(right - last, 1.0), cell) / cell))
        lists.append(taps)
    most = max(map(len, lists))
    # A weight of zero adds nothing to a sum in float32.
    padded = [taps + [(taps[-1][0], 0.0)] * (most - len(taps)) for taps in lists]
    pixels = np.array([[pixel for pixel, _ in taps] for taps in padded], np.int64)
    weights = np.array([[weight for _, weight in taps] for taps in padded], np.float32)
    return np.ascontiguousarray(pixels.T), np.ascontiguousarray(weights.T)


def _shrink(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    rows, columns, channels = image.shape
    lines = np.empty((rows, width, channels), np.float32)
    for first in range(0, rows, _ROWS_AT_ONCE):
        strip = image[first : first + _ROWS_AT_ONCE]
        turned = strip.transpose(1, 0, 2).astype(np.float32, order='C').reshape(columns, -1)
        averages = _average(turned, width).reshape(width, -1, channels)
        lines[first : first + _ROWS_AT_ONCE] = averages.transpose(1, 0, 2)
    lines = lines.reshape(rows, -1)
    shrunk = np.empty((height, width * channels), np.uint8)
    for first in range(0, width * channels, _VALUES_AT_ONCE):
        values = slice(first, first + _VALUES_AT_ONCE)
        shrunk[:, values] = np.clip(np.rint(_average(np.ascontiguousarray(lines[:, values]), height)), 0, 255)
    return shrunk.reshape(height, width, channels)


def _average(lines: NDArray[np.float32], outputs: int) -> NDArray[np.float32]:
    """[inputs, values] -> [outputs, values]; the order of the additions is part of the result."""
    pixels, weights = _overlaps(len(lines), outputs)
    sums = np.zeros((outputs, lines.shape[1]), np.float32)
    part = np.empty_like(sums)
    for pixel, weight in zip(pixels, weights, strict=True):
        np.take(lines, pixel, axis=0, out=part, mode='clip')  # with the other modes `out` is buffered
        part *= weight[:, None]
        sums += part
    return sums


@lru_cache(maxsize=64)
def _two_taps(inputs: int, outputs: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """[2, outputs] the taps of every output and their weights."""
    output = np.arange(outputs)
    enlargement = outputs / inputs
    left = np.floor(output * (1 / enlargement)).astype(np.int64)
    right_part = ((output + 1) - (left + 1) * enlargement).astype(np.float32)
    fraction = np.where(right_part <= 0, np.float32(0), right_part - np.floor(right_part))
    fraction[left >= inputs - 1] = 0
    left = np.minimum(left, inputs - 1)
    weights = np.stack([np.float32(1) - fraction, fraction]) * np.float32(_WEIGHT_ONE)
    return np.stack([left, np.minimum(left + 1, inputs - 1)]), np.rint(weights).astype(np.int32)


def _enlarge(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    rows, columns, _ = image.shape
    pixels, weights = _two_taps(columns, width)
    lines = image.astype(np.int32)
    first, second = (lines[:, pixel] * weight[:, None] for pixel, weight in zip(pixels, weights, strict=True))
    lines = (first + second) >> 4
    pixels, weights = _two_taps(rows, height)
    first, second = (
        (lines[pixel] * weight[:, None, None]) >> 16 for pixel, weight in zip(pixels, weights, strict=True)
    )
    return ((first + second + 2) >> 2).astype(np.uint8)
