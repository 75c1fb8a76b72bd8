# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Feeds the recorded messages that the node would subscribe to into an observation buffer, without ROS."""

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from rosbags.serde import SerdeError
from rosbags.typesys import Stores, get_typestore

from flashrt_ros.bag import Bag, BagMessage
from flashrt_ros.conversions import compressed_frame, joint_sample, raw_frame, stamp_ns
from flashrt_ros.history import NO_PAST, LookBack
from flashrt_ros.inputs import FORWARD_JUMP_S, Moment, Rejected
from flashrt_ros.observations import NotReady, ObservationBuffer, Observed, Report
from flashrt_ros.parameters import Parameters
from flashrt_ros.report import StreamCounts

CLOCK_TOPIC, CLOCK_TYPE = '/clock', 'rosgraph_msgs/msg/Clock'
_TYPES = get_typestore(Stores.ROS2_KILTED)
_FRAME_READERS = {
    'sensor_msgs/msg/Image': raw_frame,
    'sensor_msgs/msg/CompressedImage': compressed_frame,
}
_CAMERA_TYPES = {'raw': 'sensor_msgs/msg/Image', 'compressed': 'sensor_msgs/msg/CompressedImage'}
# Counters that say what became of a message, other than a refusal.
_NOT_REFUSED = frozenset({'received', 'used', 'superseded', 'waiting', 'partly_late', 'orientation_ignored'})


def is_known(message_type: str) -> bool:
    """Whether messages of this type can be read without ROS."""
    return message_type in _TYPES.types


def input_topics(parameters: Parameters) -> dict[str, str]:
    """Absolute topic -> name of the stream: a camera slot, or the joint topic as the parameters write it."""
    named = {camera.topic: camera.slot for camera in parameters.cameras}
    named |= {topic: topic for topic in parameters.joint_topics}
    return {_absolute(topic): stream for topic, stream in named.items()}


def input_types(parameters: Parameters) -> dict[str, str]:
    """Absolute topic -> type that the node subscribes with."""
    types = {_absolute(camera.topic): _CAMERA_TYPES[camera.transport] for camera in parameters.cameras}
    return types | {_absolute(topic): 'sensor_msgs/msg/JointState' for topic in parameters.joint_topics}


def _absolute(topic: str) -> str:
    return topic if topic.startswith('/') else f'/{topic}'


def stream_counts(
    topic: str, recorded: int | None, counters: dict[str, int], is_camera: bool
) -> StreamCounts:
    """The account of one stream from the counters of an observation buffer."""
    return StreamCounts(
        topic=topic,
        recorded=recorded,
        received=counters.get('received', 0),
        dropped={reason: count for reason, count in counters.items() if reason not in _NOT_REFUSED},
        used=counters.get('used', 0) if is_camera else None,
        superseded=counters.get('superseded', 0),
        waiting=counters.get('waiting', 0),
    )


class BagInputs:
    """The observation buffer of a node, fed on the time of a recording.

    That is the log time, or the simulated time of a recording that holds /clock. When that jumps, the buffer
    begins afresh, as it does in the node, and `on_jump` is told by how many seconds, and the log time.
    """

    def __init__(
        self,
        parameters: Parameters,
        report: Report,
        on_jump: Callable[[float, int], None] = lambda *_: None,
        look_back: LookBack = NO_PAST,
    ) -> None:
        self.buffer = ObservationBuffer(parameters, report, look_back)
        self._report = report
        self._on_jump = on_jump
        self._clock_ns: int | None = None  # None: no message of /clock has come
        self._streams = input_topics(parameters)
        self._slots = {camera.slot for camera in parameters.cameras}
        self._recorded: Counter[str] = Counter()

    @property
    def messages(self) -> int:
        """How many were fed so far."""
        return self._recorded.total()

    def moment(self, log_ns: int) -> Moment:
        """What the two clocks of the node would say."""
        return Moment(log_ns if self._clock_ns is None else self._clock_ns, log_ns)

    def take(self, message: BagMessage) -> bool:
        """True when the message is wanted and was usable."""
        if message.topic == CLOCK_TOPIC and message.type == CLOCK_TYPE:
            self._take_clock(message)
            return False
        stream = self._streams.get(message.topic)
        if stream is None:
            return False
        self._recorded[stream] += 1
        now = self.moment(message.log_ns)
        try:
            content = _deserialised(message)
            stamp = stamp_ns(content.header.stamp)
            if stream in self._slots:
                frame = _FRAME_READERS[message.type](content)
                return self.buffer.add_frame(stream, frame, stamp, now)
            return self.buffer.add_joints(stream, joint_sample(content), stamp, now)
        except Rejected as rejected:
            self.buffer.reject(stream, rejected)
            return False

    def _take_clock(self, message: BagMessage) -> None:
        try:
            clock_ns = stamp_ns(_deserialised(message).clock)
        except Rejected as rejected:
            self._report(CLOCK_TOPIC, rejected.reason, f'{CLOCK_TOPIC}: {rejected}')
            return
        before_ns, self._clock_ns = self._clock_ns, clock_ns
        if before_ns is None:  # what came before was on another time
            self.buffer.reset()
        elif not 0 <= clock_ns - before_ns <= FORWARD_JUMP_S * 1e9:
            self.buffer.reset()
            self._on_jump((clock_ns - before_ns) / 1e9, message.log_ns)

    def counts(self, now_ns: int) -> dict[str, StreamCounts]:
        return {
            health.name: stream_counts(
                health.topic, self._recorded[health.name], dict(health.counters), health.name in self._slots
            )
            for health in self.buffer.health(self.moment(now_ns))
        }


def observations(bag: Bag, parameters: Parameters, prompt_id: int) -> Iterator[Observed]:
    """Every observation that the recording gives, one per new picture."""
    inputs = BagInputs(parameters, lambda *_: None)
    for message in bag.messages():
        if not inputs.take(message):
            continue
        now = inputs.moment(message.log_ns)
        try:
            yield inputs.buffer.form(lambda now=now: now, prompt_id)
        except NotReady:
            continue


def _deserialised(message: BagMessage) -> Any:
    """Raises Rejected where the bytes are not a message of the type that the recording names."""
    try:
        return _TYPES.deserialize_cdr(message.cdr, message.type)
    except (SerdeError, ValueError, IndexError, struct.error) as error:
        raise Rejected(
            'damaged_message', f'{len(message.cdr)} bytes are no {message.type}: {error}'
        ) from None


def once_per_reason(warn: Callable[[str], None]) -> Report:
    """Reports the first refusal of each stream and reason; the counters tell how many there were."""
    seen: set[tuple[str, str]] = set()

    def report(stream: str, reason: str, text: str) -> None:
        if (stream, reason) not in seen:
            seen.add((stream, reason))
            warn(text)

    return report
