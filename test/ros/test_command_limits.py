# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""No command beyond the limits, whatever a policy asks for (R-42, R-43, R-46)."""

import numpy as np
import pytest
from fake_policy import CASES, parameters
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from reference_robot import AT_REST, LIMITS, NAMES, PERIOD_S, POSITIONS, VELOCITIES, checker, chunk, due

from flashrt_core.errors import Error
from flashrt_ros.command_limits import ChunkRefused, CommandLimits, Limited
from flashrt_ros.joint_limits import JointLimits, limits_of

# A sum is rounded once: what was added may appear to be half a unit in the last place of the sum larger.
EPS = np.finfo(np.float64).eps


def refusal(call, *arguments) -> ChunkRefused:
    with pytest.raises(ChunkRefused) as caught:
        call(*arguments)
    return caught.value


def limit(rows: np.ndarray, previous: np.ndarray = AT_REST) -> Limited:
    return checker().limit(rows, due(len(rows)), previous, None)


# The cases of the reference robot.
@pytest.mark.parametrize('name', ['ok', 'splice_old', 'splice_new', 'padding_columns_not_zero'])
def test_good_chunk_passes_unchanged(name: str):
    rows = chunk(name)
    assert rows.shape == (10, 7)  # the padding does not reach the robot
    checker(max_clamped_rows=0).check_chunk(rows, PERIOD_S)
    limited = limit(rows, previous=rows[0])
    assert limited.rows.tobytes() == rows.tobytes()
    assert not limited.position_clamps.any()
    assert not limited.step_clamps.any()


#
@pytest.mark.parametrize(
    ('name', 'text'),
    [('nan_in_row_4', 'joint_3 is nan in row 4'), ('inf_in_row_7', 'joint_1 is inf in row 7')],
)
def test_not_finite_chunk_is_refused_whole(name: str, text: str):
    rows = chunk(name)
    for call, arguments in (
        (checker().check_chunk, (rows, PERIOD_S)),
        (checker().limit, (rows, due(10), AT_REST, None)),
        (checker().check_message, (rows, NAMES)),
        (checker().check_message, (rows, NAMES, AT_REST)),
    ):
        refused = refusal(call, *arguments)
        assert refused.reason == 'not_finite'
        assert text in str(refused)


#
def test_beyond_position_and_rate_limits():
    rows = chunk('beyond_limits')
    checker().check_chunk(rows, PERIOD_S)  # 9 clamped rows are fewer than the 10 of the default
    limited = limit(rows, previous=rows[0])
    np.testing.assert_allclose(limited.rows[:, 1], -0.2 - 0.075 * np.arange(10))
    np.testing.assert_array_equal(np.delete(limited.rows, 1, 1), np.delete(rows, 1, 1))
    np.testing.assert_array_equal(limited.position_clamps, [0, 5, 0, 0, 0, 0, 0])  # rows 5 to 9
    np.testing.assert_array_equal(limited.step_clamps, [0, 9, 0, 0, 0, 0, 0])
    # Position first: near the limit it stops there, although the step alone would be small enough.
    beside = limit(np.array([AT_REST + [0, -1.85, 0, 0, 0, 0, 0]]), AT_REST + [0, -1.75, 0, 0, 0, 0, 0])
    assert beside.rows[0, 1] == -2.0
    assert (beside.position_clamps[1], beside.step_clamps[1]) == (1, 0)


def test_too_many_clamped_rows_refuse_the_chunk():
    refused = refusal(checker(max_clamped_rows=2).check_chunk, chunk('beyond_limits'), PERIOD_S)
    assert refused.reason == 'too_many_clamped'
    assert str(refused) == (
        'chunk: 9 of 10 rows are beyond the limits, 2 are allowed; most of all joint_2: 5 rows beyond -2..2, '
        '9 rows faster than 1.5 per second'
    )
    checker(max_clamped_rows=9).check_chunk(chunk('beyond_limits'), PERIOD_S)
    assert refusal(checker(max_clamped_rows=8).check_chunk, chunk('beyond_limits'), PERIOD_S)


def test_a_chunk_that_begins_outside_is_not_too_fast():
    rows = np.tile(AT_REST + [2.9, 0, 0, 0, 0, 0, 0], (3, 1))
    text = str(refusal(checker(max_clamped_rows=2).check_chunk, rows, PERIOD_S))
    assert 'joint_1: 3 rows beyond -2..2, 0 rows faster' in text


