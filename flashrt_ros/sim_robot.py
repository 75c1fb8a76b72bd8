# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The node `sim_robot`: the simulated tabletop as a robot with two controllers, two cameras and a clock.

Time passes from the start, things move from the first trajectory on: a policy may take as long as it likes to
begin. ~/reset puts the parameters seed, task, start, pace and delay_s into effect; ~/ask puts task alone into
effect, in the scene as it is.
"""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import rclpy
from diagnostic_msgs.msg import DiagnosticStatus
from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from flashrt_core.errors import Error
from flashrt_ros.conversions import time_message
from flashrt_ros.msg import ActionChunk
from flashrt_ros.parameter_table import keys_of
from flashrt_ros.qos import CAMERA_DEPTH, JOINT_DEPTH, LATCHED
from flashrt_ros.sim_messages import (
    compressed_message,
    joint_message,
    pictures_stamp,
    raw_message,
    read_gripper,
    read_trajectory,
    status_message,
)
from flashrt_ros.sim_settings import FIXED, LOCKSTEP, SimSettings, read_settings
from flashrt_ros.tabletop.arm import ARM_JOINTS, GRIPPER, ROW_PERIOD_S
from flashrt_ros.tabletop.judge import FAILED, RUNNING
from flashrt_ros.tabletop.lockstep import ANSWER, COMMANDS, Lockstep
from flashrt_ros.tabletop.pictures import Pictures
from flashrt_ros.tabletop.robot import TICK_S, SimulatedRobot
from flashrt_ros.tabletop.tasks import COLOURS, read_task
from flashrt_ros.tabletop.variation import CAMERAS, FRONT, Variation, draw_layout

ARM_TOPIC, GRIPPER_TOPIC = 'arm_controller/joint_trajectory', 'gripper_controller/commands'
JOINT_TOPIC, CHUNK_TOPIC = 'joint_states', 'policy/action_chunk'
ARM, HAND = 'arm', 'gripper'  # the controllers

_TICK_NS = round(TICK_S * 1e9)
_BEGIN_NS = 1_000_000_000  # a stamp of zero would be none
_ARM_EVERY, _HAND_EVERY = 2, 5  # ticks; both divide what is between two pictures
_STATUS_EVERY = 50  # ticks
_PATIENCE_S = {COMMANDS: 5.0, ANSWER: 30.0}  # on the wall, for what lockstep waits for
_SPIN_S = 0.005
_CATCH_UP_S = 0.05  # what is late by more, in real time, is not made up for
_VIEW_PX = 336  # for people: the front view, three times as wide as the policy sees it


class SimRobot(Node):
    """All callbacks run in the loop of `run`, between two ticks."""

    def __init__(self, **node_options: object) -> None:
        super().__init__('sim_robot', **node_options)
        for _, row, _ in keys_of(SimSettings):
            description = ParameterDescriptor(description=row.text, dynamic_typing=True)
            self.declare_parameter(row.name, row.default, description)
        self.settings = read_settings(self._values(), 'sim_robot')
        self.robot = SimulatedRobot(*self._scene())
        self._lockstep = self._new_lockstep()
        self.add_on_set_parameters_callback(self._check)
        self._tick, self._refused, self._given_up = 0, 0, 0
        self._begin_ns = 0  # of the episode, in simulated time; 0: nothing moves yet
        self._waiting_since_s: float | None = None  # on the wall, in lockstep
        self._published_state = ''

        self.create_subscription(JointTrajectory, ARM_TOPIC, self._on_arm, 1)
        self.create_subscription(Float64MultiArray, GRIPPER_TOPIC, self._on_gripper, 1)
        self.create_subscription(ActionChunk, CHUNK_TOPIC, self._on_chunk, 10)
        self.create_service(Trigger, '~/reset', self._on_reset)
        self.create_service(Trigger, '~/ask', self._on_ask)
        self._time = self.create_publisher(Clock, '/clock', 10)
        self._joints = {
            controller: self.create_publisher(JointState, JOINT_TOPIC, JOINT_DEPTH)
            for controller in (ARM, HAND)
        }
        kind, name, self._picture_message = {
            'raw': (Image, 'image_raw', raw_message),
            'compressed': (CompressedImage, 'image_raw/compressed', compressed_message),
        }[self.settings.transport]
        self._cameras = [
            self.create_publisher(kind, f'{camera}/{name}', QoSProfile(depth=CAMERA_DEPTH))
            for camera in CAMERAS
        ]
        self._view = self.create_publisher(CompressedImage, '~/view/compressed', 1)
        self._status = self.create_publisher(DiagnosticStatus, '~/status', LATCHED)

    # The loop

    def run(self, go_on: Callable[[], bool]) -> None:
        """Spins and ticks while go_on(). Pictures are drawn in the thread that calls this."""
        executor = SingleThreadedExecutor(context=self.context)
        executor.add_node(self)
        world = self.robot.world
        with Pictures(world) as pictures, Pictures(world, (FRONT,), _VIEW_PX) as view:
            due_s = time.monotonic()
            while go_on():
                if self._must_wait():
                    executor.spin_once(timeout_sec=_SPIN_S)
                    due_s = time.monotonic()
                    continue
                if not self._is_free():
                    if (rest_s := due_s - time.monotonic()) > 0:
                        executor.spin_once(timeout_sec=rest_s)
                        continue
                    due_s = max(due_s + TICK_S, time.monotonic() - _CATCH_UP_S)
                executor.spin_once(timeout_sec=0)
                if not self._must_wait():
                    self._pass_a_tick(pictures, view)
        executor.shutdown()

    def _is_free(self) -> bool:
        """Time passes as fast as the node under test keeps up."""
        return self.settings.pace == LOCKSTEP and self._has_begun and self._lockstep.is_engaged

    @property
    def waiting_for(self) -> str:
        """What keeps simulated time from passing: commands, answer, or nothing."""
        return self._lockstep.waits_for(self._now_ns) if self.settings.pace == LOCKSTEP else ''

    @property
    def answers(self) -> int:
        """Chunks that were heard since the reset."""
        return self._lockstep.answers

    def _must_wait(self) -> bool:
        what = self.waiting_for
        if not what:
            self._waiting_since_s = None
            return False
        self._waiting_since_s = self._waiting_since_s or time.monotonic()
        if time.monotonic() - self._waiting_since_s < _PATIENCE_S[what]:
            return True
        missing = self._lockstep.give_up(self._now_ns)
        self._given_up += 1
        self.get_logger().warning(f'lockstep: {missing} within {_PATIENCE_S[what]:g} s; time goes on without')
        self._waiting_since_s = None
        return False

    @property
    def _has_begun(self) -> bool:
        return self._begin_ns > 0

    @property
    def _now_ns(self) -> int:
        return _BEGIN_NS + self._tick * _TICK_NS

    def _pass_a_tick(self, pictures: Pictures, view: Pictures) -> None:
        if self._has_begun:
            self.robot.advance(1)
        self._tick += 1
        self._time.publish(Clock(clock=time_message(self._now_ns)))
        positions = self.robot.world.measured()
        if self._tick % _ARM_EVERY == 0:
            self._joints[ARM].publish(joint_message(ARM_JOINTS, positions[:-1], self._now_ns))
        if self._tick % _HAND_EVERY == 0:
            self._joints[HAND].publish(joint_message((GRIPPER,), positions[-1:], self._now_ns))
        if self._tick % self._picture_ticks == 0:
            for publisher, picture in zip(self._cameras, pictures.draw(), strict=True):
                publisher.publish(self._picture_message(picture, self._now_ns))
            self._lockstep.observed(self._now_ns)
            if self._view.get_subscription_count():
                self._view.publish(compressed_message(view.draw()[0], self._now_ns))
        if self._tick % _STATUS_EVERY == 0 or self._state != self._published_state:
            self._publish_status()

    # What is heard

    def _on_arm(self, message: JointTrajectory) -> None:
        def follow() -> None:
            due_s, rows = read_trajectory(message, ARM_JOINTS, self._now_ns)
            self.robot.command_arm(due_s, rows)

        if self._command(ARM, follow) and not self._has_begun:
            self._begin_ns = self._now_ns
            self._lockstep.expect(HAND, self._now_ns)  # the other half of the same command

    def _on_gripper(self, message: Float64MultiArray) -> None:
        self._command(HAND, lambda: self.robot.command_gripper(read_gripper(message)))

    def _command(self, controller: str, follow: Callable[[], None]) -> bool:
        try:
            follow()
        except Error as error:
            self._refused += 1
            self.get_logger().error(f'{controller}: {error}', throttle_duration_sec=5.0)
            return False
        self._lockstep.commanded(controller, self._now_ns)
        return True

    def _on_chunk(self, message: ActionChunk) -> None:
        self._lockstep.answered(pictures_stamp(message, (JOINT_TOPIC,)), self._now_ns)

    # Parameters and reset

    def _values(self) -> dict[str, object]:
        return {row.name: self.get_parameter(row.name).value for _, row, _ in keys_of(SimSettings)}

    def _check(self, parameters: list[Parameter]) -> SetParametersResult:
        wanted = {item.name: item.value for item in parameters if item.name in self._values()}
        if fixed := sorted(set(wanted) & set(FIXED)):
            return SetParametersResult(
                successful=False, reason=f'{", ".join(fixed)}: set at the start of the node'
            )
        try:
            read_settings(self._values() | wanted, 'sim_robot')
        except Error as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def _scene(self) -> tuple:
        settings = self.settings
        return draw_layout(settings.seed, Variation(settings.start)), read_task(settings.task)

    def _new_lockstep(self) -> Lockstep:
        self._picture_ticks = round(1 / (self.settings.camera_rate_hz * TICK_S))
        periods_ns = round(ROW_PERIOD_S * 1e9), self._picture_ticks * _TICK_NS
        return Lockstep(*periods_ns, round(self.settings.delay_s * 1e9))

    def _on_reset(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        """Always possible: stop the policy before, or its next command begins the episode."""
        self.settings = read_settings(self._values(), 'sim_robot')
        self.robot.reset(*self._scene())
        self._lockstep = self._new_lockstep()
        self._begin_ns, self._refused, self._given_up = 0, 0, 0
        self._publish_status()
        response.success, response.message = True, f'scene {self.settings.seed}: {self.settings.task}'
        return response

    def _on_ask(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        """Another task: nothing moves, and where things are now is where they were for it."""
        self.settings = replace(self.settings, task=read_settings(self._values(), 'sim_robot').task)
        self.robot.ask(read_task(self.settings.task))
        self._publish_status()
        response.success, response.message = True, f'from now on: {self.settings.task}'
        return response

    # What is said

    @property
    def _state(self) -> str:
        """waiting | running | succeeded | failed"""
        return self.robot.verdict.state if self._has_begun else 'waiting'

    def _publish_status(self) -> None:
        state, verdict = self._state, self.robot.verdict
        words = {
            'waiting': 'waiting for the first trajectory',
            RUNNING: f'running for {verdict.time_s:.2f} s: {verdict.why}',
        }.get(state, f'{state} after {verdict.time_s:.2f} s: {verdict.why}')
        level = 'error' if state == FAILED else 'ok'
        self._published_state = state
        values = self._status_values()
        self._status.publish(status_message(self.get_fully_qualified_name(), level, words, values))

    def _status_values(self) -> Mapping[str, object]:
        verdict, delays_ns = self.robot.verdict, self._lockstep.delays_ns
        return {
            'state': self._state,
            'task': self.settings.task,
            'seed': self.settings.seed,
            'why': verdict.why,
            'begin_s': f'{self._begin_ns / 1e9:.2f}' if self._has_begun else '',  # on /clock
            'time_s': f'{verdict.time_s:.2f}',
            'acted_on': '' if verdict.acted_on is None else COLOURS[verdict.acted_on],
            'pace': self.settings.pace,
            'clamped': self.robot.clamped,
            'refused': self._refused,
            'answers': self.answers,
            'given_up': self._given_up,  # times that lockstep went on without what it waited for
            # Of the inferences in lockstep: one that took less was ready before its delay had passed.
            'shortest_delay_s': f'{min(delays_ns) / 1e9:.2f}' if delays_ns else '',
            'longest_delay_s': f'{max(delays_ns) / 1e9:.2f}' if delays_ns else '',
        }


def main() -> int:
    rclpy.init(args=sys.argv)
    try:
        node = SimRobot()
    except Error as error:
        print(error, file=sys.stderr)
        return 1
    try:
        node.run(rclpy.ok)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    except Error as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        node.destroy_node()
        rclpy.try_shutdown()
    return 0


if __name__ == '__main__':
    sys.exit(main())
