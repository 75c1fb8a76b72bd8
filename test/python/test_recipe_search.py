# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The search for exceptions: what it returns is measured, small, and within its limit."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_core.errors import Error
from flashrt_core.recipe_search import Candidate, best_under, fewest


class Model:
    """Groups that add squares to the error of a model; some pairs more than both alone."""

    def __init__(self, squares, floor=0.0, pairs=None, costs=None):
        self.squares, self.floor, self.pairs = squares, floor, pairs or {}
        self.costs = costs or dict.fromkeys(squares, 1.0)
        self.measured = []

    def error(self, kept):
        left = self.floor + sum(square for name, square in self.squares.items() if name not in kept)
        left += sum(square for pair, square in self.pairs.items() if not set(pair) & kept)
        return math.sqrt(left)

    def measure(self, kept):
        self.measured.append(kept)
        return self.error(kept)

    @property
    def candidates(self):
        return [Candidate(name, self.error({name}), self.costs[name]) for name in self.squares]


def test_the_worst_groups_are_kept_first():
    model = Model({'a': 1.0, 'b': 9.0, 'c': 4.0})
    assert fewest(model.candidates, model.measure, 2.3) == {'b'}
    assert fewest(model.candidates, model.measure, 1.1) == {'b', 'c'}
    assert fewest(model.candidates, model.measure, 0.5) == {'a', 'b', 'c'}


def test_nothing_is_kept_where_the_error_is_small_enough():
    model = Model({'a': 1.0, 'b': 9.0})
    assert fewest(model.candidates, model.measure, 3.2) == frozenset()


def test_an_error_below_that_of_float_is_refused_with_both_numbers():
    model = Model({'a': 1.0, 'b': 9.0}, floor=0.25)
    with pytest.raises(Error, match=r'with all 2 groups in float the error is 0\.5, which is above 0\.4'):
        fewest(model.candidates, model.measure, 0.4)


def test_a_guess_that_is_wrong_is_corrected_by_measuring():
    """Alone each of the pair gains all that both lose together: sums promise twice of it."""
    model = Model({'a': 1.0, 'b': 1.0, 'c': 2.0}, pairs={('a', 'b'): 6.0})
    kept = fewest(model.candidates, model.measure, 1.0)
    assert model.error(kept) <= 1.0
    assert kept in model.measured
    assert kept == {'a', 'c'} or kept == {'b', 'c'}


def test_what_others_make_needless_is_left_out():
    """The first of the ranking is worth nothing once the second is kept."""
    model = Model({'a': 0.5, 'b': 0.4, 'c': 0.3}, pairs={('a', 'b'): 5.0, ('a', 'c'): 3.0, ('b', 'c'): 2.9})
    kept = fewest(model.candidates, model.measure, 1.0)
    assert all(model.error(kept - {name}) > 1.0 for name in kept)


groups = st.dictionaries(st.sampled_from('abcdefgh'), st.floats(0.0, 10.0), min_size=1)


@given(squares=groups, part=st.floats(0.01, 1.2), data=st.data())
def test_what_is_found_is_within_the_error_and_none_of_it_can_go(squares, part, data):
    names = sorted(squares)
    pairs = {
        (first, second): data.draw(st.floats(0.0, 5.0))
        for i, first in enumerate(names)
        for second in names[i + 1 :]
        if data.draw(st.booleans())
    }
    model = Model(squares, pairs=pairs)
    limit = part * model.error(frozenset())
    kept = fewest(model.candidates, model.measure, limit)
    assert model.error(kept) <= limit
    assert not kept or kept in model.measured
    assert all(model.error(kept - {name}) > limit for name in kept)


@given(squares=groups, limit=st.floats(0.0, 20.0), data=st.data())
def test_costs_are_kept_and_the_best_sum_is_nearly_found(squares, limit, data):
    costs = {name: data.draw(st.floats(0.1, 10.0)) for name in squares}
    model = Model(squares, costs=costs)
    kept = best_under(model.candidates, model.measure, limit)
    assert sum(costs[name] for name in kept) <= limit + 1e-9
    names = sorted(squares)
    subsets = [{n for i, n in enumerate(names) if bits >> i & 1} for bits in range(1 << len(names))]
    # Costs are rounded up to a thousandth of the limit.
    slack = limit * (1 - len(names) / 1000)
    possible = min(model.error(subset) for subset in subsets if sum(costs[n] for n in subset) <= slack)
    assert model.error(kept) <= possible + 1e-9


def test_what_costs_nothing_is_kept_under_any_limit():
    model = Model({'a': 1.0, 'b': 9.0}, costs={'a': -0.1, 'b': 2.0})
    assert best_under(model.candidates, model.measure, 0.0) == {'a'}
    assert best_under(model.candidates, model.measure, 2.0) == {'a', 'b'}


def test_groups_that_make_it_worse_in_float_are_left_quantised():
    model = Model({'a': 1.0, 'b': -0.5}, floor=1.0)
    assert best_under(model.candidates, model.measure, 5.0) == {'a'}
