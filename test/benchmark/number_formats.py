# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Number formats of low precision in NumPy, by their definition: to see why, not to run.

What runs is `base/number_format.hpp` of the core; nothing is shared with it.
"""

import numpy as np
from numpy.typing import NDArray

# Mantissa bits, smallest exponent of a normal number, largest number.
FLOATS = {'e4m3': (3, -6, 448.0), 'e5m2': (2, -14, 57344.0), 'e2m1': (1, 0, 6.0)}
INT8_LARGEST = 127.0
BLOCKS = {'nvfp4': 16, 'mxfp4': 32}
FORMATS = ('e4m3', 'e5m2', 'int8', *BLOCKS)


def largest(name: str) -> float:
    """What a scale of one reaches; nvfp4 with the largest scale of a block."""
    if name == 'nvfp4':
        return FLOATS['e2m1'][2] * FLOATS['e4m3'][2]
    return INT8_LARGEST if name == 'int8' else FLOATS[name][2]


def rounded(name: str, values: NDArray, limit: float) -> NDArray:
    """Rows of values [..., D] as the format holds them, when `limit` is the magnitude that its range ends at.

    mxfp4 needs no limit: a block takes its scale from what lies in it.
    """
    values = np.asarray(values, np.float64)
    if name in BLOCKS:
        return _in_blocks(name, values, limit)
    scale = limit / largest(name) if limit > 0 else 1.0
    return _codes(name, values / scale) * scale


def _codes(name: str, values: NDArray) -> NDArray:
    if name == 'int8':
        return np.clip(np.rint(values), -INT8_LARGEST, INT8_LARGEST)
    mantissa, least, top = FLOATS[name]
    exponent = np.maximum(np.frexp(values)[1] - 1, least)
    step = np.ldexp(1.0, exponent - mantissa)
    return np.clip(np.rint(values / step) * step, -top, top)


def _in_blocks(name: str, values: NDArray, limit: float) -> NDArray:
    size, width = BLOCKS[name], values.shape[-1]
    padded = np.zeros((*values.shape[:-1], -(-width // size) * size))
    padded[..., :width] = values
    blocks = padded.reshape(*values.shape[:-1], -1, size)
    amax = np.abs(blocks).max(-1, keepdims=True)
    if name == 'nvfp4':
        scale = limit / largest(name) if limit > 0 else 1.0
        scales = _codes('e4m3', amax / FLOATS['e2m1'][2] / scale) * scale
    else:
        scales = np.ldexp(1.0, np.frexp(amax)[1] - 1 - 2)
        scales[amax == 0] = 0
    held = np.zeros_like(blocks)
    np.divide(blocks, scales, out=held, where=scales > 0)
    held = _codes('e2m1', held) * scales
    return held.reshape(padded.shape)[..., :width]
