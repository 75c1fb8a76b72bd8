# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The node as a process: parameter files, faults that a user sees, signals, exit codes (R-30 to R-36)."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from diagnostic_msgs.msg import DiagnosticStatus
from fake_policy import CASES, PATIENT, VELOCITY, values
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from robot_bench import JOINTS, LATCHED, REST, holds, picture
from ros_spinner import Spinner, eventually
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from flashrt_ros.run import spin_some

HERE = Path(__file__).resolve().parent
EXIT_S = 2.0  # promised; an idle machine needs a tenth of it
TRAJECTORY = 'arm_controller/joint_trajectory'
SLACK = 10.0  # live timings get ten times the promise


class Process:
    """`python -m ...` with a parameter file, and what it printed."""

    def __init__(self, module: str, file: Path, tmp_path: Path, domain_id: int) -> None:
        self._output = tmp_path / 'output.txt'
        environment = os.environ | {
            'ROS_DOMAIN_ID': str(domain_id),
            'ROS_LOG_DIR': str(tmp_path),
            'PYTHONPATH': os.pathsep.join([str(HERE), os.environ.get('PYTHONPATH', '')]),
            'PYTHONUNBUFFERED': '1',
        }
        with self._output.open('w') as output:
            self._process = subprocess.Popen(
                [sys.executable, '-m', module, '--ros-args', '--params-file', str(file)],
                stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=HERE.parents[1],
            )  # fmt: skip

    def output(self) -> str:
        return self._output.read_text()

    def wait(self) -> int:
        return self._process.wait(60)

    def end(self, number: int) -> tuple[int, float]:
        """Exit code and seconds until it."""
        begin = time.monotonic()
        self._process.send_signal(number)
        return self.wait(), time.monotonic() - begin

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait(60)


@pytest.fixture
def start(tmp_path: Path, domain_id: int) -> Iterator:
    running: list[Process] = []

    def start_process(module: str, file: Path) -> Process:
        running.append(Process(module, file, tmp_path, domain_id))
        return running[-1]

    yield start_process
    for process in running:
        process.close()


class Client:
    """Drives a node in another process."""

    def __init__(self, ros: Spinner) -> None:
        self.node = ros.add(Node('client', context=ros.context))
        self._change = self.node.create_client(ChangeState, 'policy/change_state')
        self._state = self.node.create_client(GetState, 'policy/get_state')
        self._start = self.node.create_client(Trigger, 'policy/start')
        self.statuses: list[DiagnosticStatus] = []
        self.node.create_subscription(DiagnosticStatus, 'policy/status', self.statuses.append, LATCHED)
        self._base = self.node.create_publisher(Image, 'cam_base/image_raw', qos_profile_sensor_data)
        self._wrist = self.node.create_publisher(Image, 'cam_wrist/image_raw', qos_profile_sensor_data)
        self._joints = self.node.create_publisher(JointState, 'joint_states', 20)

    def request(self, transition: int):
        eventually(self._is_heard, 'an answer of the node')
        return self._change.call_async(ChangeState.Request(transition=Transition(id=transition)))

    def _is_heard(self) -> bool:
        """By a question without effect."""
        return self._change.service_is_ready() and self._answer(self._state, GetState.Request()) is not None

    def _answer(self, client: Any, request: Any) -> Any:
        """None without one: the first may get lost while the two sides discover each other."""
        future = client.call_async(request)
        deadline = time.monotonic() + 1.0
        while not future.done() and time.monotonic() < deadline:
            time.sleep(0.01)
        return future.result() if future.done() else None

    def change(self, transition: int) -> bool:
        future = self.request(transition)
        eventually(future.done, 'transition')
        return future.result().success

    def start(self) -> bool:
        """Asked again until there is an answer: a second start changes nothing."""
        return eventually(lambda: self._answer(self._start, Trigger.Request()), 'an answer to start').success

    def words(self) -> str:
        return self.statuses[-1].message if self.statuses else ''

    def feed(self) -> None:
        self.node.create_timer(0.05, self._publish)

    def _publish(self) -> None:
        stamp = self.node.get_clock().now().to_msg()
        state = JointState(name=JOINTS, position=REST)
        state.header.stamp = stamp
        self._joints.publish(state)
        self._base.publish(picture((255, 0, 0), stamp))
        self._wrist.publish(picture((0, 0, 255), stamp))


@pytest.mark.parametrize(
    ('name', 'text'),
    [
        ('tab_indent.yaml', 'indent with spaces'),
        ('mixed_limits.yaml', "'upper' mixes whole numbers and decimals"),
        ('prompt_missing_value.yaml', "'prompt' has no value"),
        ('nowhere.yaml', 'cannot be read'),
    ],
)
def test_file_that_ros_cannot_read_ends_the_process_with_file_and_key(start, name: str, text: str):
    process = start('flashrt_ros.policy_node', CASES / 'params' / name)
    assert process.wait() == 1
    assert text in process.output()
    assert name in process.output()
    assert 'Traceback' not in process.output()


