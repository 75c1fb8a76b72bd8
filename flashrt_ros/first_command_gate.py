# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The gate before the first command: after a pause the robot may stand elsewhere than the policy thinks."""

import threading
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flashrt_core.errors import Error


class FirstCommandGate:
    """Holds back the first row after every arming until it is near the measured joints.

    Mode `refuse` lets no row pass that is farther than the limit. Mode `approach` lets it pass and leaves the
    way there to the rate limit. After either the rate limit has to count from the measured joints. Velocities
    are not compared. Armed from the beginning. Thread-safe.
    """

    def __init__(
        self,
        names: Sequence[str],
        max_gap: ArrayLike,
        mode: Literal['refuse', 'approach'],
        is_velocity: NDArray[np.bool_],
    ) -> None:
        """max_gap: [joints], or [1] for all joints, in rad or m; is_velocity: [joints]."""
        self._names = tuple(names)
        self._max_gap = np.broadcast_to(np.asarray(max_gap, np.float64), (len(self._names),))
        if not (self._max_gap > 0).all():
            raise Error(f'first command: the largest gap is {self._max_gap.tolist()}, needed numbers > 0')
        if mode not in ('refuse', 'approach'):
            raise Error(f"first command: mode is '{mode}', needed refuse or approach")
        self._mode = mode
        self._is_position = ~np.asarray(is_velocity, bool)
        self._lock = threading.Lock()
        self._armed_by = 'the configuration'

    @property
    def is_armed(self) -> bool:
        return bool(self._armed_by)

    def arm(self, why: str) -> None:
        """The next row is a first command again; `why` is a noun for the message, as 'a start'."""
        with self._lock:
            self._armed_by = why or 'no stated reason'

    def check(self, row: NDArray[np.float64], measured: NDArray[np.float64] | None) -> str:
        """'' lets the row [joints] pass, and the rows after it; otherwise the reason why not, in words.

        measured: [joints] where the robot is now; None: not known, which holds an armed gate shut.
        """
        with self._lock:
            if not self._armed_by:
                return ''
            fault = self._fault(row, measured)
            if not fault:
                self._armed_by = ''
                return ''
            return f'first command after {self._armed_by}: {fault}'

    def _fault(self, row: NDArray[np.float64], measured: NDArray[np.float64] | None) -> str:
        if measured is None:
            return 'the measured joints are not known'
        for what, values in (('the command', row), ('the measured joint', measured)):
            faulty = np.flatnonzero(~np.isfinite(values))
            if faulty.size:
                return f'{self._names[faulty[0]]}: {what} is {values[faulty[0]]}'
        if self._mode == 'approach':
            return ''
        gap = np.abs(row - measured)
        # Written as a claim that NaN fails.
        far = np.flatnonzero(self._is_position & ~(gap <= self._max_gap))
        if not far.size:
            return ''
        return 'too far from the robot: ' + ', '.join(
            f'{self._names[i]} by {gap[i]:.4g} (limit {self._max_gap[i]:g})' for i in far
        )
