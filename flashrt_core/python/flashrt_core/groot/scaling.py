# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""How GR00T normalises the columns of a key, in float64; statistics are one row, or one per future step."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Range:
    """[low, high] -> [-1, 1], clipped both ways; a column without width becomes 0, and comes back as low."""

    low: NDArray[np.float64]  # [columns] or [rows, columns]
    high: NDArray[np.float64]

    def normalise(self, x: NDArray) -> NDArray[np.float64]:
        return np.clip(self.normalise_unclipped(x), -1.0, 1.0)

    def normalise_unclipped(self, x: NDArray) -> NDArray[np.float64]:
        """What tells a value at the end of the range from one beyond it."""
        width = self.high - self.low
        constant = np.isclose(self.high, self.low)
        scaled = 2.0 * (np.asarray(x, np.float64) - self.low) / np.where(constant, 1.0, width) - 1.0
        return np.where(constant, 0.0, scaled)

    def unnormalise(self, x: NDArray) -> NDArray[np.float64]:
        x = np.clip(np.asarray(x, np.float64), -1.0, 1.0)
        return (x + 1.0) / 2.0 * (self.high - self.low) + self.low


@dataclass(frozen=True, eq=False)
class MeanStd:
    """(x - mean) / std, never clipped; a column with std 0 passes through unchanged."""

    mean: NDArray[np.float64]  # [columns]
    std: NDArray[np.float64]

    def normalise(self, x: NDArray) -> NDArray[np.float64]:
        x = np.asarray(x, np.float64)
        return np.where(self.std == 0, x, (x - self.mean) / np.where(self.std == 0, 1.0, self.std))

    normalise_unclipped = normalise

    def unnormalise(self, x: NDArray) -> NDArray[np.float64]:
        x = np.asarray(x, np.float64)
        return np.where(self.std == 0, x, x * self.std + self.mean)