def test_chunk_is_judged_on_its_own_row_period():
    rows = chunk('beyond_limits')[:5]  # 0.37 rad a row: too fast at 20 Hz, slow enough at 4 Hz
    assert refusal(checker(max_clamped_rows=0).check_chunk, rows, PERIOD_S).reason == 'too_many_clamped'
    checker(max_clamped_rows=0).check_chunk(rows, 0.25)


def test_step_inside_a_chunk():
    rows = chunk('step_inside_chunk')
    limited = limit(rows, previous=rows[0])
    np.testing.assert_allclose(limited.rows[:5], rows[:5])
    np.testing.assert_allclose(np.diff(limited.rows[4:, 0]), 0.075)  # it follows as fast as it may
    assert limited.step_clamps.tolist() == [5, 0, 0, 0, 0, 0, 0]
    assert not limited.position_clamps.any()


def test_a_far_start_is_no_clamped_row_of_the_chunk():
    rows = chunk('first_row_far_from_robot')
    checker(max_clamped_rows=0).check_chunk(rows, PERIOD_S)
    approach = limit(rows)  # from the robot at rest
    np.testing.assert_allclose(approach.rows[:, 0], 0.1 + 0.075 * np.arange(1, 11))
    assert approach.step_clamps[0] == 10


#
def test_refused_shapes():
    for rows, text in (
        (chunk('wrong_width_6'), r'shape [10, 6], needed at least 1 row and 7 columns'),
        (chunk('empty'), r'shape [0, 7], needed'),
        (np.load(CASES / 'chunks' / 'ok.npy'), r'shape [10, 32], needed'),  # padding is no joint
        (AT_REST, r'shape [7], needed'),
    ):
        refused = refusal(checker().check_chunk, rows, PERIOD_S)
        assert refused.reason == 'bad_shape'
        assert text in str(refused)


@pytest.mark.parametrize(
    'due_s', [[0.0], [-0.05], [np.nan], [np.inf], [0.05, 0.05], [0.05, 0.04], [], [[0.05]]]
)
def test_refused_times(due_s: list):
    rows = np.tile(AT_REST, (max(1, len(due_s)), 1))
    assert refusal(checker().limit, rows, np.array(due_s), AT_REST, None).reason == 'bad_times'
    for period_s in (0.0, -0.05, np.nan, np.inf):
        assert refusal(checker().check_chunk, rows, period_s).reason == 'bad_times'


# For every chunk.
def numbers(low: float, high: float):
    return st.floats(low, high, allow_nan=False, allow_infinity=False)


FINITE = st.floats(allow_nan=False, allow_infinity=False)


def chunks(elements=FINITE):
    return st.integers(1, 12).flatmap(lambda rows: arrays.arrays(np.float64, (rows, 7), elements=elements))


poses = arrays.arrays(np.float64, 7, elements=numbers(-0.1, 3.0))
periods = numbers(1e-3, 10.0)


def inside(fraction: np.ndarray) -> np.ndarray:
    """[0, 1] -> inside the limits of each joint."""
    return LIMITS.lower + fraction * (LIMITS.upper - LIMITS.lower)


@given(chunks(), arrays.arrays(np.float64, 7, elements=numbers(0, 1)), periods)
def test_rows_are_inside_and_no_step_is_too_large(rows, fraction, period_s):
    previous = inside(fraction)
    limited = checker().limit(rows, due(len(rows), period_s), previous, None).rows
    assert ((limited >= LIMITS.lower) & (limited <= LIMITS.upper)).all()
    path = np.vstack([previous, limited])
    largest = LIMITS.max_velocity * np.diff(due(len(rows), period_s), prepend=0.0)[:, np.newaxis]
    rounding = EPS * np.maximum(np.abs(path[:-1]), np.abs(path[1:]))
    assert (np.abs(np.diff(path, axis=0)) <= largest + rounding).all()
    checker().check_message(limited, NAMES)


@given(chunks(), poses.map(lambda pose: 3 * pose), periods)
def test_a_robot_outside_its_limits_moves_back_without_a_jump(rows, previous, period_s):
    limited = checker().limit(rows, due(len(rows), period_s), previous, None).rows
    path = np.vstack([previous, limited])
    largest = LIMITS.max_velocity * np.diff(due(len(rows), period_s), prepend=0.0)[:, np.newaxis]
    rounding = EPS * np.maximum(np.abs(path[:-1]), np.abs(path[1:]))
    assert (np.abs(np.diff(path, axis=0)) <= largest + rounding).all()
    outside = np.maximum(
        0, np.maximum(LIMITS.lower - path, path - LIMITS.upper)
    )  # how far, [rows + 1, joints]
    before, after = outside[:-1], outside[1:]
    # Each row goes back as far as one step may go, or all the way.
    assert (after <= np.maximum(0, before - largest + rounding)).all()
    checker().check_message(limited, NAMES, previous)


