# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Byte-level byte-pair encoding, as GPT-2 and its many descendants do it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import regex

from flashrt_core.errors import Error

# The pre-tokeniser of GPT-2: merges never cross the borders of these matches.
GPT2_WORDS = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")


def _byte_alphabet() -> dict[int, str]:
    """GPT-2's printable stand-in for each byte: itself where it prints, else the next from U+0100 on."""
    printing = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printing]
    return {byte: chr(byte) for byte in printing} | {byte: chr(256 + i) for i, byte in enumerate(others)}


_BYTE_TO_CHARACTER = _byte_alphabet()
_CHARACTER_TO_BYTE = {character: byte for byte, character in _BYTE_TO_CHARACTER.items()}


@dataclass(frozen=True, eq=False)
class BytePairs:
    """A vocabulary of pieces, spelled in the stand-in characters, and the order in which they merge."""

    ids: dict[str, int]  # piece -> code
    ranks: dict[tuple[str, str], int]  # pair of pieces -> order in which it merges
    words: regex.Pattern = GPT2_WORDS  # every character of a text lies in one match

    @cached_property
    def _pieces(self) -> dict[int, str]:
        return {code: piece for piece, code in self.ids.items()}

    def encode(self, text: str) -> list[int]:
        codes = []
        for word in self.words.findall(text):
            pieces = [_BYTE_TO_CHARACTER[byte] for byte in word.encode()]
            while len(pieces) > 1:
                pairs = list(pairwise(pieces))
                best = min(pairs, key=lambda pair: self.ranks.get(pair, len(self.ranks)))
                if best not in self.ranks:
                    break
                pieces = _merged(pieces, best)
            unknown = [piece for piece in pieces if piece not in self.ids]
            if unknown:
                raise Error(
                    f'byte pairs: {unknown[0]!r} is none of the {len(self.ids)} pieces of the vocabulary; '
                    'the text needs pieces that it does not have'
                )
            codes += [self.ids[piece] for piece in pieces]
        return codes

    def decode(self, codes: Sequence[int]) -> str:
        characters = ''.join(self._pieces.get(code, '') for code in codes)
        data = b''.join(
            bytes([_CHARACTER_TO_BYTE[c]]) if c in _CHARACTER_TO_BYTE else c.encode() for c in characters
        )
        return data.decode(errors='replace')


def _merged(pieces: list[str], pair: tuple[str, str]) -> list[str]:
    result: list[str] = []
    for piece in pieces:
        if result and (result[-1], piece) == pair:
            result[-1] += piece
        else:
            result.append(piece)
    return result
