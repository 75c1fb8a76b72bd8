# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Whether a task was done: the named cube, in the asked way, and the others left where they were.

Looks at plain numbers, so that it judges any world alike. What was decided stays decided.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flashrt_ros.tabletop.tasks import COLOURS, Task
from flashrt_ros.tabletop.variation import CUBE_M

RUNNING, SUCCEEDED, FAILED = 'running', 'succeeded', 'failed'

HOLD_S = 0.25  # for which what was reached must last
_TOUCH_HOLD_S = 0.5  # for a touch to show what it pushed away
_TRAY_HALF_M = 0.065
_UNDER_THE_TIP_M, _LEFT_M = 0.05, 0.06
# How far a cube may have moved on the table, m: what was merely touched, and those beside.
_NAMED_MOVED_BY_TOUCH_M, _BESIDE_MOVED_BY_TOUCH_M, _BESIDE_MOVED_M = 0.03, 0.01, 0.02


@dataclass(frozen=True, eq=False)
class Sight:
    """What there is to see at one moment, m and s."""

    time_s: float
    cubes: NDArray[np.float64]  # [3, 3] middles
    tip: NDArray[np.float64]  # [3]
    tray: NDArray[np.float64]  # [2]
    touched: frozenset[int] = frozenset()  # cubes that a finger is in contact with


@dataclass(frozen=True)
class Verdict:
    """Of a task, so far."""

    state: str  # running | succeeded | failed
    why: str  # in words
    time_s: float  # since the task was given
    acted_on: int | None = None  # the cube that something was done with, right or wrong


def lifted(sight: Sight) -> frozenset[int]:
    """Cubes in the air and in the hand."""
    near = np.linalg.norm(sight.cubes - sight.tip, axis=1) < 0.06
    return _indices((sight.cubes[:, 2] > 0.08) & near)


def placed(sight: Sight) -> frozenset[int]:
    """Cubes that lie in the tray, let go of."""
    inside = (np.abs(sight.cubes[:, :2] - sight.tray) < _TRAY_HALF_M).all(axis=1)
    return _indices(inside & (sight.cubes[:, 2] < 0.05) & _let_go(sight))


def stacked(sight: Sight) -> frozenset[tuple[int, int]]:
    """(upper, lower) where one cube stands on one that stands on the table, let go of."""
    cubes, free = sight.cubes, _let_go(sight)
    return frozenset(
        (upper, lower)
        for upper in range(len(cubes))
        for lower in range(len(cubes))
        if upper != lower
        and free[upper]
        and np.linalg.norm(cubes[upper, :2] - cubes[lower, :2]) < 0.025
        and abs(cubes[upper, 2] - cubes[lower, 2] - CUBE_M) < 0.008
        and cubes[lower, 2] < CUBE_M / 2 + 0.006
    )


def _let_go(sight: Sight) -> NDArray[np.bool_]:
    """[3]"""
    return np.linalg.norm(sight.cubes - sight.tip, axis=1) > 0.03


def _indices(which: NDArray[np.bool_]) -> frozenset[int]:
    return frozenset(np.flatnonzero(which).tolist())


class Judge:
    """Watches one task from the moment that it was given."""

    def __init__(self, task: Task, first: Sight) -> None:
        self.task = task
        self._first = first
        self._reached: frozenset = frozenset()  # what the task is about, as seen last
        self._reached_s = first.time_s  # since when it is the same
        self._touched: frozenset[int] = frozenset()  # first
        # Fingers that rest on another cube when the task is given have not touched it for this task.
        is_under = np.linalg.norm(first.cubes - first.tip, axis=1) < _UNDER_THE_TIP_M
        self._under = _indices(is_under) - {task.block_index}
        self.verdict = Verdict(RUNNING, 'nothing done yet', 0.0)

    def see(self, sight: Sight) -> Verdict:
        """To be called often: what lasts shorter than two sights goes unseen."""
        if self.verdict.state == RUNNING:
            self.verdict = self._judged(sight)
        return self.verdict

    def _judged(self, sight: Sight) -> Verdict:
        passed_s = sight.time_s - self._first.time_s
        reached = self._reach(sight)
        if reached != self._reached:
            self._reached, self._reached_s = reached, sight.time_s
        hold_s = _TOUCH_HOLD_S if self.task.kind == 'touch' else HOLD_S
        is_lasting = sight.time_s - self._reached_s >= hold_s - 1e-9
        if reached and is_lasting:
            fault = self._fault(sight)
            return Verdict(FAILED if fault else SUCCEEDED, fault or 'done', passed_s, self._acted_on(reached))
        if passed_s >= self.task.limit_s:
            return Verdict(FAILED, f'not done within {self.task.limit_s:g} s', passed_s)
        return Verdict(RUNNING, 'under way' if reached else 'nothing done yet', passed_s)

    def _reach(self, sight: Sight) -> frozenset:
        """What has been done of the kind that the task asks for, with whichever cube."""
        if self.task.kind == 'touch':
            self._under &= _indices(np.linalg.norm(sight.cubes - sight.tip, axis=1) < _LEFT_M)
            self._touched = self._touched or sight.touched - self._under
            return self._touched
        return {'lift': lifted, 'place': placed, 'stack': stacked}[self.task.kind](sight)

    def _acted_on(self, reached: frozenset) -> int:
        """The named cube if it is among them: confusion is about the others."""
        cubes = {item[0] if isinstance(item, tuple) else item for item in reached}
        return self.task.block_index if self.task.block_index in cubes else min(cubes)

    def _fault(self, sight: Sight) -> str:
        """Why what was reached is not what was asked for, or nothing."""
        task = self.task
        wanted = (task.block_index, task.base_index) if task.kind == 'stack' else task.block_index
        if self._reached != {wanted}:
            return f'{task.kind}: {_words(self._reached)} instead of {_words({wanted})}'
        moved = np.linalg.norm((sight.cubes - self._first.cubes)[:, :2], axis=1)
        is_touch = task.kind == 'touch'
        limits = np.full(len(moved), _BESIDE_MOVED_BY_TOUCH_M if is_touch else _BESIDE_MOVED_M)
        limits[task.block_index] = _NAMED_MOVED_BY_TOUCH_M if is_touch else np.inf
        if task.base_index is not None:
            limits[task.base_index] = np.inf
        too_far = [
            f'the {colour} cube moved {distance:.3f} m, allowed: {limit:g} m'
            for colour, distance, limit in zip(COLOURS, moved, limits, strict=True)
            if distance >= limit
        ]
        return '; '.join(too_far)


def _words(reached: set | frozenset) -> str:
    def word(item: int | tuple[int, int]) -> str:
        return ' on '.join(COLOURS[index] for index in (item if isinstance(item, tuple) else (item,)))

    return ', '.join(word(item) for item in sorted(reached))
