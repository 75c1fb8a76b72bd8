# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Commands as the controllers of the simulated robot read them, and its settings with every fault."""

from pathlib import Path

import numpy as np
import pytest
from builtin_interfaces.msg import Duration, Time
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from flashrt_core.errors import Error
from flashrt_ros.compressed_images import CompressedFrame, decode_compressed
from flashrt_ros.conversions import raw_frame, time_message
from flashrt_ros.msg import ActionChunk
from flashrt_ros.parameter_table import ParameterFaults, keys_of
from flashrt_ros.raw_images import decode_raw
from flashrt_ros.sim_messages import (
    compressed_message,
    pictures_stamp,
    raw_message,
    read_gripper,
    read_trajectory,
)
from flashrt_ros.sim_settings import SimSettings, read_settings

JOINTS = ('shoulder', 'elbow')
NOW_NS = 5_000_000_000


def trajectory(*points: tuple[int, list[float]], names: tuple[str, ...] = JOINTS) -> JointTrajectory:
    """(ms from start, positions)"""
    return JointTrajectory(
        joint_names=list(names),
        points=[
            JointTrajectoryPoint(time_from_start=Duration(nanosec=due * 1_000_000), positions=positions)
            for due, positions in points
        ],
    )


def test_columns_are_by_name_and_times_from_now():
    message = trajectory((50, [2.0, 1.0]), (100, [4.0, 3.0]), names=('elbow', 'shoulder'))
    due_s, rows = read_trajectory(message, JOINTS, NOW_NS)
    assert due_s == pytest.approx([0.05, 0.1])
    assert rows.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_stamp_moves_the_start_and_points_of_the_past_are_left_out():
    message = trajectory((50, [1.0, 1.0]), (100, [2.0, 2.0]))
    message.header.stamp = Time(sec=4, nanosec=930_000_000)
    due_s, rows = read_trajectory(message, JOINTS, NOW_NS)
    assert due_s == pytest.approx([0.03])
    assert rows.tolist() == [[2.0, 2.0]]
    message.header.stamp = Time(sec=4)
    with pytest.raises(Error, match=r'last point was due 0\.900 s ago'):
        read_trajectory(message, JOINTS, NOW_NS)


@pytest.mark.parametrize(
    ('message', 'why'),
    [
        (trajectory((50, [1.0]), names=('shoulder',)), r"a trajectory of \['shoulder'\]"),
        (trajectory((50, [1.0, 1.0]), names=('shoulder', 'shoulder')), 'this controller moves'),
        (trajectory(), '0 points'),
        (trajectory((50, [1.0, 1.0]), (100, [1.0])), '2 points, of which 1 have not 2 positions'),
    ],
)
def test_what_the_controller_refuses(message: JointTrajectory, why: str):
    with pytest.raises(Error, match=why):
        read_trajectory(message, JOINTS, NOW_NS)


def test_a_gripper_command_is_one_number():
    assert read_gripper(Float64MultiArray(data=[0.02])) == 0.02
    with pytest.raises(Error, match='2 numbers'):
        read_gripper(Float64MultiArray(data=[0.02, 0.02]))


def test_pictures_arrive_as_they_were_drawn():
    ramp = np.linspace(0, 255, 112).astype(np.uint8)
    picture = np.stack([np.tile(ramp, (112, 1)), np.tile(ramp[:, None], 112), np.full((112, 112), 90)], -1)
    picture = picture.astype(np.uint8)
    message = raw_message(picture, NOW_NS)
    assert (np.asarray(decode_raw(raw_frame(message), 'rgb')) == picture).all()
    assert message.header.stamp == Time(sec=5)
    jpeg = compressed_message(picture, NOW_NS)
    decoded = np.asarray(decode_compressed(CompressedFrame(bytes(jpeg.data), jpeg.format))).astype(int)
    assert np.abs(decoded - picture).mean() < 2


def test_settings_are_read_with_every_fault_at_once():
    assert read_settings({}, 'here') == SimSettings(
        seed=0,
        task='touch the red block',
        start='home',
        pace='real_time',
        delay_s=0.0,
        transport='raw',
        camera_rate_hz=10.0,
    )
    values = {'seed': -1, 'task': 'fly', 'pace': 'slow', 'delay_s': 0.2, 'colour': 1}
    with pytest.raises(ParameterFaults) as caught:
        read_settings(values, 'here')
    text = str(caught.value)
    assert len(caught.value.faults) == 4
    for word in ('seed', "'fly' is no task", 'pace', 'colour is not a parameter'):
        assert word in text
    with pytest.raises(ParameterFaults, match='delay_s is for pace: lockstep'):
        read_settings({'delay_s': 0.2}, 'here')


def test_every_parameter_is_documented_with_its_default():
    page = (Path(__file__).parents[2] / 'docs' / 'closed_loop.md').read_text()
    for _, row, _ in keys_of(SimSettings):
        assert f'| `{row.name}` | {row.default} |' in page


def test_a_chunk_is_known_by_its_pictures_however_old_its_joints_are():
    chunk = ActionChunk(
        inference_start=time_message(NOW_NS),
        streams=['front', 'wrist', 'joint_states'],
        oldest_ages=[0.0, 0.02, 0.15],
    )
    chunk.header.stamp = time_message(NOW_NS - 150_000_000)
    assert pictures_stamp(chunk, ('joint_states',)) == NOW_NS - 20_000_000
