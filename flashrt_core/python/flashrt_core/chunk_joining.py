# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Chunks that follow one another: values between rows, cross-fades, and means of overlapping chunks.

Time is counted in rows: row i of a chunk is due at the time of its observation plus i + 1.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flashrt_core.errors import Error

ROUNDING = 1e-6  # rows; times nearer to each other are the same time


def interpolate(first: NDArray, second: NDArray, fraction: ArrayLike) -> NDArray:
    """`first` at fraction 0, `second` at 1, both exactly; fraction broadcasts over the arrays."""
    fraction = np.asarray(fraction, second.dtype)
    return np.where(fraction == 1, second, first + fraction * (second - first))


def rows_at(rows: NDArray, positions: ArrayLike) -> NDArray:
    """[rows, columns] at [k] positions, 0 = the first row -> [k, columns]; linear between rows.

    Before the first row and after the last one the value stays.
    """
    wanted = np.clip(np.asarray(positions, np.float64), 0, len(rows) - 1)
    nearest = np.rint(wanted)
    wanted = np.where(np.abs(wanted - nearest) < ROUNDING, nearest, wanted)
    index = np.floor(wanted).astype(np.int64)
    following = np.minimum(index + 1, len(rows) - 1)
    return interpolate(rows[index], rows[following], (wanted - index)[:, np.newaxis])


def remaining(rows: NDArray, position: float) -> NDArray:
    """What is left of [rows, columns] from `position` >= 0 on, in steps of one row: [left, columns]."""
    left = max(0, int(np.floor(len(rows) - position + ROUNDING)))
    return rows_at(rows, position + np.arange(left)) if left else rows[:0]


@dataclass(frozen=True, eq=False)
class TimedRows:
    """The rows of one chunk on a common time."""

    rows: NDArray  # [rows, columns]
    origin: float  # time of the observation

    @property
    def times(self) -> NDArray[np.float64]:
        """[rows] when each row is due."""
        return self.origin + 1 + np.arange(len(self.rows))

    @property
    def end(self) -> float:
        """When the last row is due."""
        return self.origin + len(self.rows)

    def at(self, times: ArrayLike) -> NDArray:
        """[k] -> [k, columns]; outside the chunk its nearest row."""
        return rows_at(self.rows, np.asarray(times, np.float64) - self.origin - 1)

    def covers(self, times: NDArray[np.float64]) -> NDArray[np.bool_]:
        """[k] whether a row, or a place between two rows, is due then."""
        return (times >= self.origin + 1 - ROUNDING) & (times <= self.end + ROUNDING)


def cross_fade(old: TimedRows, new: TimedRows, now: float, blend_rows: int) -> TimedRows:
    """The rows of `new`, of which the first `blend_rows` after `now` come gradually from those of `old`.

    Both are taken at the same time. Row k of n mixed ones has k / (n + 1) of the new chunk, so that all steps
    carry the same part of the difference; rows that `old` does not reach are never mixed. Past rows are those
    of `old`.
    """
    beyond = new.times[new.times > old.end + ROUNDING]
    length = min([blend_rows + 1, *(beyond[:1] - now)])
    share = np.clip((new.times - now) / length, 0, 1)
    share = np.where(share > 1 - ROUNDING / length, 1, share)
    return TimedRows(interpolate(old.at(new.times), new.rows, share[:, np.newaxis]), new.origin)


def fused(chunks: Sequence[TimedRows], times: ArrayLike, decay: float) -> NDArray:
    """[k, columns]: at every time the mean of the chunks that cover it, oldest first.

    The weights are exp(-decay i), i = 0 for the oldest chunk that covers the time: decay > 0 favours old
    predictions, 0 none, decay < 0 new ones.
    """
    times = np.asarray(times, np.float64)
    covers = np.array([chunk.covers(times) for chunk in chunks])
    if not covers.any(axis=0).all():
        raise Error(f'fused: none of the {len(chunks)} chunks has a row at all of the {len(times)} times')
    predictions = np.array([chunk.at(times) for chunk in chunks])
    exponents = np.where(covers, -decay * (np.cumsum(covers, axis=0) - 1), -np.inf)
    weights = np.exp(exponents - exponents.max(axis=0))[..., np.newaxis]
    # Differences from the newest chunk: where all agree the mean is what they agree on, to the last bit.
    newest = predictions[-1]
    mean = newest + (weights * (predictions - newest)).sum(axis=0) / weights.sum(axis=0)
    return mean.astype(newest.dtype)


class TemporalEnsemble:
    """For loops that infer at every tick: the mean of all predictions of that tick (as in ACT)."""

    def __init__(self, decay: float) -> None:
        self._decay = decay
        self.reset()

    def reset(self) -> None:
        """Forgets all chunks."""
        self._ticks = 0
        self._chunks: deque[TimedRows] = deque()

    def update(self, chunk: NDArray) -> NDArray:
        """[rows, columns] inferred at this tick -> [columns] to be sent now; a tick passes."""
        self._chunks.append(TimedRows(chunk, self._ticks))
        self._ticks += 1
        while self._chunks[0].end < self._ticks:
            self._chunks.popleft()
        return fused(self._chunks, [self._ticks], self._decay)[0]


class ActionInterpolator:
    """For loops that send several times per row of the policy."""

    def __init__(self, multiplier: int) -> None:
        if multiplier < 1:
            raise Error(f'action interpolator: multiplier is {multiplier}, needed a whole number >= 1')
        self._fractions = np.arange(1, multiplier + 1) / multiplier
        self.reset()

    def reset(self) -> None:
        """The next action is the first one."""
        self._previous: NDArray | None = None

    def add(self, action: NDArray) -> NDArray:
        """[columns] -> [multiplier, columns] to be sent one after the other, the action itself last.

        The first action has nothing to come from: it is sent once.
        """
        previous, self._previous = self._previous, action
        if previous is None:
            return action[np.newaxis]
        return rows_at(np.stack([previous, action]), self._fractions)
