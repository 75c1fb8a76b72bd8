# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The clocks of the node: one that stamps, one that measures, and what happens when the first one jumps."""

import time
from collections.abc import Callable

from rclpy.clock import Clock, ClockType, JumpThreshold, TimeJump
from rclpy.duration import Duration
from rclpy.node import Node

from flashrt_ros.inputs import FORWARD_JUMP_S, Moment, StepWatch

_PATIENCE_S = 3.0  # simulated time without a clock is reported after this
_BACKWARD_STEP_S = 0.2  # of the system clock; a smaller one is past before it matters
_TOGETHER_S = 0.1  # in which both times are read; else the process was stopped between them


class NodeClock:
    """Tells both times together, and reports every jump with its seconds."""

    def __init__(self, node: Node, on_jump: Callable[[float], None]) -> None:
        self._ros = node.get_clock()
        self._on_jump = on_jump
        self._born_s = time.monotonic()
        self.steady = Clock(clock_type=ClockType.STEADY_TIME)
        threshold = JumpThreshold(
            min_forward=Duration(seconds=FORWARD_JUMP_S), min_backward=Duration(nanoseconds=-1)
        )
        self._jumps = self._ros.create_jump_callback(threshold, post_callback=self._note_jump)
        self._steps = StepWatch(self.now())

    def now(self) -> Moment:
        return Moment(self._ros.now().nanoseconds, time.monotonic_ns())

    @property
    def pacing(self) -> Clock:
        """What paces commands: simulated time, as fast as it runs, otherwise the clock that never steps."""
        return self._ros if self._ros.ros_time_is_active else self.steady

    def pacing_s(self) -> float:
        return self.pacing.now().nanoseconds / 1e9

    def watch(self) -> None:
        """To be called often: rclpy reports jumps of simulated time only."""
        if self._ros.ros_time_is_active:
            self._steps = StepWatch(self.now())
            return
        begun_s = time.monotonic()
        now = self.now()
        if now.steady_s - begun_s > _TOGETHER_S:  # it would look like a step back
            return
        step_s = self._steps.step_s(now)
        if step_s < -_BACKWARD_STEP_S or step_s > FORWARD_JUMP_S:
            self._on_jump(step_s)

    def is_missing(self) -> bool:
        """Whether time is simulated and nobody has told it for a while."""
        is_silent = self._ros.ros_time_is_active and self._ros.now().nanoseconds == 0
        return is_silent and time.monotonic() - self._born_s > _PATIENCE_S

    def _note_jump(self, jump: TimeJump) -> None:
        self._on_jump(jump.delta.nanoseconds / 1e9)
