# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The lifecycle node `policy`: connects sensor topics to a policy and a policy to action topics."""

import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from rclpy.lifecycle import LifecycleNodeMixin, LifecycleState, TransitionCallbackReturn
from rclpy.node import Node
from rclpy.timer import Timer
from std_srvs.srv import Trigger

from flashrt_ros import computer, garbage_collector
from flashrt_ros.chunk_player import Command
from flashrt_ros.command_limits import ChunkRefused
from flashrt_ros.configured import CLOSE_TIMEOUT_S, Configured
from flashrt_ros.conversions import Frame, action_chunk_message, image_message, joint_sample, stamp_ns
from flashrt_ros.description_topic import receive_limits
from flashrt_ros.device_watch import DeviceWatch
from flashrt_ros.grippers import GripperMap
from flashrt_ros.health import Health, Situation, Throttle
from flashrt_ros.history import LookBack
from flashrt_ros.inputs import Rejected
from flashrt_ros.latency import LatencyRecorder
from flashrt_ros.load import LoadPolicy, load_policy, prepare
from flashrt_ros.motion import Inputs, Motion
from flashrt_ros.node_clock import NodeClock
from flashrt_ros.node_parameters import NodeParameters
from flashrt_ros.observations import ObservationBuffer
from flashrt_ros.outputs import OutputMap
from flashrt_ros.parameters import read_parameters
from flashrt_ros.run import run_node
from flashrt_ros.status import PERIOD_S, StatusReporter
from flashrt_ros.stop_latch import StopLatch
from flashrt_ros.topics import CommandPublisher, Topics
from flashrt_ros.training_range import compare_ranges
from flashrt_ros.transitions import refuse_unknown_transitions
from flashrt_ros.worker import InferenceResult, InferenceWorker, WorkerSeams


