# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The folder of a checkpoint as the ordinary Pi0.5 loader reads it, and the numbers of its statistics."""

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from model import Pi05, Sizes
from safetensors.torch import save_file
from tokenizer import tokenizer_model
from torch import Tensor

from flashrt_core.tokenizer import Tokenizer

EPSILON = 1e-6  # of openpi's quantile normalisation
TOKENIZER = 'tokenizer.model'


class Range:
    """The quantiles of one kind of vector: robot units to [-1, 1] as openpi's quantile normalisation does."""

    def __init__(self, columns: Mapping[str, list[float]], device: str) -> None:
        self._low, self._high = (torch.tensor(columns[name], device=device) for name in ('q01', 'q99'))

    def normalised(self, values: Tensor) -> Tensor:
        return (values - self._low) / (self._high - self._low + EPSILON) * 2 - 1


def inference_weights(model: Pi05, averaged: dict[str, Tensor]) -> dict[str, Tensor]:
    """In bf16, without what no inference reads: behind the keys and values of the last prefix layer."""
    last = f'language_model.layers.{model.sizes.layers - 1}.'
    unread = tuple(
        last + part for part in ('self_attn.q_proj', 'self_attn.o_proj', 'mlp', 'post_attention_layernorm')
    )
    return {
        name: tensor.to(torch.bfloat16).contiguous().cpu()
        for name, tensor in averaged.items()
        if not any(part in name for part in unread)
    }


def write_tokenizer(folder: Path, sentences: Iterable[str]) -> Tokenizer:
    """The vocabulary of these sentences, in the folder of a checkpoint to be."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / TOKENIZER
    path.write_bytes(tokenizer_model(sentences))
    return Tokenizer(path)


def write_checkpoint(
    folder: Path, sizes: Sizes, weights: dict[str, Tensor], statistics: Path, card: str
) -> None:
    """weights: as inference_weights() gives them; statistics: norm_stats.json of the data."""
    (folder / 'config.json').write_text(json.dumps(sizes.config(), indent=2) + '\n')
    save_file(weights, folder / 'model.safetensors')
    shutil.copyfile(statistics, folder / 'norm_stats.json')
    (folder / 'README.md').write_text(card)
