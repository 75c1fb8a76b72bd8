# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Joining chunks: by hand, and what holds for all sizes; `flashrt golden` compares with the originals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_core.action_queue import ActionQueue
from flashrt_core.chunk_joining import (
    ROUNDING,
    ActionInterpolator,
    TemporalEnsemble,
    TimedRows,
    cross_fade,
    fused,
    interpolate,
    remaining,
    rows_at,
)
from flashrt_core.errors import Error

LADDER = np.arange(10.0)[:, np.newaxis] * [1, -2]  # row i is [i, -2 i]
values = st.floats(-100, 100)


def test_values_between_rows():
    np.testing.assert_allclose(rows_at(LADDER, [2.25, 0.5]), [[2.25, -4.5], [0.5, -1]])
    np.testing.assert_array_equal(rows_at(LADDER, [-3, 9, 12]), LADDER[[0, 9, 9]])


@given(st.integers(0, 9), st.floats(-5e-7, 5e-7))
def test_whole_positions_are_rows_to_the_last_bit(row: int, error: float):
    rows = np.random.default_rng(row).normal(size=(10, 3))
    np.testing.assert_array_equal(rows_at(rows, [row + error])[0], rows[row])


@given(values, values)
def test_interpolation_ends_exactly(first: float, second: float):
    first, second = np.array([first]), np.array([second])
    assert interpolate(first, second, 0) == first
    assert interpolate(first, second, 1) == second


def test_interpolation_keeps_the_type():
    rows = LADDER.astype(np.float32)
    assert rows_at(rows, [0.3]).dtype == remaining(rows, 0.3).dtype == np.float32


def test_what_remains_of_a_chunk():
    np.testing.assert_array_equal(remaining(LADDER, 7), LADDER[7:])
    np.testing.assert_allclose(remaining(LADDER, 6.5), LADDER[6:9] + [0.5, -1])
    assert remaining(LADDER, 9.5).shape == (0, 2)
    assert remaining(LADDER, 10).shape == remaining(LADDER, 30).shape == (0, 2)


def test_cross_fade_by_hand():
    """Four rows are left of the old chunk, two are mixed; both chunks at the same time."""
    old = TimedRows(np.zeros((8, 1)), origin=0)
    new = TimedRows(np.full((8, 1), 3.0), origin=2)
    mixed = cross_fade(old, new, now=4, blend_rows=2)
    assert mixed.rows[:, 0].tolist() == [0, 0, 1, 2, 3, 3, 3, 3]
    assert mixed.origin == 2


def test_cross_fade_is_no_longer_than_the_old_chunk():
    old, new = TimedRows(np.zeros((5, 1)), origin=0), TimedRows(np.full((8, 1), 2.0), origin=4)
    assert cross_fade(old, new, now=4, blend_rows=6).rows[:, 0].tolist() == [1, 2, 2, 2, 2, 2, 2, 2]
    assert (cross_fade(old, new, now=5, blend_rows=6).rows[1:] == 2).all()
    between = TimedRows(np.full((8, 1), 2.0), origin=3.5)  # rows at 4.5 and, after the old chunk, at 5.5
    np.testing.assert_allclose(cross_fade(old, between, now=4, blend_rows=6).rows[:3, 0], [2 / 3, 2, 2])


@given(st.integers(0, 12), st.floats(0, 9), st.floats(0, 9))
def test_cross_fade_carries_the_difference_in_equal_parts(blend_rows: int, now: float, seen: float):
    """The largest step of the mixture is the jump over the number of steps; times within ROUNDING are one."""
    old, new = TimedRows(np.zeros((20, 1)), 0.0), TimedRows(np.ones((20, 1)), min(seen, now))
    mixed = cross_fade(old, new, now, blend_rows)
    path = mixed.at(now + np.arange(0, 15))[:, 0]
    assert np.diff(path).max() <= 1 / min(blend_rows + 1, 20 - now) + ROUNDING
    assert (np.diff(path) >= -1e-12).all()


def test_mean_of_chunks_by_hand():
    chunks = [TimedRows(np.full((4, 1), value), origin) for value, origin in ((0.0, 0), (3.0, 2), (6.0, 3))]
    np.testing.assert_allclose(fused(chunks, [3, 4, 6, 7], 0.0)[:, 0], [1.5, 3, 4.5, 6])
    weights = np.exp(-0.5 * np.arange(3))
    assert fused(chunks, [4], 0.5) == pytest.approx(weights @ [0, 3, 6] / weights.sum())
    # A chunk that does not cover the time has no place among those that do.
    chunks.append(TimedRows(np.full((1, 1), 9.0), 5))
    assert fused([chunks[3], *chunks[:3]], [4], 0.5) == fused(chunks[:3], [4], 0.5)
    assert fused([chunks[1], chunks[0], chunks[2]], [5], 0.5) == fused(chunks[1:3], [5], 0.5)
    # The first chunk has ended: the second is the oldest of those that are left.
    assert fused(chunks, [5], 0.5) == pytest.approx(weights[:2] @ [3, 6] / weights[:2].sum())


