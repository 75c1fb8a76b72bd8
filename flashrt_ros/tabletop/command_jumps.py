# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""How far commands jump where one chunk takes over from another."""

import numpy as np
from numpy.typing import NDArray

from flashrt_ros.chunk_player import Command


class CommandJumps:
    """Compares each command with what those before it had announced for the same moment.

    Along a chunk both are the same, however fast it moves; after the last announced row the robot was to stay
    there. So it works on what leaves a node as well: trajectories say what they will do next.
    """

    def __init__(self, period_s: float, joints: int) -> None:
        """period_s: of the commands; joints: how many of the first columns count, those of the arm."""
        self._period_s = period_s
        self._joints = joints
        self._before: Command | None = None
        self._before_s = 0.0
        self.at_joins: list[float] = []  # rad, the joint that jumps farthest; one per chunk after the first

    def see(self, now_s: float, command: Command) -> None:
        """now_s: when it was sent."""
        before = self._before
        if before is not None and command.chunk_id not in (0, before.chunk_id):
            jump = command.rows[0] - self._announced(now_s + self._period_s)
            self.at_joins.append(float(np.abs(jump[: self._joints]).max()))
        self._before, self._before_s = command, now_s

    def _announced(self, moment_s: float) -> NDArray[np.float64]:
        """[joints]"""
        before, passed_s = self._before, moment_s - self._before_s
        return np.array([np.interp(passed_s, before.due_s, column) for column in before.rows.T])
