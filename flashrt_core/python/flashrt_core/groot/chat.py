# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The conversation a GR00T N1.6 model reads: one user turn, the instruction first, then the pictures."""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error
from flashrt_core.groot.tokenizer import QwenTokenizer

IMAGE_TOKEN = '<IMG_CONTEXT>'
_IMAGE_START, _IMAGE_END = '<img>', '</img>'
_HEADER = '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n'
_TRAILER = '<|im_end|>\n'
# Byte pairs of a word take the square of its length: this many characters take a second at most.
LONGEST_INSTRUCTION = 2000


def formalize(instruction: str) -> str:
    """Lower case, and only word characters and white space are left.

    Combining marks are no word characters: a letter that is not composed with its accent loses it.
    """
    return re.sub(r'[^\w\s]', '', instruction.lower())


@dataclass(frozen=True, eq=False)
class Chat:
    """Instructions to token ids, for pictures of fixed sizes.

    Text comes first, so what the model makes of it can be kept: `prompt` ends where the first picture begins,
    `observation` is the rest.
    """

    tokenizer: QwenTokenizer
    formalizes: bool  # whether instructions are cleaned up, as in training
    picture_tokens: tuple[int, ...]  # of every picture, in their order

    def read(self, instruction: str) -> str:
        """The instruction as the model reads it."""
        return formalize(instruction) if self.formalizes else instruction

    def text(self, instruction: str, pictures: str) -> str:
        """The whole conversation, with what stands for the pictures."""
        return f'{_HEADER}{self.read(instruction)}{pictures}{_TRAILER}'

    def prompt(self, instruction: str) -> NDArray[np.int32]:
        """[tokens] through the first <img>; the instruction is tokenised with the text around it."""
        if len(instruction) > LONGEST_INSTRUCTION:
            raise Error(
                f'prompt: {len(instruction)} characters, at most {LONGEST_INSTRUCTION} are taken; shorten it'
            )
        text = self.read(instruction)
        if added := self.tokenizer.holds_added(text):
            raise Error(f"prompt: the instruction holds the token '{added}', which only the template may use")
        return self.tokenizer.encode(f'{_HEADER}{text}{_markup(0)}')

    def observation(self) -> NDArray[np.int32]:
        """[tokens] after the first <img>; the same for every prompt."""
        parts = zip(self.picture_tokens, self._texts_behind, strict=True)
        return self.tokenizer.encode(''.join(IMAGE_TOKEN * count + text for count, text in parts))

    @property
    def markup_rows(self) -> tuple[int, ...]:
        """Tokens behind every picture."""
        return tuple(len(self.tokenizer.encode(text)) for text in self._texts_behind)

    @property
    def _texts_behind(self) -> list[str]:
        following = [_markup(index) for index in range(1, len(self.picture_tokens))]
        return [_IMAGE_END + text for text in (*following, _TRAILER)]


def _markup(index: int) -> str:
    """What stands before a picture; its number is plain text."""
    return f'<image {index + 1}>{_IMAGE_START}'
