# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""How far joints step where chunks join, on a policy whose chunks differ: less than by naive replacement."""

from pathlib import Path

import pytest

BENCHMARK = Path(__file__).resolve().parent.parent / 'benchmark'
SECONDS = 60.0  # on no clock


@pytest.fixture
def joins(monkeypatch: pytest.MonkeyPatch) -> dict:
    """Way -> its steps, as the benchmark measures them."""
    monkeypatch.syspath_prepend(str(BENCHMARK))
    from chunk_joins import measure_joins

    return {item.way: item for item in measure_joins(SECONDS)}


def test_every_way_of_joining_steps_less_than_naive_replacement(joins: dict):
    naive, skip = joins.pop('naive replacement'), joins.pop('skip')
    assert naive.chunks > 300
    assert skip.at_join_max < 0.9 * naive.at_join_max
    assert set(joins) == {'blend', 'fusion', 'rtc guided', 'rtc hard'}
    for item in joins.values():
        assert item.chunks > 300
        assert max(item.at_join_max, item.elsewhere_max) < 0.4 * skip.at_join_max
