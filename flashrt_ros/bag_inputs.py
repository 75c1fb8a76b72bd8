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
from flashrt_ros.inputs import Moment, Rejected
from flashrt_ros.observations import NotReady, ObservationBuffer, Observed, Report
from flashrt_ros.parameters import Parameters
from flashrt_ros.report import StreamCounts

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


def stream_counts(topic: str, recorded: int, counters: dict[str, int], is_camera: bool) -> StreamCounts:
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
    """The observation buffer of a node, fed on the time of a recording."""

    def __init__(self, parameters: Parameters, report: Report) -> None:
        self.buffer = ObservationBuffer(parameters, report)
        self._streams = input_topics(parameters)
        self._slots = {camera.slot for camera in parameters.cameras}
        self._recorded: Counter[str] = Counter()

    @property
    def messages(self) -> int:
        """How many were fed so far."""
        return self._recorded.total()

    def take(self, message: BagMessage) -> bool:
        """True when the message is wanted and was usable."""
        stream = self._streams.get(message.topic)
        if stream is None:
            return False
        self._recorded[stream] += 1
        now = Moment(message.log_ns, message.log_ns)
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

    def counts(self, now_ns: int) -> dict[str, StreamCounts]:
        return {
            health.name: stream_counts(
                health.topic, self._recorded[health.name], dict(health.counters), health.name in self._slots
            )
            for health in self.buffer.health(Moment(now_ns, now_ns))
        }


def observations(bag: Bag, parameters: Parameters, prompt_id: int) -> Iterator[Observed]:
    """Every observation that the recording gives, one per new picture."""
    inputs = BagInputs(parameters, lambda *_: None)
    for message in bag.messages():
        if not inputs.take(message):
            continue
        now = Moment(message.log_ns, message.log_ns)
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
