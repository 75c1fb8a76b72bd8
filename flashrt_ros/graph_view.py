# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What was seen of a running robot: topics with who is at their ends, messages, and controllers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Endpoint:
    """A publisher or subscription of another node."""

    node: str  # full name
    type: str  # of the messages
    qos_fault: str = ''  # why it cannot be connected with the policy node, in the words of the middleware


@dataclass(frozen=True)
class InputView:
    """A topic that the policy node subscribes to."""

    topic: str  # absolute
    kind: Literal['camera', 'joints', 'estop']
    stream: str  # camera slot, or the topic as the parameters write it
    type: str  # wanted
    publishers: tuple[Endpoint, ...] = ()
    messages: int = 0  # received while counted
    counted_s: float = 1.0
    recent: tuple[Any, ...] = ()  # messages, the newest last; of a camera just that one
    receive_ns: int = 0  # of the newest, on the clock of this computer


@dataclass(frozen=True)
class OutputView:
    """A topic that the policy node commands on."""

    topic: str  # absolute
    output: str  # in outputs.names
    type: str
    subscribers: tuple[Endpoint, ...] = ()
    other_publishers: tuple[str, ...] = ()  # nodes that command, too
    parameters: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict
    )  # subscriber -> name -> value


@dataclass(frozen=True)
class GraphView:
    """Everything, at one moment."""

    middleware: str
    domain: int
    nodes: tuple[str, ...]  # full names of others
    inputs: tuple[InputView, ...]
    outputs: tuple[OutputView, ...]
    description_topic: str
    description: str | None  # URDF
    has_clock: bool  # somebody publishes simulated time
