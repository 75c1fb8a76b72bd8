# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Real-time chunking: how a new chunk is held to the rows of the chunk in play."""

import numpy as np
from numpy.typing import NDArray

from flashrt_core.settings import Origin, Schedule


def denoise_times(origin: Origin, steps: int) -> NDArray[np.float32]:
    """[steps] time of each step, 1 = noise, with the rounding of the origin (the last bit matters)."""
    if origin == 'lerobot':
        return (1.0 - np.arange(steps) / steps).astype(np.float32)
    times = np.full(steps, np.float32(-1.0 / steps))
    times[0] = 1
    return np.add.accumulate(times)  # in float32, one after the other


def prefix_weights(
    schedule: Schedule, delay: int, execution_horizon: int, rows: int, horizon: int
) -> NDArray[np.float32]:
    """[horizon] how much each row is held to the previous chunk, of which `rows` are left.

    1 for rows that will be executed before the new chunk is ready, then falling to 0 at the execution
    horizon.
    """
    end = min(execution_horizon, rows, horizon)
    start = min(delay, end)
    weights = np.zeros(horizon)
    weights[:start] = 1
    if schedule == 'ones':
        weights[:end] = 1
    elif schedule in ('linear', 'exp'):
        falling = 1 - np.arange(1, end - start + 1) / (end - start + 1)
        weights[start:end] = falling if schedule == 'linear' else falling * np.expm1(falling) / (np.e - 1)
    return weights.astype(np.float32)


def guidance_scale(times: NDArray[np.float32], max_weight: float) -> NDArray[np.float32]:
    """[steps] factor of the correction: (t^2 + (1-t)^2) / (t (1-t)), at most max_weight."""
    t = times.astype(np.float64)
    with np.errstate(divide='ignore'):
        return np.minimum(max_weight, (t**2 + (1 - t) ** 2) / (t * (1 - t))).astype(np.float32)
