# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""FAST action codec: a chunk as a short list of codes, by cosine transform and byte-pair encoding."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flashrt_core.byte_pairs import BytePairs
from flashrt_core.errors import Error
from flashrt_core.small_file import read_small_file
from flashrt_core.tokenizer import Tokenizer

_SKIPPED_IDS = 128  # the last ids of the vocabulary (<seg...>) hold no codes
_SURROGATES = range(0xD800, 0xE000)  # halves of pairs: no text has one alone
_PREAMBLE, _END = 'Action: ', '|'


class BytePairCodes(BytePairs):
    """Byte-level byte-pair encoding as stored in a Hugging Face tokenizer.json."""

    @classmethod
    def read(cls, path: Path) -> 'BytePairCodes':
        try:
            model = json.loads(read_small_file(path))['model']
            pairs = [
                tuple(merge.split(' ')) if isinstance(merge, str) else tuple(merge)
                for merge in model['merges']
            ]
            ids = dict(model['vocab'])
            for piece, code in ids.items():
                if not isinstance(piece, str) or type(code) is not int:
                    raise ValueError(f'the code of {piece!r} is {code!r}, needed a whole number')
            return cls(ids, {pair: rank for rank, pair in enumerate(pairs)})
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as fault:
            raise Error(
                f'FAST codec: {path} holds no byte-pair codes ({type(fault).__name__}: {fault})'
            ) from fault


def _character(number: float) -> str:
    """The codec writes numbers as the characters of a text."""
    if not number <= sys.maxunicode or int(number) in _SURROGATES:
        raise Error(
            f'FAST codec: a quantised value of {number:.0f} is no character of Unicode; the actions are not '
            'normalised, or scale and min_token are not those of the codec'
        )
    return chr(int(number))


@dataclass(frozen=True, eq=False)
class FastCodec:
    """Actions [horizon, action_dim], normalised, to codes and back."""

    codes: BytePairCodes
    scale: float
    min_token: int
    horizon: int
    action_dim: int

    @cached_property
    def _cosines(self) -> NDArray[np.float64]:
        """[frequency, time] of the orthonormal DCT-II; its transpose is the inverse."""
        time, frequency = np.arange(self.horizon), np.arange(self.horizon)[:, None]
        matrix = np.cos(np.pi * (2 * time + 1) * frequency / (2 * self.horizon)) * np.sqrt(2 / self.horizon)
        matrix[0] = np.sqrt(1 / self.horizon)
        return matrix

    def __post_init__(self) -> None:
        if not 0 < self.scale < np.inf or self.horizon < 1 or self.action_dim < 1:
            raise Error(
                f'FAST codec: scale {self.scale}, horizon {self.horizon} and action_dim {self.action_dim} '
                'must be positive and finite'
            )

    def encode(self, actions: NDArray) -> list[int]:
        if actions.shape != (self.horizon, self.action_dim):
            raise Error(
                f'FAST codec: actions have shape {list(actions.shape)}, needed '
                f'[{self.horizon}, {self.action_dim}]'
            )
        numbers = np.maximum(np.rint(self.scale * (self._cosines @ actions)) - self.min_token, 0)
        return self.codes.encode(''.join(_character(number) for number in numbers.ravel().tolist()))

    def decode(self, codes: Sequence[int]) -> NDArray[np.float64]:
        """Codes that do not hold horizon x action_dim numbers decode to zeros, as in the original."""
        quantised = np.array([ord(c) for c in self.codes.decode(codes)], np.float64) + self.min_token
        if quantised.size != self.horizon * self.action_dim:
            return np.zeros((self.horizon, self.action_dim))
        return self._cosines.T @ (quantised.reshape(self.horizon, self.action_dim) / self.scale)


def code_to_token(code: int, vocab_size: int) -> int:
    """Code 0 is the last token before the skipped ones, higher codes go down; its own inverse."""
    return vocab_size - 1 - _SKIPPED_IDS - code


def action_postfix(tokenizer: Tokenizer, codes: Sequence[int]) -> list[int]:
    """What a Pi0-FAST model of openpi writes: "Action: ", the codes, "|" and the end token."""
    last = code_to_token(0, tokenizer.vocab_size)  # as many codes as tokens before it
    for code in codes:
        if not 0 <= code <= last:
            raise Error(
                f'FAST codec: code {code} is no token of {tokenizer.path}, which has room for 0 to {last}'
            )
    tokens = [code_to_token(code, tokenizer.vocab_size) for code in codes]
    return [*tokenizer.encode(_PREAMBLE), *tokens, *tokenizer.encode(_END), tokenizer.eos]


def extract_codes(tokenizer: Tokenizer, tokens: Sequence[int]) -> list[int]:
    """The codes between "Action: " and "|", found by id; no codes where the preamble is missing."""
    preamble, end = tokenizer.encode(_PREAMBLE), tokenizer.encode(_END)
    tokens = list(tokens)
    for start in range(len(tokens) - len(preamble) + 1):
        if tokens[start : start + len(preamble)] == preamble:
            rest = tokens[start + len(preamble) :]
            stop = rest.index(end[-1]) if end[-1] in rest else len(rest)
            return [code_to_token(token, tokenizer.vocab_size) for token in rest[:stop]]
    return []
