#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Records the bag of the tabletop: the trained policy stacks a block through the node, as ROS 2 messages.

Run in the environment of the project, from its root:

    python test/data/record_tabletop.py test/data/tabletop

The robot runs in lockstep, so that the machine leaves no trace; log times are those of the robot, as of a
recorder on simulated time. Pictures are raw in a packed file, so that a replay sees what the policy saw.
"""

import argparse
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from rclpy.node import Node
from rclpy.qos import QoSProfile
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import String

from flashrt_ros.live_tabletop import LiveTabletop, tabletop_parameters
from flashrt_ros.local_ros import set_up_transport, spinning_node
from flashrt_ros.qos import LATCHED

SCENE, TASK = 4, 'stack the red block on the blue block'
TOPICS = {'/front/image_raw': Image, '/wrist/image_raw': Image, '/joint_states': JointState}
PROMPT_TOPIC = '/policy/prompt'
DOMAIN = '99'
_DEPTH = 10_000  # nothing may get lost


class Recorder:
    """Keeps messages as they come over the wire, with their stamps."""

    def __init__(self, node: Node) -> None:
        self.messages: list[tuple[int, str, bytes]] = []  # time of the robot [ns], topic, CDR
        self._now_ns = 0
        for topic, kind in TOPICS.items():
            node.create_subscription(kind, topic, self._keep(topic), QoSProfile(depth=_DEPTH), raw=True)
        node.create_subscription(String, PROMPT_TOPIC, self._keep_prompt, LATCHED, raw=True)

    def _keep(self, topic: str) -> Callable[[bytes], None]:
        def keep(cdr: bytes) -> None:
            seconds, nanoseconds = (int.from_bytes(cdr[at : at + 4], 'little') for at in (4, 8))  # its header
            self._now_ns = seconds * 1_000_000_000 + nanoseconds
            self.messages.append((self._now_ns, topic, bytes(cdr)))

        return keep

    def _keep_prompt(self, cdr: bytes) -> None:
        self.messages.append((self._now_ns, PROMPT_TOPIC, bytes(cdr)))


def record(folder: Path) -> None:
    os.environ['ROS_DOMAIN_ID'] = DOMAIN
    set_up_transport(tabletop_parameters())
    with tempfile.TemporaryDirectory() as logs, spinning_node('recorder') as node:
        tabletop = LiveTabletop(node, Path(logs), robot={}, policy={'prompt': TASK})
        with tabletop:
            recorder = Recorder(node)
            tabletop.begin(TASK, seed=SCENE, pace='lockstep')
            ended = tabletop.finish()
            begin_ns = round(float(tabletop.robot.status['begin_s']) * 1e9)
            messages = list(recorder.messages)
    if not ended.is_success:
        raise SystemExit(f'the task was not done: {ended.why}')
    write(folder, [item for item in messages if item[0] >= begin_ns or item[1] == PROMPT_TOPIC], begin_ns)


def write(folder: Path, messages: list[tuple[int, str, bytes]], begin_ns: int) -> None:
    store = get_typestore(Stores.ROS2_KILTED)
    shutil.rmtree(folder, ignore_errors=True)
    bag = Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP)
    bag.set_compression(CompressionMode.STORAGE, CompressionFormat.ZSTD)
    with bag as writer:
        types = {topic: f'sensor_msgs/msg/{kind.__name__}' for topic, kind in TOPICS.items()}
        types[PROMPT_TOPIC] = 'std_msgs/msg/String'
        connections = {
            topic: writer.add_connection(topic, kind, typestore=store) for topic, kind in types.items()
        }
        for time_ns, topic, cdr in sorted(messages, key=lambda item: item[0]):
            writer.write(connections[topic], max(time_ns, begin_ns), cdr)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('folder', type=Path, help='where the bag is written; replaced if it exists')
    record(parser.parse_args().folder)
