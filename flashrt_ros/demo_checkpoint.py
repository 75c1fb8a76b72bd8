# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Makes a tiny Pi0.5 on the spot: seeded random weights under openpi's names, for demo and tests.

Its actions mean nothing. They are random in a way that behaves: activations stay near 1, and the sampler
pulls the noise to a bounded value that depends on pictures, joints and prompt (see `_action_head`).
"""

import json
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from flashrt_core.platforms import AlohaActions, AlohaState
from flashrt_ros.made_checkpoint import RandomWeights, Tensors, replaced_folder, stored

SEED = 20260
ASSET_ID = 'aloha_sim'
TOKENIZER = 'tiny_tokenizer.model'
DELTA_COLUMNS = np.array(([True] * 6 + [False]) * 2)  # joints are relative to the state, grippers absolute
MIN_RANGE = 0.2  # robot units: the sample hardly moves some joints, a data set of many episodes would


@dataclass(frozen=True)
class Sizes:
    """The dimensions of the tiny model; the layout is that of the full one."""

    image: int = 224
    patch: int = 14
    vision_width: int = 96
    vision_layers: int = 2
    vision_heads: int = 2
    vision_mlp: int = 192
    vocabulary: int = 712
    width: int = 96
    mlp: int = 256
    expert_width: int = 64
    expert_mlp: int = 128
    layers: int = 2
    heads: int = 2
    kv_heads: int = 1
    head_dim: int = 32
    action_dim: int = 32
    horizon: int = 50
    steps: int = 10
    prompt_capacity: int = 200

    @property
    def image_tokens(self) -> int:
        return (self.image // self.patch) ** 2


def write_demo_checkpoint(folder: Path, states: NDArray[np.float64], sizes: Sizes | None = None) -> None:
    """Writes config, weights, tokenizer and statistics; states: [samples, 14] at the rate of the actions."""
    sizes = sizes or Sizes()
    with replaced_folder(folder) as made:
        assets = made / 'assets' / ASSET_ID
        assets.mkdir(parents=True)
        (made / 'config.json').write_text(json.dumps(_config(sizes), indent=2) + '\n')
        (assets / 'norm_stats.json').write_text(
            json.dumps(_statistics(states, sizes.horizon), indent=2) + '\n'
        )
        (made / TOKENIZER).write_bytes(
            resources.files('flashrt_ros').joinpath('data', TOKENIZER).read_bytes()
        )
        save_file(_weights(sizes), made / 'model.safetensors')


def _config(s: Sizes) -> dict:
    attention = {
        'num_layers': s.layers,
        'num_heads': s.heads,
        'num_kv_heads': s.kv_heads,
        'head_dim': s.head_dim,
    }
    return {
        'model_type': 'pi05',
        'vision': {
            'image_size': s.image,
            'patch_size': s.patch,
            'num_channels': 3,
            'num_image_tokens': s.image_tokens,
            'hidden_size': s.vision_width,
            'num_layers': s.vision_layers,
            'num_heads': s.vision_heads,
            'intermediate_size': s.vision_mlp,
            'layer_norm_eps': 1e-6,
            'activation': 'gelu_tanh',
            'projection_dim': s.width,
        },
        'language': {
            'hidden_size': s.width,
            'intermediate_size': s.mlp,
            **attention,
            'vocab_size': s.vocabulary,
            'rms_norm_eps': 1e-6,
            'rope_theta': 10000.0,
            'activation': 'gelu_tanh',
            'embedding_scale': s.width**0.5,
        },
        'expert': {
            'hidden_size': s.expert_width,
            'intermediate_size': s.expert_mlp,
            **attention,
            'ada_rms': True,
            'rms_norm_eps': 1e-6,
            'activation': 'gelu_tanh',
        },
        'action': {
            'action_dim': s.action_dim,
            'action_horizon': s.horizon,
            'time_embedding_min_period': 0.004,
            'time_embedding_max_period': 4.0,
        },
        'weights_seed': SEED,
        'default_num_steps': s.steps,
        'default_max_token_len': s.prompt_capacity,
        'note': f'random weights of flashrt_ros, sizes {asdict(s)}',
    }


def _statistics(states: NDArray[np.float64], horizon: int) -> dict:
    """Statistics of the recording as openpi computes them, on the columns that the model sees."""
    state, target = AlohaState()(states), _actions_to_pi(states)
    windows = np.stack([target[start : start + horizon] for start in range(len(states) - horizon)])
    windows[..., DELTA_COLUMNS] -= target[: len(windows), None, DELTA_COLUMNS]
    actions = windows.reshape(-1, states.shape[1])
    return {'norm_stats': {'state': _summary(state), 'actions': _summary(actions)}}


def _actions_to_pi(actions: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse of AlohaActions, which scales and shifts each column."""
    zero, one = AlohaActions()(np.stack([np.zeros(actions.shape[1]), np.ones(actions.shape[1])]))
    return (actions - zero) / (one - zero)


