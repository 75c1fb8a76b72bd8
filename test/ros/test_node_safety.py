# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The node commanding over real DDS: stops, first commands, refused chunks, limits (R-38, R-42 to R-44)."""

import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from fake_policy import ARM, CASES
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from robot_bench import LATCHED, Bench, holds, key_values
from ros_spinner import Spinner, eventually
from std_msgs.msg import Bool, String
from trajectory_msgs.msg import JointTrajectory

from flashrt_ros.command_limits import ChunkRefused
from flashrt_ros.topics import CommandPublisher

TRAJECTORY = 'arm_controller/joint_trajectory'


class Commanded(Bench):
    """A bench whose node commands, what it sent, and a stop button."""

    def __init__(self, ros: Spinner, stop_qos: QoSProfile = LATCHED, **changes: object) -> None:
        super().__init__(ros, dry_run=False, **changes)
        self.commands: list[JointTrajectory] = []
        self.robot.create_subscription(JointTrajectory, TRAJECTORY, self.commands.append, 100)
        self.button = self.robot.create_publisher(Bool, 'estop', stop_qos)

    def press(self, is_pressed: bool = True) -> None:
        self.button.publish(Bool(data=is_pressed))

    def go(self) -> None:
        self.activate()
        self.feed()
        self.status('call ~/start')
        assert self.service('start').success
        eventually(lambda: len(self.commands) > 3 and len(self.commands[-1].points) > 1, 'motion')

    def still(self) -> int:
        """How many commands still come in half a second, once those under way had twenty to arrive.

        In many short rests: in a pause of the machine during a long one nothing could arrive.
        """
        deadline, news = time.monotonic() + 20.0, 1
        while news and time.monotonic() < deadline:
            count = len(self.commands)
            for _ in range(25):
                time.sleep(0.02)
            news = len(self.commands) - count
        return news


@pytest.mark.parametrize(
    'stop_qos',
    [LATCHED, QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)],
    ids=['latched', 'volatile'],
)
def test_stop_overrides_latches_and_needs_reset_and_start(ros: Spinner, stop_qos: QoSProfile):
    bench = Commanded(ros, stop_qos)
    bench.go()
    eventually(lambda: bench.press() or bench.node._latch.is_latched, 'the stop is heard')
    status = bench.status('the stop was pressed')
    assert status.level == DiagnosticStatus.ERROR
    assert bench.still() == 0
    eventually(lambda: holds(*bench.commands[:-3:-1]), 'the override of what lies in the controller')
    refused = bench.service('start')
    assert not refused.success
    assert 'estop_reset' in refused.message
    refused = bench.service('estop_reset')
    assert not refused.success
    assert 'still pressed' in refused.message
    eventually(lambda: bench.press(False) or not bench.node._latch.is_pressed, 'the release is heard')
    assert bench.still() == 0
    assert not bench.service('start').success
    assert bench.service('estop_reset').success
    assert bench.still() == 0
    assert bench.service('start').success
    count = len(bench.commands)
    eventually(lambda: len(bench.commands) > count, 'motion again')


def test_stop_does_not_wait_for_an_inference_and_its_result_is_dropped(ros: Spinner):
    bench = Commanded(ros)
    bench.go()
    bench.policy.gate.clear()
    eventually(lambda: bench.policy.hangs, 'an inference that hangs')
    eventually(lambda: bench.press() or bench.node._latch.is_latched, 'the stop is heard')
    bench.status('the stop was pressed')
    count = len(bench.chunks)
    bench.policy.gate.set()
    eventually(lambda: len(bench.chunks) > count, 'the chunk that was in flight')
    assert bench.still() == 0


def test_stop_that_was_pressed_survives_another_configuration(ros: Spinner):
    bench = Commanded(ros)
    bench.go()
    bench.press()
    bench.status('the stop was pressed')
    for transition in ('deactivate', 'cleanup', 'configure', 'activate'):
        assert bench.change(transition)
    assert not bench.service('start').success
    bench.status('the stop was pressed')


def test_latched_stop_is_heard_while_configure_is_not_at_its_end(ros: Spinner):
    heard: list[bool] = []

    def publish_commands(*arguments):
        eventually(lambda: bench.node._latch.is_pressed, 'the stop')
        heard.append(bench.node._parts is None)
        return CommandPublisher(*arguments)

    bench = Commanded(ros, publish_commands=publish_commands)
    bench.press()
    assert bench.change('configure'), bench.words
    assert heard == [True]
    assert bench.change('activate')
    assert 'the stop was pressed' in bench.service('start').message


