# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""How many rows will be sent while the next chunk is computed."""

import math
from collections import deque

_WINDOW = 10  # chunks that the estimate looks back


class DelayEstimate:
    """A high percentile of the rows that the newest chunks cost, never above its bound.

    A percentile between two of them is the lower one: with the percentile 90, one slow chunk among up to ten
    decides only as long as nothing else was measured, so the next chunk already outweighs it. Two of them
    stand until one is ten chunks old. Before the first measurement the estimate is its bound: a chunk that is
    conditioned on too many rows is only less new, one on too few is late.
    """

    def __init__(self, percentile: float, max_rows: int) -> None:
        """percentile: 0 to 100, of which 100 is the largest."""
        self._percentile = percentile
        self._max_rows = max_rows
        self._measured: deque[int] = deque(maxlen=_WINDOW)

    def clear(self) -> None:
        """Forgets everything that was measured."""
        self._measured.clear()

    def add(self, rows: int) -> None:
        """Rows that were sent between an observation and its chunk."""
        self._measured.append(rows)

    @property
    def rows(self) -> int:
        if not self._measured:
            return self._max_rows
        ranked = sorted(self._measured)
        return min(ranked[math.floor(self._percentile / 100 * (len(ranked) - 1))], self._max_rows)