def _summary(values: NDArray[np.float64]) -> dict[str, list[float]]:
    low, high = np.quantile(values, (0.01, 0.99), axis=0)
    margin = np.maximum(MIN_RANGE - (high - low), 0) / 2
    return {
        'mean': values.mean(axis=0).tolist(),
        'std': np.maximum(values.std(axis=0), MIN_RANGE / 4).tolist(),
        'q01': (low - margin).tolist(),
        'q99': (high + margin).tolist(),
    }


def _weights(s: Sizes) -> Tensors:
    made = RandomWeights(SEED)
    tensors, normal, linear = made.tensors, made.normal, made.linear
    root = 'paligemma_with_expert'
    vision = f'{root}.paligemma.model.vision_tower.vision_model'
    w = s.vision_width
    patch = f'{vision}.embeddings.patch_embedding'
    tensors[f'{patch}.weight'] = normal(
        w, 3, s.patch, s.patch, std=2.0 / (3**0.5 * s.patch)
    )  # fan-in, doubled
    tensors[f'{patch}.bias'] = normal(w, std=0.1)
    tensors[f'{vision}.embeddings.position_embedding.weight'] = normal(s.image_tokens, w, std=0.5)
    for i in range(s.vision_layers):
        made.siglip_layer(f'{vision}.encoder.layers.{i}', w, s.vision_mlp)
    made.layer_norm(f'{vision}.post_layernorm', w)
    linear(f'{root}.paligemma.model.multi_modal_projector.linear', s.width, w)

    # As converted checkpoints do: the text embedding is stored as lm_head only, unscaled.
    tensors[f'{root}.paligemma.lm_head.weight'] = normal(s.vocabulary, s.width, std=1 / s.width**0.5)
    heads = s.heads, s.kv_heads, s.head_dim
    for i in range(s.layers):
        layer = f'{root}.paligemma.model.language_model.layers.{i}'
        made.language_layer(layer, s.width, s.mlp, *heads)
        tensors[f'{layer}.input_layernorm.weight'] = normal(s.width, std=0.1)
        tensors[f'{layer}.post_attention_layernorm.weight'] = normal(s.width, std=0.1)
    tensors[f'{root}.paligemma.model.language_model.norm.weight'] = normal(s.width, std=0.1)

    e = s.expert_width

    def adaptive_norm(name: str) -> None:
        linear(f'{name}.dense', 3 * e, e, gain=0.5)
        tensors[f'{name}.dense.bias'][2 * e :] += 1.0  # gates around 1, as in the plain norm

    for i in range(s.layers):
        layer = f'{root}.gemma_expert.model.layers.{i}'
        made.language_layer(layer, e, s.expert_mlp, *heads, gain=0.4)
        adaptive_norm(f'{layer}.input_layernorm')
        adaptive_norm(f'{layer}.post_attention_layernorm')
    adaptive_norm(f'{root}.gemma_expert.model.norm')
    # Converted checkpoints carry this one, too; Pi0.5 does not use it.
    tensors[f'{root}.gemma_expert.lm_head.weight'] = normal(s.vocabulary, e, std=1 / e**0.5)
    linear('time_mlp_in', e, e)
    linear('time_mlp_out', e, e)
    _action_head(made, s)
    return tensors


def _action_head(made: RandomWeights, s: Sizes) -> None:
    """Makes the velocity about 4 (x + f), f from the layers: the flow forgets its noise and ends near -f.

    `action_in` spreads the action over orthogonal directions of the residual and `action_out` reads the
    same ones; a constant in the other directions keeps the norm from blowing small actions up.
    """
    tensors, rng = made.tensors, made.rng
    basis, _ = np.linalg.qr(rng.normal(size=(s.expert_width, s.expert_width)))
    directions, rest = basis[:, : s.action_dim], basis[:, s.action_dim :]
    tensors['action_in_proj.weight'] = stored(2.0 * directions)
    tensors['action_in_proj.bias'] = stored(rest @ rng.choice([-2.0, 2.0], rest.shape[1]))
    tensors['action_out_proj.weight'] = stored(3.0 * directions.T)
    tensors['action_out_proj.bias'] = stored(rng.normal(0, 0.1, s.action_dim))