@given(st.data(), arrays.arrays(np.float64, 7, elements=numbers(0, 1)), st.integers(1, 12), periods)
def test_rows_that_obey_come_back_bit_for_bit(data, fraction, count, period_s):
    due_s = due(count, period_s)
    largest = LIMITS.max_velocity * np.diff(due_s, prepend=0.0)[:, np.newaxis]
    previous = inside(fraction)
    rows, at = [], previous
    for i in range(count):
        share = data.draw(arrays.arrays(np.float64, 7, elements=numbers(-1, 1)))
        step = share * largest[i]
        row = np.clip(at + step, LIMITS.lower, LIMITS.upper)
        row = np.where(np.abs(row - at) <= largest[i], row, at)  # where the sum was rounded up
        row = np.where(row == 0, -0.0, row)  # a zero keeps its sign
        rows.append(row)
        at = row
    rows = np.array(rows)
    limited = checker().limit(rows, due_s, previous, None)
    assert limited.rows.tobytes() == rows.tobytes()
    assert not limited.position_clamps.any()
    assert not limited.step_clamps.any()


@given(chunks(numbers(-5, 5)), poses)
def test_limiting_twice_changes_nothing(rows, previous):
    due_s = due(len(rows))
    once = checker().limit(rows, due_s, previous, None).rows
    twice = checker().limit(once, due_s, previous, None).rows
    np.testing.assert_allclose(twice, once, rtol=EPS, atol=EPS)


@given(chunks(), st.data(), st.sampled_from([np.nan, np.inf, -np.inf]), st.booleans())
def test_nothing_that_is_not_finite_is_clamped(rows, data, value, is_velocity):
    row, column = data.draw(st.integers(0, len(rows) - 1)), data.draw(st.integers(0, 6))
    rows[row, column] = value
    under_test = checker(VELOCITIES if is_velocity else POSITIONS)
    text = f'{NAMES[column]} is {value} in row {row}'
    for call, arguments in (
        (under_test.check_chunk, (rows, PERIOD_S)),
        (under_test.limit, (rows, due(len(rows)), AT_REST, AT_REST)),
        (under_test.check_message, (rows[:, [column]], [NAMES[column]])),
    ):
        refused = refusal(call, *arguments)
        assert refused.reason == 'not_finite'
        assert text in str(refused)


@given(chunks(numbers(-2, 2)), st.integers(0, 6), st.sampled_from([np.nan, np.inf, -np.inf]))
def test_limits_count_from_numbers_only(rows, column, value):
    broken = AT_REST.copy()
    broken[column] = value
    refused = refusal(checker().limit, rows, due(len(rows)), broken, None)
    assert refused.reason == 'not_finite'
    assert f'previous command: {NAMES[column]}' in str(refused)
    arguments = rows, due(len(rows)), AT_REST, broken
    if VELOCITIES[column]:
        assert f'measured joints: {NAMES[column]}' in str(refusal(checker(VELOCITIES).limit, *arguments))
    else:  # the gripper is commanded by position: where it is measured does not matter
        checker(VELOCITIES).limit(*arguments)


@given(chunks(numbers(-3, 3)), st.integers(0, 12))
def test_clamped_rows_are_those_that_limit_would_change(rows, allowed):
    start = np.clip(rows[0], LIMITS.lower, LIMITS.upper)
    changed = np.abs(limit(rows, start).rows - rows) > 1e-5
    small = np.abs(limit(rows, start).rows - rows)
    assume(((small == 0) | (small > 1e-5)).all())  # what may be rounding is another test
    if changed.any(axis=1).sum() > allowed:
        refused = refusal(checker(max_clamped_rows=allowed).check_chunk, rows, PERIOD_S)
        assert refused.reason == 'too_many_clamped'
        counts = changed.sum(axis=0)
        assert any(f'most of all {NAMES[i]}:' in str(refused) for i in np.flatnonzero(counts == counts.max()))
    else:
        checker(max_clamped_rows=allowed).check_chunk(rows, PERIOD_S)


