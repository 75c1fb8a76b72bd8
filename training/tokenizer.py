# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""A SentencePiece model of whole words: one piece for every word of the tasks and every state bin.

A word that was not trained becomes the unknown piece, which the policy refuses by name.
"""

import re
from collections.abc import Iterable

from sentencepiece import sentencepiece_model_pb2 as proto

SPACE = '\u2581'  # SentencePiece writes spaces so
CONTROL = ('<pad>', '</s>', '<s>')  # ids 0, 1, 2 as in PaliGemma's vocabulary
STATE_BINS = range(-1, 256)


def words_of(text: str) -> list[str]:
    """Text in pieces of one word each, with the space ahead of it; punctuation and line ends apart."""
    return re.findall(r' ?[^\s,;:]+:?| |[,;:\n]', text)


def tokenizer_model(prompts: Iterable[str]) -> bytes:
    """The model file for these tasks, in the text that Pi0.5 reads."""
    frame = 'Task: {}, State: 0;\nAction: '
    words = {word for prompt in prompts for word in words_of(frame.format(prompt))}
    words |= {f' {number}' for number in STATE_BINS}
    model = proto.ModelProto()
    model.trainer_spec.model_type = proto.TrainerSpec.UNIGRAM
    model.trainer_spec.pad_id, model.trainer_spec.eos_id = 0, 1
    model.trainer_spec.bos_id, model.trainer_spec.unk_id = 2, 3
    model.normalizer_spec.name = 'identity'
    model.normalizer_spec.add_dummy_prefix = False
    model.normalizer_spec.remove_extra_whitespaces = False
    kinds = proto.ModelProto.SentencePiece
    for piece in CONTROL:
        model.pieces.add(piece=piece, score=0.0, type=kinds.CONTROL)
    model.pieces.add(piece='<unk>', score=0.0, type=kinds.UNKNOWN)
    for word in sorted(words):
        # The same score for all: of the ways to cut a text, the one of fewest pieces wins.
        model.pieces.add(piece=word.replace(' ', SPACE), score=-1.0, type=kinds.NORMAL)
    model.trainer_spec.vocab_size = len(model.pieces)
    return model.SerializeToString()
