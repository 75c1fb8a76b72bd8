# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""One demonstration: the expert does a task, disturbed so that a policy learns to recover.

Commands are noisy and labels are not. Half of the episodes are pushed off their way: during the push nothing
is recorded, and the labels after it are those of a new plan.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flashrt_ros.tabletop.arm import (
    ARM_JOINTS,
    HORIZON,
    OBSERVED_EVERY,
    joint_angles,
    within_reach,
)
from flashrt_ros.tabletop.expert import ArmState, Plan, make_plan
from flashrt_ros.tabletop.judge import RUNNING, SUCCEEDED, Verdict
from flashrt_ros.tabletop.robot import SimulatedRobot
from flashrt_ros.tabletop.seeds import generator
from flashrt_ros.tabletop.tasks import Task
from flashrt_ros.tabletop.variation import Variation, draw_layout

_ARM = len(ARM_JOINTS)

_NOISE_RAD = (0.0, 0.006, 0.014)  # one of them for a whole episode
_NOISE_KEPT = 0.8  # of it, from row to row
_DETOURS, _DETOURS_IN_HAND = 0.5, 0.3  # shares of the episodes
_PUSH_M = np.array([0.035, 0.035, 0.025])
_IN_HAND_ROWS = (14, 30)  # after closing
_MAX_WAIT_ROWS = 20  # after the plan, for the judge to be sure

Draw = Callable[[], NDArray[np.uint8]]


@dataclass(frozen=True, eq=False)
class Demonstration:
    """What was recorded of one episode; n observations, OBSERVED_EVERY rows apart but for detours."""

    task: Task
    verdict: Verdict
    images: NDArray[np.uint8]  # [n, cameras, height, width, 3]
    states: NDArray[np.float32]  # [n, joints] measured
    actions: NDArray[np.float32]  # [n, HORIZON, joints] row i: to be reached i + 1 row periods later
    cubes: NDArray[np.float32]  # [n, 3, 3] middles, m; for losses beside the actions
    detours: int

    @property
    def is_success(self) -> bool:
        return self.verdict.state == SUCCEEDED


def demonstrate(
    robot: SimulatedRobot, scene: int, task: Task, variation: Variation, draw: Draw
) -> Demonstration:
    """draw: gives the pictures of robot.world."""
    layout = draw_layout(scene, variation)
    robot.reset(layout, task)
    start = ArmState(layout.start_tip, layout.start_gripper, layout.start_offset)
    episode = _Episode(robot, generator(scene, 'demonstration'), start, draw)
    return episode.run()


class _Episode:
    def __init__(
        self, robot: SimulatedRobot, random: np.random.Generator, start: ArmState, draw: Draw
    ) -> None:
        self._robot, self._random, self._draw = robot, random, draw
        self._plan = self._plan_from(start)
        self._observed: list[tuple[NDArray, NDArray, NDArray, NDArray]] = []
        self._detours = 0

    def run(self) -> Demonstration:
        random, robot = self._random, self._robot
        sigma = random.choice(_NOISE_RAD)
        before_grasp, in_hand = self._draw_detours()
        phase = int(random.integers(OBSERVED_EVERY))
        noise, row = np.zeros(_ARM), 0
        while row < len(self._plan.rows) - 1:
            if row == before_grasp:
                before_grasp = None
                self._push(is_holding=False, row=row)
                if in_hand is not None:
                    in_hand = self._plan.closing_row + int(random.integers(*_IN_HAND_ROWS))
                row = 0
                continue
            if row == in_hand and before_grasp is None:
                in_hand = None
                self._push(is_holding=True, row=row)
                row = 0
                continue
            if (row + phase) % OBSERVED_EVERY == 0:
                self._observe(row)
            noise = _NOISE_KEPT * noise + sigma * random.normal(0.0, 1.0, _ARM)
            command = self._plan.rows[row + 1].copy()
            command[:_ARM] += noise
            self._robot.play_row(command)
            row += 1
        for _ in range(_MAX_WAIT_ROWS):
            if robot.verdict.state != RUNNING:
                break
            self._robot.play_row(self._plan.rows[-1])
        images, states, actions, cubes = map(np.array, zip(*self._observed, strict=True))
        return Demonstration(
            robot.task,
            robot.verdict,
            images,
            states.astype(np.float32),
            actions.astype(np.float32),
            cubes.astype(np.float32),
            self._detours,
        )

    def _draw_detours(self) -> tuple[int | None, int | None]:
        """The rows of the plan at which the arm is pushed away, before it has the cube and with it."""
        random, plan = self._random, self._plan
        before_grasp = in_hand = None
        if random.uniform() < _DETOURS:
            end = len(plan.rows) if plan.closing_row is None else plan.closing_row - 3
            before_grasp = int(random.integers(3, end)) if end > 6 else None
        if self._robot.task.kind in ('place', 'stack') and random.uniform() < _DETOURS_IN_HAND:
            in_hand = plan.closing_row + int(random.integers(*_IN_HAND_ROWS))
        return before_grasp, in_hand

    def _push(self, *, is_holding: bool, row: int) -> None:
        """Moves the tip off the way, unrecorded, and plans anew from there."""
        random, robot = self._random, self._robot
        tip = robot.world.tip() + random.normal(0.0, 1.0, 3) * _PUSH_M
        lowest = 0.13 if is_holding else 0.05
        tip = within_reach(np.clip(tip, [0.22, -0.22, lowest], [0.46, 0.30, 0.25]))
        gripper = self._plan.rows[row, _ARM]
        begin, end = robot.target[:_ARM], joint_angles(tip)
        rows = int(random.integers(5, 9))
        for step in range(1, rows + 1):
            self._robot.play_row(np.append(begin + (end - begin) * step / rows, gripper))
        self._plan = self._plan_from(ArmState(tip, gripper, np.zeros(_ARM), is_holding))
        self._detours += 1

    def _plan_from(self, start: ArmState) -> Plan:
        world = self._robot.world
        return make_plan(self._robot.task, start, world.cubes(), world.tray())

    def _observe(self, row: int) -> None:
        world = self._robot.world
        chunk = self._plan.chunk(row, HORIZON)
        self._observed.append((self._draw(), world.measured(), chunk, world.cubes()))
