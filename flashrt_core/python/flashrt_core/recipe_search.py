# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Which groups to keep in float: few of them under an error, or the best ones under a cost.

What one group gains is measured; what several gain together is first guessed from that, as if squared errors
added up, and then measured: a guess never decides alone.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from flashrt_core.errors import Error

Measure = Callable[[frozenset[str]], float]  # error with these groups in float

COST_STEPS = 1000  # that a limit of cost is divided into, to choose groups


@dataclass(frozen=True)
class Candidate:
    """A group that may be kept in float."""

    name: str
    error: float  # with this group alone in float
    cost: float = 0.0  # of keeping it, in the unit of the limit


def fewest(candidates: Sequence[Candidate], measure: Measure, max_error: float) -> frozenset[str]:
    """Groups to keep for an error of at most max_error, none of which can be left out.

    Error where not even all of them are enough.
    """
    everything = frozenset(candidate.name for candidate in candidates)
    nothing: frozenset[str] = frozenset()
    if (least := measure(everything)) > max_error:
        raise Error(
            f'recipe: with all {len(everything)} groups in float the error is {least:.3g}, which is above '
            f'{max_error:g}; that much is left by the float type itself or by what is in no group'
        )
    if (most := measure(nothing)) <= max_error:
        return nothing
    ranked = sorted(candidates, key=lambda one: (one.error, one.cost))

    def first(size: int) -> frozenset[str]:
        return frozenset(candidate.name for candidate in ranked[:size])

    size = _guessed_size(ranked, most, max_error)
    while measure(first(size)) > max_error:
        size += 1
    while measure(first(size - 1)) <= max_error:
        size -= 1
    kept = first(size)
    # In this order the last ones gain least; dearer ones leave first.
    for candidate in sorted(ranked[:size], key=lambda one: (-one.cost, -one.error)):
        fewer = kept - {candidate.name}
        if measure(fewer) <= max_error:
            kept = fewer
    return kept


def _guessed_size(ranked: Sequence[Candidate], most: float, max_error: float) -> int:
    """How many of the ranked groups bring the square of the error down from `most`: at least one."""
    left = most**2
    for size, candidate in enumerate(ranked, 1):
        left -= most**2 - candidate.error**2
        if left <= max_error**2:
            return size
    return len(ranked)


def best_under(candidates: Sequence[Candidate], measure: Measure, max_cost: float) -> frozenset[str]:
    """Groups whose costs together are at most max_cost, with the least error of those that are tried.

    Tried are the choice that is best if squared errors add up, those by gain and by gain per cost, and none.
    """
    most = measure(frozenset())
    useful = [one for one in candidates if one.error < most]
    gain = {one.name: most**2 - one.error**2 for one in useful}
    orders = (
        sorted(useful, key=lambda one: -gain[one.name]),
        sorted(useful, key=lambda one: -gain[one.name] / one.cost if one.cost > 0 else -float('inf')),
    )
    choices = [frozenset[str](), _best_sum(useful, gain, max_cost)]
    choices += [_as_fits(order, max_cost) for order in orders]
    return min(dict.fromkeys(choices), key=measure)


def _as_fits(order: Iterable[Candidate], max_cost: float) -> frozenset[str]:
    """In this order, those that still fit."""
    taken, spent = set(), 0.0
    for candidate in order:
        if spent + max(0.0, candidate.cost) <= max_cost:
            taken.add(candidate.name)
            spent += max(0.0, candidate.cost)
    return frozenset(taken)


def _best_sum(useful: Sequence[Candidate], gain: dict[str, float], max_cost: float) -> frozenset[str]:
    """Largest sum of gains within the cost, whose steps are rounded up."""
    step = max_cost / COST_STEPS
    best: list[tuple[float, frozenset[str]]] = [(0.0, frozenset())] * (COST_STEPS + 1)
    for candidate in useful:
        if candidate.cost > max_cost:
            continue
        cost = -int(-candidate.cost // step) if candidate.cost > 0 else 0
        for spent in range(COST_STEPS, cost - 1, -1):
            before, taken = best[spent - cost]
            if before + gain[candidate.name] > best[spent][0]:
                best[spent] = before + gain[candidate.name], taken | {candidate.name}
    return best[COST_STEPS][1]