def test_row_that_is_refused_before_publishing_leaves_the_node_nowhere(ros: Spinner):
    bench = Commanded(ros)
    bench.go()
    limits = bench.node._parts.motion.limits
    right = limits.limit

    def wrong(*arguments):
        limited = right(*arguments)
        return replace(limited, rows=limited.rows + 5.0)

    limits.limit = wrong
    status = bench.status('command refused before publishing: message: joint_1 is')
    assert status.level == DiagnosticStatus.ERROR
    assert bench.still() == 0
    assert max(max(point.positions) for command in bench.commands for point in command.points) <= 2.0
    eventually(lambda: len(bench.commands[-1].points) == 1, 'the override of the rows before it')


def test_required_stop_topic_that_falls_silent_stops(ros: Spinner):
    bench = Commanded(ros, estop__required=True, estop__timeout_s=3.0)
    bench.activate()
    bench.feed()
    assert not bench.service('start').success
    timer = bench.robot.create_timer(0.1, lambda: bench.press(False))
    eventually(lambda: bench.service('estop_reset').success, 'the stop topic is heard')
    assert bench.service('start').success
    eventually(lambda: len(bench.commands) > 3, 'motion')
    timer.cancel()
    bench.status('stop topic has been silent')
    assert bench.still() == 0
    eventually(lambda: len(bench.commands[-1].points) == 1, 'the override')


def test_start_is_refused_where_a_stop_could_not_be_heard(ros: Spinner, other_ros: Spinner):
    bench = Commanded(ros, start_on_activate=True, estop__topic='button')
    other = other_ros.add(Node('panel', context=other_ros.context))
    other.create_publisher(String, 'button', LATCHED)
    assert bench.change('configure')
    eventually(lambda: bench.node._parts.stop_fault(), 'the panel is discovered')
    assert bench.change('activate')
    bench.feed()
    status = bench.status('stop topic button: publisher present, but it sends std_msgs/msg/String')
    assert status.level == DiagnosticStatus.ERROR
    assert 'stop topic button' in bench.service('start').message
    assert bench.commands == []


def test_first_command_far_from_the_robot_is_refused_in_words(ros: Spinner):
    far = np.load(CASES / 'chunks' / 'first_row_far_from_robot.npy')[:, :7].astype(np.float64)
    bench = Commanded(ros, start_on_activate=True)
    bench.policy_options = {'answer': lambda observation: far}
    bench.activate()
    bench.feed()
    status = bench.status('not moving: first command after a start: too far from the robot: joint_')
    assert status.level == DiagnosticStatus.WARN
    assert bench.commands == []
    bench.policy._answer = bench.policy._state_then_up
    eventually(lambda: len(bench.commands) > 3, 'motion')
    bench.commanding()


def test_chunks_that_are_not_finite_hold_and_then_stop(ros: Spinner):
    bench = Commanded(ros)
    bench.go()
    bad = np.load(CASES / 'chunks' / 'nan_in_row_4.npy')[:, :7].astype(np.float64)
    bench.policy._answer = lambda observation: bad
    status = bench.status('3 chunks in a row were refused')
    assert status.level == DiagnosticStatus.ERROR
    assert 'joint_3' in status.message
    assert bench.still() == 0
    assert np.isfinite([point.positions for command in bench.commands for point in command.points]).all()
    bench.policy._answer = bench.policy._state_then_up
    assert bench.service('start').success
    bench.commanding()


HAND = {
    'outputs__names': ['arm', 'hand'],
    'outputs__arm__joints': ARM,
    'outputs__hand__topic': 'hand/commands',
    'outputs__hand__joints': ['gripper'],
    'outputs__hand__quantity': 'position',
    'outputs__hand__type': 'float64_multi_array',
}


def test_publisher_that_fails_keeps_the_override_from_no_other(ros: Spinner, monkeypatch):
    bench = Commanded(ros, **HAND)
    bench.go()
    publishers = bench.node._parts.commands._publishers
    first, second = list(publishers)
    sent: list[object] = []

    def fail(_: object) -> None:
        raise OSError('no route to the controller')

    with bench.node._commanding, monkeypatch.context() as patch:
        patch.setitem(publishers, first, SimpleNamespace(publish=fail))
        patch.setitem(publishers, second, SimpleNamespace(publish=sent.append))
        bench.node._on_control_tick()
    assert len(sent) == 2  # the command, and what overrides it
    bench.status('stopped: control failed: no route to the controller')
    assert bench.still() == 0
    assert bench.service('start').success
    bench.commanding()


