# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What a recorder writes down, one JSON line each, and how it is read back.

All times are nanoseconds of this machine's system clock, which the middleware stamps messages with too.
"""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TextIO

Rows = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class SentCommand:
    """A message on the topic of a controller."""

    topic: str
    sent_ns: int
    received_ns: int
    sequence: int  # of the publisher, without gaps; 0: the middleware does not tell
    joints: tuple[str, ...]  # empty: as the parameters order them
    due_s: tuple[float, ...]  # from the time of sending; empty for messages of one row without a time
    rows: Rows  # [rows, joints]


@dataclass(frozen=True)
class SentChunk:
    """A message on ~/action_chunk."""

    received_ns: int
    chunk_id: int
    prompt_id: int
    prompt: str
    stamp_ns: int  # of the oldest input
    start_ns: int  # of inference
    end_ns: int
    ages_s: dict[str, float]  # stream -> age at the start of inference
    rows: Rows


@dataclass(frozen=True)
class SentStatus:
    """A message on ~/status."""

    received_ns: int
    message: str
    values: dict[str, str]


@dataclass(frozen=True)
class Happening:
    """Something that was done to the node or its surroundings."""

    at_ns: int
    what: str  # begin | end | start
    fault: str  # name; of a start, the fault that made it necessary, or nothing


@dataclass(frozen=True)
class Usage:
    """What the process of the node holds and has used."""

    at_ns: int
    resident_bytes: int
    descriptors: int
    processor_s: float


Entry = SentCommand | SentChunk | SentStatus | Happening | Usage
_KINDS = {kind.__name__: kind for kind in (SentCommand, SentChunk, SentStatus, Happening, Usage)}


class JournalWriter:
    """Appends entries to a file, from any thread and each at once: what was written survives the process."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._file: TextIO = path.open('w', buffering=1, encoding='utf-8')

    def write(self, entry: Entry) -> None:
        line = json.dumps({'kind': type(entry).__name__} | vars(entry))
        with self._lock:
            self._file.write(line + '\n')

    def close(self) -> None:
        self._file.close()


@dataclass
class Journal:
    """Everything that was written down, each kind in the order of time."""

    commands: list[SentCommand] = field(default_factory=list)
    chunks: list[SentChunk] = field(default_factory=list)
    statuses: list[SentStatus] = field(default_factory=list)
    happenings: list[Happening] = field(default_factory=list)
    usage: list[Usage] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        lists = (self.commands, self.chunks, self.statuses, self.happenings, self.usage)
        dict(zip(_KINDS.values(), lists, strict=True))[type(entry)].append(entry)

    @classmethod
    def read(cls, *paths: Path) -> Self:
        journal = cls()
        for path in paths:
            for entry in _entries(path):
                journal.add(entry)
        for entries in (journal.commands, journal.chunks, journal.statuses):
            entries.sort(key=lambda entry: entry.received_ns)
        return journal

    def write(self, path: Path) -> None:
        writer = JournalWriter(path)
        for entry in (*self.commands, *self.chunks, *self.statuses, *self.happenings, *self.usage):
            writer.write(entry)
        writer.close()


def _entries(path: Path) -> Iterator[Entry]:
    with path.open(encoding='utf-8') as file:
        for line in file:
            fields = json.loads(line)
            kind = _KINDS[fields.pop('kind')]
            yield kind(**{name: _tuples(value) for name, value in fields.items()})


def _tuples(value: object) -> object:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
