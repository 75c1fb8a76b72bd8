# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The expert does every task, its commands are smooth, and its demonstrations hold what they say."""

import numpy as np
import pytest

from flashrt_ros.tabletop.arm import HORIZON, LOWER, ROW_PERIOD_S, UPPER
from flashrt_ros.tabletop.demonstration import Demonstration, demonstrate
from flashrt_ros.tabletop.evaluate_expert import main, plan_for, play_plan
from flashrt_ros.tabletop.expert import ArmState, make_plan
from flashrt_ros.tabletop.robot import SimulatedRobot
from flashrt_ros.tabletop.tasks import TASKS, Task
from flashrt_ros.tabletop.variation import EVALUATION, TRAINING, draw_layout

BLANK = np.zeros((2, 1, 1, 3), np.uint8)


@pytest.mark.parametrize('task', TASKS, ids=lambda task: task.prompt())
def test_the_expert_succeeds_in_a_scene_of_evaluation(robot: SimulatedRobot, task: Task):
    layout = draw_layout(100 + TASKS.index(task), EVALUATION)
    robot.reset(layout, task)
    verdict = play_plan(robot, plan_for(layout, task, robot))
    assert (verdict.state, verdict.acted_on) == ('succeeded', task.block_index), verdict


@pytest.mark.parametrize('scene', range(40))
def test_plans_begin_where_the_arm_is_and_stay_within_limits_and_speed(scene: int):
    layout = draw_layout(1_000_000 + scene, TRAINING)
    cubes = np.column_stack([layout.cubes[:, :2], np.full(3, 0.02)])
    start = ArmState(layout.start_tip, layout.start_gripper, layout.start_offset)
    for task in TASKS:
        rows = make_plan(task, start, cubes, layout.tray).rows
        assert rows[0, :6] == pytest.approx(layout.start[:6], abs=1e-9)
        assert (rows >= LOWER).all()
        assert (rows <= UPPER).all()
        assert np.abs(np.diff(rows[:, :6], axis=0)).max() / ROW_PERIOD_S < 2.5  # rad/s


def test_a_chunk_is_what_comes_after_its_row_and_rests_at_the_end():
    layout = draw_layout(3, EVALUATION)
    cubes = np.column_stack([layout.cubes[:, :2], np.full(3, 0.02)])
    start = ArmState(layout.start_tip, layout.start_gripper, layout.start_offset)
    plan = make_plan(TASKS[0], start, cubes, layout.tray)
    assert (plan.chunk(4, HORIZON) == plan.rows[5 : 5 + HORIZON]).all()
    assert (plan.chunk(len(plan.rows) - 1, HORIZON) == plan.rows[-1]).all()


@pytest.fixture(scope='module')
def demonstrations(robot: SimulatedRobot) -> list[Demonstration]:
    tasks = [Task('touch', 'red'), Task('lift', 'green'), Task('place', 'blue'), Task('stack', 'red', 'blue')]
    return [
        demonstrate(robot, 1_000_000 + scene, tasks[scene % 4], TRAINING, lambda: BLANK)
        for scene in range(16)
    ]


def test_nearly_all_demonstrations_succeed_although_disturbed(demonstrations: list[Demonstration]):
    assert sum(item.is_success for item in demonstrations) >= 13
    assert {item.detours for item in demonstrations} >= {0, 1}


def test_demonstrations_hold_one_of_each_per_observation(demonstrations: list[Demonstration]):
    for item in demonstrations:
        n = len(item.states)
        assert n > 5
        assert item.images.shape == (n, 2, 1, 1, 3)
        assert item.states.shape == (n, 7)
        assert item.actions.shape == (n, HORIZON, 7)
        assert item.cubes.shape == (n, 3, 3)


def test_labels_lead_on_from_where_the_arm_is(demonstrations: list[Demonstration]):
    """Row 0 is one row period away: near the measured joints, though noise and lag come between."""
    for item in demonstrations:
        assert np.abs(item.actions[:, 0, :6] - item.states[:, :6]).max() < 0.25
        steps = np.abs(np.diff(item.actions[..., :6], axis=1)).max() / ROW_PERIOD_S
        assert steps < 2.5  # rad/s: no noise in the labels


def test_the_same_scene_gives_the_same_demonstration(robot: SimulatedRobot):
    first, again = (demonstrate(robot, 1_000_003, TASKS[4], TRAINING, lambda: BLANK) for _ in range(2))
    assert (first.actions == again.actions).all()
    assert (first.states == again.states).all()


def test_the_evaluation_of_the_expert_prints_shares_and_refuses_training_scenes(
    capsys: pytest.CaptureFixture,
):
    assert main(['--scenes', '1', '--first', '7']) == 0
    assert capsys.readouterr().out.count('1/1 (20.7% to 100.0%)') == 4
    assert main(['--first', '999999', '--scenes', '2']) == 1
    assert '0 to 999999' in ' '.join(capsys.readouterr().err.split())
