# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Writes down what leaves the node, in a process of its own: commands, chunks, status."""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from flashrt_core.errors import Error
from flashrt_ros.conversions import stamp_ns
from flashrt_ros.msg import ActionChunk
from flashrt_ros.replay_setup import NODE_NAME
from flashrt_ros.soak.child import Answer, Parent
from flashrt_ros.soak.configuration import ARM_TOPIC, HAND_TOPIC
from flashrt_ros.soak.journal import Entry, JournalWriter, SentChunk, SentCommand, SentStatus

_DEPTH = 1000  # a busy machine may delay the recorder, not make it miss a message
_LATCHED = QoSProfile(depth=_DEPTH, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def record(node: Node, writer: JournalWriter) -> None:
    """Subscribes, and writes one entry per message; times and numbers are those of the middleware."""

    def subscribe(kind: type, topic: str, make: Callable[[Any, Any], Entry], qos: QoSProfile | int) -> None:
        # rclpy looks at the number of arguments: with two it gives the information of the middleware.
        def write(message: Any, info: Any) -> None:
            writer.write(make(message, info))

        node.create_subscription(kind, topic, write, qos)

    subscribe(JointTrajectory, ARM_TOPIC, partial(trajectory_entry, ARM_TOPIC), _DEPTH)
    subscribe(Float64MultiArray, HAND_TOPIC, partial(array_entry, HAND_TOPIC), _DEPTH)
    subscribe(ActionChunk, f'{NODE_NAME}/action_chunk', chunk_entry, _DEPTH)
    subscribe(DiagnosticStatus, f'{NODE_NAME}/status', status_entry, _LATCHED)


def _understand_nothing(line: str) -> Answer:
    raise Error('not understood')


def trajectory_entry(topic: str, message: JointTrajectory, info: Any) -> Entry:
    due = [point.time_from_start for point in message.points]
    return SentCommand(
        topic,
        info['source_timestamp'],
        info['received_timestamp'],
        info['publication_sequence_number'] or 0,
        tuple(message.joint_names),
        tuple(time.sec + time.nanosec / 1e9 for time in due),
        tuple(tuple(point.positions) for point in message.points),
    )


def array_entry(topic: str, message: Float64MultiArray, info: Any) -> Entry:
    return SentCommand(
        topic,
        info['source_timestamp'],
        info['received_timestamp'],
        info['publication_sequence_number'] or 0,
        (),
        (),
        (tuple(message.data),),
    )


def chunk_entry(message: ActionChunk, info: Any) -> Entry:
    columns = len(message.joint_names)
    values = list(message.actions)
    return SentChunk(
        info['received_timestamp'],
        message.chunk_id,
        message.prompt_id,
        message.prompt,
        stamp_ns(message.header.stamp),
        stamp_ns(message.inference_start),
        stamp_ns(message.inference_end),
        dict(zip(message.streams, message.oldest_ages, strict=True)),
        tuple(tuple(values[i : i + columns]) for i in range(0, len(values), columns)),
    )


def status_entry(message: DiagnosticStatus, info: Any) -> Entry:
    values = {pair.key: pair.value for pair in message.values}
    return SentStatus(info['received_timestamp'], message.message, values)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('journal', type=Path)
    options = parser.parse_args()
    rclpy.init(args=[])
    node = Node('soak_recorder')
    writer = JournalWriter(options.journal)
    record(node, writer)
    parent = Parent(_understand_nothing)
    parent.listen({})
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    while not parent.is_gone.is_set():
        executor.spin_once(timeout_sec=0.1)
    writer.close()
    executor.shutdown()
    node.destroy_node()
    rclpy.shutdown()
    return 0


if __name__ == '__main__':
    sys.exit(main())