def test_fault_inside_a_control_tick_stops_the_robot_and_the_node_lives(ros: Spinner, monkeypatch):
    bench = Commanded(ros)
    bench.go()
    with monkeypatch.context() as patch:
        patch.setattr(bench.node._parts.motion, 'tick', lambda *_: 1 / 0)
        status = bench.status('stopped: control failed: division by zero')
    assert status.level == DiagnosticStatus.ERROR
    assert bench.still() == 0
    eventually(lambda: len(bench.commands[-1].points) == 1, 'the override')
    assert bench.service('start').success
    bench.commanding()


def test_clamps_are_counted_by_joint(ros: Spinner):
    bench = Commanded(ros)
    bench.policy_options = {
        'answer': lambda observation: np.tile([0.1, -0.2, 2.3, -0.4, 0.5, -0.6, 0.04], (10, 1))
    }
    bench.set_parameter('safety.first_command', 'approach')
    bench.go()
    eventually(
        lambda: int(key_values(bench.statuses[-1])['play.position_clamps.joint_3']) > 0, 'clamps of joint_3'
    )
    # Within a command; from one to the next a busy machine may miss ticks, and the trajectory goes on.
    moving = [command for command in bench.commands if len(command.points) > 1]
    steps = [np.diff([point.positions[2] for point in command.points]).max() for command in moving]
    assert 0 < max(steps) <= 1.5 * 0.05 + 1e-9
    assert max(command.points[-1].positions[2] for command in bench.commands) <= 2.0


def test_new_prompt_holds_until_its_first_chunk(ros: Spinner):
    bench = Commanded(ros)
    bench.go()
    bench.policy.gate.clear()
    eventually(lambda: bench.policy.hangs, 'an inference that hangs')
    bench.set_prompt('open the drawer')
    bench.policy.gate.set()
    eventually(lambda: bench.chunks[-1].prompt == 'open the drawer', 'a chunk of the new prompt')
    eventually(lambda: len(bench.commands[-1].points) > 1, 'motion')
    number = bench.chunks[-1].prompt_id
    eventually(lambda: key_values(bench.statuses[-1])['prompt_id'] == str(number), 'its number in the status')


def test_limits_come_from_the_robot_description(ros: Spinner):
    joints = [*ARM, 'gripper']
    urdf = ''.join(
        f'<joint name="{name}" type="revolute"><parent link="a"/><child link="b"/>'
        f'<limit lower="-0.5" upper="0.45" velocity="0.1" effort="1"/></joint>'
        for name in joints
    )
    bench = Commanded(
        ros, joints__limits='robot_description', joints__lower=[], joints__upper=[], joints__max_velocity=[]
    )
    description = bench.robot.create_publisher(String, 'robot_description', LATCHED)
    description.publish(String(data=f'<robot name="r"><link name="a"/><link name="b"/>{urdf}</robot>'))
    assert bench.change('configure'), bench.words
    limits = bench.node._parts.motion.limits
    with pytest.raises(ChunkRefused, match=r'joint_1 is 0\.46'):
        limits.check_message(np.full((1, 1), 0.46), ['joint_1'])


def test_missing_robot_description_fails_configure_with_the_topic(ros: Spinner, monkeypatch):
    monkeypatch.setattr('flashrt_ros.description_topic._PATIENCE_S', 0.2)
    bench = Commanded(
        ros, joints__limits='robot_description', joints__lower=[], joints__upper=[], joints__max_velocity=[]
    )
    assert not bench.change('configure')
    bench.status('nothing came on /robot_description')


def test_training_range_beside_the_limits_fails_configure(ros: Spinner):
    bench = Commanded(ros)
    make = bench.load

    def load(parameters):
        policy = make(parameters)
        policy.range = np.array([[-1.0] * 7, [1.0] * 7])
        policy.range[:, 2] = 100.0, 170.0  # degrees
        return policy

    bench.load = load
    assert not bench.change('configure')
    message = bench.status('configure failed').message
    assert 'joint_3: trained on 100..170' in message
