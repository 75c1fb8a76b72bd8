# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The controllers of the simulated robot: what it does with commands, good and bad."""

import numpy as np
import pytest

from flashrt_core.errors import Error
from flashrt_ros.tabletop.arm import LOWER, MAX_VELOCITY, UPPER
from flashrt_ros.tabletop.robot import TICK_S, SimulatedRobot
from flashrt_ros.tabletop.tasks import TASKS, Task
from flashrt_ros.tabletop.variation import EVALUATION, draw_layout


@pytest.fixture(autouse=True)
def _reset(robot: SimulatedRobot) -> None:
    robot.reset(draw_layout(1, EVALUATION), TASKS[0])


def arm(robot: SimulatedRobot) -> np.ndarray:
    return robot.target[:6]


def ticks(seconds: float) -> int:
    return round(seconds / TICK_S)


def test_a_trajectory_is_followed_in_straight_lines_and_ends_at_its_last_point(robot: SimulatedRobot):
    begin = arm(robot)
    robot.command_arm([0.2, 0.4], [begin + 0.1, begin - 0.1])
    seen = []
    robot.advance(ticks(0.6), lambda: seen.append(arm(robot)[2] - begin[2]))
    wanted = np.interp(TICK_S * np.arange(1, 61), [0.0, 0.2, 0.4], [0.0, 0.1, -0.1])
    assert seen == pytest.approx(wanted.tolist(), abs=1e-12)


def test_a_newer_trajectory_replaces_the_one_before_from_where_the_arm_is_told_to_be(robot: SimulatedRobot):
    begin = arm(robot)
    robot.command_arm([0.4], [begin + 0.2])
    robot.advance(ticks(0.2))
    assert arm(robot) == pytest.approx(begin + 0.1)
    robot.command_arm([0.1], [begin])
    robot.advance(ticks(0.05))
    assert arm(robot) == pytest.approx(begin + 0.05)
    robot.advance(ticks(0.5))
    assert arm(robot) == pytest.approx(begin)


def test_positions_are_clamped_to_the_limits_and_counted(robot: SimulatedRobot):
    robot.command_arm([2.0], [np.full(6, 9.0)])
    robot.command_gripper(-0.5)
    robot.advance(ticks(3.0))
    assert arm(robot) == pytest.approx(UPPER[:6])
    assert robot.target[6] == LOWER[6]
    assert robot.clamped == 7
    robot.reset(draw_layout(1, EVALUATION), TASKS[0])
    assert robot.clamped == 0


def test_no_joint_is_told_to_go_faster_than_it_may(robot: SimulatedRobot):
    robot.command_arm([0.01], [arm(robot) + 1.0])
    robot.command_gripper(0.04 if robot.target[6] < 0.02 else 0.0)
    before, fastest = robot.target, np.zeros(7)

    def look() -> None:
        nonlocal before, fastest
        fastest = np.maximum(fastest, np.abs(robot.target - before) / TICK_S)
        before = robot.target

    robot.advance(ticks(0.5), look)
    assert fastest == pytest.approx(MAX_VELOCITY)


@pytest.mark.parametrize(
    ('due_s', 'change', 'why'),
    [
        ([0.1], np.nan, 'not finite'),
        ([np.inf], 0.0, 'not finite'),
        ([-0.1], 0.0, 'do not increase'),
        ([0.2, 0.2], 0.0, 'do not increase'),
        ([], 0.0, 'shape'),
    ],
)
def test_what_no_controller_accepts_is_refused_and_changes_nothing(
    robot: SimulatedRobot, due_s: list[float], change: float, why: str
):
    before = robot.target
    with pytest.raises(Error, match=why):
        robot.command_arm(due_s, np.array([arm(robot) + change for _ in due_s]).reshape(len(due_s), 6))
    robot.advance(10)
    assert (robot.target == before).all()


def test_other_refusals(robot: SimulatedRobot):
    with pytest.raises(Error, match=r'shape \(1, 5\)'):
        robot.command_arm([0.1], np.zeros((1, 5)))
    with pytest.raises(Error, match='told to go to nan'):
        robot.command_gripper(float('nan'))


def test_another_task_is_judged_from_where_things_are(robot: SimulatedRobot):
    robot.advance(ticks(5.1))
    assert robot.verdict.why == 'not done within 5 s'
    robot.ask(Task('lift', 'blue'))
    robot.advance(1)
    assert (robot.verdict.state, robot.task.block) == ('running', 'blue')
    assert robot.verdict.time_s == pytest.approx(TICK_S)
