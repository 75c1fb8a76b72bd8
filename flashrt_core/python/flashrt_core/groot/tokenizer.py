# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The tokenizer of Qwen2 and Qwen3 with the extra tokens of a checkpoint family, from local files."""

import hashlib
import json
import unicodedata
from pathlib import Path

import numpy as np
import regex
from numpy.typing import NDArray

from flashrt_core.byte_pairs import BytePairs
from flashrt_core.errors import Error
from flashrt_core.small_file import read_small_file

VOCABULARY, MERGES, ADDED = 'vocab.json', 'merges.txt', 'added_tokens.json'

# The pre-tokeniser of Qwen2: unlike that of GPT-2 it takes digits one by one.
_WORDS = regex.compile(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r'|\s+(?!\S)|\s+'
)
# Some merge files begin with a line such as '#version: 0.2'.
_VERSION_LINE = '#version'
_MOST_IDS = 1 << 24


class QwenTokenizer:
    """Text to ids: added tokens are found first, what lies between them is encoded by byte pairs."""

    def __init__(self, folder: Path, vocabulary: str = VOCABULARY, merges: str = MERGES) -> None:
        """folder: holds vocab.json, merges.txt and added_tokens.json; the first two may have other names."""
        self.path = folder
        contents = [_read(folder / name) for name in (vocabulary, merges, ADDED)]
        digest = hashlib.sha256()
        for content in contents:
            digest.update(hashlib.sha256(content).digest())
        self.sha256 = digest.hexdigest()
        ids = _ids(folder / vocabulary, contents[0])
        self._pairs = BytePairs(ids, _ranks(folder / merges, contents[1]), _WORDS)
        self._added = _ids(folder / ADDED, contents[2])
        both = {*ids.values()} & {*self._added.values()}
        if both or not ids or '' in self._added:
            raise Error(
                f'tokenizer: {folder}: {len(ids)} pieces in {vocabulary}; ids {sorted(both)[:5]} are also '
                f'those of {ADDED}, whose texts must not be empty'
            )
        longest_first = sorted(self._added, key=len, reverse=True)
        self._split = regex.compile('|'.join(map(regex.escape, longest_first)) or r'(?!)')
        self.vocab_size: int = max(*ids.values(), *self._added.values(), 0) + 1

    def token(self, text: str) -> int:
        """The id of an added token."""
        if text not in self._added:
            raise Error(f"tokenizer: {self.path / ADDED} has no '{text}'; it has {sorted(self._added)}")
        return self._added[text]

    def holds_added(self, text: str) -> str:
        """The first added token that the text would be read to hold; empty where there is none."""
        found = self._split.search(text)
        return found[0] if found else ''

    def encode(self, text: str) -> NDArray[np.int32]:
        """[tokens] ids of the text; nothing is put before or after it."""
        ids: list[int] = []
        position = 0
        for found in self._split.finditer(text):
            ids += self._encode_plain(text[position : found.start()])
            ids.append(self._added[found[0]])
            position = found.end()
        ids += self._encode_plain(text[position:])
        return np.array(ids, np.int32)

    def _encode_plain(self, text: str) -> list[int]:
        return self._pairs.encode(unicodedata.normalize('NFC', text))


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise Error(
            f'tokenizer: {path} does not exist; a GR00T checkpoint has no tokenizer of its own, give a '
            f'folder with {VOCABULARY}, {MERGES} and {ADDED} as they come with its source'
        )
    return read_small_file(path)


def _ids(path: Path, content: bytes) -> dict[str, int]:
    try:
        ids = json.loads(content)
    except (ValueError, RecursionError) as fault:
        raise Error(f'tokenizer: {path} cannot be read ({type(fault).__name__}: {fault})') from fault
    if not isinstance(ids, dict) or not all(map(_is_id, ids.values())):
        raise Error(f'tokenizer: {path} is not {{"piece": id, ...}} with whole numbers below {_MOST_IDS}')
    if len({*ids.values()}) != len(ids):
        raise Error(f'tokenizer: {path} gives one id to several pieces')
    return ids


def _is_id(value: object) -> bool:
    return type(value) is int and 0 <= value < _MOST_IDS


def _ranks(path: Path, content: bytes) -> dict[tuple[str, str], int]:
    try:
        lines = content.decode().split('\n')
    except UnicodeDecodeError as fault:
        raise Error(f'tokenizer: {path} is no text: {fault}') from fault
    if lines[0].startswith(_VERSION_LINE):
        lines = lines[1:]
    ranks: dict[tuple[str, str], int] = {}
    for line in lines:
        pieces = line.rstrip('\r').split(' ')
        if pieces == ['']:
            continue
        if len(pieces) != 2:
            raise Error(f'tokenizer: {path} has the line {line[:40]!r}, needed two pieces and a space')
        ranks[pieces[0], pieces[1]] = len(ranks)
    return ranks
