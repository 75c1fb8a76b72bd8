# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The whole chain without a checkpoint: the policy node moves the robot; its policy answers as the expert.

Limits, gate, player and controllers are the real ones; only the model is missing.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from fake_policy import FakePolicy, values
from numpy.typing import NDArray
from robot_bench import overrides
from ros_spinner import Spinner
from sim_bench import AnswerInTime, SimBench, run_policy

from flashrt_core.types import Observation
from flashrt_ros.policy_node import PolicyNode
from flashrt_ros.sim_robot import ARM_TOPIC, GRIPPER_TOPIC
from flashrt_ros.tabletop.arm import (
    ARM_JOINTS,
    GRIPPER,
    HORIZON,
    JOINTS,
    LOWER,
    MAX_VELOCITY,
    OPEN_M,
    ROW_PERIOD_S,
    UPPER,
)
from flashrt_ros.tabletop.evaluate_expert import plan_for
from flashrt_ros.tabletop.expert import Plan
from flashrt_ros.tabletop.robot import SimulatedRobot
from flashrt_ros.tabletop.tasks import Task
from flashrt_ros.tabletop.variation import EVALUATION, draw_layout

TABLETOP = {
    'dry_run': False,
    'use_sim_time': True,
    'cameras__names': ['base', 'wrist'],
    'cameras__base__topic': 'front/image_raw',
    'cameras__wrist__topic': 'wrist/image_raw',
    'cameras__max_spread_s': 0.05,
    'joints__names': list(JOINTS),
    'joints__lower': LOWER.tolist(),
    'joints__upper': UPPER.tolist(),
    'joints__max_velocity': MAX_VELOCITY.tolist(),
    'grippers__open': [OPEN_M],
    'actions__row_period_s': ROW_PERIOD_S,
    'outputs__names': ['arm', 'hand'],
    'outputs__arm__topic': ARM_TOPIC,
    'outputs__arm__joints': list(ARM_JOINTS),
    'outputs__hand__topic': GRIPPER_TOPIC,
    'outputs__hand__type': 'float64_multi_array',
    'outputs__hand__joints': [GRIPPER],
    'outputs__hand__quantity': 'position',
}


EPISODE = Callable[..., dict[str, str]]  # the status at its end


class AsTheExpert:
    """Answers with the rows of a plan that follow the pictures."""

    def __init__(self, bench: SimBench, plan: Plan) -> None:
        self._bench, self._plan = bench, plan
        self._in_time = AnswerInTime(bench)

    def __call__(self, observation: Observation) -> NDArray[np.float64]:
        self._in_time.wait(observation)
        begin_s = float(self._bench.values().get('begin_s') or 'inf')  # of a trial inference, too
        passed_s = max(0.0, observation.stamps_ns.get('base', 0) / 1e9 - begin_s)
        return self._plan.chunk(round(passed_s / ROW_PERIOD_S), HORIZON)


@pytest.fixture
def episode(ros: Spinner, robot: SimulatedRobot) -> Iterator[EPISODE]:
    """Runs one to its end."""
    benches: list[SimBench] = []

    def run(task: Task, scene: int, delay_s: float, **changes: object) -> dict[str, str]:
        layout = draw_layout(scene, EVALUATION)
        robot.reset(layout, task)
        plan = plan_for(layout, task, robot)
        bench = SimBench(ros, seed=scene, task=task.prompt(), pace='lockstep', delay_s=delay_s)
        benches.append(bench)
        parameters = values(**TABLETOP, **changes)
        node = PolicyNode(
            lambda read: FakePolicy(read, AsTheExpert(bench, plan), horizon=HORIZON),
            context=ros.context,
            parameter_overrides=overrides(parameters),
        )
        return run_policy(ros, bench, node)

    yield run
    for bench in benches:
        bench.close()


@pytest.mark.parametrize(('delay_s', 'mode'), [(0.0, 'skip'), (0.2, 'skip')], ids=lambda value: str(value))
def test_an_episode_through_the_policy_node(episode: EPISODE, delay_s: float, mode: str):
    result = episode(Task('lift', 'red'), 8, delay_s, chunk__mode=mode)
    assert (result['state'], result['acted_on']) == ('succeeded', 'red'), result
    assert (result['refused'], result['clamped']) == ('0', '0')
    assert float(result['shortest_delay_s']) == pytest.approx(delay_s, abs=0.011)
    assert float(result['longest_delay_s']) == pytest.approx(delay_s, abs=0.011)
