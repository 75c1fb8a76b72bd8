# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The two clocks of the node, read together, and why an input was not used."""

from dataclasses import dataclass

FORWARD_JUMP_S = 5.0  # a step of the clock beyond this begins a new recording


@dataclass(frozen=True)
class Moment:
    """One instant on the clock that stamps messages and on the clock that measures durations."""

    ros_ns: int  # comparable with header stamps; simulated when the node runs on simulated time
    steady_ns: int  # never jumps

    @property
    def steady_s(self) -> float:
        return self.steady_ns / 1e9


class StepWatch:
    """Finds steps of the clock of this machine; ROS reports jumps of simulated time only."""

    def __init__(self, now: Moment) -> None:
        self._offset_ns = now.ros_ns - now.steady_ns

    def step_s(self, now: Moment) -> float:
        """How far the clock was set since the last call."""
        before_ns, self._offset_ns = self._offset_ns, now.ros_ns - now.steady_ns
        return (self._offset_ns - before_ns) / 1e9


class Rejected(ValueError):
    """A message that is not used: `reason` is a word to count by, the text has names and numbers."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
