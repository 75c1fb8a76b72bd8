# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The delay estimate: bounded, high, and quick to forget one slow chunk (R-40)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.delay import DelayEstimate

measured = st.lists(st.integers(0, 60), max_size=40)


def estimate(rows: list[int], percentile: float = 90.0, max_rows: int = 49) -> int:
    delay = DelayEstimate(percentile, max_rows)
    for value in rows:
        delay.add(value)
    return delay.rows


def test_before_the_first_measurement_it_is_the_bound():
    assert estimate([]) == 49
    delay = DelayEstimate(90.0, 9)
    delay.add(2)
    delay.clear()
    assert delay.rows == 9


def test_one_slow_chunk_is_outweighed_by_the_next():
    assert [estimate([18, 2, 2, 2, 2][:count]) for count in range(1, 6)] == [18, 2, 2, 2, 2]
    assert estimate([2, 2, 2, 18]) == 2


def test_two_slow_chunks_count():
    assert estimate([2, 2, 2, 18, 18]) == 18
    assert estimate([2, 18, 2, 18, 2]) == 18


@pytest.mark.parametrize(('percentile', 'rows'), [(50, 4), (75, 6), (90, 8), (99, 8), (100, 9)])
def test_percentiles_by_hand(percentile: float, rows: int):
    """Of 0 to 9: places 4.5, 6.75, 8.1, 8.91 and 9, rounded down."""
    assert estimate([3, 1, 4, 9, 5, 2, 6, 8, 7, 0], percentile) == rows


@given(measured, st.floats(50, 100), st.integers(0, 60))
def test_it_is_bounded_and_never_above_what_was_measured(rows: list[int], percentile: float, max_rows: int):
    found = estimate(rows, percentile, max_rows)
    assert 0 <= found <= max_rows
    if rows:
        assert min(rows[-10:]) <= found <= max(rows[-10:]) or found == max_rows


@given(measured, st.floats(50, 100))
def test_what_is_ten_chunks_old_is_forgotten(rows: list[int], percentile: float):
    assert estimate([*rows, *[3] * 10], percentile, 60) == 3


@given(st.integers(0, 60), st.integers(0, 3), st.integers(0, 8))
def test_one_outlier_anywhere_is_forgotten_within_five_chunks(outlier: int, usual: int, before: int):
    for after in range(5, 12):
        assert estimate([*[usual] * before, outlier, *[usual] * after], 90.0, 60) == usual
