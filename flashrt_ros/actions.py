# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Plays action chunks (mode skip): which rows are due, what follows the last, who gets which joints."""

import math
import threading
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flashrt_ros.parameters import OutputParameters, Parameters

_ROUNDING = 1e-6  # rows; keeps k * period / period from falling just below k
_TIME_ROUNDING_S = 1e-9


@dataclass(frozen=True)
class Mark:
    """A point in the play, to be taken when an observation is formed."""

    run: int
    ticks: int


@dataclass(frozen=True)
class Command:
    """What is to be sent now: the row that is due and the rows after it."""

    rows: NDArray[np.float64]  # [rows, joints]
    due_s: NDArray[np.float64]  # [rows], from now, strictly increasing
    chunk_id: int  # 0: no chunk, the safe reaction


@dataclass(frozen=True)
class PlayCounters:
    """What happened since the node was configured."""

    commands: int = 0
    chunks: int = 0
    skipped_rows: int = 0  # past when their chunk was ready
    chunks_all_past: int = 0
    chunks_of_old_run: int = 0
    underruns: int = 0  # times that nothing followed the last row
    longest_underrun_s: float = 0.0


class ActionPlayer:
    """Counts its own ticks: a chunk starts at the row that its observation is that many sent rows ago.

    Positions are held and velocities become zero where no row is left. Thread-safe.
    """

    def __init__(self, row_period_s: float, control_period_s: float, is_velocity: NDArray[np.bool_]) -> None:
        self._row_period_s = row_period_s
        self._control_period_s = control_period_s
        self._is_velocity = is_velocity  # [joints]
        self._lock = threading.Lock()
        self._run = 0
        self._is_running = False
        self._counters = PlayCounters()
        self._clear()

    def _clear(self) -> None:
        self._ticks = 0  # that sent a row of a chunk
        self._chunk: NDArray[np.float64] | None = None
        self._chunk_id = 0
        self._position = 0.0  # in rows, of the next tick
        self._last: NDArray[np.float64] | None = None  # the row sent last
        self._starved_ticks = 0
        self._skipped_rows = 0

    @property
    def is_running(self) -> bool:
        return self._is_running

    @property
    def starved_s(self) -> float:
        """How long nothing has followed the last row."""
        return self._starved_ticks * self._control_period_s

    @property
    def skipped_rows(self) -> int:
        """Rows of the chunk in play that were past when it was ready."""
        return self._skipped_rows

    @property
    def counters(self) -> PlayCounters:
        return self._counters

    def start(self) -> None:
        """Begins a run: from standstill, with nothing left of the run before."""
        with self._lock:
            self._run += 1
            self._clear()
            self._is_running = True

    def stop(self) -> Command | None:
        """Ends the run and returns the safe reaction, or None when nothing was sent in it."""
        with self._lock:
            self._is_running = False
            self._chunk = None
            return self._safe_reaction()

    def drop_chunk(self) -> None:
        """No further row of the chunk in play is sent; the run goes on."""
        with self._lock:
            self._chunk = None

    def mark(self) -> Mark:
        with self._lock:
            return Mark(self._run, self._ticks)

    def accept(self, chunk_id: int, actions: NDArray[np.float64], mark: Mark) -> bool:
        """Takes over a chunk whose observation was formed at `mark`; False when it is of no use."""
        with self._lock:
            if not self._is_running or mark.run != self._run:
                self._count(chunks_of_old_run=1)
                return False
            position = (self._ticks - mark.ticks) * self._control_period_s / self._row_period_s
            skipped = math.floor(position + _ROUNDING)
            if skipped >= len(actions):
                self._count(chunks_all_past=1, skipped_rows=len(actions))
                return False
            self._chunk, self._chunk_id, self._position = actions, chunk_id, position
            self._skipped_rows = skipped
            self._count(chunks=1, skipped_rows=skipped)
            return True

    def step(self) -> Command | None:
        """The command of this control tick; None before the first chunk of a run and when stopped."""
        with self._lock:
            if not self._is_running:
                return None
            index = math.floor(self._position + _ROUNDING)
            if self._chunk is not None and index < len(self._chunk):
                return self._play(index)
            self._chunk = None
            if self._last is not None:
                self._starved_ticks += 1
                self._count(underruns=int(self._starved_ticks == 1))
                longest_s = max(self._counters.longest_underrun_s, self.starved_s)
                self._counters = replace(self._counters, longest_underrun_s=longest_s)
            return self._safe_reaction()

    def _play(self, index: int) -> Command:
        rows = self._chunk[index:]
        first_due = index + 1 - self._position  # in rows; at least one rounding, at most one row
        due_s = (first_due + np.arange(len(rows))) * self._row_period_s
        self._last = rows[0]
        self._position += self._control_period_s / self._row_period_s
        self._ticks += 1
        self._starved_ticks = 0
        self._count(commands=1)
        return Command(rows, due_s, self._chunk_id)

    def _safe_reaction(self) -> Command | None:
        if self._last is None:
            return None
        row = np.where(self._is_velocity, 0.0, self._last)
        self._count(commands=1)
        return Command(row[np.newaxis], np.array([self._control_period_s]), 0)

    def _count(self, **increments: int) -> None:
        self._counters = replace(
            self._counters, **{name: getattr(self._counters, name) + n for name, n in increments.items()}
        )


@dataclass(frozen=True)
class OutputCommand:
    """The part of a command that one controller gets."""

    output: str  # name in outputs.names
    type: str
    quantity: str  # position | velocity
    joints: tuple[str, ...]  # as the robot spells them
    rows: NDArray[np.float64]  # [rows, joints]; message types without times carry the first row
    due_s: NDArray[np.float64]  # [rows], from the time of sending


class OutputMap:
    """Knows the columns of every output."""

    def __init__(self, parameters: Parameters) -> None:
        self._max_horizon_s = parameters.output_max_horizon_s
        self._row_period_s = parameters.row_period_s
        self._prefix = parameters.joint_prefix
        self._columns = {
            output: [parameters.joint_names.index(joint) for joint in output.joints]
            for output in parameters.outputs
        }
        self.is_velocity = np.zeros(len(parameters.joint_names), bool)  # [joints]
        for output, columns in self._columns.items():
            self.is_velocity[columns] = output.quantity == 'velocity'

    def split(self, command: Command) -> list[OutputCommand]:
        """One command per output; the first row is always sent, the others up to output.max_horizon_s."""
        ahead = command.due_s <= self._max_horizon_s + _TIME_ROUNDING_S
        ahead[0] = True
        return [
            self._part(output, columns, command.rows[ahead][:, columns], command.due_s[ahead])
            for output, columns in self._columns.items()
        ]

    def _part(
        self,
        output: OutputParameters,
        columns: list[int],
        rows: NDArray[np.float64],
        due_s: NDArray[np.float64],
    ) -> OutputCommand:
        if output.type == 'joint_trajectory' and output.quantity == 'velocity':
            # A trajectory of velocities ends at rest, should nothing follow it.
            rows = np.concatenate([rows, np.zeros((1, len(columns)))])
            due_s = np.append(due_s, due_s[-1] + self._row_period_s)
        names = tuple(self._prefix + joint for joint in output.joints)
        return OutputCommand(output.name, output.type, output.quantity, names, rows, due_s)