def test_rounding_to_float32_is_clamped_but_not_counted():
    rows = np.tile(np.float32(AT_REST).astype(np.float64), (3, 1))
    rows[:, 6] = np.nextafter(np.float32(0.08), np.float32(1))
    rows[:, 0] = [0.1, 0.175 + 1e-7, 0.25 + 2e-7]
    assert rows[0, 6] > LIMITS.upper[6]
    assert (np.diff(rows[:, 0]) > 0.075 + EPS).all()
    limited = limit(rows, previous=rows[0])
    assert (limited.rows <= LIMITS.upper).all()
    assert (np.diff(limited.rows[:, 0]) <= 0.075 + EPS).all()
    assert not limited.position_clamps.any()
    assert not limited.step_clamps.any()
    checker(max_clamped_rows=0).check_chunk(rows, PERIOD_S)


# Velocities.
@given(chunks(), arrays.arrays(np.float64, 7, elements=numbers(0, 1)), periods)
def test_velocities_do_not_lead_out_of_the_position_limits(rows, fraction, period_s):
    measured = inside(fraction)
    limited = checker(VELOCITIES).limit(rows, due(len(rows), period_s), measured, measured).rows
    assert (np.abs(limited[:, :6]) <= LIMITS.max_velocity[:6]).all()
    assert ((limited[:, 6] >= 0) & (limited[:, 6] <= 0.08)).all()
    positions = measured[:6] + np.cumsum(limited[:, :6] * period_s, axis=0)
    # Each row is a product and a sum, and the times are differences: a few roundings a row.
    rounding = 8 * EPS * len(rows) * (np.abs(positions).max() + 1.5 * period_s * len(rows))
    assert (positions >= LIMITS.lower[:6] - rounding).all()
    assert (positions <= LIMITS.upper[:6] + rounding).all()
    checker(VELOCITIES).check_message(limited, NAMES, measured)


@given(arrays.arrays(np.float64, (1, 7), elements=numbers(-5, 5)), numbers(0, 3))
def test_velocities_outside_the_limits_lead_back_or_are_zero(rows, beyond):
    measured = AT_REST + [2.5 + beyond, -2.5 - beyond, 0, 0, 0, 0, 0]
    limited = checker(VELOCITIES).limit(rows, due(1), AT_REST, measured).rows[0]
    assert limited[0] == np.clip(rows[0, 0], -1.5, 0)
    assert limited[1] == np.clip(rows[0, 1], 0, 1.5)


def test_velocities_are_counted_and_need_a_measured_joint():
    rows = np.array([[2.0, 1.0, 0, 0, 0, 0, 0.04]])
    measured = AT_REST + [0, 2.18, 0, 0, 0, 0, 0]  # joint_2 at 1.98: 0.02 rad are left
    limited = checker(VELOCITIES).limit(rows, due(1), AT_REST, measured)
    np.testing.assert_allclose(limited.rows, [[1.5, 0.4, 0, 0, 0, 0, 0.04]])
    assert limited.step_clamps.tolist() == [1, 0, 0, 0, 0, 0, 0]
    assert limited.position_clamps.tolist() == [0, 1, 0, 0, 0, 0, 0]
    refused = refusal(checker(VELOCITIES).limit, rows, due(1), AT_REST, None)
    assert refused.reason == 'not_measured'
    assert 'joint_1' in str(refused)


def test_clamped_velocities_of_a_chunk():
    rows = np.tile([1.4, 0, 0, 0, 0, 0, 0.04], (5, 1))
    checker(VELOCITIES, max_clamped_rows=0).check_chunk(rows, PERIOD_S)
    rows[2:, 0] = 1.6
    refused = refusal(checker(VELOCITIES, max_clamped_rows=2).check_chunk, rows, PERIOD_S)
    assert 'joint_1: 0 rows beyond -2..2, 3 rows faster than 1.5' in str(refused)


