# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`flashrt check` on a robot that runs: what it sees over DDS, and that it commands nothing."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from fake_policy import parameters
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from robot_bench import BLUE, JOINTS, RED, REST, picture
from ros_spinner import Spinner
from sensor_msgs.msg import Image, JointState, PointCloud2
from std_msgs.msg import Bool, String
from test_check_robot import urdf
from tiny_checkpoint import tiny_values, write_params, write_tiny_checkpoint
from trajectory_msgs.msg import JointTrajectory
from typer.testing import CliRunner

from flashrt_ros import check
from flashrt_ros.check_findings import Finding
from flashrt_ros.check_graph import check_graph
from flashrt_ros.graph_observer import observe
from flashrt_ros.graph_view import GraphView

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
BEST_EFFORT = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
CONTROLLER = {
    'joints': JOINTS,
    'command_interfaces': ['position'],
    'interpolation_method': 'splines',
    'open_loop_control': True,
    'cmd_timeout': 0.5,
    'constraints.goal_time': 0.0,
    'gains.joint_1.p': 1.0,
}
WAIT_S = 20.0  # the checks end their wait once everything is there
SLACK = {'cameras__max_age_s': 10.0, 'joints__max_age_s': 10.0, 'max_clock_skew_s': 10.0}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause of the machine must not silence a controller."""
    monkeypatch.setattr('flashrt_ros.graph_observer._ANSWER_S', WAIT_S)


class Robot:
    """Cameras, joints, a stop button and a description, each of which can be left out."""

    def __init__(self, ros: Spinner, namespace: str = '', without: tuple[str, ...] = ()) -> None:
        self.node = ros.add(Node('robot', context=ros.context, namespace=namespace))
        self.senders: list[Callable[[], None]] = []
        publish = self.node.create_publisher
        if 'base' not in without:
            base = publish(Image, 'cam_base/image_raw', BEST_EFFORT)
            self.senders.append(lambda: base.publish(picture(RED, self.now())))
        if 'wrist' not in without:
            wrist = publish(Image, 'cam_wrist/image_raw', BEST_EFFORT)
            self.senders.append(lambda: wrist.publish(picture(BLUE, self.now())))
        if 'joints' not in without:
            joints = publish(JointState, 'joint_states', 10)
            self.senders.append(lambda: joints.publish(self.joint_state()))
        if 'estop' not in without:
            publish(Bool, 'estop', LATCHED).publish(Bool(data=False))
        if 'description' not in without:
            publish(String, 'robot_description', LATCHED).publish(String(data=urdf()))
        self.node.create_timer(0.02, self._send)

    def now(self):
        return self.node.get_clock().now().to_msg()

    def joint_state(self) -> JointState:
        message = JointState(name=JOINTS, position=REST)
        message.header.stamp = self.now()
        return message

    def _send(self) -> None:
        for send in self.senders:
            send()


class Controller:
    """A node with the topic and the parameters of a joint trajectory controller."""

    def __init__(self, ros: Spinner, namespace: str = '', **changes: object) -> None:
        values = CONTROLLER | {name.replace('__', '.'): value for name, value in changes.items()}
        self.node = ros.add(
            Node(
                'arm_controller',
                context=ros.context,
                namespace=namespace,
                parameter_overrides=[Parameter(name, value=value) for name, value in values.items()],
                automatically_declare_parameters_from_overrides=True,
            )
        )
        self.heard: list[JointTrajectory] = []
        self.node.create_subscription(JointTrajectory, '~/joint_trajectory', self.heard.append, 1)


def look(ros: Spinner, wait_s: float = WAIT_S, node_name: str = '/policy', **changes: object) -> GraphView:
    return observe(parameters(**(SLACK | changes)), node_name, wait_s, ros.context)


def findings(view: GraphView, **changes: object) -> dict[str, Finding]:
    """By subject; the last of each."""
    return {finding.subject: finding for finding in check_graph(view, parameters(**(SLACK | changes)))}


def test_a_whole_robot_is_seen(ros, other_ros):
    Robot(ros)
    controller = Controller(ros)
    seen = look(other_ros)
    found = findings(seen)
    assert {finding.level for finding in found.values()} == {'OK'}, found
    assert 'not pressed' in found['estop'].text
    assert '16x12 rgb8' in found['camera base'].text
    assert '/robot' in found['camera base'].text
    assert '7 joints in this order, commands position' in found['controller arm'].text
    assert 'cmd_timeout 0.5 s' in found['controller arm'].text
    assert set(seen.nodes) == {'/robot', '/arm_controller'}
    assert seen.domain == ros.domain_id
    assert not controller.heard


def test_names_are_those_of_the_namespace_of_the_node(ros, other_ros):
    Robot(ros, namespace='left')
    Controller(ros, namespace='left')
    found = findings(look(other_ros, node_name='/left/policy'))
    assert {finding.level for finding in found.values()} == {'OK'}, found
    assert '/left/arm_controller' in found['output arm'].text


def test_what_is_missing_is_named_when_the_wait_is_over(ros, other_ros):
    Robot(ros, without=('wrist', 'joints', 'estop', 'description'))
    found = findings(look(other_ros, wait_s=3.0), dry_run=False)
    levels = {subject: finding.level for subject, finding in found.items()}
    assert levels == {
        'graph': 'OK',
        'camera base': 'OK',
        'camera wrist': 'FAIL',
        'joints joint_states': 'FAIL',
        'joint names': 'SKIP',
        'estop': 'WARN',
        'output arm': 'FAIL',
        'controller arm': 'SKIP',
        'limits': 'SKIP',
    }
    assert 'no publisher on /cam_wrist/image_raw' in found['camera wrist'].text


def test_a_publisher_that_cannot_be_heard_is_told_with_its_qos(ros, other_ros):
    Robot(ros)
    Controller(ros)
    changes = {'cameras__base__reliability': 'reliable'}
    found = findings(look(other_ros, **changes), **changes)
    assert found['camera base'].level == 'FAIL'
    assert found['camera base'].text == (
        'publisher present, QoS incompatible on /cam_base/image_raw: Best effort publisher and reliable '
        'subscription; set cameras.base.reliability: best_effort'
    )
    assert found['camera wrist'].level == 'OK'


def test_a_controller_that_cannot_hear_is_told_with_its_qos(ros, other_ros):
    Robot(ros)
    late = ros.add(Node('late', context=ros.context))
    late.create_subscription(JointTrajectory, 'arm_controller/joint_trajectory', print, LATCHED)
    text = findings(look(other_ros), dry_run=False)['output arm'].text
    assert 'QoS incompatible: Volatile publisher and transient local subscription' in text


def test_a_publisher_of_another_type_is_told_with_both(ros, other_ros):
    robot = Robot(ros, without=('base',))
    Controller(ros)
    robot.node.create_publisher(PointCloud2, 'cam_base/image_raw', 5)
    text = findings(look(other_ros))['camera base'].text
    assert '/robot sends sensor_msgs/msg/PointCloud2' in text
    assert 'sensor_msgs/msg/Image is expected' in text


def test_a_silent_publisher_is_told_from_none(ros, other_ros):
    robot = Robot(ros, without=('base',))
    Controller(ros)
    robot.node.create_publisher(Image, 'cam_base/image_raw', 5)
    found = findings(look(other_ros))
    assert re.search(r'publisher present, but nothing came in \d', found['camera base'].text), found


@pytest.mark.parametrize(
    ('changes', 'level', 'words'),
    [
        ({'joints': JOINTS[:-1]}, 'FAIL', 'has no joint gripper'),
        ({'joints': [*JOINTS, 'lift']}, 'FAIL', 'also has lift'),
        ({'cmd_timeout': 0.0}, 'WARN', 'has no cmd_timeout'),
    ],
)
def test_a_controller_that_does_not_fit_is_told_from_its_parameters(ros, other_ros, changes, level, words):
    Robot(ros)
    Controller(ros, **changes)
    found = list(check_graph(look(other_ros), parameters(**SLACK)))
    [finding] = [item for item in found if item.level == level]
    assert finding.subject == 'controller arm'
    assert words in finding.text


def test_the_command_prints_a_robot(ros, other_ros, tmp_path, monkeypatch):
    monkeypatch.setenv('ROS_DOMAIN_ID', str(ros.domain_id))
    Robot(ros)
    Controller(ros)
    checkpoint = write_tiny_checkpoint(tmp_path / 'checkpoint')
    params = write_params(tmp_path / 'params.yaml', tiny_values(checkpoint, transport='raw', **SLACK))
    app = typer.Typer()
    app.command()(check.run)
    result = CliRunner().invoke(app, ['--params', str(params), '--wait', str(WAIT_S)])
    assert result.exit_code == 0, result.output
    assert 'OK   camera base_0_rgb: /cam_base/image_raw: 16x12 rgb8' in result.output
    assert 'OK   controller arm: /arm_controller: 7 joints in this order' in result.output
    page = (Path(__file__).parents[2] / 'docs' / 'check.md').read_text()
    told = {subject.split(' ')[0] for subject in re.findall('`([^`]+)`', ' '.join(first_column(page)))}
    printed = {re.match('(?:OK|WARN) +([^:]+):', line)[1] for line in result.output.splitlines()[:-1]}
    assert {subject if subject in told else subject.split(' ')[0] for subject in printed} == told


def first_column(page: str) -> list[str]:
    return [line.split('|')[1] for line in page.splitlines() if line.startswith('| `')]
