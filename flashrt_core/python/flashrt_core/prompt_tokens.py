# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Instructions to the tokens that an engine takes; the state is part of some of them."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from flashrt_core.prompt import FIRST_BIN, LAST_BIN, PromptFormat, state_bins
from flashrt_core.tokenizer import Tokenizer


class PromptTokens(Protocol):
    """A prompt format and the tokenizer it is written with; token ids are int32."""

    @property
    def path(self) -> Path:
        """Of the tokenizer."""

    @property
    def sha256(self) -> str: ...

    @property
    def uses_state(self) -> bool:
        """Whether the tokens depend on the state."""

    def read(self, task: str) -> str:
        """The task as the model reads it."""

    def text(self, task: str, normalised: NDArray) -> str:
        """All of the prompt, for people."""

    def tokens(self, task: str, normalised: NDArray) -> NDArray[np.int32]:
        """[tokens] for the engine; normalised: the state."""

    def longest(self, task: str, state_dim: int) -> NDArray[np.int32]:
        """[tokens] with the longest possible state text."""

    def counted(self, tokens: NDArray[np.int32]) -> int:
        """How many of the tokens count against the prompt capacity."""

    def filler(self, count: int) -> NDArray[np.int32]:
        """Tokens of which so many count, and that mean nothing."""


@dataclass(frozen=True, eq=False)
class PiPromptTokens:
    """The task and the state are the whole prompt; pictures have rows of their own."""

    tokenizer: Tokenizer
    format: PromptFormat

    @property
    def path(self) -> Path:
        return self.tokenizer.path

    @property
    def sha256(self) -> str:
        return self.tokenizer.sha256

    @property
    def uses_state(self) -> bool:
        return self.format.uses_state

    def read(self, task: str) -> str:
        return self.format.read(task)

    def text(self, task: str, normalised: NDArray) -> str:
        return ''.join(self.format.pieces(task, state_bins(normalised)))

    def tokens(self, task: str, normalised: NDArray) -> NDArray[np.int32]:
        return self._of_bins(task, state_bins(normalised))

    def longest(self, task: str, state_dim: int) -> NDArray[np.int32]:
        return self._of_bins(task, np.full(state_dim, self._longest_bin))

    def counted(self, tokens: NDArray[np.int32]) -> int:
        return len(tokens)

    def filler(self, count: int) -> NDArray[np.int32]:
        return np.full(count, self.tokenizer.bos, np.int32)

    def _of_bins(self, task: str, bins: NDArray[np.int64]) -> NDArray[np.int32]:
        return self.tokenizer.prompt(self.format.pieces(task, bins))

    @cached_property
    def _longest_bin(self) -> int:
        return max(
            range(FIRST_BIN, LAST_BIN + 1),
            key=lambda value: len(self.tokenizer.encode(f' {value} {value}')),
        )
