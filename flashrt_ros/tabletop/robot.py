# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The simulated robot: a world, controllers that follow commands, and the judge of the task.

Offline evaluation, demonstrations and the ROS node all move it through this one class.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flashrt_core.errors import Error
from flashrt_ros.tabletop.arm import ARM_JOINTS, LOWER, MAX_VELOCITY, ROW_PERIOD_S, UPPER
from flashrt_ros.tabletop.judge import Judge, Sight, Verdict
from flashrt_ros.tabletop.tasks import Task
from flashrt_ros.tabletop.variation import Layout
from flashrt_ros.tabletop.world import STEP_S, World

TICK_STEPS = 4
TICK_S = TICK_STEPS * STEP_S  # the judge looks this often, and commands take effect
TICKS_PER_ROW = round(ROW_PERIOD_S / TICK_S)
_ARM = len(ARM_JOINTS)


class SimulatedRobot:
    """The arm follows trajectories, the gripper the position that it was told last."""

    def __init__(self, layout: Layout, task: Task) -> None:
        self.world = World()
        self.reset(layout, task)

    def reset(self, layout: Layout, task: Task) -> None:
        self.world.reset(layout)
        self._target = layout.start
        self._follow(np.zeros(1), self._target[np.newaxis, :_ARM])
        self._gripper = float(self._target[_ARM])
        self.clamped = 0  # numbers of commands that were outside the limits of their joint
        self.ask(task)

    def ask(self, task: Task) -> None:
        """Another task from now on; where things are now is where they were."""
        self._judge = Judge(task, self._sight())

    @property
    def verdict(self) -> Verdict:
        return self._judge.verdict

    @property
    def task(self) -> Task:
        return self._judge.task

    @property
    def target(self) -> NDArray[np.float64]:
        """[joints] what the servos hold now."""
        return self._target.copy()

    def command_arm(self, due_s: Sequence[float], rows: ArrayLike) -> None:
        """rows: [rows, 6], reached at due_s from now, in straight lines; replaces what was commanded before.

        Positions outside the limits are clamped. Raises Error for what no controller would accept.
        """
        due, points = np.asarray(due_s, np.float64), np.asarray(rows, np.float64)
        if points.ndim != 2 or points.shape != (len(due), _ARM) or not len(due):
            raise Error(f'a trajectory of shape {points.shape} for {len(due)} times and {_ARM} joints')
        if not (np.isfinite(points).all() and np.isfinite(due).all()):
            raise Error('a trajectory holds a number that is not finite')
        if due[0] < 0 or (np.diff(due) <= 0).any():
            raise Error(f'the times of a trajectory do not increase from now on: {due.tolist()}')
        inside = self._clamp(points, slice(0, _ARM))
        now_s = self.world.time_s
        self._follow(now_s + np.array([0.0, *due]), np.concatenate([[self._arm_at(now_s)], inside]))

    def command_gripper(self, position: float) -> None:
        """m, at once."""
        if not np.isfinite(position):
            raise Error(f'the gripper was told to go to {position}')
        self._gripper = float(self._clamp(np.array([position]), slice(_ARM, None))[0])

    def play_row(self, row: ArrayLike) -> None:
        """row: [joints]. Lets one row period pass, at the end of which the arm is told to be there."""
        self.command_arm([ROW_PERIOD_S], np.asarray(row, np.float64)[np.newaxis, :_ARM])
        self.command_gripper(row[_ARM])
        self.advance(TICKS_PER_ROW)

    def advance(self, ticks: int, on_tick: Callable[[], None] | None = None) -> None:
        """Lets the time of some ticks pass; on_tick is called at the end of each."""
        for _ in range(ticks):
            for _ in range(TICK_STEPS):
                wanted = [*self._arm_at(self.world.time_s + STEP_S), self._gripper]
                step = MAX_VELOCITY * STEP_S
                self._target = np.clip(wanted, self._target - step, self._target + step)
                self.world.step(self._target)
            self._judge.see(self._sight())
            if on_tick:
                on_tick()

    def _follow(self, times_s: NDArray[np.float64], points: NDArray[np.float64]) -> None:
        self._times_s, self._points = times_s, points

    def _arm_at(self, now_s: float) -> NDArray[np.float64]:
        """[6] of the trajectory; after its end the last point."""
        after = int(np.searchsorted(self._times_s, now_s))
        if after == 0 or after == len(self._times_s):
            return self._points[min(after, len(self._points) - 1)]
        begin, end = self._times_s[after - 1], self._times_s[after]
        share = (now_s - begin) / (end - begin)
        return self._points[after - 1] + share * (self._points[after] - self._points[after - 1])

    def _clamp(self, positions: NDArray[np.float64], joints: slice) -> NDArray[np.float64]:
        inside = np.clip(positions, LOWER[joints], UPPER[joints])
        self.clamped += int((inside != positions).sum())
        return inside

    def _sight(self) -> Sight:
        world = self.world
        return Sight(world.time_s, world.cubes(), world.tip(), world.tray(), frozenset(world.touched()))