def test_mean_of_nothing_is_refused():
    with pytest.raises(Error, match='none of the 1 chunks has a row at all of the 2 times'):
        fused([TimedRows(LADDER, 0)], [3, 11], 0.0)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.floats(-10, 10), values)
def test_mean_of_equal_chunks_is_exact(origins: list[int], decay: float, value: float):
    chunks = [TimedRows(np.full((10, 2), value), origin) for origin in sorted(origins)]
    assert (fused(chunks, chunks[-1].times, decay) == value).all()


def running_mean(chunks: np.ndarray, decay: float) -> np.ndarray:
    """The running form of the original, chunk by chunk."""
    horizon = chunks.shape[1]
    weights = np.exp(-decay * np.arange(horizon))
    total = np.cumsum(weights)
    sent = []
    for tick, chunk in enumerate(chunks):
        if not tick:
            means, counts = chunk.copy(), np.ones((horizon, 1), int)
        else:
            means = means * total[counts - 1] + chunk[:-1] * weights[counts]
            means /= total[counts]
            counts = np.minimum(counts + 1, horizon)
            means, counts = np.concatenate([means, chunk[-1:]]), np.concatenate([counts, [[1]]])
        sent.append(means[0])
        means, counts = means[1:], counts[1:]
    return np.array(sent)


@given(st.integers(1, 12), st.integers(1, 8), st.floats(-1, 1))
def test_ensemble_is_the_running_mean_of_the_original(ticks: int, horizon: int, decay: float):
    chunks = np.random.default_rng(ticks).normal(size=(ticks, horizon, 3))
    ensemble = TemporalEnsemble(decay)
    sent = np.array([ensemble.update(chunk) for chunk in chunks])
    np.testing.assert_allclose(sent, running_mean(chunks, decay), rtol=0, atol=1e-12)


def test_ensemble_after_a_reset_knows_nothing():
    ensemble = TemporalEnsemble(0.0)
    ensemble.update(LADDER)
    ensemble.reset()
    np.testing.assert_array_equal(ensemble.update(LADDER + 5), LADDER[0] + 5)


def test_interpolator_after_a_reset_begins_afresh():
    interpolator = ActionInterpolator(2)
    assert interpolator.add(LADDER[0]).shape == (1, 2)
    np.testing.assert_array_equal(interpolator.add(LADDER[1]), [[0.5, -1], [1, -2]])
    interpolator.reset()
    np.testing.assert_array_equal(interpolator.add(LADDER[4]), LADDER[4:5])
    with pytest.raises(Error, match='multiplier is 0'):
        ActionInterpolator(0)


@given(
    st.booleans(), st.lists(st.tuples(st.integers(1, 6), st.integers(0, 9), st.integers(-2, 9)), max_size=6)
)
def test_queue_keeps_both_arrays_aligned(replaces: bool, rounds: list[tuple[int, int, int]]):
    """Row i of every chunk is [i] in model space and [10 i] in robot units."""
    queue = ActionQueue(replaces)
    assert queue.leftover() is None
    for rows, gets, delay in rounds:
        chunk = np.arange(float(rows))[:, np.newaxis]
        queue.merge(chunk, 10 * chunk, delay)
        assert queue.index == 0
        if replaces:
            assert len(queue) == max(0, rows - max(0, delay))
        for _ in range(gets):
            before = queue.leftover()[1]
            action = queue.get()
            assert (action is None) == (len(before) == 0)
            if action is not None:
                np.testing.assert_array_equal(action, before[0])
        model, robot = queue.leftover()
        assert len(model) == len(robot) == len(queue)
        np.testing.assert_array_equal(10 * model, robot)
    queue.clear()
    assert (len(queue), queue.index, queue.get(), queue.leftover()) == (0, 0, None, None)


def test_queue_refuses_arrays_that_do_not_belong_together():
    queue = ActionQueue(replaces=False)
    with pytest.raises(Error, match='9 rows in model space, 10 in robot units'):
        queue.merge(LADDER[1:], LADDER, 0)
    queue.merge(LADDER, LADDER, 0)
    with pytest.raises(Error, match=r'rows of shape \(3,\) in robot units cannot follow \(2,\)'):
        queue.merge(LADDER, np.zeros((10, 3)), 0)
