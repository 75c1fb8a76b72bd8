# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The node under test with a fake policy, and a robot that publishes to it."""

import array
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from fake_policy import PATIENT, FakePolicy, values
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import SetParameters
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from ros_spinner import Spinner, eventually
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from flashrt_ros.msg import ActionChunk
from flashrt_ros.parameters import Parameters
from flashrt_ros.policy_node import PolicyNode
from flashrt_ros.topics import CommandPublisher

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
JOINTS = [f'joint_{i}' for i in range(1, 7)] + ['gripper']
REST = [0.1, -0.2, 0.3, -0.4, 0.5, -0.6, 0.04]
RED, BLUE = (255, 0, 0), (0, 0, 255)


def overrides(flat: dict[str, object]) -> list[Parameter]:
    """'[]' has no type, exactly as from a parameter file."""
    return [Parameter(name, value=value if value != [] else None) for name, value in flat.items()]


def picture(colour: tuple[int, int, int], stamp: Any, height: int = 12, width: int = 16) -> Image:
    pixels = np.empty((height, width, 3), np.uint8)
    pixels[:] = colour
    message = Image(height=height, width=width, encoding='rgb8', step=3 * width)
    message.data = array.array('B', pixels.tobytes())
    message.header.stamp = stamp
    return message


def holds(hold: JointTrajectory, before: JointTrajectory) -> bool:
    """Whether `hold` is one point on the way of the trajectory before it.

    On a machine that kept up it is the first point; after missed ticks the controller has gone on.
    """
    if len(hold.points) != 1:
        return False
    point = hold.points[0]
    way = np.array([point.positions for point in before.points])
    near = 1e-9
    return bool(
        ((point.positions >= way.min(axis=0) - near) & (point.positions <= way.max(axis=0) + near)).all()
    )


class Bench:
    """A policy node, a robot that publishes at 20 Hz, and what came out of the node."""

    def __init__(
        self,
        ros: Spinner,
        namespace: str = '',
        camera_qos: QoSProfile = qos_profile_sensor_data,
        publish_commands: Callable = CommandPublisher,
        **changes: object,
    ) -> None:
        self.policies: list[FakePolicy] = []
        self.policy_options: dict[str, Any] = {}
        self.load = self._load_fake
        self.flat = values(**(PATIENT | changes))
        self.node = ros.add(
            PolicyNode(
                lambda parameters: self.load(parameters),
                publish_commands,
                context=ros.context,
                namespace=namespace,
                parameter_overrides=overrides(self.flat),
            )
        )
        self.robot = ros.add(Node('robot', context=ros.context, namespace=namespace))
        self.chunks: list[ActionChunk] = []
        self.statuses: list[DiagnosticStatus] = []
        self.diagnostics: list[DiagnosticArray] = []
        self.latencies: list[DiagnosticArray] = []
        subscribe = self.robot.create_subscription
        subscribe(ActionChunk, 'policy/action_chunk', self.chunks.append, 50)
        subscribe(DiagnosticStatus, 'policy/status', self.statuses.append, LATCHED)
        subscribe(DiagnosticArray, '/diagnostics', self.diagnostics.append, 50)
        subscribe(DiagnosticArray, 'policy/latency', self.latencies.append, 50)
        publish = self.robot.create_publisher
        self.base = publish(Image, 'cam_base/image_raw', camera_qos)
        self.wrist = publish(Image, 'cam_wrist/image_raw', camera_qos)
        self.joints = publish(JointState, 'joint_states', 20)
        self._is_publishing = False
        self._feeding = threading.Lock()
        self.robot.create_timer(0.05, self._publish)
        self.change_client = self.robot.create_client(ChangeState, 'policy/change_state')
        self._state = self.robot.create_client(GetState, 'policy/get_state')
        self._parameters = self.robot.create_client(SetParameters, 'policy/set_parameters')

    def _load_fake(self, parameters: Parameters) -> FakePolicy:
        policy = FakePolicy(parameters, **self.policy_options)
        self.policies.append(policy)
        return policy

    @property
    def policy(self) -> FakePolicy:
        return self.policies[-1]

    def feed(self, is_on: bool = True) -> None:
        """Once it is off, nothing more is published."""
        with self._feeding:
            self._is_publishing = is_on

    def _publish(self) -> None:
        with self._feeding:
            if self._is_publishing:
                self.publish_once()

    def publish_once(self, stamp: Time | None = None) -> None:
        stamp = stamp or self.robot.get_clock().now().to_msg()
        message = JointState(name=JOINTS, position=REST)
        message.header.stamp = stamp
        self.joints.publish(message)
        self.base.publish(picture(RED, stamp))
        self.wrist.publish(picture(BLUE, stamp))

    def call(self, client: Any, request: Any, patience_s: float = 20.0) -> Any:
        eventually(client.service_is_ready, f'service {client.srv_name}')
        future = client.call_async(request)
        eventually(future.done, f'answer of {client.srv_name}', patience_s)
        return future.result()

    def change(self, transition: str) -> bool:
        number = getattr(Transition, f'TRANSITION_{transition.upper()}')
        request = ChangeState.Request(transition=Transition(id=number))
        return self.call(self.change_client, request).success

    def state(self) -> str:
        return self.call(self._state, GetState.Request()).current_state.label

    def service(self, name: str) -> Trigger.Response:
        return self.call(self.robot.create_client(Trigger, f'policy/{name}'), Trigger.Request())

    def status(self, words: str) -> DiagnosticStatus:
        """The newest status once its message contains `words`."""

        def latest() -> DiagnosticStatus | None:
            newest = self.statuses[-1] if self.statuses else None
            return newest if newest is not None and words in newest.message else None

        return eventually(latest, lambda: f"status '{words}', the newest is '{self.words}'")

    def commanding(self) -> DiagnosticStatus:
        """The newest status once the node commands: 'inferring, not commanding' holds the word as well."""

        def latest() -> DiagnosticStatus | None:
            newest = self.statuses[-1] if self.statuses else None
            return newest if newest is not None and newest.message.startswith('commanding') else None

        return eventually(latest, lambda: f"a node that commands, the newest status is '{self.words}'")

    def status_keys(self) -> set[str]:
        return set(key_values(self.statuses[-1])) if self.statuses else set()

    @property
    def words(self) -> str:
        return self.statuses[-1].message if self.statuses else ''

    def activate(self) -> None:
        assert self.change('configure'), self.words
        assert self.change('activate')

    def prompt_publisher(self, qos: QoSProfile = LATCHED) -> Publisher:
        return self.robot.create_publisher(String, 'policy/prompt', qos)

    def say(self, publisher: Publisher, text: str) -> None:
        publisher.publish(String(data=text))

    def set_prompt(self, text: str) -> None:
        self.say(self.prompt_publisher(), text)

    def set_parameter(self, name: str, value: object) -> str:
        """Why it was refused, or nothing."""
        request = SetParameters.Request(parameters=[Parameter(name, value=value).to_parameter_msg()])
        result = self.call(self._parameters, request).results[0]
        assert result.successful == (not result.reason)
        return result.reason


def key_values(status: DiagnosticStatus) -> dict[str, str]:
    return {pair.key: pair.value for pair in status.values}
