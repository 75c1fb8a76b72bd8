# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Makes a tiny GR00T N1.6 on the spot: seeded random weights under its names, with a robot and a tokenizer.

Its actions mean nothing, as those of `demo_checkpoint`: they are bounded, and depend on pictures, joints and
prompt (see `_action_head`).
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from flashrt_ros.made_checkpoint import RandomWeights, Tensors, replaced_folder, stored

SEED = 20261
EMBODIMENT = 'aloha_sim'
VIEWS = ('cam_high', 'cam_left_wrist', 'cam_right_wrist')
# Keys of state and actions, and how many columns each has; arms count from the state, grippers are absolute.
COLUMNS = {'left_arm': 6, 'left_gripper': 1, 'right_arm': 6, 'right_gripper': 1}
MIN_RANGE = 0.2  # robot units, as in `demo_checkpoint`
_TIME_FEATURES = 256
# Beside the 256 bytes, with which any text can be written.
_ADDED_TOKENS = ('<|endoftext|>', '<|im_start|>', '<|im_end|>', '<IMG_CONTEXT>', '<img>', '</img>')
_IDS = {text: 256 + index for index, text in enumerate(_ADDED_TOKENS)}
IMAGE_TOKEN = _IDS['<IMG_CONTEXT>']


@dataclass(frozen=True)
class GrootSizes:
    """The dimensions of the tiny model; the layout is that of the full one."""

    patch: int = 14
    grid: int = 16  # patches of a side that the table of positions is for
    vision_width: int = 96
    vision_layers: int = 2
    vision_heads: int = 2
    vision_mlp: int = 192
    width: int = 96
    mlp: int = 256
    layers: int = 2
    heads: int = 2
    kv_heads: int = 1
    head_dim: int = 32
    blocks: int = 4  # one that looks at text, one at images, and two at the actions
    block_heads: int = 6
    block_head_dim: int = 16
    hidden: int = 64  # of the networks of the embodiment; twice the actions or more
    state_dim: int = 32
    action_dim: int = 32
    model_rows: int = 50
    horizon: int = 40  # rows that the robot plays of them
    steps: int = 4
    slots: int = 3
    slot: int = 1

    @property
    def block_width(self) -> int:
        return self.block_heads * self.block_head_dim


def write_groot_demo_checkpoint(
    folder: Path, states: NDArray[np.float64], sizes: GrootSizes | None = None
) -> None:
    """Writes model, embodiment and tokenizer; states: [samples, 14] at the rate of the actions."""
    sizes = sizes or GrootSizes()
    documents = {
        'config': _config(sizes),
        'processor_config': _processor(sizes),
        'statistics': {EMBODIMENT: _statistics(states, sizes.horizon)},
        'embodiment_id': {EMBODIMENT: sizes.slot},
        'vocab': _vocabulary(),
        'added_tokens': _IDS,
    }
    with replaced_folder(folder) as made:
        for name, document in documents.items():
            (made / f'{name}.json').write_text(json.dumps(document, indent=2) + '\n')
        (made / 'merges.txt').write_text('#version: 0.2\n')
        save_file(_weights(sizes), made / 'model.safetensors')


