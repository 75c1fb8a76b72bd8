# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Who gets which joints of a command, and how far ahead (R-11, R-41)."""

import numpy as np
from fake_policy import ARM, CASES, VELOCITY, parameters

from flashrt_ros.chunk_player import Command
from flashrt_ros.outputs import OutputMap

DUE_S = 0.05 * np.arange(1, 11)


def chunk(name: str) -> np.ndarray:
    return np.load(CASES / 'chunks' / f'{name}.npy')[:, :7].astype(np.float64)


def test_trajectory_reaches_no_further_than_the_horizon():
    outputs = OutputMap(parameters(output__max_horizon_s=0.2))
    (part,) = outputs.split(Command(chunk('ok'), DUE_S, 1, 1))
    np.testing.assert_allclose(part.due_s, [0.05, 0.1, 0.15, 0.2])
    np.testing.assert_array_equal(part.rows, chunk('ok')[:4])


def test_first_row_is_sent_even_when_it_lies_beyond_the_horizon():
    (part,) = OutputMap(parameters(output__max_horizon_s=0.01)).split(Command(chunk('ok'), DUE_S, 1, 1))
    assert len(part.rows) == 1


def test_each_controller_gets_its_joints_in_its_order_and_with_the_prefix():
    changes = VELOCITY | {'outputs__arm__joints': ARM[::-1], 'joints__prefix': 'left_'}
    arm, hand = OutputMap(parameters(**changes)).split(Command(chunk('ok'), DUE_S, 1, 1))
    assert arm.joints == tuple(f'left_{joint}' for joint in ARM[::-1])
    np.testing.assert_array_equal(arm.rows[0], chunk('ok')[0, 5::-1])
    np.testing.assert_array_equal(hand.rows[0], chunk('ok')[0, 6:7])


def test_trajectory_of_velocities_ends_at_rest():
    arm, hand = OutputMap(parameters(**VELOCITY)).split(Command(chunk('ok'), DUE_S, 1, 1))
    assert len(arm.rows) == 9  # 0.4 s ahead is 8 rows
    np.testing.assert_array_equal(arm.rows[-1], np.zeros(6))
    assert np.diff(arm.due_s).min() > 0.04
    assert len(hand.rows) == 8
