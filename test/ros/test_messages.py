# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Messages that leave the node: layout, stamps, names, times (R-41, R-46)."""

import numpy as np
import pytest
from fake_policy import VELOCITY, parameters
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from flashrt_core.types import ActionChunk, Observation
from flashrt_ros.chunk_player import Command, Mark
from flashrt_ros.conversions import (
    action_chunk_message,
    command_class,
    command_message,
    image_message,
    stamp_ns,
)
from flashrt_ros.inputs import Moment
from flashrt_ros.observations import Observed
from flashrt_ros.outputs import OutputMap
from flashrt_ros.worker import InferenceResult

SEND_NS = 1_700_000_000_250_000_000
ROWS = np.arange(21, dtype=np.float64).reshape(3, 7)
COMMAND = Command(ROWS, np.array([0.04, 0.09, 0.14]), chunk_id=1, prompt_id=1)


def message(output_type: str, **changes: object):
    parts = OutputMap(parameters(output__type=output_type, **changes)).split(COMMAND)
    result = command_message(parts[0], SEND_NS)
    assert type(result) is command_class(parts[0].type)
    return result


def test_trajectory():
    trajectory = message('joint_trajectory')
    assert isinstance(trajectory, JointTrajectory)
    assert stamp_ns(trajectory.header.stamp) == 0
    assert trajectory.joint_names == [*(f'joint_{i}' for i in range(1, 7)), 'gripper']
    times = [point.time_from_start.sec * 10**9 + point.time_from_start.nanosec for point in trajectory.points]
    assert times == [40_000_000, 90_000_000, 140_000_000]
    np.testing.assert_array_equal([point.positions for point in trajectory.points], ROWS)
    assert all(len(point.velocities) == 0 for point in trajectory.points)


def test_trajectory_of_velocities():
    trajectory = message('joint_trajectory', **VELOCITY)
    assert all(len(point.positions) == 0 for point in trajectory.points)
    assert list(trajectory.points[-1].velocities) == [0.0] * 6
    np.testing.assert_array_equal(trajectory.points[0].velocities, ROWS[0, :6])


def test_multi_array_is_the_row_that_is_due():
    command = message('float64_multi_array')
    assert isinstance(command, Float64MultiArray)
    np.testing.assert_array_equal(command.data, ROWS[0])


@pytest.mark.parametrize('changes', [{}, VELOCITY])
def test_joint_state_has_names_and_the_send_time(changes: dict):
    state = message('joint_state', **changes)
    assert isinstance(state, JointState)
    assert stamp_ns(state.header.stamp) == SEND_NS
    filled, empty = (state.velocity, state.position) if changes else (state.position, state.velocity)
    np.testing.assert_array_equal(filled, ROWS[0, : len(state.name)])
    assert len(empty) == 0


def test_action_chunk():
    observation = Observation(
        {}, np.zeros(7), {'base': SEND_NS - 100, 'joint_states': SEND_NS - 50_000_000}, 4
    )
    observed = Observed(observation, SEND_NS - 50_000_000, Moment(0, 0), Moment(0, 0))
    chunk = ActionChunk(ROWS, np.zeros((3, 32), np.float32), observation.stamps_ns, 4, None, {})
    result = InferenceResult(
        9, chunk, ROWS, 'stack', observed, Moment(SEND_NS, 0), Moment(SEND_NS + 5, 0), Mark(0, 0)
    )
    out = action_chunk_message(result, parameters(joints__prefix='left_'))
    assert stamp_ns(out.header.stamp) == SEND_NS - 50_000_000
    assert (stamp_ns(out.inference_start), stamp_ns(out.inference_end)) == (SEND_NS, SEND_NS + 5)
    assert (out.chunk_id, out.prompt_id, out.prompt, out.rows, out.seed) == (9, 4, 'stack', 3, -1)
    np.testing.assert_array_equal(np.reshape(out.actions, (3, 7)), ROWS)
    assert out.joint_names == [*(f'left_joint_{i}' for i in range(1, 7)), 'left_gripper']
    assert (out.representation, out.row_period) == ('joint_position', 0.05)
    assert out.streams == ['base', 'joint_states']
    assert list(out.oldest_ages) == pytest.approx([1e-7, 0.05])


def test_views_lie_side_by_side():
    views = np.stack([np.full((4, 4, 3), 10, np.uint8), np.full((4, 4, 3), 20, np.uint8)])
    out = image_message(views, SEND_NS)
    assert (out.height, out.width, out.step, out.encoding) == (4, 8, 24, 'rgb8')
    pixels = np.frombuffer(out.data, np.uint8).reshape(4, 8, 3)
    np.testing.assert_array_equal(pixels, np.concatenate(list(views), axis=1))
