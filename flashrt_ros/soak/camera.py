# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Two cameras in one process: a raw one, and one that sends JPEG or is raw as well.

It is told on standard input: stall, go, storm, calm, damage EVERY (1: every JPEG, 3: every third, 0: none),
shift SECONDS (of the stamps), count. Each answer holds the stamp of the last pictures and how many were sent.
"""

import argparse
import array
import itertools
import sys
import threading
import time
from collections import Counter

import numpy as np
import rclpy
import simplejpeg
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import CompressedImage, Image

from flashrt_core.errors import Error
from flashrt_ros.conversions import time_message
from flashrt_ros.soak.child import Answer, Parent
from flashrt_ros.soak.configuration import CAMERA_TOPICS, JPEG_CAMERA, RAW_CAMERA

_RATE_HZ, _STORM_HZ = 30.0, 300.0
_PICTURES = 8  # made before, sent in turn
_KEPT = 0.6  # of a damaged JPEG


class Camera:
    """A publisher and its pictures, with all but the stamp made in advance."""

    def __init__(self, node: Node, topic: str, is_jpeg: bool, width: int, height: int) -> None:
        self.topic = topic
        self._is_jpeg = is_jpeg
        kind = CompressedImage if is_jpeg else Image
        self._publisher: Publisher = node.create_publisher(kind, topic, qos_profile_sensor_data)
        pictures = [_picture(width, height, number) for number in range(_PICTURES)]
        make = _jpeg_message if is_jpeg else _raw_message
        self._messages = itertools.cycle([make(picture) for picture in pictures])
        self._damaged = [_damaged(picture) for picture in pictures] if is_jpeg else []

    def publish(self, stamp_ns: int, is_damaged: bool) -> None:
        message = next(self._messages)
        if self._is_jpeg and is_damaged:
            message = self._damaged[stamp_ns % _PICTURES]
        message.header.stamp = time_message(stamp_ns)
        self._publisher.publish(message)


class Cameras:
    """Sends the pictures of all cameras at one rate, with one stamp, and does what it is told."""

    def __init__(self, cameras: list[Camera]) -> None:
        self._cameras = cameras
        self._lock = threading.Lock()
        self._rate_hz, self._is_on = _RATE_HZ, True
        self._damage_every = 0
        self._shift_ns = self._stamp_ns = self._count = 0
        self._sent: Counter[str] = Counter()

    def run(self, parent: Parent) -> None:
        due_s = time.monotonic()
        while not parent.is_gone.is_set():
            # After a time of standing still it goes on from now, as a driver does.
            due_s = max(due_s + 1 / self._rate_hz, time.monotonic())
            time.sleep(max(0.0, due_s - time.monotonic()))
            with self._lock:
                if self._is_on:
                    self._send()

    def _send(self) -> None:
        self._stamp_ns = time.time_ns() + self._shift_ns
        self._count += 1
        is_damaged = bool(self._damage_every) and self._count % self._damage_every == 0
        for camera in self._cameras:
            camera.publish(self._stamp_ns, is_damaged)
            self._sent[camera.topic] += 1

    def handle(self, line: str) -> Answer:
        word, *values = line.split()
        with self._lock:
            last_ns = self._stamp_ns - self._shift_ns
            match word, values:
                case 'stall' | 'go', []:
                    self._is_on = word == 'go'
                case 'storm' | 'calm', []:
                    self._rate_hz = _STORM_HZ if word == 'storm' else _RATE_HZ
                case 'damage', [every]:
                    self._damage_every = int(every)
                case 'shift', [seconds]:
                    self._shift_ns = round(float(seconds) * 1e9)
                case 'count', []:
                    pass
                case _:
                    raise Error('not understood')
            return {'last_ns': last_ns, 'now_ns': time.time_ns(), 'sent': dict(self._sent)}


def _picture(width: int, height: int, number: int) -> np.ndarray:
    """[height, width, 3]: a ramp that moves, with a little noise."""
    ramp = (np.arange(width) + 32 * number) % 256
    noise = np.random.default_rng(number).integers(0, 16, (height, width, 3))
    return np.clip(ramp[np.newaxis, :, np.newaxis] + noise, 0, 255).astype(np.uint8)


def _raw_message(picture: np.ndarray) -> Image:
    height, width, _ = picture.shape
    message = Image(height=height, width=width, encoding='rgb8', step=3 * width)
    message.data = array.array('B', picture.tobytes())
    return message


def _jpeg_message(picture: np.ndarray) -> CompressedImage:
    message = CompressedImage(format='rgb8; jpeg compressed bgr8')
    message.data = array.array('B', simplejpeg.encode_jpeg(picture, colorspace='RGB'))
    return message


def _damaged(picture: np.ndarray) -> CompressedImage:
    message = _jpeg_message(picture)
    message.data = message.data[: round(_KEPT * len(message.data))]
    return message


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--size', type=int, nargs=2, default=(320, 240), metavar=('WIDTH', 'HEIGHT'))
    parser.add_argument('--all-raw', action='store_true', help='the second camera sends no JPEG')
    parser.add_argument('--shift', type=float, default=0.0, help='seconds to add to each stamp')
    options = parser.parse_args()
    rclpy.init(args=[])
    node = Node('soak_cameras')
    kinds = ((RAW_CAMERA, False), (JPEG_CAMERA, not options.all_raw))
    cameras = Cameras([Camera(node, CAMERA_TOPICS[slot], is_jpeg, *options.size) for slot, is_jpeg in kinds])
    parent = Parent(cameras.handle)
    parent.listen(cameras.handle(f'shift {options.shift}'))
    cameras.run(parent)
    node.destroy_node()
    rclpy.shutdown()
    return 0


if __name__ == '__main__':
    sys.exit(main())
