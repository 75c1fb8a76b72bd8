# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The two clocks of the node, read together, and why an input was not used."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Moment:
    """One instant on the clock that stamps messages and on the clock that measures durations."""

    ros_ns: int  # comparable with header stamps; simulated when the node runs on simulated time
    steady_ns: int  # never jumps


class Rejected(ValueError):
    """A message that is not used: `reason` is a word to count by, the text has names and numbers."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
