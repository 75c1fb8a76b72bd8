# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The tokens of a whole batch of prompts: what the policy writes for each, put together on the device.

The state is part of Pi0.5's prompt, so every observation has a text of its own; only the numbers differ.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from flashrt_core.prompt import FIRST_BIN, LAST_BIN, StatePrompt
from flashrt_core.tokenizer import Tokenizer


class PromptTable:
    """The tokens around the state, by sentence, and those of every state bin."""

    def __init__(self, tokenizer: Tokenizer, sentences: Sequence[str], state_dim: int, device: str) -> None:
        """Raises ValueError if a number is not one token, or the text around numbers depends on them."""
        mark = np.full(state_dim, LAST_BIN)
        bins = np.arange(FIRST_BIN, LAST_BIN + 1)
        numbers = [tokenizer.encode(f' {number}') for number in bins]
        if any(len(tokens) != 1 for tokens in numbers):
            raise ValueError('a state bin is not one token of the vocabulary')
        (last,) = numbers[-1]
        whole = [tokenizer.prompt(StatePrompt().pieces(sentence, mark)) for sentence in sentences]
        begins = [int(np.flatnonzero(tokens == last)[0]) for tokens in whole]
        for tokens, begin in zip(whole, begins, strict=True):
            if not (tokens[begin : begin + state_dim] == last).all():
                raise ValueError('the state does not stand in one piece in the prompt')
        self.length = max(len(tokens) for tokens in whole)
        padded = np.zeros((len(whole), self.length), np.int64)
        for row, tokens in zip(padded, whole, strict=True):
            row[: len(tokens)] = tokens
        self._tokens = torch.tensor(padded, device=device)
        self._lengths = torch.tensor([len(tokens) for tokens in whole], device=device)
        places = np.array(begins)[:, np.newaxis] + np.arange(state_dim)
        self._places = torch.tensor(places, device=device)
        self._numbers = torch.tensor([token for (token,) in numbers], device=device)

    def tokens(self, sentence: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """[B] indices of sentences and [B, state_dim] normalised states -> tokens and mask [B, length]."""
        bins = (torch.floor(128 * state) + 128).nan_to_num(LAST_BIN).clamp(FIRST_BIN, LAST_BIN).long()
        tokens = self._tokens[sentence].scatter(1, self._places[sentence], self._numbers[bins - FIRST_BIN])
        mask = torch.arange(self.length, device=tokens.device) < self._lengths[sentence][:, None]
        return tokens, mask
