# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Checkpoints with one fault each that trained weights can have and random ones have not.

Faults go into the tensors of a checkpoint folder of Pi0.5, under their names of converted openpi checkpoints.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from flashrt_core.bench import BEGIN

Tensors = dict[str, NDArray]

VISION = 'paligemma_with_expert.paligemma.model.vision_tower.vision_model.'
LANGUAGE = 'paligemma_with_expert.paligemma.model.language_model.'
EXPERT = 'paligemma_with_expert.gemma_expert.model.'
# Embedding and head are one tensor.
EMBEDDING = 'paligemma_with_expert.paligemma.lm_head.weight'
# The linears that recipes may quantise: those of the three towers, and the projector.
LINEAR = re.compile(r'.*(_proj|\.fc1|\.fc2|projector\.linear)\.weight')
# Every norm of a tower, with the linears that read it.
NORMS = {
    'layer_norm1': ('self_attn.q_proj', 'self_attn.k_proj', 'self_attn.v_proj'),
    'layer_norm2': ('mlp.fc1',),
    'input_layernorm': ('self_attn.q_proj', 'self_attn.k_proj', 'self_attn.v_proj'),
    'post_attention_layernorm': ('mlp.gate_proj', 'mlp.up_proj'),
}
# The same of GR00T, for outlier_token.
GROOT = {
    'embedding': 'backbone.model.language_model.model.embed_tokens.weight',
    'language': 'backbone.model.language_model.model.',
}


def plant(source: Path, folder: Path, fault: Callable[[Tensors], None]) -> Path:
    """Copies the checkpoint into the folder, changed."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(source / 'config.json', folder)
    tensors = load_file(source / 'model.safetensors')
    fault(tensors)
    save_file(tensors, folder / 'model.safetensors')
    return folder


def heavy_tails(tensors: Tensors, degrees: float = 3) -> None:
    """Weights of linears follow Student's t instead of the normal distribution, with their deviation."""
    rng = np.random.default_rng(7)
    for name in filter(LINEAR.fullmatch, tensors):
        drawn = rng.standard_t(degrees, tensors[name].shape)
        tensors[name] = (drawn * (tensors[name].std() / drawn.std())).astype(np.float32)


def outlier_rows(tensors: Tensors, factor: float) -> None:
    """Three channels of the residual streams of vision and language model are larger.

    So are three rows of every linear that adds to them.
    """
    for name in tensors:
        if not name.startswith(EXPERT) and re.fullmatch(r'.*(out_proj|o_proj|down_proj|fc2)\.weight', name):
            tensors[name][_channels(len(tensors[name]))] *= factor


def outlier_channels(tensors: Tensors, factor: float) -> None:
    """Three channels of every norm of vision tower and action expert are larger.

    The columns of the linears that read them are smaller: the model computes what it did. The norms of the
    language model have no gain of their own; the plan folds it into the weights behind.
    """
    for tower in (VISION + 'encoder.', EXPERT):
        for norm, readers in NORMS.items():
            for name in [name for name in tensors if name.startswith(tower) and f'.{norm}.' in name]:
                _enlarge(tensors, name, factor)
            layers = {
                name.split(f'.{norm}.')[0]
                for name in tensors
                if name.startswith(tower) and f'.{norm}.' in name
            }
            for layer in layers:
                for reader in readers:
                    columns = tensors[f'{layer}.{reader}.weight']
                    columns[:, _channels(columns.shape[1])] /= factor


def _enlarge(tensors: Tensors, name: str, factor: float) -> None:
    """Of a norm's gain and shift, or of the style that stands for both: (1 + scale), shift, gate."""
    if '.dense.' not in name:
        tensors[name][_channels(len(tensors[name]))] *= factor
        return
    width = len(tensors[name]) // 3
    scale, shift = _channels(width), [width + channel for channel in _channels(width)]
    tensors[name][scale + shift] *= factor
    if name.endswith('.bias'):
        tensors[name][scale] += factor - 1  # 1 + scale is what multiplies


def _channels(width: int) -> list[int]:
    """An outlier lies at each quarter of the width."""
    return [quarter * width // 4 for quarter in (1, 2, 3)]


def outlier_token(
    tensors: Tensors, factor: float, *, embedding: str = EMBEDDING, language: str = LANGUAGE
) -> None:
    """The token that begins a prompt makes a hidden value of the first language layer `factor` large.

    So do the first tokens of trained models. Its embedding is enlarged as well, so that what the norm leaves
    of it has the same direction in every prompt; that direction is added to one row of gate and up.
    """
    token = tensors[embedding][BEGIN]
    token *= 30
    direction = token / np.linalg.norm(token)
    gain = np.float32(np.sqrt(factor / len(token)))  # the norm of the token is sqrt(width)
    for part in ('gate_proj', 'up_proj'):
        rows = tensors[f'{language}layers.0.mlp.{part}.weight']
        rows[len(rows) // 2] += gain * direction
    # What it adds to the residual stays of the size of what the others add.
    columns = tensors[f'{language}layers.0.mlp.down_proj.weight']
    columns[:, columns.shape[1] // 2] /= factor


def larger_words(tensors: Tensors, factor: float) -> None:
    """Rows of the prompt are larger than those of the pictures beside them."""
    tensors[EMBEDDING] *= factor


def dead_channels(tensors: Tensors) -> None:
    """A quarter of all hidden values of the towers is zero whatever goes in, and their weights are."""
    for name, values in tensors.items():
        if re.fullmatch(r'.*(gate_proj|up_proj|fc1)\.(weight|bias)', name):
            values[: len(values) // 4] = 0


def constant_sites(tensors: Tensors) -> None:
    """What the projector reads is 3.7 everywhere; what `down` of the expert's first layer reads is zero."""
    tensors[VISION + 'post_layernorm.weight'][:] = 0
    tensors[VISION + 'post_layernorm.bias'][:] = 3.7
    tensors[EXPERT + 'layers.0.mlp.gate_proj.weight'][:] = 0