# The message just before publishing.
@pytest.mark.parametrize(
    ('is_velocity', 'joints', 'values', 'previous', 'reason'),
    [
        (POSITIONS, NAMES, AT_REST, None, ''),
        (POSITIONS, ['gripper', 'joint_1'], [[0.08, -2.0], [0.0, 2.0]], None, ''),
        (POSITIONS, ['gripper'], [0.0800001], None, 'outside'),
        (POSITIONS, ['joint_2'], [[0.0], [-2.0000001]], None, 'outside'),
        (POSITIONS, ['joint_2'], [np.nan], None, 'not_finite'),
        (POSITIONS, ['joint_2'], [np.inf], np.full(7, np.inf), 'not_finite'),
        # A robot that stands outside may be told to stay or to come back, and nothing else.
        (POSITIONS, ['joint_2'], [2.3], AT_REST + [0, 2.5, 0, 0, 0, 0, 0], ''),
        (POSITIONS, ['joint_2'], [2.2], AT_REST + [0, 2.5, 0, 0, 0, 0, 0], ''),
        (POSITIONS, ['joint_2'], [2.31], AT_REST + [0, 2.5, 0, 0, 0, 0, 0], 'outside'),
        (POSITIONS, ['joint_1'], [2.2], AT_REST + [0, 2.5, 0, 0, 0, 0, 0], 'outside'),
        (POSITIONS, ['joint_2'], [-2.1], AT_REST + [0, 2.5, 0, 0, 0, 0, 0], 'outside'),
        (POSITIONS, ['joint_2'], [2.2], np.full(7, np.nan), 'outside'),
        (POSITIONS, ['joint_2'], [2.2], np.full(7, np.inf), 'outside'),
        (VELOCITIES, ['joint_2'], [[1.5], [-1.5]], None, ''),
        (VELOCITIES, ['joint_2'], [1.6], AT_REST + 3, 'outside'),
        (POSITIONS, ['joint_8'], [0.0], None, 'bad_shape'),
        (POSITIONS, ['joint_1', 'joint_2'], [0.0], None, 'bad_shape'),
        (POSITIONS, [], [], None, 'bad_shape'),
    ],
)
def test_message(is_velocity, joints, values, previous, reason: str):
    call, arguments = checker(is_velocity).check_message, (np.array(values), joints, previous)
    if not reason:
        call(*arguments)
        return
    refused = refusal(call, *arguments)
    assert refused.reason == reason
    assert joints == [] or joints[0] in str(refused)


# The limits themselves.
@pytest.mark.parametrize(
    ('lower', 'upper', 'velocity'),
    [
        ([0, np.nan], [1, 1], [1, 1]),
        ([0, 1], [1, 1], [1, 1]),
        ([0, 0], [1, np.inf], [1, 1]),
        ([0, 0], [1, 1], [1, 0]),
        ([0, 0], [1, 1], [1, np.nan]),
        ([0, 0], [1, 1], [1, np.inf]),
    ],
)
def test_limits_that_mean_nothing_are_refused_by_name(lower, upper, velocity):
    with pytest.raises(Error, match=r'joint limits: wrist: .*; needed finite lower < upper'):
        JointLimits(('arm', 'wrist'), *(np.array(values, np.float64) for values in (lower, upper, velocity)))


def test_limits_one_short_are_refused():
    with pytest.raises(Error, match=r'upper has shape \(1,\), needed \(2,\)'):
        JointLimits(('arm', 'wrist'), np.zeros(2), np.ones(1), np.ones(2))


def test_limits_of_the_parameters():
    limits = limits_of(parameters())
    assert limits.names == NAMES
    np.testing.assert_array_equal(limits.lower, LIMITS.lower)
    np.testing.assert_array_equal(limits.upper, LIMITS.upper)
    np.testing.assert_array_equal(limits.max_velocity, LIMITS.max_velocity)


def test_gripper_that_is_pushed_against_its_end_is_clamped_and_refuses_nothing():
    names = ('joint_1', 'gripper')
    limits = JointLimits(names, np.array([-2.0, 0.0]), np.array([2.0, 0.08]), np.array([1.5, 0.2]))
    rows = np.tile([0.1, 0.081], (50, 1))
    is_gripper = np.array([False, True])
    no_velocity = np.zeros(2, bool)
    judging_all = CommandLimits(limits, no_velocity, 10)
    with pytest.raises(ChunkRefused, match='most of all gripper'):
        judging_all.check_chunk(rows, 0.02)
    sparing = CommandLimits(limits, no_velocity, 10, is_gripper)
    sparing.check_chunk(rows, 0.02)
    limited = sparing.limit(rows, 0.02 * np.arange(1, 51), np.array([0.1, 0.08]), None)
    assert limited.rows[:, 1].max() == 0.08
    assert limited.position_clamps.tolist() == [0, 50]
    rows[:, 0] = 2.5
    with pytest.raises(ChunkRefused, match='most of all joint_1'):
        sparing.check_chunk(rows, 0.02)