def _config(s: GrootSizes) -> dict:
    return {
        'model_type': 'Gr00tN1d6',
        'note': f'random weights of flashrt_ros, seed {SEED}, sizes {asdict(s)}',
        'select_layer': s.layers,
        'backbone_embedding_dim': s.width,
        'hidden_size': s.hidden,
        'input_embedding_dim': s.block_width,
        'max_state_dim': s.state_dim,
        'max_action_dim': s.action_dim,
        'action_horizon': s.model_rows,
        'max_num_embodiments': s.slots,
        'max_seq_len': s.model_rows,
        'add_pos_embed': True,
        'use_vlln': True,
        'use_alternate_vl_dit': True,
        'attend_text_every_n_blocks': 2,
        'num_inference_timesteps': s.steps,
        'num_timestep_buckets': 1000,
        'state_dropout_prob': 0.0,
        'diffusion_model_cfg': {
            'positional_embeddings': None,
            'num_layers': s.blocks,
            'num_attention_heads': s.block_heads,
            'attention_head_dim': s.block_head_dim,
            'norm_type': 'ada_norm',
            'dropout': 0.2,
            'final_dropout': True,
            'output_dim': 2 * s.action_dim,
            'interleave_self_attention': True,
        },
        'backbone': {
            'model_type': 'eagle_3_vl',
            'image_token_index': IMAGE_TOKEN,
            'img_start_token_id': _IDS['<img>'],
            'img_end_token_id': _IDS['</img>'],
            'pad_token_id': _IDS['<|endoftext|>'],
            'downsample_ratio': 0.5,
            'mlp_connector_layers': 2,
            'use_pixel_shuffle': True,
            'vision_config': {
                'hidden_size': s.vision_width,
                'intermediate_size': s.vision_mlp,
                'num_hidden_layers': s.vision_layers,
                'num_attention_heads': s.vision_heads,
                'num_channels': 3,
                'num_patches': s.grid**2,
                'patch_size': s.patch,
                'hidden_act': 'gelu_pytorch_tanh',
                'layer_norm_eps': 1e-6,
                'window_size': 14,
                'full_attention_indexes': list(range(s.vision_layers)),
                'use_rope': False,
                'use_windows_attn': False,
            },
            'text_config': {
                'vocab_size': 256 + len(_IDS),
                'hidden_size': s.width,
                'intermediate_size': s.mlp,
                'num_hidden_layers': s.layers,
                'num_attention_heads': s.heads,
                'num_key_value_heads': s.kv_heads,
                'head_dim': s.head_dim,
                'hidden_act': 'silu',
                'rms_norm_eps': 1e-6,
                'rope_theta': 1e6,
                'max_position_embeddings': 1024,
                'attention_bias': False,
                'sliding_window': None,
                'tie_word_embeddings': True,
                'use_cache': False,
            },
        },
    }


def _processor(s: GrootSizes) -> dict:
    def modality(keys: list[str], steps: int = 1, configs: list[dict] | None = None) -> dict:
        return {
            'delta_indices': list(range(steps)),
            'modality_keys': keys,
            'sin_cos_embedding_keys': None,
            'mean_std_embedding_keys': None,
            'action_configs': configs,
        }

    configs = [
        {
            'rep': 'RELATIVE' if _is_relative(key) else 'ABSOLUTE',
            'type': 'NON_EEF',
            'format': 'DEFAULT',
            'state_key': None,
        }
        for key in COLUMNS
    ]
    return {
        'processor_class': 'Gr00tN1d6Processor',
        'processor_kwargs': {
            'modality_configs': {
                EMBODIMENT: {
                    'video': modality(list(VIEWS)),
                    'state': modality(list(COLUMNS)),
                    'action': modality(list(COLUMNS), s.horizon, configs),
                    'language': modality(['task']),
                }
            },
            'image_crop_size': None,
            'image_target_size': None,
            'use_albumentations': True,
            'shortest_image_edge': 256,
            'crop_fraction': 0.95,
            'formalize_language': True,
            'max_state_dim': s.state_dim,
            'max_action_dim': s.action_dim,
            'max_action_horizon': s.model_rows,
            'use_percentiles': False,
            'clip_outliers': True,
            'apply_sincos_state_encoding': False,
            'use_relative_action': True,
        },
    }


def _is_relative(key: str) -> bool:
    return key.endswith('_arm')


def _statistics(states: NDArray[np.float64], horizon: int) -> dict:
    """As if every joint value had been commanded one row before it was measured."""
    ends = np.cumsum([0, *COLUMNS.values()])
    keys = {name: states[:, ends[i] : ends[i + 1]] for i, name in enumerate(COLUMNS)}
    # [windows, horizon, columns]: what follows each state, counted from it
    last = len(states) - horizon
    relative = {
        name: np.stack([rows[start + 1 : start + 1 + horizon] - rows[start] for start in range(last)])
        for name, rows in keys.items()
        if _is_relative(name)
    }
    return {
        'state': {name: _summary(rows) for name, rows in keys.items()},
        'action': {name: _summary(rows[1:]) for name, rows in keys.items()},
        'relative_action': {name: _summary(windows) for name, windows in relative.items()},
    }


