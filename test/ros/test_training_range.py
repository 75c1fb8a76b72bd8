# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Limits of the robot against the actions that a checkpoint was trained on."""

import numpy as np
import pytest
from fake_policy import VELOCITY, parameters
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from reference_robot import LIMITS, NAMES, POSITIONS, VELOCITIES

from flashrt_core.errors import Error
from flashrt_ros.training_range import compare, compare_ranges

values = arrays.arrays(np.float64, 7, elements=st.floats(-4, 4))


def changed(bound: np.ndarray, **joints: float) -> np.ndarray:
    result = bound.copy()
    for name, value in joints.items():
        result[NAMES.index(name)] = value
    return result


def test_range_inside_the_limits():
    assert compare(LIMITS, LIMITS.lower, LIMITS.upper, POSITIONS) == []
    assert compare(LIMITS, LIMITS.lower / 2, LIMITS.upper / 2, POSITIONS) == []


def test_one_tenth_beyond_is_tolerated():
    # 4.8 wide, 0.4 beyond at either end.
    low, high = changed(LIMITS.lower, joint_2=-2.4), changed(LIMITS.upper, joint_2=2.4)
    assert compare(LIMITS, low, high, POSITIONS) == []
    # 5.0 wide, 0.6 beyond at the upper end.
    high = changed(LIMITS.upper, joint_2=2.6)
    assert compare(LIMITS, low, high, POSITIONS) == [
        'joint_2: trained on -2.4..2.6, limits -2..2: the policy will be clamped where it was trained to go'
    ]


def test_either_end_and_every_joint_is_named():
    low, high = changed(LIMITS.lower, joint_1=-3.0), changed(LIMITS.upper, gripper=8.0)  # centimetres
    warnings = compare(LIMITS, low, high, POSITIONS)
    assert [warning.split(':')[0] for warning in warnings] == ['joint_1', 'gripper']
    assert 'trained on 0..8, limits 0..0.08' in warnings[1]


@pytest.mark.parametrize(('low', 'high', 'text'), [(2.1, 3.0, '2.1..3'), (-3.0, -2.1, '-3..-2.1')])
def test_ranges_apart_are_refused_by_name(low: float, high: float, text: str):
    with pytest.raises(Error) as caught:
        compare(LIMITS, changed(LIMITS.lower, joint_3=low), changed(LIMITS.upper, joint_3=high), POSITIONS)
    assert f'nothing in common: joint_3: trained on {text}, limits -2..2. ' in str(caught.value)


def test_a_policy_whose_gripper_speaks_another_unit():
    settings = parameters(
        grippers__names=['gripper'],
        grippers__model_one=['closed'],
        grippers__open=[0.08],
        grippers__closed=[0.0],
    )
    trained = np.vstack([changed(LIMITS.lower, gripper=0.0), changed(LIMITS.upper, gripper=1.0)])
    assert compare_ranges(settings, LIMITS, trained) == []  # 1 is 0.00 m: it closes upwards
    (warning,) = compare_ranges(settings, LIMITS, trained + [0, 0, 0, 0, 0, 0, 0.5])
    assert warning.startswith('gripper: trained on -0.04..0.04, limits 0..0.08')


def test_a_policy_of_velocities():
    trained = np.vstack(
        [changed(-LIMITS.max_velocity, gripper=0), changed(LIMITS.max_velocity, gripper=0.08)]
    )
    assert compare_ranges(parameters(**VELOCITY), LIMITS, trained) == []
    assert len(compare_ranges(parameters(**VELOCITY), LIMITS, 2 * trained)) == 7


def test_a_policy_that_knows_no_range():
    assert compare_ranges(parameters(), LIMITS, None) == []


def test_every_joint_apart_is_named():
    with pytest.raises(Error, match=r'joint_3: .*; gripper: trained on 1..1.5, limits 0..0.08'):
        compare(
            LIMITS,
            changed(LIMITS.lower, joint_3=20, gripper=1),
            changed(LIMITS.upper, joint_3=70, gripper=1.5),
            POSITIONS,
        )


def test_columns_that_count_from_the_state_say_nothing():
    unknown = np.full(7, np.nan)
    assert compare(LIMITS, unknown, unknown, POSITIONS) == []
    with pytest.raises(Error, match='gripper'):
        compare(LIMITS, changed(unknown, gripper=1), changed(unknown, gripper=2), POSITIONS)


def test_velocities_are_compared_with_the_highest_velocity():
    low, high = changed(-LIMITS.max_velocity, gripper=0), changed(LIMITS.max_velocity, gripper=0.08)
    assert compare(LIMITS, low, high, VELOCITIES) == []
    (warning,) = compare(LIMITS, low, changed(high, joint_1=90), VELOCITIES)  # degrees
    assert warning.startswith('joint_1: trained on -1.5..90, limits -1.5..1.5')


def test_a_joint_that_did_not_move():
    assert compare(LIMITS, changed(LIMITS.lower, joint_4=2.0), LIMITS.upper, POSITIONS) == []
    with pytest.raises(Error, match=r'joint_4: trained on 2.001..2.001'):
        compare(LIMITS, *(changed(bound, joint_4=2.001) for bound in (LIMITS.lower, LIMITS.upper)), POSITIONS)


@given(values, values)
def test_every_range_is_judged(low, high):
    first, last = np.minimum(low, high), np.maximum(low, high)
    apart = (first > LIMITS.upper) | (last < LIMITS.lower)
    beyond = np.maximum(LIMITS.lower - first, last - LIMITS.upper)
    if apart.any():
        with pytest.raises(Error) as caught:
            compare(LIMITS, low, high, POSITIONS)
        assert [name for name in NAMES if f'{name}: ' in str(caught.value)] == [
            name for name, is_apart in zip(NAMES, apart, strict=True) if is_apart
        ]
        return
    named = [warning.split(':')[0] for warning in compare(LIMITS, low, high, POSITIONS)]
    assert named == [
        name for name, far, width in zip(NAMES, beyond, last - first, strict=True) if far > 0.1 * width
    ]
