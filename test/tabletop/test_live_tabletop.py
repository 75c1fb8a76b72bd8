# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The trained policy, the node, DDS and the robot, each in its own process: what the demo is made of.

In lockstep, so that a busy machine changes nothing but how long it takes; what is waited for is a claim.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from rclpy.node import Node
from robot_bench import overrides
from ros_spinner import Spinner
from sensor_msgs.msg import Image
from sim_bench import AnswerInTime, SimBench, run_policy

from flashrt_core.policy import FlashPolicy
from flashrt_core.types import ActionChunk, Observation
from flashrt_ros.live_tabletop import LiveTabletop, tabletop_parameters
from flashrt_ros.load import load_policy
from flashrt_ros.local_ros import set_up_transport, spinning_node
from flashrt_ros.parameter_file import read_parameter_file
from flashrt_ros.policy_node import PolicyNode
from flashrt_ros.sim_settings import LOCKSTEP, REAL_TIME

WRIST = 'wrist/image_raw'
PATIENCE_S = 60.0

Start = Callable[..., LiveTabletop]


@pytest.fixture
def client(domain_id: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    """Of the domain that the processes inherit."""
    monkeypatch.setenv('ROS_DOMAIN_ID', str(domain_id))
    monkeypatch.setenv('ROS_LOG_DIR', str(tmp_path / 'log'))
    set_up_transport(tabletop_parameters())
    with spinning_node('operator') as node:
        yield node


@pytest.fixture
def start(client: Node, tmp_path: Path) -> Iterator[Start]:
    """Keywords are parameters of the policy node."""
    with ExitStack() as undo:

        def begin(**parameters: object) -> LiveTabletop:
            policy = {name.replace('__', '.'): value for name, value in parameters.items()}
            return undo.enter_context(LiveTabletop(client, tmp_path, robot={}, policy=policy))

        yield begin


def test_one_task_after_another_in_one_scene(start: Start):
    """The second one finds the cubes where the first one left them."""
    tabletop = start()
    tabletop.begin('stack the red block on the blue block', seed=4, pace=LOCKSTEP)
    first = tabletop.finish()
    assert (first.is_success, first.why) == (True, 'done')
    assert tabletop.robot.status['acted_on'] == 'red'
    tabletop.ask('put the green block in the tray')
    second = tabletop.finish()
    assert (second.is_success, second.why) == (True, 'done')
    assert tabletop.robot.status['acted_on'] == 'green'
    assert tabletop.robot.status['given_up'] == '0'
    assert (tabletop.robot.status['refused'], tabletop.robot.status['clamped']) == ('0', '0')


def test_another_prompt_on_the_way_is_followed(start: Start):
    tabletop = start()
    tabletop.begin('put the red block in the tray', seed=1, pace=LOCKSTEP)
    tabletop.robot.wait_for(lambda: tabletop.robot.state == 'running', 'the begin', PATIENCE_S)
    tabletop.ask('lift the blue block')
    ended = tabletop.finish()
    assert (ended.is_success, ended.why) == (True, 'done')
    assert tabletop.robot.status['acted_on'] == 'blue'


class Slow:
    """The trained policy, whose answers take as long as the robot says."""

    def __init__(self, policy: FlashPolicy, bench: SimBench) -> None:
        self._policy = policy
        self._in_time = AnswerInTime(bench)

    def infer(self, observation: Observation, **options: object) -> ActionChunk:
        chunk = self._policy.infer(observation, **options)
        self._in_time.wait(observation)
        return chunk

    def __getattr__(self, name: str) -> object:
        return getattr(self._policy, name)


@pytest.mark.parametrize('mode', ['skip', 'rtc'])
def test_an_inference_of_200_ms(ros: Spinner, mode: str):
    """In this process: the delay is in simulated time, and so its answers have to know of it."""
    values = read_parameter_file(tabletop_parameters(), '/policy')
    values |= {'prompt': 'lift the red block', 'chunk.mode': mode}
    bench = SimBench(ros, seed=8, task='lift the red block', pace=LOCKSTEP, delay_s=0.2)
    try:
        node = PolicyNode(
            lambda read: Slow(load_policy(read), bench),
            context=ros.context,
            parameter_overrides=overrides(values),
        )
        result = run_policy(ros, bench, node)
    finally:
        bench.close()
    assert (result['state'], result['acted_on']) == ('succeeded', 'red'), result
    assert (result['refused'], result['clamped'], result['given_up']) == ('0', '0', '0')
    for delay in ('shortest_delay_s', 'longest_delay_s'):
        assert float(result[delay]) == pytest.approx(0.2, abs=0.011)


class Relay:
    """Between the wrist camera and the policy; once frozen it sends its last picture, stamp and all."""

    TOPIC = 'relayed/wrist'

    def __init__(self, client: Node) -> None:
        self.is_frozen = False
        self._last: Image | None = None
        self._out = client.create_publisher(Image, self.TOPIC, 5)
        client.create_subscription(Image, WRIST, self._on_picture, 5)

    def _on_picture(self, message: Image) -> None:
        if not self.is_frozen:
            self._last = message
        self._out.publish(self._last)


def test_a_frozen_wrist_camera_ends_commanding_and_is_no_success(start: Start, client: Node):
    """In real time: lockstep would wait for the chunks that rightly do not come."""
    relay = Relay(client)
    tabletop = start(cameras__left_wrist_0_rgb__topic=Relay.TOPIC)
    tabletop.begin('lift the red block', seed=8, pace=REAL_TIME)
    tabletop.robot.wait_for(lambda: tabletop.robot.state == 'running', 'the begin', PATIENCE_S)
    relay.is_frozen = True
    ended = tabletop.finish()
    assert not ended.is_success
    assert 'left_wrist_0_rgb' in ended.why