def _summary(values: NDArray[np.float64]) -> dict[str, list]:
    """Over the first axis; no range is narrower than MIN_RANGE."""

    def ends(low: NDArray[np.float64], high: NDArray[np.float64]) -> list[list]:
        margin = np.maximum(MIN_RANGE - (high - low), 0) / 2
        return [(low - margin).tolist(), (high + margin).tolist()]

    kinds = ('min', 'max', 'q01', 'q99')
    extremes = ends(values.min(axis=0), values.max(axis=0))
    percentiles = ends(*np.quantile(values, (0.01, 0.99), axis=0))
    return dict(zip(kinds, (*extremes, *percentiles), strict=True)) | {
        'mean': values.mean(axis=0).tolist(),
        'std': np.maximum(values.std(axis=0), MIN_RANGE / 4).tolist(),
    }


def _vocabulary() -> dict[str, int]:
    """Bytes as byte-pair encodings spell them: those that do not print are letters from 256 on."""
    printing = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printing]
    spelled = {chr(byte): byte for byte in printing}
    return spelled | {chr(256 + index): byte for index, byte in enumerate(others)}


def _weights(s: GrootSizes) -> Tensors:
    made = RandomWeights(SEED)
    _backbone(made, s)
    made.layer_norm('action_head.vlln', s.width)
    for block in range(s.blocks):
        # Even blocks look at what the language model made of text or images, odd ones at the actions.
        _block(made, s, f'action_head.model.transformer_blocks.{block}', block % 2 == 0)
    _action_head(made, s)
    return made.tensors


def _backbone(made: RandomWeights, s: GrootSizes) -> None:
    tensors, normal = made.tensors, made.normal
    vision, w = 'backbone.model.vision_model.vision_model', s.vision_width
    pixels = 3 * s.patch**2
    patch = f'{vision}.embeddings.patch_embedding'
    tensors[f'{patch}.weight'] = normal(w, pixels, std=2.0 / pixels**0.5)  # fan-in, doubled
    tensors[f'{patch}.bias'] = normal(w, std=0.1)
    tensors[f'{vision}.embeddings.position_embedding.weight'] = normal(s.grid**2, w, std=0.5)
    for layer in range(s.vision_layers):
        made.siglip_layer(f'{vision}.encoder.layers.{layer}', w, s.vision_mlp)
    made.layer_norm(f'{vision}.post_layernorm', w)
    connector = 'backbone.model.mlp1'
    made.layer_norm(f'{connector}.0', 4 * w)  # two by two patches become one row
    made.linear(f'{connector}.1', s.width, 4 * w)
    made.linear(f'{connector}.3', s.width, s.width)

    language = 'backbone.model.language_model'
    vocabulary = 256 + len(_IDS)
    tensors[f'{language}.model.embed_tokens.weight'] = normal(vocabulary, s.width, std=1.0)
    tensors[f'{language}.lm_head.weight'] = tensors[f'{language}.model.embed_tokens.weight'].copy()
    for index in range(s.layers):
        layer = f'{language}.model.layers.{index}'
        made.language_layer(layer, s.width, s.mlp, s.heads, s.kv_heads, s.head_dim)
        for norm, width in (
            ('input_layernorm', s.width),
            ('post_attention_layernorm', s.width),
            ('self_attn.q_norm', s.head_dim),
            ('self_attn.k_norm', s.head_dim),
        ):
            tensors[f'{layer}.{norm}.weight'] = 1 + normal(width, std=0.1)
    tensors[f'{language}.model.norm.weight'] = 1 + normal(s.width, std=0.1)


