# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The text a model reads: the task, and for some models the state as numbers."""

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error

FIRST_BIN, LAST_BIN = -1, 255


def clean(text: str) -> str:
    """White space at the ends removed, '_' and newline to a space; inner double spaces and case stay."""
    return text.strip().replace('_', ' ').replace('\n', ' ')


def clean_fast(text: str) -> str:
    """As openpi's Pi0-FAST does it: lower case, and inner newlines stay."""
    return text.lower().strip().replace('_', ' ')


def check_prompt(text: object) -> str:
    """Refuses what is no instruction: other types, blank text, control characters."""
    if not isinstance(text, str):
        raise Error(
            f"prompt: {text!r} is a {type(text).__name__}, not a text; in YAML put it in quotes: '{text}'"
        )
    for position, character in enumerate(text):
        if character not in '\n\t' and unicodedata.category(character) in ('Cc', 'Cs'):
            raise Error(
                f'prompt: control character U+{ord(character):04X} at position {position}; only newline and '
                'tab are allowed'
            )
    if not clean(text).strip():
        raise Error(f'prompt: {text!r} is blank; give an instruction')
    return text


def state_bins(state: NDArray) -> NDArray[np.int64]:
    """Normalised values -> 0 .. 255 for [-1, 1); below gives -1, above and NaN 255.

    floor(128 x) + 128 with an exact product: (x + 1) * 128 would round -1e-9 to the wrong bin.
    """
    with np.errstate(over='ignore'):
        bins = np.floor(128 * np.asarray(state)) + 128
    return np.where(np.isnan(bins), LAST_BIN, np.clip(bins, FIRST_BIN, LAST_BIN)).astype(np.int64)


class PromptFormat(Protocol):
    """How a model wants its text; each piece is tokenised by itself."""

    uses_state: bool

    def read(self, task: str) -> str:
        """The task as the model reads it."""

    def pieces(self, task: str, bins: NDArray[np.int64]) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class StatePrompt:
    """Pi0.5: "Task: pick up the cup, State: 12 200;\\nAction: "; Pi0-FAST ends after the newline."""

    ending: str = 'Action: '
    clean: Callable[[str], str] = clean
    width: int = 0  # columns written, the missing ones as value 0; 0 = those the robot has
    uses_state = True

    def read(self, task: str) -> str:
        return self.clean(task)

    def pieces(self, task: str, bins: NDArray[np.int64]) -> tuple[str, ...]:
        numbers = [*bins.tolist(), *state_bins(np.zeros(max(0, self.width - len(bins)))).tolist()]
        return (f'Task: {self.read(task)}, State: {" ".join(map(str, numbers))};\n{self.ending}',)


@dataclass(frozen=True)
class PlainPrompt:
    """openpi's Pi0, and Pi0.5 without state: the cleaned task, then a newline tokenised by itself."""

    uses_state = False

    def read(self, task: str) -> str:
        return clean(task)

    def pieces(self, task: str, bins: NDArray[np.int64]) -> tuple[str, ...]:
        return (self.read(task), '\n')


@dataclass(frozen=True)
class LerobotPlainPrompt:
    """lerobot's Pi0: the task as it is, with a newline unless it ends with one."""

    uses_state = False

    def read(self, task: str) -> str:
        return task if task.endswith('\n') else task + '\n'

    def pieces(self, task: str, bins: NDArray[np.int64]) -> tuple[str, ...]:
        return (self.read(task),)
