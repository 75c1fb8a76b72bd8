# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The scripted expert: from where things stand to the rows that do the task, 20 a second.

The tip goes from waypoint to waypoint at constant speed, smoothed so that it does not stop at corners; joint
angles follow in closed form.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flashrt_ros.tabletop.arm import OPEN_M, ROW_PERIOD_S, joint_angles
from flashrt_ros.tabletop.tasks import Task
from flashrt_ros.tabletop.variation import CUBE_M

_SPEED, _SPEED_IN_HAND, _SPEED_DOWN, _SPEED_ONTO = 0.26, 0.20, 0.18, 0.13  # m/s
_TRAVEL_M = 0.115  # above the table: the fingers pass over cubes
_GRASP_M = 0.017
_NEAR_M, _THERE_M = 0.02, 0.01  # beside a cube
_SMOOTHED_ROWS = 7
_OFFSET_FADES_S = 0.8
_REST_S = 0.6  # at the end, for what was done to last


@dataclass(frozen=True, eq=False)
class ArmState:
    """Where a plan begins."""

    tip: NDArray[np.float64]  # [3] m
    gripper: float  # m
    offset: NDArray[np.float64]  # [6] rad, of the joints from the angles for that tip
    is_holding: bool = False  # the named cube


@dataclass(frozen=True, eq=False)
class Plan:
    """Row 0 is the beginning; row i is to be reached i row periods later."""

    rows: NDArray[np.float64]  # [rows, joints]
    closing_row: int | None  # at which the gripper closes on the cube; None: it does not, or has

    def chunk(self, row: int, horizon: int) -> NDArray[np.float64]:
        """[horizon, joints] the rows after `row`; after the end the last one."""
        return self.rows[np.minimum(np.arange(row + 1, row + 1 + horizon), len(self.rows) - 1)]


def make_plan(task: Task, start: ArmState, cubes: NDArray[np.float64], tray: NDArray[np.float64]) -> Plan:
    """cubes: [3, 3] middles, m. tray: [2]."""
    path = _Path(start)
    cube = cubes[task.block_index]
    closing_row = None
    if not start.is_holding:
        _approach(path, start, cube, task)
        if task.kind == 'touch':
            path.to([*cube[:2], CUBE_M + 0.001], _SPEED_DOWN)
            path.rest(0.2)  # on top of the rest at the end
        else:
            path.to([*cube[:2], _GRASP_M], _SPEED_DOWN)
            path.rest(0.15)
            closing_row = path.next_row
            path.grip(0.0)
            path.rest(0.35)
    if task.kind == 'lift':
        path.to([*path.tip[:2], 0.16], _SPEED_IN_HAND)
    elif task.kind == 'place':
        _put_down(path, tray, carry_m=0.13, release_m=0.06, speed=_SPEED_DOWN, settle_s=0.1)
    elif task.kind == 'stack':
        base = cubes[task.base_index, :2]
        _put_down(path, base, carry_m=0.15, release_m=0.061, speed=_SPEED_ONTO, settle_s=0.2)
    path.rest(_REST_S)
    return Plan(path.rows(start.offset), closing_row)


def _approach(path: '_Path', start: ArmState, cube: NDArray[np.float64], task: Task) -> None:
    """To above the cube, fingers ready, over whatever stands in between."""
    ready = 0.0 if task.kind == 'touch' else OPEN_M
    beside = float(np.linalg.norm(start.tip[:2] - cube[:2]))
    must_open = ready == OPEN_M and abs(start.gripper - OPEN_M) > 0.01
    path.grip(ready, from_the_start=True)
    if start.tip[2] < 0.11 and beside > _NEAR_M:
        path.to([*start.tip[:2], 0.12], _SPEED)
    elif must_open and start.tip[2] < 0.09:  # fingers that open around a cube would push it
        path.to([*start.tip[:2], 0.10], _SPEED)
    if beside > _NEAR_M or path.tip[2] > _TRAVEL_M:
        path.to([*cube[:2], min(path.tip[2], _TRAVEL_M)], _SPEED)
    elif beside > _THERE_M:
        path.to([*cube[:2], path.tip[2]], _SPEED)


def _put_down(
    path: '_Path', place: NDArray[np.float64], carry_m: float, release_m: float, speed: float, settle_s: float
) -> None:
    if np.linalg.norm(path.tip[:2] - place) > 0.03:
        path.to([*path.tip[:2], max(carry_m, path.tip[2])], _SPEED_IN_HAND)
        path.to([*place, carry_m], _SPEED)
    path.to([*place, release_m], speed)
    path.rest(settle_s)
    path.grip(OPEN_M)
    path.rest(0.3)
    path.to([*place, carry_m + 0.02], _SPEED_IN_HAND)


class _Path:
    """Tips and gripper positions, one per row."""

    def __init__(self, start: ArmState) -> None:
        self._tips = [np.array(start.tip, np.float64)]
        self._grips = [start.gripper]

    @property
    def tip(self) -> NDArray[np.float64]:
        return self._tips[-1]

    @property
    def next_row(self) -> int:
        return len(self._tips)

    def to(self, place: list[float], speed: float) -> None:
        begin, end = self.tip, np.array(place)
        rows = max(1, int(np.ceil(np.linalg.norm(end - begin) / (speed * ROW_PERIOD_S))))
        self._tips += [begin + (end - begin) * row / rows for row in range(1, rows + 1)]
        self._grips += [self._grips[-1]] * rows

    def rest(self, seconds: float) -> None:
        rows = round(seconds / ROW_PERIOD_S)
        self._tips += [self.tip] * rows
        self._grips += [self._grips[-1]] * rows

    def grip(self, position: float, *, from_the_start: bool = False) -> None:
        """From the row that was added last on."""
        self._grips[0 if from_the_start else -1] = position

    def rows(self, offset: NDArray[np.float64]) -> NDArray[np.float64]:
        """[rows, joints]"""
        tips = _smoothed(np.array(self._tips))
        angles = np.array([joint_angles(tip) for tip in tips])
        passed = np.clip(np.arange(len(tips)) * ROW_PERIOD_S / _OFFSET_FADES_S, 0.0, 1.0)
        left = 1 - passed**2 * (3 - 2 * passed)
        return np.column_stack([angles + left[:, np.newaxis] * offset, self._grips])


def _smoothed(tips: NDArray[np.float64]) -> NDArray[np.float64]:
    """[rows, 3] each a mean of its neighbours under a Hann window; the beginning stays."""
    half = _SMOOTHED_ROWS // 2
    window = np.hanning(_SMOOTHED_ROWS + 2)[1:-1]
    window /= window.sum()
    padded = np.pad(tips, ((half, half), (0, 0)), mode='edge')
    smooth = np.column_stack([np.convolve(column, window, 'valid') for column in padded.T])
    smooth[0] = tips[0]
    return smooth
