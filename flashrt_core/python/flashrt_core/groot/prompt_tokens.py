# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The conversation as an engine takes it: with a token for every row of a picture."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error
from flashrt_core.groot.chat import IMAGE_TOKEN, Chat


@dataclass(frozen=True, eq=False)
class GrootPromptTokens:
    """What stands before the first picture counts against the prompt capacity; the rest stays the same."""

    chat: Chat
    uses_state = False

    @property
    def path(self) -> Path:
        return self.chat.tokenizer.path

    @property
    def sha256(self) -> str:
        return self.chat.tokenizer.sha256

    def read(self, task: str) -> str:
        return self.chat.read(task)

    def text(self, task: str, normalised: NDArray) -> str:
        return self.chat.text(task, ''.join(f'<image {k + 1}>' for k in range(len(self.chat.picture_tokens))))

    def tokens(self, task: str, normalised: NDArray) -> NDArray[np.int32]:
        if not self.read(task).strip():
            raise Error(f'prompt: of {task!r} nothing is left but white space; give an instruction in words')
        return np.concatenate([self.chat.prompt(task), self._observation])

    def longest(self, task: str, state_dim: int) -> NDArray[np.int32]:
        return self.tokens(task, np.empty(0))

    def counted(self, tokens: NDArray[np.int32]) -> int:
        return int(np.argmax(tokens == self.image_token))

    def filler(self, count: int) -> NDArray[np.int32]:
        return np.concatenate([np.full(count, self.chat.prompt('')[0], np.int32), self._observation])

    @cached_property
    def image_token(self) -> int:
        return self.chat.tokenizer.token(IMAGE_TOKEN)

    @cached_property
    def _observation(self) -> NDArray[np.int32]:
        return self.chat.observation()