@pytest.mark.parametrize(
    ('name', 'text'),
    [
        (
            'misspelled_key.yaml',
            'control_rate_hertz is not a parameter of this node (nearest: control_rate_hz)',
        ),
        ('prompt_off.yaml', "prompt: 'off'"),
        ('limits_one_short.yaml', 'joints.upper has 6 values'),
        ('wrong_node_name.yaml', 'is the parameter file written for a node /policy?'),
        ('wrong_namespace.yaml', 'cameras.names is missing'),
    ],
)
def test_faults_reach_log_and_status(start, ros: Spinner, name: str, text: str):
    process = start('flashrt_ros.policy_node', CASES / 'params' / name)
    client = Client(ros)
    assert not client.change(Transition.TRANSITION_CONFIGURE)
    eventually(lambda: text in client.words(), lambda: f'{text} in {client.words()}')
    assert process.end(signal.SIGTERM)[0] == 0
    assert text in process.output()


def commanding(folder: Path, **changes: object) -> Path:
    """A parameter file with which commands are published."""
    file = folder / 'commanding.yaml'
    flat = values(**PATIENT, dry_run=False, **changes)
    file.write_text(yaml.safe_dump({'/policy': {'ros__parameters': flat}}))
    return file


def command_while_a_signal_comes(
    start, ros: Spinner, file: Path, number: int, kinds: dict[str, type]
) -> dict:
    """Topic -> every command, the last ones sent after the signal, of a process that ended well."""
    process = start('fake_node_plain', file)
    client = Client(ros)
    received: dict[str, list] = {topic: [] for topic in kinds}
    for topic, kind in kinds.items():
        client.node.create_subscription(kind, topic, received[topic].append, 100)
    assert client.change(Transition.TRANSITION_CONFIGURE), process.output()
    assert client.change(Transition.TRANSITION_ACTIVATE)
    client.feed()
    assert client.start()
    eventually(lambda: client.words().startswith('commanding'), client.words)
    eventually(lambda: all(len(commands) > 5 for commands in received.values()), 'commands')
    # In motion: the next point is not the last.
    eventually(lambda: len(received[TRAJECTORY][-1].points) > 1, 'a command of a chunk')
    code, seconds = process.end(number)
    assert code == 0, process.output()
    assert seconds < SLACK * EXIT_S
    assert 'Traceback' not in process.output()
    return received


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_signal_while_commanding_holds_the_position_and_ends_with_code_0(
    start, ros: Spinner, tmp_path: Path, number: int
):
    file = commanding(tmp_path)
    received = command_while_a_signal_comes(start, ros, file, number, {TRAJECTORY: JointTrajectory})
    commands = received[TRAJECTORY]
    eventually(lambda: holds(*commands[:-3:-1]), 'the safe reaction')
    assert any(commands[-1].points[0].positions)


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_signal_while_commanding_velocities_stops_the_arm(start, ros: Spinner, tmp_path: Path, number: int):
    file = commanding(tmp_path, **VELOCITY)
    kinds = {TRAJECTORY: JointTrajectory, 'hand/commands': Float64MultiArray}
    received = command_while_a_signal_comes(start, ros, file, number, kinds)
    arm, hand = received[TRAJECTORY], received['hand/commands']
    # Inputs may come late on a busy machine and stop the arm early: that it moved at all is the claim.
    assert any(velocity for command in arm for velocity in command.points[0].velocities)
    eventually(lambda: not any(velocity for point in arm[-1].points for velocity in point.velocities), 'rest')
    eventually(lambda: len(hand) == len(arm), 'both controllers have heard the last command')
    assert hand[-1].data == hand[-2].data  # a gripper is held, not opened or closed


def test_signal_before_configure_ends_with_code_0(start, ros: Spinner):
    process = start('flashrt_ros.policy_node', CASES / 'params' / 'ok.yaml')
    client = Client(ros)
    eventually(lambda: client.words() == 'not configured', client.words)
    assert process.end(signal.SIGINT)[0] == 0


@pytest.mark.parametrize('stuck_in', ['load', 'inference'])
def test_signal_does_not_wait_for_what_cannot_be_interrupted(start, ros: Spinner, stuck_in: str):
    process = start(f'fake_node_{stuck_in}', CASES / 'params' / 'ok.yaml')
    client = Client(ros)
    configured = client.request(Transition.TRANSITION_CONFIGURE)
    if stuck_in == 'load':
        eventually(lambda: client.words().startswith('configuring: loading'), client.words)
    else:
        eventually(configured.done, 'configure')
        assert client.change(Transition.TRANSITION_ACTIVATE)
        client.feed()
        eventually(lambda: 'STUCK' in process.output(), 'an inference that hangs')
    code, seconds = process.end(signal.SIGTERM)
    assert code == 0, process.output()
    assert seconds < SLACK * EXIT_S


def test_topic_that_is_destroyed_meanwhile_does_not_end_the_process():
    rounds = []

    def spin_once(timeout_sec: float) -> None:
        rounds.append(timeout_sec)
        raise InvalidHandle('cannot use Destroyable because destruction was requested')

    spin_some(SimpleNamespace(spin_once=spin_once))
    assert rounds == [0.1]
