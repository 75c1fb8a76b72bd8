# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Text to token ids, from a SentencePiece model file."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from flashrt_core.errors import Error
from flashrt_core.small_file import read_small_file


class Tokenizer:
    """Owns one SentencePiece vocabulary; the begin-of-sequence token comes from the file."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise Error(f'tokenizer: {path} does not exist; give the path of a SentencePiece model file')
        data = read_small_file(path)
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=data)
        except RuntimeError as fault:
            raise Error(
                f'tokenizer: {path} ({len(data)} bytes) is no SentencePiece model: {fault}'
            ) from fault
        self.path = path
        self.sha256 = hashlib.sha256(data).hexdigest()
        self.bos: int = self._processor.bos_id()
        self.eos: int = self._processor.eos_id()
        self.vocab_size: int = self._processor.vocab_size()
        self._unknown: int = self._processor.unk_id()
        if self.bos < 0:
            raise Error(f'tokenizer: {path} has no begin-of-sequence piece')

    def encode(self, text: str) -> list[int]:
        """Token ids of the text alone."""
        return self._processor.encode(text)

    def prompt(self, pieces: Iterable[str]) -> NDArray[np.int32]:
        """[tokens] begin-of-sequence, then each piece tokenised by itself; neither cut nor padded.

        Text that the vocabulary cannot write is refused: a model cannot follow what it does not read.
        """
        tokens = [self.bos]
        for piece in pieces:
            encoded = self.encode(piece)
            if self._unknown in encoded:
                raise Error(f'prompt: {self._unknown_text(piece)} not in the vocabulary of {self.path}')
            tokens += encoded
        return np.array(tokens, np.int32)

    def _unknown_text(self, text: str) -> str:
        pieces = zip(self.encode(text), self._processor.encode(text, out_type=str), strict=True)
        unknown = dict.fromkeys(piece for token, piece in pieces if token == self._unknown)
        names = ', '.join(f"'{piece}'" for piece in unknown)
        return f'{names} {"is" if len(unknown) == 1 else "are"}'


def pad_tokens(tokens: Sequence[int], capacity: int) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """[capacity] ids and mask as the reference batches hold them: padded with id 0, cut at the capacity.

    A policy refuses prompts that would be cut; this is for comparing with recorded batches.
    """
    kept = np.asarray(tokens[:capacity], np.int32)
    missing = capacity - len(kept)
    return np.pad(kept, (0, missing)), np.pad(np.ones(len(kept), np.uint8), (0, missing))
