# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The policy node with a fake policy over real DDS: lifecycle, data, services, reports."""

import numpy as np
from robot_bench import JOINTS, REST, Bench, key_values
from ros_spinner import Spinner, eventually


def test_observation_becomes_chunk_and_dry_run_publishes_no_command(ros: Spinner):
    bench = Bench(ros)
    bench.activate()
    bench.feed()
    eventually(lambda: len(bench.chunks) >= 3, 'three chunks')
    chunk = bench.chunks[0]
    assert (chunk.chunk_id, chunk.rows, chunk.row_period) == (1, 10, 0.05)
    assert chunk.joint_names == JOINTS
    expected = np.array(REST) + 0.01 * np.arange(1, 11)[:, np.newaxis]
    np.testing.assert_allclose(np.reshape(chunk.actions, (10, 7)), expected)
    assert bench.service('start').success
    status = bench.status('commanding (dry run')
    assert int(key_values(status)['base.used']) >= 1
    eventually(lambda: int(key_values(bench.statuses[-1])['play.commands']) > 3, 'commands counted')
    topics = dict(bench.robot.get_topic_names_and_types())
    assert '/arm_controller/joint_trajectory' not in topics
