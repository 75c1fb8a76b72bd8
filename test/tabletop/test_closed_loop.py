# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""When chunks are asked for and played on simulated time, with a policy that says where to be when.

Its first joint is to move at constant speed, so that every command tells for which moment it was meant.
"""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from flashrt_core.errors import Error
from flashrt_core.types import ActionChunk, Observation, PolicySpec
from flashrt_ros.chunk_player import Command
from flashrt_ros.parameter_file import read_parameter_file
from flashrt_ros.parameter_table import ParameterFaults
from flashrt_ros.parameters import Parameters, read_parameters
from flashrt_ros.tabletop.arm import HORIZON, JOINTS, ROW_PERIOD_S
from flashrt_ros.tabletop.closed_loop import ClosedLoop, Pace
from flashrt_ros.tabletop.command_jumps import CommandJumps
from flashrt_ros.tabletop.connections import connect
from flashrt_ros.tabletop.robot import TICK_S, SimulatedRobot
from flashrt_ros.tabletop.tasks import TASKS
from flashrt_ros.tabletop.variation import EVALUATION, draw_layout

PARAMETERS = Path(__file__).parents[2] / 'config' / 'pi05_tabletop.yaml'
SPEED = 0.5  # rad/s
VIEWS = np.zeros((2, 4, 4, 3), np.uint8)


def parameters(**changes: object) -> Parameters:
    values = read_parameter_file(PARAMETERS, '/policy')
    return read_parameters(values | {name.replace('__', '.'): v for name, v in changes.items()}, '/policy')[0]


class Clockwork:
    """Moves joint_1 at SPEED from where it began, by the time of the pictures."""

    spec = PolicySpec(('base_0_rgb', 'left_wrist_0_rgb'), 4, 7, 7, HORIZON, 7, 48, 'joint_position')

    def __init__(self, start: NDArray[np.float64]) -> None:
        self._start = start
        self.stamps_s: list[float] = []
        self.prompts: list[str] = []

    def reset(self) -> None:
        self.stamps_s.clear()

    def set_prompt(self, text: str) -> int:
        self.prompts.append(text)
        return len(self.prompts)

    def infer(self, observation: Observation, *, prefix: object = None) -> ActionChunk:
        assert observation.prompt_id == len(self.prompts)
        stamp_s = observation.stamps_ns['base_0_rgb'] / 1e9 - 1.0
        self.stamps_s.append(stamp_s)
        rows = np.repeat(self._start[np.newaxis], HORIZON, axis=0)
        rows[:, 0] += SPEED * (stamp_s + ROW_PERIOD_S * np.arange(1, HORIZON + 1))
        return ActionChunk(rows, rows.astype(np.float32), observation.stamps_ns, len(self.prompts), 0, {})


class Run:
    """Of two seconds."""

    def __init__(self, robot: SimulatedRobot, mode: str, delay_s: float, **changes: object) -> None:
        robot.reset(draw_layout(0, EVALUATION), TASKS[0])
        self.start = robot.target
        self.policy = Clockwork(self.start)
        read = parameters(**changes)
        self.loop = ClosedLoop(read, self.policy, robot, Pace.of(read, mode, delay_s), lambda: VIEWS)
        self.loop.ask('lift it')
        self.lag_s: list[float] = []  # of each command: how much later than meant it is reached
        see = self.loop.jumps.see

        def spy(now_s: float, command: Command) -> None:
            meant_s = (command.rows[0, 0] - self.start[0]) / SPEED
            self.lag_s.append(round(now_s - 1.0 + ROW_PERIOD_S - meant_s, 6))
            see(now_s, command)

        self.loop.jumps.see = spy
        for _ in range(round(2.0 / TICK_S)):
            self.loop.play()


@pytest.mark.parametrize('delay_s', [0.0, 0.02, 0.1, 0.2])
def test_skip_commands_what_is_due_now_whatever_the_delay(robot: SimulatedRobot, delay_s: float):
    run = Run(robot, 'skip', delay_s)
    settled = run.lag_s[10:]
    assert settled == pytest.approx([0.0] * len(settled), abs=1e-6)
    assert max(run.loop.jumps.at_joins[4:]) < 1e-6


@pytest.mark.parametrize('delay_s', [0.0, 0.1, 0.2])
def test_naive_is_late_by_the_delay(robot: SimulatedRobot, delay_s: float):
    run = Run(robot, 'naive', delay_s, inference_rate_hz=5.0)
    settled = run.lag_s[10:]
    assert settled == pytest.approx([delay_s] * len(settled), abs=1e-6)


def test_the_next_inference_begins_with_the_newest_picture_after_the_one_before(robot: SimulatedRobot):
    assert Run(robot, 'skip', 0.0).policy.stamps_s[:4] == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert Run(robot, 'skip', 0.02).policy.stamps_s[:4] == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert Run(robot, 'skip', 0.2).policy.stamps_s[:4] == pytest.approx([0.0, 0.2, 0.4, 0.6])
    slow = Run(robot, 'skip', 0.0, inference_rate_hz=2.5).policy.stamps_s
    assert slow[:3] == pytest.approx([0.0, 0.4, 0.8])


@pytest.mark.parametrize('delay_s', [0.0, 0.02, 0.2])
def test_block_looks_at_rest_and_its_period_is_longer_by_the_delay(robot: SimulatedRobot, delay_s: float):
    run = Run(robot, 'block', delay_s, inference_rate_hz=4.0)
    waited_s = math.ceil(delay_s / ROW_PERIOD_S) * ROW_PERIOD_S  # until the next control period
    periods_s = np.diff(run.policy.stamps_s)
    assert periods_s == pytest.approx(np.full(len(periods_s), 0.25 + waited_s), abs=1e-6)
    assert bool(run.loop.motion.counters.underruns) == bool(delay_s)


def test_a_new_prompt_counts_from_the_next_inference_on(robot: SimulatedRobot):
    run = Run(robot, 'skip', 0.2)
    run.loop.ask('touch it')
    for _ in range(30):
        run.loop.play()
    assert run.policy.prompts == ['lift it', 'touch it']
    assert run.loop.motion.is_running


def test_the_robot_is_where_the_commands_say(robot: SimulatedRobot):
    Run(robot, 'skip', 0.1)
    assert robot.target[1:] == pytest.approx(draw_layout(0, EVALUATION).start[1:])
    assert robot.target[0] - draw_layout(0, EVALUATION).start[0] == pytest.approx(SPEED * 2.0, abs=0.01)


@pytest.mark.parametrize(
    ('changes', 'delay_s', 'fault'),
    [
        ({}, 0.025, 'the delay is 0.025 s'),
        ({}, -0.1, 'the delay is -0.1 s'),
        ({'control_rate_hz': 30.0}, 0.0, 'control_rate_hz'),
        ({'inference_rate_hz': 3.0}, 0.0, 'inference_rate_hz'),
    ],
    ids=['delay', 'negative', 'commands', 'inference'],
)
def test_times_between_the_ticks_of_the_robot_are_refused(changes: dict, delay_s: float, fault: str):
    with pytest.raises(Error, match=fault):
        Pace.of(parameters(**changes), 'skip', delay_s)


def test_parameters_of_another_robot_are_refused_with_everything_that_differs():
    other = parameters(
        cameras__base_0_rgb__topic='top/image_raw',
        joints__names=[*JOINTS[1::-1], *JOINTS[2:]],
        outputs__gripper__type='joint_trajectory',
    )
    other = replace(other, joint_limits='robot_description')
    with pytest.raises(ParameterFaults) as refused:
        connect(other)
    for what in ('cameras.base_0_rgb.topic is top/image_raw', 'the joints are', 'outputs', 'joints.limits'):
        assert what in str(refused.value)


def command(chunk_id: int, *first_joint: float) -> Command:
    rows = np.array([[value, 100.0 * chunk_id] for value in first_joint])
    return Command(rows, 0.05 * np.arange(1, len(rows) + 1), chunk_id, 1)


def test_a_jump_is_what_differs_from_what_was_announced():
    jumps = CommandJumps(0.05, 1)
    jumps.see(0.0, command(1, 0.1, 0.2, 0.3))
    jumps.see(0.05, command(1, 0.2, 0.3))
    assert jumps.at_joins == []
    jumps.see(0.10, command(2, 0.3, 0.4))  # goes on as announced
    jumps.see(0.15, command(3, 0.1, 0.2))  # announced was 0.4
    assert jumps.at_joins == pytest.approx([0.0, 0.3])
    jumps.see(0.20, command(0, 0.1))  # held, no chunk
    jumps.see(0.25, command(4, 0.15))  # from where it was held
    assert jumps.at_joins == pytest.approx([0.0, 0.3, 0.05])
