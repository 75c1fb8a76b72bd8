# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What the commands of a journal are: rows of which chunk, or a hold; found by their numbers alone."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flashrt_ros.parameters import Parameters
from flashrt_ros.soak.faults import CLOCK_JUMP_S
from flashrt_ros.soak.journal import Journal, Rows, SentChunk, SentCommand

_SAME = 1e-9  # rad or m
_JUMP_NS = round(CLOCK_JUMP_S * 1e9)


@dataclass(frozen=True)
class Played:
    """A row of a command that is, bit for bit, a row of a chunk."""

    chunk: SentChunk
    row: int  # of the chunk
    due_s: float  # in the command, from the time of sending


@dataclass(frozen=True)
class Seen:
    """A command with what it turned out to be."""

    command: SentCommand
    # One row, which is the first row of the command before; after missed ticks or a jump of the clock it is
    # where the trajectory of that command has come to.
    is_hold: bool
    played: Played | None  # None: a hold, or all rows were changed on the way
    missed: int  # commands before it that did not reach the recorder


class Evidence:
    """The commands of one controller in the light of all chunks."""

    def __init__(self, journal: Journal, parameters: Parameters, topic: str) -> None:
        output = next(output for output in parameters.outputs if output.topic == topic)
        self.joints = output.joints
        self._parameters = parameters
        self._origins: dict[tuple[float, ...], tuple[SentChunk, int]] = {}
        columns = [parameters.commanded_joints.index(joint) for joint in output.joints]
        for chunk in journal.chunks:
            for number, row in enumerate(chunk.rows):
                self._origins[tuple(row[column] for column in columns)] = (chunk, number)
        self.seen: list[Seen] = []
        previous: SentCommand | None = None
        for command in journal.commands:
            if command.topic == topic:
                self.seen.append(self._look_at(command, previous))
                previous = command

    def _look_at(self, command: SentCommand, previous: SentCommand | None) -> Seen:
        missed = 0
        if previous and command.sequence and previous.sequence:
            missed = max(0, command.sequence - previous.sequence - 1)
        is_hold = (
            len(command.rows) == 1 and previous is not None and _is_on_path(command.rows[0], previous.rows)
        )
        return Seen(command, is_hold, None if is_hold else self._played(command), missed)

    def _played(self, command: SentCommand) -> Played | None:
        """The last row that is of a chunk: those before it may have been changed on the way."""
        order = [command.joints.index(joint) for joint in self.joints] if command.joints else None
        for number in reversed(range(len(command.rows))):
            row = command.rows[number]
            origin = self._origins.get(tuple(row[i] for i in order) if order else row)
            if origin:
                due_s = command.due_s[number] if command.due_s else 1 / self._parameters.control_rate_hz
                return Played(*origin, due_s)
        return None


def start_ns(chunk: SentChunk) -> int:
    """When its inference began on the clock of the machine; simulated time is off by whole jumps."""
    return chunk.start_ns + round((chunk.received_ns - chunk.end_ns) / _JUMP_NS) * _JUMP_NS


def stream_stamp_ns(chunk: SentChunk, stream: str) -> int:
    """Of the data that the stream gave to the chunk, on the clock of the machine."""
    return start_ns(chunk) - round(chunk.ages_s[stream] * 1e9)


def _is_on_path(row: Sequence[float], path: Rows) -> bool:
    """Whether a robot that follows the path comes by the row."""
    point, points = np.array(row), np.array(path)
    if np.abs(points - point).max(axis=1).min() <= _SAME:
        return True
    for begin, end in itertools.pairwise(points):
        way = end - begin
        share = np.clip(way @ (point - begin) / max(way @ way, _SAME**2), 0, 1)
        if np.abs(begin + share * way - point).max() <= _SAME:
            return True
    return False