class PolicyNode(LifecycleNodeMixin, Node):
    """Configured: loaded and warm. Active: receiving, inferring, publishing chunks. ~/start: commanding."""

    def __init__(
        self,
        load: LoadPolicy = load_policy,
        publish_commands: Callable[..., CommandPublisher] = CommandPublisher,
        **node_options: Any,
    ) -> None:
        Node.__init__(self, 'policy', allow_undeclared_parameters=True, **node_options)
        self._group = ReentrantCallbackGroup()  # status and get_state answer while configure loads
        LifecycleNodeMixin.__init__(self, callback_group=self._group)
        refuse_unknown_transitions(self)
        self._load, self._publish_commands = load, publish_commands
        self._parts: Configured | None = None
        self._latch = StopLatch()  # outlives a configuration: what was pressed stays pressed
        # Held from the decision what to send until it is sent: no command overtakes a stop.
        self._commanding = threading.RLock()
        self._state, self._progress, self._fault = 'unconfigured', '', ''
        self._throttle = Throttle()
        self._settings = NodeParameters(self)
        self._settings.guard(lambda: self._state, {'prompt': self._set_prompt})
        services = {
            'start': self._on_start,
            'stop': self._on_stop,
            'reset': self._on_reset,
            'estop_reset': self._on_estop_reset,
        }
        for name, handler in services.items():
            self.create_service(Trigger, f'~/{name}', handler, callback_group=self._group)
        self._time = NodeClock(self, self._begin_afresh)
        self._status = StatusReporter(self, self._situation, self._health)
        often = (self._status.publish_changes, self._time.watch)
        for period_s, task in ((PERIOD_S, self._status.publish_all), *((0.1, task) for task in often)):
            self.create_timer(period_s, task, callback_group=self._group, clock=self._time.steady)

    # Lifecycle

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._state, self._fault = 'configuring', ''
        try:
            self._parts = self._configure()
        except Exception as error:  # whatever it is, the node stays and can be tried again
            self._note_fault('configure', error)
            self._state = 'unconfigured'
            return TransitionCallbackReturn.FAILURE
        self._state = 'inactive'
        return TransitionCallbackReturn.SUCCESS

    def _configure(self) -> Configured:
        self._progress = 'reading parameters'
        parameters, warnings = read_parameters(self._settings.values(), self.get_fully_qualified_name())
        self._log_warnings(warnings)
        self._progress = 'reading the limits of the joints'
        limits = receive_limits(self, parameters)
        with ExitStack() as undo:  # what fails must leave nothing behind
            prepared = computer.prepare(parameters)
            undo.callback(prepared.close)
            self._progress = f'loading {parameters.checkpoint}'
            policy = self._load(parameters)
            self._progress = 'warming up'
            prompt_id = prepare(policy, parameters)
            self._log_warnings(filter(None, [policy.info().get('warnings')]))
            self._log_warnings(compare_ranges(parameters, limits, policy.action_range()))
            look_back = LookBack.of(policy.spec, parameters)
            observations = ObservationBuffer(parameters, self._warn, look_back)
            self._latch.configure(parameters.estop_required, parameters.estop_timeout_s)
            motion = Motion(parameters, limits, policy.spec, self._latch, self._warn, self._time.pacing_s)
            # A latched prompt arrives as soon as the topics exist: the worker is there before.
            worker = InferenceWorker(
                policy, observations, GripperMap(parameters), self._seams(motion), parameters, prompt_id
            )
            undo.callback(worker.close, CLOSE_TIMEOUT_S)
            callbacks = (self._on_frame, self._on_joints, worker.request_prompt, self._on_estop)
            topics = Topics(self, parameters, *callbacks)
            undo.callback(topics.destroy)
            commands = self._publish_commands(self, parameters, motion.limits, parameters.dry_run)
            undo.callback(commands.destroy)
            self._control_timer = self._make_control_timer(1 / parameters.control_rate_hz)
            undo.callback(self.destroy_timer, self._control_timer)
            prepared.lock_memory()
            undo.pop_all()
        return Configured(
            parameters=parameters,
            policy=policy,
            observations=observations,
            motion=motion,
            outputs=OutputMap(parameters),
            worker=worker,
            latency=LatencyRecorder(),
            topics=topics,
            commands=commands,
            computer=prepared,
            device=DeviceWatch(parameters.backend, parameters.device),
        )

    def _seams(self, motion: Motion) -> WorkerSeams:
        return WorkerSeams(
            now=self._time.now,
            wants_chunk=motion.wants_chunk,
            mark=motion.mark,
            prefix=motion.prefix,
            prompt_changed=motion.prompt_changed,
            deliver=self._on_chunk,
            log_error=self.get_logger().error,
        )

    def _make_control_timer(self, period_s: float) -> Timer:
        group = MutuallyExclusiveCallbackGroup()
        return self.create_timer(period_s, self._on_control_tick, group, self._time.pacing)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        parts = self._parts
        with self._commanding:
            self._fault = ''
            try:
                parts.observations.reset(not_before_ns=self._time.now().ros_ns)
                self._state = 'active'
                parts.worker.activate()
                garbage_collector.freeze()
                if parts.parameters.start_on_activate and (refusal := self._start(parts)):
                    self.get_logger().warning(f'not started: {refusal}')
            except Exception as error:  # rclpy would hide it and go on to on_error
                self._note_fault('activate', error)
                parts.worker.deactivate()
                garbage_collector.unfreeze()
                self._state = 'inactive'
                return TransitionCallbackReturn.FAILURE
        return TransitionCallbackReturn.SUCCESS

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        try:
            with self._commanding:
                self._state = 'inactive'
                self._stop_commanding()
            self._parts.worker.deactivate()
            garbage_collector.unfreeze()
        except Exception as error:  # rclpy would hide it
            self._note_fault('deactivate', error)
            return TransitionCallbackReturn.ERROR  # frees everything: a node that cannot stop must not go on
        return TransitionCallbackReturn.SUCCESS

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._fault = ''
        self._free()
        return TransitionCallbackReturn.SUCCESS

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        self.release()
        self._state = 'finalized'
        return TransitionCallbackReturn.SUCCESS

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._free()
        return TransitionCallbackReturn.SUCCESS

    def _note_fault(self, transition: str, error: Exception) -> None:
        """For log and status, until the next transition that succeeds."""
        self._fault = f'{transition} failed: {error or type(error).__name__}'
        self.get_logger().error(self._fault)

    def _free(self) -> None:
        if not self.release():
            self.get_logger().warning('an inference still runs; its memory is freed when it ends')
        self._state = 'unconfigured'

    def release(self) -> bool:
        """Sends the safe reaction and frees everything; False when work in other threads goes on."""
        with self._commanding:
            self._stop_commanding()
            parts, self._parts = self._parts, None
        if parts is None:
            return self._state != 'configuring'
        self.destroy_timer(self._control_timer)
        garbage_collector.unfreeze()
        return parts.release()

    # Data: callbacks store, the worker infers, the control timer plays

    def _on_frame(self, slot: str, read: Callable[[Any], Frame], message: Any) -> None:
        if (parts := self._parts) and self._state == 'active':
            if parts.observations.add_frame(
                slot, read(message), stamp_ns(message.header.stamp), self._time.now()
            ):
                parts.worker.notify()

    def _on_joints(self, topic: str, message: Any) -> None:
        if (parts := self._parts) and self._state == 'active':
            try:
                sample = joint_sample(message)
            except Rejected as rejected:
                parts.observations.reject(topic, rejected)
                return
            if parts.observations.add_joints(topic, sample, stamp_ns(message.header.stamp), self._time.now()):
                parts.worker.notify()

    def _on_chunk(self, result: InferenceResult) -> None:
        """In the worker: a chunk is ready."""
        if (parts := self._parts) is None:
            return
        parts.latency.note_result(result)
        parts.motion.accept(result.to_play(), result.mark)
        parts.topics.action_chunk.publish(action_chunk_message(result, parts.parameters))
        if parts.topics.model_input.get_subscription_count():
            views = parts.policy.model_images(result.observed.observation)
            parts.topics.model_input.publish(image_message(views, result.observed.stamp_ns))

    def _on_control_tick(self) -> None:
        with self._commanding:
            if (parts := self._parts) and self._state == 'active':
                try:
                    self._control(parts)
                except Exception as error:  # whatever it is, the robot is stopped and the node lives
                    why = f'control failed: {error or type(error).__name__}'
                    self._warn('control', 'failed', why)
                    self._override(parts, why)

    def _override(self, parts: Configured, why: str) -> None:
        """Ends the run; a publisher that fails again is reported, and the others have the override."""
        try:
            self._send(parts, parts.motion.refuse(why))
        except Exception as error:
            self._warn(
                'control',
                'override',
                f'not every controller has the override: {error or type(error).__name__}',
            )

    def _control(self, parts: Configured) -> None:
        parts.computer.enter_control()
        now = self._time.now()
        has_stop = parts.parameters.estop_required and parts.topics.has_stop_publisher()
        inputs = Inputs.read(parts.observations, now, has_stop)
        self._send(parts, parts.motion.tick(now.steady_s, inputs))

    def _send(self, parts: Configured, command: Command | None) -> None:
        if command is None:
            return
        try:
            parts.commands.send(parts.outputs.split(command), parts.motion.anchor, self._time.now())
        except ChunkRefused as refused:  # whatever was wrong before: this number leaves the node nowhere
            why = f'command refused before publishing: {refused}'
            self.get_logger().error(why)
            # What was sent before is overridden; the override of a refused override is none.
            self._send(parts, parts.motion.refuse(why))
            return
        parts.motion.note_sent()
        parts.latency.note_command(command.chunk_id, self._time.now())

    def _stop_commanding(self) -> None:
        with self._commanding:
            if parts := self._parts:
                self._send(parts, parts.motion.stop())

    def _on_estop(self, is_pressed: bool) -> None:
        """In every state and whatever inference does: the override leaves at once."""
        with self._commanding:
            now_s = self._time.now().steady_s
            if parts := self._parts:
                self._send(parts, parts.motion.press_stop(is_pressed, now_s))
            else:  # a latched stop comes while configure is not at its end
                self._latch.message(is_pressed, now_s)

    # Services, prompt, clock

    def _on_start(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        with self._commanding:
            parts = self._parts
            if parts is None or self._state != 'active':
                return _answer(response, False, f'the node is {self._state}; activate it first')
            if refusal := self._start(parts):
                return _answer(response, False, refusal)
        return _answer(response, True, 'commanding begins with the next chunk')

    def _start(self, parts: Configured) -> str:
        """Why not, or nothing: nobody starts what could not be stopped."""
        if not parts.motion.is_running:
            parts.observations.forget_past()
        return parts.stop_fault() or parts.motion.start()

    def _on_estop_reset(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        with self._commanding:
            if refusal := self._latch.reset(self._time.now().steady_s):
                return _answer(response, False, refusal)
        return _answer(response, True, 'the stop is no longer latched; call ~/start to command')

    def _on_stop(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._stop_commanding()
        return _answer(response, True, 'not commanding')

    def _on_reset(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        if self._parts is None or self._state != 'active':
            return _answer(response, True, f'the node is {self._state}: there is nothing to clear')
        self._restart()
        return _answer(response, True, 'chunk and random state are cleared')

    def _restart(self) -> None:
        """A fresh run that commands if the one before did."""
        with self._commanding:
            if (parts := self._parts) and self._state == 'active':
                was_running = parts.motion.is_running
                self._stop_commanding()
                parts.worker.reset()
                if was_running and (refusal := self._start(parts)):
                    self.get_logger().warning(f'not started again: {refusal}')

    def _set_prompt(self, text: str) -> None:
        if parts := self._parts:
            parts.worker.request_prompt(text)

    def _begin_afresh(self, jump_s: float) -> None:
        if parts := self._parts:
            self.get_logger().warning(f'the clock jumped by {jump_s:.3f} s; starting afresh')
            parts.observations.reset()
            self._restart()

    # Reports

    def _warn(self, stream: str, reason: str, text: str) -> None:
        if self._throttle.passes((stream, reason), time.monotonic()):
            self.get_logger().warning(text)

    def _log_warnings(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.get_logger().warning(text)

    def _is_waiting_for_clock(self) -> bool:
        is_waiting = self._time.is_missing()
        if is_waiting:
            self._warn('clock', 'silent', 'use_sim_time is true, but nothing is published on /clock')
        return is_waiting

    def _situation(self) -> Situation:
        parts, waits = self._parts, self._is_waiting_for_clock()
        situation = Situation(self._state, self._progress, self._fault, waits)
        return situation if parts is None else parts.situation(situation, self._time.now())

    def _health(self) -> Health:
        situation, parts = self._situation(), self._parts
        return Health(situation) if parts is None else parts.health(situation, self._time.now())


def _answer(response: Trigger.Response, is_success: bool, message: str) -> Trigger.Response:
    response.success, response.message = is_success, message
    return response


def main() -> int:
    return run_node(PolicyNode)


if __name__ == '__main__':
    sys.exit(main())
