# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Publishes recorded messages at their original pace: stamps moved to now, or kept, with /clock beside.

A recording that holds /clock was made on simulated time, which is then played as it was, jumps and all.
"""

import importlib
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator, Set

from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from rclpy.timer import Timer
from rosgraph_msgs.msg import Clock

from flashrt_ros.bag import Bag
from flashrt_ros.bag_inputs import CLOCK_TOPIC, CLOCK_TYPE
from flashrt_ros.conversions import stamp_ns, time_message

_CLOCK_PERIOD_S = 0.01
_STANDING_PERIOD_S = 0.05
_LEAD_NS = 1_000_000_000  # simulated time before the first message, for the node to be activated in
_PAUSE_S = 0.1  # of this process; from then on nothing is caught up on
_DEPTH = 10
_SECONDS_END = 1 << 31  # of a stamp


def message_class(message_type: str) -> type:
    """'sensor_msgs/msg/Image' -> its class; ImportError or AttributeError where it is not installed."""
    package, kind, name = message_type.split('/')
    return getattr(importlib.import_module(f'{package}.{kind}'), name)


def is_installed(message_type: str) -> bool:
    try:
        message_class(message_type)
    except (ImportError, AttributeError, ValueError):
        return False
    return True


def restamp(cdr: bytes, offset_ns: int) -> bytes:
    """Moves the stamp of a serialised message that begins with a header; a zero stamp stays zero.

    What is too short for a header stays as it is, as does a stamp that would be beyond what the message can
    hold: the node is the one to refuse them.
    """
    if len(cdr) < 12:
        return cdr
    layout = '<iI' if cdr[1] & 1 else '>iI'  # second byte of the encapsulation: little or big endian
    seconds, nanoseconds = struct.unpack_from(layout, cdr, 4)
    if not seconds and not nanoseconds:
        return cdr
    moved = bytearray(cdr)
    stamp = divmod(seconds * 1_000_000_000 + nanoseconds + offset_ns, 1_000_000_000)
    if not -_SECONDS_END <= stamp[0] < _SECONDS_END:
        return cdr
    struct.pack_into(layout, moved, 4, *stamp)
    return bytes(moved)


class BagPlayer:
    """Publishers for the chosen topics of a recording, all of which hold messages with headers."""

    def __init__(self, node: Node, bag: Bag, topics: Set[str], simulated_time: bool) -> None:
        self._node = node
        self._bag = bag
        self.published: Counter[str] = Counter()  # by topic
        self._publishers = {
            topic: node.create_publisher(
                message_class(bag.topics[topic]),
                topic,
                QoSProfile(
                    depth=_DEPTH,
                    reliability=ReliabilityPolicy.BEST_EFFORT
                    if topic in bag.best_effort
                    else ReliabilityPolicy.RELIABLE,
                ),
            )
            for topic in sorted(topics)
        }
        self._clock = node.create_publisher(Clock, CLOCK_TOPIC, 10) if simulated_time else None
        self._has_own_clock = bag.topics.get(CLOCK_TOPIC) == CLOCK_TYPE  # it was recorded on simulated time
        self._standing: Timer | None = None

    def is_connected(self) -> bool:
        """Every topic has a subscriber."""
        return all(publisher.get_subscription_count() for publisher in self._publishers.values())

    def begin_clock(self) -> None:
        """Simulated time stands still a little before the recording until play() is called."""
        if self._clock:
            standing_ns = max(self._first_time_ns() - _LEAD_NS, 1)
            self._standing = self._node.create_timer(
                _STANDING_PERIOD_S, lambda: self._publish_clock(standing_ns)
            )

    def is_clock_heard(self) -> bool:
        """Without --clock there is nothing to hear."""
        return self._clock is None or self._clock.get_subscription_count() > 0

    def play(self, on_message: Callable[[int], None]) -> None:
        """Blocks for as long as the recording lasts.

        After a pause it goes on from there, as a robot does: all that is overdue at once would be more than
        the queues of the node hold.
        """
        if self._standing:
            self._standing.cancel()
        first_ns = self._bag.start_ns
        start_s = time.monotonic()
        offset_ns = 0 if self._clock else self._node.get_clock().now().nanoseconds - first_ns
        for message in self._bag.messages():
            is_clock = message.topic == CLOCK_TOPIC and self._has_own_clock and self._clock is not None
            if message.topic not in self._publishers and not is_clock:
                continue
            due_s = start_s + (message.log_ns - first_ns) / 1e9
            for passed_s in _wait_until(due_s):
                self._tick(first_ns + round((passed_s - start_s) * 1e9))
            if (late_s := time.monotonic() - due_s) > _PAUSE_S:
                start_s += late_s
                offset_ns += 0 if self._clock else round(late_s * 1e9)
            if is_clock:
                self._clock.publish(message.cdr)
                continue
            self._tick(message.log_ns)
            self._publishers[message.topic].publish(restamp(message.cdr, offset_ns))
            self.published[message.topic] += 1
            on_message(message.log_ns)

    def _first_time_ns(self) -> int:
        """Of the recorded clock, or of the log."""
        if self._has_own_clock:
            for message in self._bag.messages():
                if message.topic == CLOCK_TOPIC:
                    return stamp_ns(deserialize_message(message.cdr, Clock).clock)
        return self._bag.start_ns

    def _tick(self, log_ns: int) -> None:
        """The time of the log is the clock where the recording has none of its own."""
        if not self._has_own_clock:
            self._publish_clock(log_ns)

    def _publish_clock(self, now_ns: int) -> None:
        if self._clock:
            self._clock.publish(Clock(clock=time_message(now_ns)))


def _wait_until(due_s: float) -> Iterator[float]:
    """Sleeps, and yields the time at every tick of the clock on the way."""
    while (remaining_s := due_s - time.monotonic()) > 0:
        time.sleep(min(remaining_s, _CLOCK_PERIOD_S))
        if (now_s := time.monotonic()) < due_s:
            yield now_s
