# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The messages of the simulated robot: commands read as its controllers read them, and what it says."""

import array
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from flashrt_core.errors import Error
from flashrt_ros.conversions import image_message, stamp_ns, time_message

_JPEG_QUALITY = 95


def read_trajectory(
    message: Any, joints: Sequence[str], now_ns: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A trajectory_msgs/JointTrajectory -> due times [rows] s from now, positions [rows, joints].

    As joint_trajectory_controller takes it: a stamp of zero means now, points of the past are left out.
    Raises Error for other joints, for points without positions, and where all points are past.
    """
    if sorted(message.joint_names) != sorted(joints):
        raise Error(f'a trajectory of {list(message.joint_names)}; this controller moves {list(joints)}')
    columns = [list(message.joint_names).index(joint) for joint in joints]
    wrong = [index for index, point in enumerate(message.points) if len(point.positions) != len(joints)]
    if wrong or not message.points:
        raise Error(
            f'a trajectory of {len(message.points)} points, of which {len(wrong)} have not '
            f'{len(joints)} positions'
        )
    due_s = np.array(
        [point.time_from_start.sec + point.time_from_start.nanosec / 1e9 for point in message.points]
    )
    if start_ns := stamp_ns(message.header.stamp):
        due_s = due_s + (start_ns - now_ns) / 1e9
    ahead = due_s > 0
    if not ahead.any():
        raise Error(f'a trajectory whose last point was due {-due_s[-1]:.3f} s ago')
    rows = np.array([point.positions for point in message.points], np.float64)
    return due_s[ahead], rows[ahead][:, columns]


def read_gripper(message: Any) -> float:
    """A std_msgs/Float64MultiArray as forward_command_controller takes it for one joint."""
    if len(message.data) != 1:
        raise Error(f'{len(message.data)} numbers for one gripper')
    return float(message.data[0])


def pictures_stamp(message: Any, joint_topics: Collection[str]) -> int:
    """The oldest picture that an ActionChunk was computed from, ns.

    The stamp of its header is that of the oldest input, which may be a joint state long before the pictures.
    """
    ages_s = [
        age_s
        for stream, age_s in zip(message.streams, message.oldest_ages, strict=True)
        if stream not in joint_topics
    ]
    return stamp_ns(message.inference_start) - round(max(ages_s, default=0.0) * 1e9)


def raw_message(picture: NDArray[np.uint8], stamp: int) -> Any:
    """picture: [height, width, 3] RGB."""
    return image_message(picture[np.newaxis], stamp)


def compressed_message(picture: NDArray[np.uint8], stamp: int) -> Any:
    from sensor_msgs.msg import CompressedImage

    message = CompressedImage(format='rgb8; jpeg compressed bgr8')
    message.header.stamp = time_message(stamp)
    message.data = array.array('B', simplejpeg.encode_jpeg(picture, _JPEG_QUALITY, colorspace='RGB'))
    return message


def joint_message(joints: Sequence[str], positions: NDArray[np.float64], stamp: int) -> Any:
    from sensor_msgs.msg import JointState

    message = JointState(name=list(joints), position=positions.tolist())
    message.header.stamp = time_message(stamp)
    return message


def status_message(name: str, level: str, words: str, values: Mapping[str, object]) -> Any:
    """level: ok, warn or error."""
    from diagnostic_msgs.msg import DiagnosticStatus, KeyValue

    levels = {'ok': DiagnosticStatus.OK, 'warn': DiagnosticStatus.WARN, 'error': DiagnosticStatus.ERROR}
    pairs = [KeyValue(key=key, value=str(value)) for key, value in values.items()]
    return DiagnosticStatus(level=levels[level], name=name, message=words, values=pairs)
