# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Messages to plain values and back; the only file that knows a message layout."""

import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flashrt_core.types import CameraFrame
from flashrt_ros.compressed_images import CompressedFrame, check_compressed, decode_compressed
from flashrt_ros.inputs import Rejected
from flashrt_ros.outputs import OutputCommand
from flashrt_ros.parameters import Parameters
from flashrt_ros.raw_images import Picture, byte_frame, check_raw, decode_raw

if TYPE_CHECKING:
    from flashrt_ros.worker import InferenceResult

Frame = CameraFrame | CompressedFrame


@dataclass(frozen=True)
class JointSample:
    """Positions by name; velocity and effort, which drivers may leave out, are not read."""

    positions: Mapping[str, float]


def stamp_ns(stamp: Any) -> int:
    return stamp.sec * 1_000_000_000 + stamp.nanosec


def raw_frame(message: Any) -> CameraFrame:
    """A view of a sensor_msgs/Image; nothing is copied."""
    return CameraFrame(
        message.data,
        message.encoding,
        message.height,
        message.width,
        message.step,
        bool(message.is_bigendian),
    )


def compressed_frame(message: Any) -> CompressedFrame:
    return CompressedFrame(bytes(message.data), message.format)


def check_frame(frame: Frame, max_side: int, channel_order: str) -> None:
    """The cheap part of decoding, for the callback; raises Rejected."""
    if isinstance(frame, CompressedFrame):
        check_compressed(frame, max_side)
    else:
        check_raw(frame, max_side, channel_order)


def decode_frame(frame: Frame, channel_order: str) -> Picture:
    """The expensive part, for the worker; raises Rejected."""
    if isinstance(frame, CompressedFrame):
        return decode_compressed(frame)
    return decode_raw(frame, channel_order)


def undecoded_frame(frame: Frame, channel_order: str) -> CameraFrame | None:
    """The frame as an engine resizes it; None where it has to be decoded before."""
    return None if isinstance(frame, CompressedFrame) else byte_frame(frame, channel_order)


def joint_sample(message: Any) -> JointSample:
    """The positions of a sensor_msgs/JointState; raises Rejected where names and positions do not pair up."""
    if len(message.position) != len(message.name):
        raise Rejected('bad_size', f'{len(message.name)} names and {len(message.position)} positions')
    positions = dict(zip(message.name, map(float, message.position), strict=True))
    if len(positions) != len(message.name):
        doubled = sorted({name for name in message.name if list(message.name).count(name) > 1})
        raise Rejected('doubled_name', f'{", ".join(doubled)} more than once in one message')
    return JointSample(positions)


# The message classes are imported where they are made: reading works without ROS installed.


def time_message(nanoseconds: int) -> Any:
    from builtin_interfaces.msg import Time

    return Time(sec=nanoseconds // 1_000_000_000, nanosec=nanoseconds % 1_000_000_000)


def command_message(command: OutputCommand, send_ns: int) -> Any:
    """The message of the type that the output asks for."""
    makers = {
        'joint_trajectory': _trajectory,
        'float64_multi_array': _float64_multi_array,
        'joint_state': _joint_state,
    }
    return makers[command.type](command, send_ns)


def command_values(message: Any) -> NDArray[np.float64]:
    """[rows, joints]: every number of a command that a controller would act on, read from the message."""
    if hasattr(message, 'points'):
        return np.array([point.positions or point.velocities for point in message.points], np.float64)
    if hasattr(message, 'data'):
        return np.array([message.data], np.float64)
    return np.array([message.position or message.velocity], np.float64)


def command_class(output_type: str) -> type:
    from sensor_msgs.msg import JointState
    from std_msgs.msg import Float64MultiArray
    from trajectory_msgs.msg import JointTrajectory

    return {
        'joint_trajectory': JointTrajectory,
        'float64_multi_array': Float64MultiArray,
        'joint_state': JointState,
    }[output_type]


def _trajectory(command: OutputCommand, send_ns: int) -> Any:
    from builtin_interfaces.msg import Duration
    from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

    field = {'position': 'positions', 'velocity': 'velocities'}[command.quantity]
    points = []
    for due_s, row in zip(command.due_s, command.rows, strict=True):
        nanoseconds = round(due_s * 1e9)
        due = Duration(sec=nanoseconds // 1_000_000_000, nanosec=nanoseconds % 1_000_000_000)
        points.append(JointTrajectoryPoint(time_from_start=due, **{field: row.tolist()}))
    return JointTrajectory(joint_names=list(command.joints), points=points)  # stamp 0: start on arrival


def _float64_multi_array(command: OutputCommand, send_ns: int) -> Any:
    from std_msgs.msg import Float64MultiArray

    return Float64MultiArray(data=command.rows[0].tolist())


def _joint_state(command: OutputCommand, send_ns: int) -> Any:
    from sensor_msgs.msg import JointState

    message = JointState(name=list(command.joints))
    message.header.stamp = time_message(send_ns)
    setattr(message, command.quantity, command.rows[0].tolist())
    return message


def action_chunk_message(result: 'InferenceResult', parameters: Parameters) -> Any:
    from flashrt_ros.msg import ActionChunk

    observed = result.observed
    start_ns = result.start.ros_ns
    message = ActionChunk(
        inference_start=time_message(start_ns),
        inference_end=time_message(result.end.ros_ns),
        chunk_id=result.chunk_id,
        prompt_id=result.chunk.prompt_id,
        prompt=result.prompt,
        row_period=parameters.row_period_s,
        joint_names=[parameters.joint_prefix + name for name in parameters.commanded_joints],
        representation=parameters.representation,
        rows=len(result.actions),
        actions=array.array('d', np.ascontiguousarray(result.actions, np.float64).tobytes()),
        streams=list(observed.observation.stamps_ns),
        oldest_ages=[max(0, start_ns - stamp) / 1e9 for stamp in observed.observation.stamps_ns.values()],
        seed=-1 if result.chunk.seed is None else result.chunk.seed,
    )
    message.header.stamp = time_message(observed.stamp_ns)
    return message


def image_message(views: NDArray[np.uint8], stamp: int) -> Any:
    """[N, S, S, 3] RGB views side by side in one picture."""
    from sensor_msgs.msg import Image

    picture = np.ascontiguousarray(np.concatenate(list(views), axis=1))
    height, width, _ = picture.shape
    data = array.array('B')
    data.frombytes(memoryview(picture).cast('B'))
    message = Image(height=height, width=width, encoding='rgb8', step=3 * width)
    message.header.stamp = time_message(stamp)
    message.data = data
    return message
