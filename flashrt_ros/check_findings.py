# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What a check found: one line each, and the level that decides the exit code."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from flashrt_core.errors import Error

Level = Literal['OK', 'WARN', 'FAIL', 'SKIP']

_MAX_CHARACTERS = 2000  # of a line; names and texts may come from the network


@dataclass(frozen=True)
class Finding:
    """OK: checked and right. WARN: works, but look at it. FAIL: will not work. SKIP: could not be checked."""

    level: Level
    subject: str
    text: str  # what is so and, unless OK, what to do

    def __post_init__(self) -> None:
        object.__setattr__(self, 'subject', _one_line(self.subject))
        object.__setattr__(self, 'text', _one_line(self.text))


def ok(subject: str, text: str) -> Finding:
    return Finding('OK', subject, text)


def warn(subject: str, text: str) -> Finding:
    return Finding('WARN', subject, text)


def fail(subject: str, text: str) -> Finding:
    return Finding('FAIL', subject, text)


def skip(subject: str, why: str) -> Finding:
    return Finding('SKIP', subject, f'not checked: {why}')


def size(count: float) -> str:
    """'1.3 MB', '7.24 GB'."""
    return f'{count / 1e9:.2f} GB' if count >= 1e8 else f'{count / 1e6:.1f} MB'


def guarded(subject: str, findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings of one check, the last of them a FAIL if the check itself ends in an error."""
    try:
        yield from findings
    except Error as fault:
        yield fail(subject, str(fault))
    except Exception as fault:
        yield fail(subject, f'this check ended in {type(fault).__name__}: {fault}; please report it')


def _one_line(text: str) -> str:
    """Without line breaks and what else could move a terminal's cursor."""
    line = ' '.join(text.split())
    line = ''.join(c if c.isprintable() else '?' for c in line)
    return line if len(line) <= _MAX_CHARACTERS else line[:_MAX_CHARACTERS] + ' ...'