def _block(made: RandomWeights, s: GrootSizes, name: str, looks_outside: bool) -> None:
    width = s.block_width
    outside = s.width if looks_outside else width
    for part, into, gain in (('q', width, 2.0), ('k', outside, 2.0), ('v', outside, 1.0)):
        made.linear(f'{name}.attn1.to_{part}', width, into, gain=gain)
    made.linear(f'{name}.attn1.to_out.0', width, width, gain=0.5)
    made.linear(f'{name}.ff.net.0.proj', 4 * width, width)
    made.linear(f'{name}.ff.net.2', width, 4 * width, gain=0.3)
    made.linear(f'{name}.norm1.linear', 2 * width, width, gain=0.3)


def _action_head(made: RandomWeights, s: GrootSizes) -> None:
    """Makes the velocity about -3 (a + f), f from the blocks: the flow forgets its noise and ends near -f.

    The encoder spreads the actions over orthogonal directions of the residual, and the decoder reads the same
    ones. Both have a nonlinear layer between, through which a number goes as a pair: silu(x) - silu(-x) and
    relu(x) - relu(-x) are x. A constant in the other directions keeps the norm from blowing small actions up.
    """
    tensors, rng, normal, linear = made.tensors, made.rng, made.normal, made.linear
    width, columns = s.block_width, s.action_dim
    basis, _ = np.linalg.qr(rng.normal(size=(width, width)))
    directions, rest = basis[:, :columns].T, basis[:, columns:].T  # [columns, width], orthonormal rows
    one = np.eye(columns)
    head, model = 'action_head', 'action_head.model'

    def of_embodiment(name: str, weight: NDArray, bias: NDArray) -> None:
        """[in, out] and [out], the same in every slot: a number of its own tells the slots apart."""
        own = 1.0 + 0.5 * (np.arange(s.slots) != s.slot)
        tensors[f'{head}.{name}.W'] = stored(own[:, np.newaxis, np.newaxis] * weight)
        tensors[f'{head}.{name}.b'] = stored(own[:, np.newaxis] * bias)

    # Hidden units: +action, -action, and the rest, which is for the time.
    first = np.zeros((columns, width))
    first[:, :columns] = one
    second = np.zeros((2 * width, width))
    second[:columns, : 2 * columns] = np.hstack([one, -one])
    second[width:, 2 * columns :] = rng.normal(0, width**-0.5, (width, width - 2 * columns))
    third = np.vstack(
        [2.0 * directions, -2.0 * directions, rng.normal(0, 0.05, (width - 2 * columns, width))]
    )
    of_embodiment('action_encoder.W1', first, np.zeros(width))
    of_embodiment('action_encoder.W2', second, np.zeros(width))
    of_embodiment('action_encoder.W3', third, rng.choice([-2.0, 2.0], len(rest)) @ rest)
    tensors[f'{head}.position_embedding.weight'] = normal(s.model_rows, width, std=0.2)

    hidden = rng.normal(0, s.state_dim**-0.5, (s.state_dim, s.hidden))
    of_embodiment('state_encoder.layer1', 2.0 * hidden, rng.normal(0, 0.1, s.hidden))
    out = rng.normal(0, s.hidden**-0.5, (s.hidden, width))
    of_embodiment('state_encoder.layer2', 2.0 * out, rng.normal(0, 0.1, width))

    linear(f'{model}.timestep_encoder.timestep_embedder.linear_1', width, _TIME_FEATURES)
    linear(f'{model}.timestep_encoder.timestep_embedder.linear_2', width, width)
    linear(f'{model}.proj_out_1', 2 * width, width, gain=0.1)
    tensors[f'{model}.proj_out_2.weight'] = stored(np.vstack([directions, -directions]))
    tensors[f'{model}.proj_out_2.bias'] = np.zeros(2 * columns, np.float32)
    pairs = np.zeros((2 * columns, s.hidden))
    pairs[:, : 2 * columns] = np.eye(2 * columns)
    velocity = np.zeros((s.hidden, columns))
    velocity[: 2 * columns] = -3.0 * np.vstack([one, -one])
    of_embodiment('action_decoder.layer1', pairs, np.zeros(s.hidden))
    of_embodiment('action_decoder.layer2', velocity, rng.normal(0, 0.1, columns))
