# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""A robot in one process: two controllers that follow commands, and two publishers of joint states.

It is told on standard input: mute (the arm sends no joint states), nan (one joint is no number), go, shift
SECONDS (of stamps and clock), leave (neither reports nor follows any more), at POSITIONS (begins there, if it
was started with --waiting), count. Each answer holds the stamp of the last joint states of the arm, where all
joints are, how many messages were sent, and whether the robot is heard and has heard commands.
"""

import argparse
import math
import sys
import threading
import time
from collections.abc import Sequence

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from flashrt_core.errors import Error
from flashrt_ros.conversions import time_message
from flashrt_ros.soak.child import Answer, Parent
from flashrt_ros.soak.configuration import ARM, ARM_TOPIC, HAND, HAND_TOPIC, JOINT_TOPIC, REST
from flashrt_ros.soak.trajectory_follower import TrajectoryFollower

_RATE_HZ = 100.0  # of the clock; the arm reports every second time, the hand every fourth
_ARM_EVERY, _HAND_EVERY = 2, 4
_HAND_S = 0.02  # in which the hand reaches its target
_NAN_JOINT = 2  # column of the arm


class Robot:
    """Follows and reports; whatever is told takes effect between two reports."""

    def __init__(self, node: Node, has_clock: bool, is_waiting: bool) -> None:
        self._lock = threading.Lock()
        self._place(REST)
        self._is_waiting = is_waiting  # neither reports nor follows
        self._is_mute = self._is_nan = False
        self._shift_ns = self._stamp_ns = self._sent = self._heard = 0
        node.create_subscription(JointTrajectory, ARM_TOPIC, self._on_arm, QoSProfile(depth=1))
        node.create_subscription(Float64MultiArray, HAND_TOPIC, self._on_hand, QoSProfile(depth=1))
        self._publishers = [node.create_publisher(JointState, JOINT_TOPIC, 20) for _ in (ARM, HAND)]
        self._clock = node.create_publisher(Clock, '/clock', 10) if has_clock else None

    def _place(self, position: Sequence[float]) -> None:
        self._arm = TrajectoryFollower(position[: len(ARM)])
        self._hand = TrajectoryFollower(position[len(ARM) :])

    def _on_arm(self, message: JointTrajectory) -> None:
        columns = [message.joint_names.index(joint) for joint in ARM]
        due_s = [point.time_from_start.sec + point.time_from_start.nanosec / 1e9 for point in message.points]
        rows = [[point.positions[column] for column in columns] for point in message.points]
        with self._lock:
            self._heard += 1
            if self._is_waiting:
                return
            self._arm.follow(due_s, rows, self._now_s())

    def _on_hand(self, message: Float64MultiArray) -> None:
        with self._lock:
            if self._is_waiting:
                return
            self._hand.follow([_HAND_S], [message.data], self._now_s())

    def _now_s(self) -> float:
        """Of the clock that the controllers run on, which is shifted as simulated time is."""
        return time.monotonic() + self._shift_ns / 1e9

    def report(self, tick: int) -> None:
        with self._lock:
            now_ns = time.time_ns() + self._shift_ns
            if self._clock:
                self._clock.publish(Clock(clock=time_message(now_ns)))
            if self._is_waiting:
                return
            if tick % _ARM_EVERY == 0 and not self._is_mute:
                position = self._arm.position(self._now_s()).tolist()
                if self._is_nan:
                    position[_NAN_JOINT] = math.nan
                else:
                    self._stamp_ns = now_ns
                self._send(0, ARM, position, now_ns)
            if tick % _HAND_EVERY == 0:
                self._send(1, HAND, self._hand.position(self._now_s()).tolist(), now_ns)

    def _send(self, publisher: int, joints: tuple[str, ...], position: list[float], stamp_ns: int) -> None:
        message = JointState(name=joints, position=position)
        message.header.stamp = time_message(stamp_ns)
        self._publishers[publisher].publish(message)
        self._sent += 1

    def handle(self, line: str) -> Answer:
        word, *values = line.split()
        with self._lock:
            last_ns = self._stamp_ns - self._shift_ns
            match word, values:
                case 'mute' | 'nan' | 'go', []:
                    self._is_mute, self._is_nan = word == 'mute', word == 'nan'
                case 'shift', [seconds]:
                    self._shift_ns = round(float(seconds) * 1e9)
                case 'leave', []:
                    self._is_waiting = True
                case 'at', [*position] if len(position) == len(REST):
                    self._place([float(value) for value in position])
                    self._is_waiting = False
                case 'count', []:
                    pass
                case _:
                    raise Error('not understood')
            now_s = self._now_s()
            position = [*self._arm.position(now_s).tolist(), *self._hand.position(now_s).tolist()]
            is_matched = all(publisher.get_subscription_count() for publisher in self._publishers)
            return {
                'last_ns': last_ns,
                'now_ns': time.time_ns(),
                'position': position,
                'sent': {JOINT_TOPIC: self._sent},
                'is_connected': is_matched and self._heard > 0,
            }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--waiting', action='store_true', help='do nothing until it is told where to begin')
    parser.add_argument('--clock', action='store_true', help='publish simulated time')
    parser.add_argument('--shift', type=float, default=0.0, help='seconds to add to each stamp')
    options = parser.parse_args()
    rclpy.init(args=[])
    node = Node('soak_robot')
    robot = Robot(node, options.clock, options.waiting)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    parent = Parent(robot.handle)
    parent.listen(robot.handle(f'shift {options.shift}'))
    due_s, tick = time.monotonic(), 0
    while not parent.is_gone.is_set():
        while (rest_s := due_s - time.monotonic()) > 0:
            executor.spin_once(timeout_sec=rest_s)
        robot.report(tick)
        due_s, tick = max(due_s + 1 / _RATE_HZ, time.monotonic()), tick + 1
    executor.shutdown()
    node.destroy_node()
    rclpy.shutdown()
    return 0


if __name__ == '__main__':
    sys.exit(main())
