# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""So many of so many, with what that says about the true share."""

import math
from dataclasses import dataclass

from flashrt_core.errors import Error

_Z = 1.959964  # 95 % of a normal distribution


@dataclass(frozen=True)
class Proportion:
    """Successes among independent tries."""

    successes: int
    tried: int

    def __post_init__(self) -> None:
        if not 0 <= self.successes <= self.tried:
            raise Error(f'{self.successes} successes of {self.tried} tries')

    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the true share (E. B. Wilson, 1927); (0, 1) without tries."""
        if not self.tried:
            return 0.0, 1.0
        n, share, z2 = self.tried, self.successes / self.tried, _Z**2
        middle = share + z2 / (2 * n)
        half = _Z * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
        low, high = (middle - half) / (1 + z2 / n), (middle + half) / (1 + z2 / n)
        return max(0.0, low), min(1.0, high)

    def __str__(self) -> str:
        low, high = self.interval()
        return f'{self.successes}/{self.tried} ({low:.1%} to {high:.1%})'
