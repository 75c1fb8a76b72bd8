# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What a command may hold: finite numbers, inside the position limits, in steps that the joints can make."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flashrt_ros.joint_limits import JointLimits

# Of the range of a joint. Actions come from a float32 model, so one that lies at a limit may be so far beyond
# it. It is clamped all the same, but not counted.
_FLOAT32_ROUNDING = 1e-6


class ChunkRefused(Exception):
    """Actions that must not be commanded, not even clamped."""

    def __init__(self, reason: str, text: str) -> None:
        """reason: one word for counters; text: names and values."""
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True, eq=False)
class Limited:
    """Rows that may be commanded, and how many of them were changed."""

    rows: NDArray[np.float64]  # [rows, joints]
    position_clamps: NDArray[np.int64]  # [joints], rows beyond the position limits
    step_clamps: NDArray[np.int64]  # [joints], rows that were too fast


@dataclass(frozen=True, eq=False)
class _Clamped:
    rows: NDArray[np.float64]  # [rows, joints]
    position: NDArray[np.bool_]  # [rows, joints], beyond the position limits
    step: NDArray[np.bool_]  # [rows, joints], too fast


class CommandLimits:
    """Clamps rows of commands and refuses what no clamp can mend. Has no state.

    Positions are kept inside the position limits first, then inside max_velocity * time from the row before.
    A joint that stands outside its limits moves back at that rate, and never farther out. Velocities are kept
    inside -+max_velocity first, then so that the joint does not leave its position limits, from where it is
    measured, while the row lasts.
    """

    def __init__(
        self,
        limits: JointLimits,
        is_velocity: NDArray[np.bool_],
        max_clamped_rows: int,
        is_gripper: NDArray[np.bool_] | None = None,
    ) -> None:
        """is_velocity: [joints], whether a column holds velocities; max_clamped_rows: of one chunk.

        is_gripper: [joints], columns that are clamped as all others and count as no clamped rows: a policy
        closes a gripper by asking for more than closed.
        """
        self._limits = limits
        self._is_velocity = np.asarray(is_velocity, bool)
        self._positions = np.flatnonzero(~self._is_velocity)  # columns
        self._velocities = np.flatnonzero(self._is_velocity)
        self._max_clamped_rows = max_clamped_rows
        is_gripper = np.zeros(len(limits.names), bool) if is_gripper is None else is_gripper
        self._is_counted = ~np.asarray(is_gripper, bool)
        # Of the values themselves, whatever was commanded before.
        self._lowest = np.where(self._is_velocity, -limits.max_velocity, limits.lower)
        self._highest = np.where(self._is_velocity, limits.max_velocity, limits.upper)
        self._rounding = _FLOAT32_ROUNDING * (self._highest - self._lowest)

    def check_chunk(self, actions: NDArray[np.float64], row_period_s: float) -> None:
        """Refuses a whole chunk [rows, joints] as it arrives: 'bad_shape', 'not_finite', 'too_many_clamped'.

        Rows are counted that `limit` would change, were the chunk played from a robot at its first row: how
        far that row is from the real robot is for the gate of the first command to judge.
        """
        self._check_rows('chunk', actions)
        intervals_s = self._intervals(row_period_s * np.arange(1, len(actions) + 1), len(actions))
        start = _clip(actions[0], self._limits.lower, self._limits.upper)
        clamped = self._clamped(actions, intervals_s, start, None)
        beyond = (clamped.position | clamped.step) & self._is_counted
        rows = int(beyond.any(axis=1).sum())
        if rows <= self._max_clamped_rows:
            return
        joint = int(beyond.sum(axis=0).argmax())
        limits = self._limits
        raise ChunkRefused(
            'too_many_clamped',
            f'chunk: {rows} of {len(actions)} rows are beyond the limits, {self._max_clamped_rows} are '
            f'allowed; most of all {limits.names[joint]}: {clamped.position[:, joint].sum()} rows beyond '
            f'{limits.lower[joint]:g}..{limits.upper[joint]:g}, {clamped.step[:, joint].sum()} rows faster '
            f'than {limits.max_velocity[joint]:g} per second',
        )

    def limit(
        self,
        rows: NDArray[np.float64],
        due_s: NDArray[np.float64],
        previous: NDArray[np.float64],
        measured: NDArray[np.float64] | None,
    ) -> Limited:
        """Rows [rows, joints] to be reached at due_s [rows], seconds from now, as they may be commanded.

        previous: [joints] what was commanded last, or where the robot is measured if nothing was. measured:
        [joints]; velocities are refused without it ('not_measured'). Rows that obey the limits come back bit
        for bit. Raises ChunkRefused before anything is clamped.
        """
        self._check_rows('command', rows)
        intervals_s = self._intervals(due_s, len(rows))
        self._check_finite('previous command', previous[np.newaxis], self._positions)
        if self._velocities.size:
            if measured is None:
                joint = self._limits.names[self._velocities[0]]
                raise ChunkRefused(
                    'not_measured',
                    f'command: {joint} is not measured, so its velocity cannot be kept inside the limits',
                )
            self._check_finite('measured joints', measured[np.newaxis], self._velocities)
        clamped = self._clamped(rows, intervals_s, previous, measured)
        return Limited(clamped.rows, clamped.position.sum(axis=0), clamped.step.sum(axis=0))

    def check_message(
        self,
        values: NDArray[np.float64],
        joints: Sequence[str],
        previous: NDArray[np.float64] | None = None,
    ) -> None:
        """Refuses values [rows, joints] or [joints] just before they are published: 'not_finite', 'outside'.

        joints: their names in JointLimits; others are refused ('bad_shape'). previous: all joints, as `limit`
        got it; a joint that stood outside its position limits then may still be there, but no farther out.
        """
        names = self._limits.names
        if not joints or not set(joints) <= set(names) or np.shape(values)[-1:] != (len(joints),):
            raise ChunkRefused(
                'bad_shape',
                f'message: values of shape {np.shape(values)} for {list(joints)}; there are limits for '
                f'{list(names)}',
            )
        rows = np.full((np.size(values) // len(joints), len(names)), np.nan)
        columns = [names.index(joint) for joint in joints]
        rows[:, columns] = np.reshape(values, (-1, len(joints)))
        self._check_finite('message', rows, columns)
        lowest, highest = self._lowest, self._highest
        if previous is not None:
            stood = np.where(np.isfinite(previous) & ~self._is_velocity, previous, lowest)
            lowest, highest = np.minimum(lowest, stood), np.maximum(highest, stood)
        for column in columns:
            outside = np.flatnonzero(
                ~((rows[:, column] >= lowest[column]) & (rows[:, column] <= highest[column]))
            )
            if outside.size:
                raise ChunkRefused(
                    'outside',
                    f'message: {names[column]} is {rows[outside[0], column]:.6g} in row {outside[0]}, '
                    f'allowed {lowest[column]:g}..{highest[column]:g}',
                )

    def _check_rows(self, what: str, rows: NDArray[np.float64]) -> None:
        joints = len(self._limits.names)
        shape = np.shape(rows)
        if len(shape) != 2 or shape[0] < 1 or shape[1] != joints:
            raise ChunkRefused(
                'bad_shape', f'{what}: shape {list(shape)}, needed at least 1 row and {joints} columns'
            )
        self._check_finite(what, rows, range(joints))

    def _check_finite(self, what: str, rows: NDArray[np.float64], columns: Sequence[int]) -> None:
        """rows: [rows, joints], of which `columns` count."""
        faulty = np.argwhere(~np.isfinite(rows[:, columns]))
        if faulty.size:
            row, column = faulty[0][0], columns[faulty[0][1]]
            raise ChunkRefused(
                'not_finite', f'{what}: {self._limits.names[column]} is {rows[row, column]} in row {row}'
            )

    def _intervals(self, due_s: NDArray[np.float64], rows: int) -> NDArray[np.float64]:
        """[rows], seconds from the row before to each row."""
        intervals_s = np.diff(np.where(np.isfinite(due_s), due_s, np.nan), prepend=0.0)
        if intervals_s.shape != (rows,) or not (intervals_s > 0).all():
            raise ChunkRefused(
                'bad_times', f'command: {rows} rows due at {due_s} s, needed increasing times from now on'
            )
        return intervals_s

    def _clamped(
        self,
        rows: NDArray[np.float64],
        intervals_s: NDArray[np.float64],
        previous: NDArray[np.float64],
        measured: NDArray[np.float64] | None,
    ) -> _Clamped:
        """measured: None leaves out what depends on it."""
        within = _clip(rows, self._lowest, self._highest)
        limited = within.copy()
        if (columns := self._positions).size:
            largest = self._limits.max_velocity[columns] * intervals_s[:, np.newaxis]
            limited[:, columns] = _rate_limited(within[:, columns], largest, previous[columns])
        if (columns := self._velocities).size and measured is not None:
            limits = self._limits.lower[columns], self._limits.upper[columns]
            limited[:, columns] = _kept_inside(within[:, columns], intervals_s, measured[columns], *limits)
        first = np.abs(within - rows) > self._rounding
        second = np.abs(limited - within) > self._rounding
        return _Clamped(
            limited,
            position=np.where(self._is_velocity, second, first),
            step=np.where(self._is_velocity, first, second),
        )


def _clip(values: NDArray[np.float64], low: NDArray, high: NDArray) -> NDArray[np.float64]:
    """As np.clip, but values inside keep their bits: -0.0 is not below 0.0."""
    return np.where(values >= low, np.where(values <= high, values, high), low)


def _rate_limited(
    rows: NDArray[np.float64], largest: NDArray[np.float64], previous: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Positions [rows, joints] with steps of at most `largest` [rows, joints], the first from `previous`."""
    steps = np.diff(rows, axis=0, prepend=previous[np.newaxis])
    is_slow = (np.abs(steps) <= largest).all(axis=1)
    if is_slow.all():
        return rows
    begin = int(is_slow.argmin())
    limited = rows.copy()
    for i in range(begin, len(rows)):
        before = limited[i - 1] if i else previous
        step = rows[i] - before
        reached = before + np.copysign(largest[i], step)
        limited[i] = np.where(np.abs(step) <= largest[i], rows[i], reached)
    return limited


def _kept_inside(
    rows: NDArray[np.float64],
    intervals_s: NDArray[np.float64],
    position: NDArray[np.float64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Velocities [rows, joints] that do not lead out of the limits from `position` [joints].

    Outside them any velocity back in is left as it is and any farther out becomes 0.
    """
    limited = rows.copy()
    for i, interval_s in enumerate(intervals_s):
        slowest = np.minimum((lower - position) / interval_s, 0.0)
        fastest = np.maximum((upper - position) / interval_s, 0.0)
        limited[i] = _clip(rows[i], slowest, fastest)
        position = position + limited[i] * interval_s
    return limited
