# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The simulated robot under test, spun by its own loop, and whoever commands it."""

import threading
import time
from typing import Any

import numpy as np
from builtin_interfaces.msg import Duration
from diagnostic_msgs.msg import DiagnosticStatus
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from numpy.typing import NDArray
from rcl_interfaces.srv import SetParameters
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile
from ros_spinner import Spinner, eventually
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from flashrt_core.types import Observation
from flashrt_ros.conversions import stamp_ns
from flashrt_ros.sim_robot import ARM_TOPIC, GRIPPER_TOPIC, SimRobot
from flashrt_ros.tabletop.arm import ARM_JOINTS, ROW_PERIOD_S
from flashrt_ros.tabletop.lockstep import ANSWER

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
PATIENCE_S = 120.0  # for an episode
PERIOD_NS = round(ROW_PERIOD_S * 1e9)


class SimBench:
    """A sim_robot in a thread, and a node that hears it and commands it."""

    def __init__(self, ros: Spinner, **parameters: object) -> None:
        overrides = [Parameter(name, value=value) for name, value in parameters.items()]
        self.sim = SimRobot(context=ros.context, parameter_overrides=overrides)
        self.node = ros.add(Node('operator', context=ros.context))
        self.statuses: list[DiagnosticStatus] = []
        self.joints: list[JointState] = []
        self.node.create_subscription(DiagnosticStatus, 'sim_robot/status', self.statuses.append, LATCHED)
        self.node.create_subscription(JointState, 'joint_states', self.joints.append, 1000)
        self._arm = self.node.create_publisher(JointTrajectory, ARM_TOPIC, 10)
        self._gripper = self.node.create_publisher(Float64MultiArray, GRIPPER_TOPIC, 10)
        self.ask = self.node.create_client(Trigger, 'sim_robot/ask')
        self._reset = self.node.create_client(Trigger, 'sim_robot/reset')
        self._set = self.node.create_client(SetParameters, 'sim_robot/set_parameters')
        self._is_ending = threading.Event()
        self._failure: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.sim.run(lambda: not self._is_ending.is_set())
        except BaseException as failure:  # shown at the end of the test
            self._failure.append(failure)

    @property
    def is_closed(self) -> bool:
        return self._is_ending.is_set()

    def close(self) -> None:
        self._is_ending.set()
        self._thread.join()
        self.sim.destroy_node()
        assert not self._failure, self._failure

    def command(self, row: NDArray[np.float64]) -> None:
        """[joints], as the policy node sends one row: to both controllers."""
        point = JointTrajectoryPoint(positions=row[:-1].tolist(), time_from_start=Duration(nanosec=PERIOD_NS))
        self._gripper.publish(Float64MultiArray(data=[float(row[-1])]))
        self.send(JointTrajectory(joint_names=list(ARM_JOINTS), points=[point]))

    def send(self, trajectory: JointTrajectory) -> None:
        self._arm.publish(trajectory)

    def is_connected(self) -> bool:
        return bool(self._arm.get_subscription_count() and self._gripper.get_subscription_count())

    def set(self, **parameters: object) -> list[str]:
        """Why each was refused; an empty text where it was not."""
        messages = [Parameter(name, value=value).to_parameter_msg() for name, value in parameters.items()]
        results = self.call(self._set, SetParameters.Request(parameters=messages)).results
        return [result.reason for result in results]

    def reset(self) -> str:
        answer = self.call(self._reset, Trigger.Request())
        assert answer.success
        return answer.message

    def call(self, client: Any, request: Any) -> Any:
        eventually(client.service_is_ready, f'service {client.srv_name}')
        future = client.call_async(request)
        eventually(future.done, f'answer of {client.srv_name}')
        return future.result()

    def values(self) -> dict[str, str]:
        """Of the newest status."""
        return {item.key: item.value for item in self.statuses[-1].values} if self.statuses else {}

    def state(self) -> str:
        return self.values().get('state', '')


class AnswerInTime:
    """Lets the first answer come at once, and every other one when simulated time waits for it."""

    def __init__(self, bench: SimBench) -> None:
        self._bench = bench
        self._given = 0  # answers

    def wait(self, observation: Observation) -> None:
        while self._given and not self._is_waited_for() and not self._bench.is_closed:
            time.sleep(0.001)
        self._given += not observation.is_trial

    def _is_waited_for(self) -> bool:
        """With the answer before heard, which may still be on its way."""
        return self._bench.sim.answers == self._given and self._bench.sim.waiting_for == ANSWER


def run_policy(ros: Spinner, bench: SimBench, policy_node: Node) -> dict[str, str]:
    """Brings the policy node up, lets it command, and returns the status at the end of the episode."""
    ros.add(policy_node)
    change = bench.node.create_client(ChangeState, 'policy/change_state')
    for transition in (Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE):
        request = ChangeState.Request(transition=Transition(id=transition))
        assert bench.call(change, request).success
    start = bench.node.create_client(Trigger, 'policy/start')
    assert bench.call(start, Trigger.Request()).success
    eventually(
        lambda: bench.state() in ('succeeded', 'failed'), lambda: f'the end, now {bench.values()}', PATIENCE_S
    )
    return bench.values()


class Player:
    """Sends one row at once, and then one per row period since the robot began to move."""

    def __init__(self, ros: Spinner, bench: SimBench, rows: NDArray[np.float64]) -> None:
        self._bench, self._rows = bench, rows
        self._sent = 0
        self._now_ns = 0
        self.begin_ns = 0
        self._node = ros.add(Node('player', context=ros.context))
        self._node.create_subscription(Clock, '/clock', self._on_clock, 100)
        self._node.create_subscription(DiagnosticStatus, 'sim_robot/status', self._on_status, LATCHED)

    def _on_clock(self, message: Clock) -> None:
        self._now_ns = stamp_ns(message.clock)
        self._play()

    def _on_status(self, message: DiagnosticStatus) -> None:
        begin_s = {item.key: item.value for item in message.values}['begin_s']
        self.begin_ns = round(float(begin_s or 0) * 1e9)
        self._play()

    def _play(self) -> None:
        is_due = self.begin_ns and self._now_ns >= self.begin_ns + self._sent * PERIOD_NS
        if is_due or (self._now_ns and not self._sent):
            self._sent += 1
            self._bench.command(self._rows[min(self._sent, len(self._rows) - 1)])
