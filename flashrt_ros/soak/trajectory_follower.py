# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""A controller without dynamics: follows the newest trajectory, as joint_trajectory_controller does."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class TrajectoryFollower:
    """Interpolates linearly from where it is to each point at its time, and stays at the last one.

    A new trajectory replaces the one before.
    """

    def __init__(self, position: Sequence[float]) -> None:
        self._times_s = np.zeros(1)
        self._points = np.array([position], np.float64)  # [points, joints]

    def follow(self, due_s: Sequence[float], rows: Sequence[Sequence[float]], now_s: float) -> None:
        """due_s: from now, increasing."""
        points = [self.position(now_s), *rows]
        self._times_s, self._points = now_s + np.array([0.0, *due_s]), np.array(points, np.float64)

    def position(self, now_s: float) -> NDArray[np.float64]:
        """[joints]"""
        return np.array([np.interp(now_s, self._times_s, column) for column in self._points.T])
