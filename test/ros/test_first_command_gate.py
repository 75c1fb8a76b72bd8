# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The first command after every pause is near the robot, or approaches it at the rate limit (R-44)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from reference_robot import AT_REST, LIMITS, NAMES, POSITIONS, PROFILE, VELOCITIES, checker, chunk, due

from flashrt_core.errors import Error
from flashrt_ros.first_command_gate import FirstCommandGate

GAP = PROFILE['first_command_limit_rad']
REASONS = ['a start', 'a stop', 'a lost input (camera wrist)', 'a jump of the clock', 'a new prompt']
poses = arrays.arrays(np.float64, 7, elements=st.floats(-3, 3))
wild_poses = arrays.arrays(np.float64, 7, elements=st.floats(width=16))  # NaN and infinity as well


def gate(mode: str = 'refuse', is_velocity=POSITIONS, max_gap=(GAP,)) -> FirstCommandGate:
    return FirstCommandGate(NAMES, max_gap, mode, is_velocity)


@pytest.mark.parametrize('why', REASONS)
def test_far_first_row_is_refused(why: str):
    it = gate()
    it.arm(why)
    row = chunk('first_row_far_from_robot')[0]
    assert it.check(row, AT_REST) == (
        f'first command after {why}: too far from the robot: '
        + ', '.join(f'joint_{i} by 0.8 (limit 0.1)' for i in range(1, 7))
    )
    assert it.is_armed  # and stays shut
    assert it.check(chunk('ok')[0], AT_REST) == ''
    assert not it.is_armed


def test_far_first_row_is_approached_at_the_rate_limit():
    it, limits = gate('approach'), checker()
    rows = chunk('first_row_far_from_robot')
    previous, sent = AT_REST, []
    for tick in range(20):
        row = rows[min(tick, 9)]
        assert it.check(row, AT_REST) == ''
        previous = limits.limit(row[np.newaxis], due(1), previous, None).rows[0]
        sent.append(previous)
    steps = np.diff([AT_REST, *sent], axis=0)
    assert (np.abs(steps[:, :6]) <= 0.075 + 1e-15).all()
    np.testing.assert_allclose(steps[0, :6], 0.075)  # counted from the measured joints
    np.testing.assert_allclose(sent[-1], rows[9])


def test_begins_armed_and_opens_until_it_is_armed_again():
    it = gate()
    assert it.is_armed
    assert it.check(AT_REST + 1, AT_REST).startswith('first command after the configuration: ')
    assert it.check(AT_REST, AT_REST) == ''
    assert it.check(AT_REST + 1, AT_REST) == ''  # later rows are the matter of the limits
    assert it.check(AT_REST + 1, None) == ''
    it.arm('a start')
    assert it.check(AT_REST + 1, AT_REST)
    it.arm('')
    assert it.is_armed


def test_the_last_reason_is_told():
    it = gate()
    it.arm('a start')
    it.arm('a stop')
    assert 'after a stop:' in it.check(AT_REST + 1, AT_REST)


@pytest.mark.parametrize('mode', ['refuse', 'approach'])
@pytest.mark.parametrize('value', [np.nan, np.inf, -np.inf])
def test_not_finite_values_hold_it_shut(mode: str, value: float):
    broken = AT_REST.copy()
    broken[2] = value
    it = gate(mode)
    assert it.check(broken, AT_REST).endswith(f'joint_3: the command is {value}')
    assert it.check(AT_REST, broken).endswith(f'joint_3: the measured joint is {value}')
    assert it.check(AT_REST, None).endswith('the measured joints are not known')
    assert it.is_armed


def test_velocities_are_not_compared():
    it = gate(is_velocity=VELOCITIES)
    row = np.zeros(7)
    assert it.check(row + [0, 0, 0, 0, 0, 0, 0.2], AT_REST).endswith('gripper by 0.16 (limit 0.1)')
    assert it.check(row, AT_REST) == ''


def test_one_gap_per_joint():
    gaps = [0.1] * 6 + [0.01]
    it = gate(max_gap=gaps)
    assert it.check(AT_REST + 0.05, AT_REST).endswith('gripper by 0.05 (limit 0.01)')
    assert it.check(AT_REST + np.array([0.05] * 6 + [0]), AT_REST) == ''


@pytest.mark.parametrize('gap', [[0.0], [-0.1], [np.nan], [0.1] * 6 + [np.nan]])
def test_gaps_that_mean_nothing_are_refused(gap: list):
    with pytest.raises(Error, match='first command: the largest gap is'):
        gate(max_gap=gap)


def test_unknown_mode_is_refused():
    with pytest.raises(Error, match="mode is 'jump', needed refuse or approach"):
        gate('jump')


@given(st.one_of(poses, wild_poses), st.one_of(poses, wild_poses), st.text(), st.booleans())
def test_never_passes_with_a_larger_gap(row, measured, why, is_velocity):
    compared = ~(VELOCITIES if is_velocity else POSITIONS)
    it = gate(is_velocity=~compared)
    it.arm(why)
    passes = it.check(row, measured) == ''
    is_finite = np.isfinite(row).all() and np.isfinite(measured).all()
    assert passes == (is_finite and bool((np.abs(row - measured)[compared] <= GAP).all()))
    assert it.is_armed == (not passes)


@given(arrays.arrays(np.float64, 7, elements=st.floats(-0.15, 0.15)), poses)
def test_near_and_far_rows(offset, measured):
    row = measured + offset
    far = [name for name, gap in zip(NAMES, np.abs(row - measured), strict=True) if gap > GAP]
    text = gate().check(row, measured)
    assert bool(text) == bool(far)
    assert all(f'{name} by ' in text for name in far)


@given(poses, poses, st.floats(1e-3, 1))
def test_an_approach_makes_no_jump(row, measured, period_s):
    it = gate('approach')
    assert it.check(row, measured) == ''
    sent = checker().limit(row[np.newaxis], np.array([period_s]), measured, measured).rows[0]
    rounding = np.finfo(np.float64).eps * np.maximum(np.abs(sent), np.abs(measured))
    assert (np.abs(sent - measured) <= LIMITS.max_velocity * period_s + rounding).all()
