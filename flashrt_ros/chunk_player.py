# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Plays action chunks: which rows are due, and how a new chunk takes over from the one in play.

Time is counted in rows of the policy, and passes with what is sent: a control period per command, none while
nothing is left. Row i of a chunk is due i + 1 after its observation. From a standstill the first command is
row 0 itself, and the last one is the last row: these take as much time as there is to them.
"""

import math
import threading
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flashrt_core.chunk_joining import ROUNDING, TimedRows, cross_fade, fused, interpolate, remaining
from flashrt_core.errors import Error
from flashrt_core.types import ActionPrefix, PrefixMode
from flashrt_ros.delay import DelayEstimate
from flashrt_ros.parameters import Parameters


@dataclass(frozen=True)
class Mark:
    """A point in the play, to be taken when an observation is formed."""

    run: int
    rows: float  # of time that had passed in the run


@dataclass(frozen=True, eq=False)
class Chunk:
    """What the policy answered to one observation."""

    chunk_id: int
    prompt_id: int
    actions: NDArray[np.float64]  # [rows, joints], robot units
    model_actions: NDArray[np.float32]  # [rows, columns], normalised
    # [state_dim] of the observation, as the policy got it; for mode rtc where actions count from the state
    state: NDArray[np.float64] | None = None


@dataclass(frozen=True, eq=False)
class Command:
    """What is to be sent now: the row for the end of this control period and the rows after it."""

    rows: NDArray[np.float64]  # [rows, joints]
    due_s: NDArray[np.float64]  # [rows], from now, strictly increasing
    chunk_id: int  # newest chunk that is in it; 0: none, the safe reaction
    prompt_id: int


@dataclass(frozen=True)
class PlayCounters:
    """What happened since the node was configured."""

    chunks: int = 0
    skipped_rows: int = 0  # past when their chunk was ready
    chunks_all_past: int = 0
    chunks_of_old_run: int = 0
    late_chunks: int = 0  # cost more rows than they were conditioned on; mode rtc
    hard_refusals: int = 0  # late chunks that were not played


@dataclass(frozen=True)
class PlayerSettings:
    """How chunks are played."""

    row_period_s: float
    control_period_s: float
    mode: str  # skip | blend | fusion | rtc
    blend_rows: int
    fusion_decay: float  # m of exp(-m i), i = 0 for the oldest chunk
    rtc: PrefixMode
    request_rows: int  # the next chunk is asked for when so few rows are left; 0: always
    delay_percentile: float
    max_delay_rows: int  # bound of the delay estimate


def player_settings(parameters: Parameters, horizon: int, max_hard_delay: int = 0) -> PlayerSettings:
    """horizon: rows of a chunk. max_hard_delay: rows that the checkpoint can take as given, for rtc hard."""
    most, why = horizon - 1, f'a chunk has {horizon} rows'
    if parameters.chunk_mode == 'rtc' and parameters.chunk_rtc == 'hard':
        if not max_hard_delay:
            raise Error(
                "chunk.rtc is 'hard', but the checkpoint was not trained to take rows as given "
                '(rtc_training_max_delay); use guided'
            )
        if max_hard_delay < most:
            most, why = max_hard_delay, f'the checkpoint was trained to take {max_hard_delay} rows as given'
    max_delay_rows = parameters.chunk_max_delay_rows or most
    if max_delay_rows > most:
        raise Error(f'chunk.max_delay_rows is {max_delay_rows}, but {why}; at most {most}, or 0 for that')
    return PlayerSettings(
        row_period_s=parameters.row_period_s,
        control_period_s=1 / parameters.control_rate_hz,
        mode=parameters.chunk_mode,
        blend_rows=parameters.chunk_blend_rows,
        fusion_decay=parameters.chunk_fusion_decay,
        rtc=parameters.chunk_rtc,
        request_rows=parameters.chunk_request_rows,
        delay_percentile=parameters.chunk_delay_percentile,
        max_delay_rows=max_delay_rows,
    )


@dataclass(frozen=True, eq=False)
class _Play:
    """What is being played: the rows after joining, and the newest chunk in them."""

    rows: TimedRows
    chunk: Chunk
    since: float  # when it took over


@dataclass(frozen=True, eq=False)
class _Peeked:
    """What is about to be sent."""

    row: NDArray[np.float64]  # [joints]
    then: float  # the time at which it holds


@dataclass(frozen=True)
class _Conditioned:
    """The rows that the chunk of an observation was told would be sent meanwhile."""

    mark: Mark
    rows: int


class ChunkPlayer:
    """Knows time only by the commands that were sent. Thread-safe.

    A chunk that is late in mode rtc goes on at the row that is due when it is guided; a hard one is refused,
    because the rows before that are not those that were sent.
    """

    def __init__(self, settings: PlayerSettings) -> None:
        self._settings = settings
        self._rows_per_tick = settings.control_period_s / settings.row_period_s
        self._lock = threading.RLock()
        self._delay = DelayEstimate(settings.delay_percentile, settings.max_delay_rows)
        self._run = 0
        self._is_running = False
        self._counters = PlayCounters()
        self._begin_run()

    def _begin_run(self) -> None:
        self._run += 1
        self._now = 0.0
        self._delay.clear()
        self._hard_refusals_in_a_row = 0
        self._conditioned: _Conditioned | None = None
        self._drop()

    def _drop(self) -> None:
        self._play: _Play | None = None
        self._members: list[TimedRows] = []  # chunks that have rows to come, oldest first; mode fusion
        self._peeked: _Peeked | None = None
        self._last: NDArray[np.float64] | None = None  # [joints], the row sent last; None: at a standstill

    @property
    def is_running(self) -> bool:
        return self._is_running

    @property
    def delay_rows(self) -> int:
        """Rows that will be sent while the next chunk is computed, as far as this is known."""
        with self._lock:
            return self._delay.rows

    @property
    def hard_refusals_in_a_row(self) -> int:
        """Of the chunks that were conditioned on rows of the chunk before; the others say nothing."""
        return self._hard_refusals_in_a_row

    @property
    def counters(self) -> PlayCounters:
        return self._counters

    # Runs

    def start(self) -> None:
        """Begins a run: from a standstill, with nothing left of the run before."""
        with self._lock:
            self._begin_run()
            self._is_running = True

    def stop(self) -> None:
        """Ends the run; a chunk that is being computed belongs to it and will not be played."""
        with self._lock:
            self._begin_run()
            self._is_running = False

    def drop_chunk(self) -> None:
        """Nothing is sent of what was observed until now, not of a chunk that is being computed either.

        The run goes on from a standstill.
        """
        with self._lock:
            self._run += 1  # marks of before are those of another run
            self._drop()

    # Observation to chunk

    def wants_chunk(self) -> bool:
        """Whether an observation is to be formed now; without a run always, for those who look on."""
        with self._lock:
            request_rows = self._settings.request_rows
            if not self._is_running or not request_rows or not self._has_rows():
                return True
            return self._play.rows.end - self._now <= max(request_rows, self._delay.rows + 1) + ROUNDING

    def mark(self) -> Mark:
        with self._lock:
            return Mark(self._run, self._now)

    def is_current(self, mark: Mark) -> bool:
        """Whether a chunk of an observation at `mark` belongs to what is played now."""
        return mark.run == self._run

    def prefix(self, mark: Mark) -> ActionPrefix | None:
        """What the chunk of an observation at `mark` has to continue; None without mode rtc or rows in play.

        Row 0 is the row that is due one row period after the observation.
        """
        with self._lock:
            self._conditioned = None
            if self._settings.mode != 'rtc' or mark.run != self._run or self._play is None:
                return None
            chunk, origin = self._play.chunk, self._play.rows.origin
            left = remaining(chunk.model_actions, mark.rows - origin)
            if not len(left):
                return None
            delay = min(self._delay.rows, len(left))
            self._conditioned = _Conditioned(mark, delay)
            return ActionPrefix(left, delay, self._settings.rtc, chunk.state)

    def accept(self, chunk: Chunk, mark: Mark) -> bool:
        """Takes over a chunk whose observation was formed at `mark`; False when it is of no use."""
        with self._lock:
            if mark.run != self._run:
                self._count(chunks_of_old_run=1)
                return False
            if not self._is_running:
                return False
            consumed = self._now - mark.rows
            delay = math.ceil(consumed - ROUNDING)
            if self._was_moving(mark):
                self._delay.add(delay)
            skipped = math.floor(consumed + ROUNDING)
            if skipped >= len(chunk.actions):
                self._count(chunks_all_past=1, skipped_rows=len(chunk.actions))
                return False
            if not self._is_in_time(mark, delay):
                return False
            self._join(chunk, mark.rows)
            self._count(chunks=1, skipped_rows=skipped)
            return True

    def _was_moving(self, mark: Mark) -> bool:
        """Whether the rows consumed since the mark say how long the chunk took.

        They do not while nothing is in play, from a standstill for instance, nor while what is in play waits
        for its first command.
        """
        is_sending = self._has_rows() and self._now > self._play.since
        return is_sending or self._now > mark.rows

    def _is_in_time(self, mark: Mark, delay: int) -> bool:
        """Judges a chunk by the rows that it was conditioned on, where it was."""
        conditioned, self._conditioned = self._conditioned, None
        if conditioned is None or conditioned.mark != mark:
            return True
        if delay <= conditioned.rows:
            self._hard_refusals_in_a_row = 0
            return True
        self._count(late_chunks=1)
        if self._settings.rtc == 'guided':
            return True
        self._hard_refusals_in_a_row += 1
        self._count(hard_refusals=1)
        return False

    def _join(self, chunk: Chunk, origin: float) -> None:
        """Puts a chunk into play; origin: time of its observation."""
        new = TimedRows(chunk.actions, origin)
        old = self._play
        mode = self._settings.mode
        if mode == 'blend' and self._last is not None and old is not None:
            new = cross_fade(old.rows, new, self._now, self._settings.blend_rows)
        elif mode == 'fusion':
            new = self._fuse(new, is_same_task=old is not None and old.chunk.prompt_id == chunk.prompt_id)
        self._play = _Play(new, chunk, self._now)

    def _fuse(self, new: TimedRows, is_same_task: bool) -> TimedRows:
        """The mean of all chunks at the times of the new rows; what was sent for another task is no part."""
        if self._last is None or not is_same_task:
            self._members = []
        self._members = [*(member for member in self._members if member.end > self._now), new]
        return TimedRows(fused(self._members, new.times, self._settings.fusion_decay), new.origin)

    # Chunk to command

    def _has_rows(self) -> bool:
        return self._play is not None and self._now < self._play.rows.end - ROUNDING

    def peek(self) -> Command | None:
        """The command of this control period; None where nothing is left to play, and without a run."""
        with self._lock:
            self._peeked = None
            if not self._is_running or not self._has_rows():
                return None
            play = self._play
            step = 1 if self._last is None else self._rows_per_tick
            then = min(self._now + step, play.rows.end)
            later = play.rows.times > then + ROUNDING
            due_rows = self._rows_per_tick + np.array([0, *(play.rows.times[later] - then)])
            self._peeked = _Peeked(self._row(play.rows, then), then)
            return Command(
                np.concatenate([self._peeked.row[np.newaxis], play.rows.rows[later]]),
                due_rows * self._settings.row_period_s,
                play.chunk.chunk_id,
                play.chunk.prompt_id,
            )

    def _row(self, rows: TimedRows, then: float) -> NDArray[np.float64]:
        """[joints] what is to hold then; on the way to row 0 it begins at the row sent last."""
        first_due = rows.origin + 1
        if then < first_due - ROUNDING and self._last is not None:
            return interpolate(self._last, rows.rows[0], (then - self._now) / (first_due - self._now))
        return rows.at([then])[0]

    def advance(self) -> None:
        """What was peeked at has been sent: a control period passes."""
        with self._lock:
            if self._peeked is not None:
                self._last, self._now = self._peeked.row, self._peeked.then
                self._peeked = None

    def _count(self, **increments: int) -> None:
        self._counters = replace(
            self._counters, **{name: getattr(self._counters, name) + n for name, n in increments.items()}
        )
