# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Pi0.5 and Pi0 in float64 NumPy, written from its formulas and from nothing else in this project.

One loop per thing the model does, no masks: absent cameras and padding are simply not there. It also makes
seeded weights of any size, and folders of cases in the layout that `flashrt golden` reads.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

Array = NDArray[np.float64]
Tensors = dict[str, Array]

VISION = 'paligemma_with_expert.paligemma.model.vision_tower.vision_model.'
PROJECTOR = 'paligemma_with_expert.paligemma.model.multi_modal_projector.linear'
LANGUAGE = 'paligemma_with_expert.paligemma.model.language_model.'
EMBEDDING = 'paligemma_with_expert.paligemma.lm_head.weight'
EXPERT = 'paligemma_with_expert.gemma_expert.model.'


@dataclass(frozen=True)
class Sizes:
    image: int = 28
    patch: int = 14
    vision_width: int = 24
    vision_layers: int = 2
    vision_heads: int = 3
    vision_mlp: int = 40
    width: int = 32
    mlp: int = 48
    expert_width: int = 16
    expert_mlp: int = 40
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 8
    vocabulary: int = 96
    action_dim: int = 6
    horizon: int = 7
    state_dim: int = 0  # Pi0 has a state; 0 is Pi0.5

    @property
    def image_tokens(self) -> int:
        return (self.image // self.patch) ** 2


# ---- the formulas


def linear(w: Tensors, name: str, x: Array) -> Array:
    y = x @ w[f'{name}.weight'].T
    return y + w[f'{name}.bias'] if f'{name}.bias' in w else y


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(w: Tensors, name: str, x: Array) -> Array:
    centred = x - x.mean(axis=-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-6)
    return scaled * w[f'{name}.weight'] + w[f'{name}.bias']


def rms(x: Array) -> Array:
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-6)


def attend(q: Array, k: Array, v: Array) -> Array:
    """q [heads, T, E], k and v [kv heads, S, E] -> [T, heads * E]."""
    heads = []
    for i in range(len(q)):
        shared = i // (len(q) // len(k))
        heads.append(softmax(q[i] @ k[shared].T / np.sqrt(q.shape[-1])) @ v[shared])
    return np.concatenate(heads, axis=-1)


def split_heads(x: Array, heads: int) -> Array:
    return x.reshape(len(x), heads, -1).transpose(1, 0, 2)


def rope(x: Array, positions: NDArray[np.int64]) -> Array:
    """x [heads, T, E]: halves turned against each other."""
    half = x.shape[-1] // 2
    angle = positions[:, None] * 10000.0 ** (-np.arange(half) / half)
    low, high = x[..., :half], x[..., half:]
    return np.concatenate(
        [low * np.cos(angle) - high * np.sin(angle), high * np.cos(angle) + low * np.sin(angle)], axis=-1
    )


def siglip(w: Tensors, s: Sizes, image: NDArray[np.uint8]) -> Array:
    """[image, image, 3] bytes -> [image_tokens, vision_width]."""
    pixels = image / 255 * 2 - 1
    grid, patches = s.image // s.patch, []
    for y in range(grid):
        for x in range(grid):
            patch = pixels[y * s.patch : (y + 1) * s.patch, x * s.patch : (x + 1) * s.patch]
            patches.append(patch.transpose(2, 0, 1).ravel())
    kernel = w[f'{VISION}embeddings.patch_embedding.weight'].reshape(s.vision_width, -1)
    x = np.array(patches) @ kernel.T + w[f'{VISION}embeddings.patch_embedding.bias']
    x = x + w[f'{VISION}embeddings.position_embedding.weight']
    for i in range(s.vision_layers):
        layer = f'{VISION}encoder.layers.{i}.'
        h = layer_norm(w, f'{layer}layer_norm1', x)
        q, k, v = (
            split_heads(linear(w, f'{layer}self_attn.{part}_proj', h), s.vision_heads) for part in 'qkv'
        )
        x = x + linear(w, f'{layer}self_attn.out_proj', attend(q, k, v))
        h = layer_norm(w, f'{layer}layer_norm2', x)
        x = x + linear(w, f'{layer}mlp.fc2', gelu(linear(w, f'{layer}mlp.fc1', h)))
    return layer_norm(w, f'{VISION}post_layernorm', x)


def projections(w: Tensors, s: Sizes, layer: str, h: Array, positions: NDArray[np.int64]) -> list[Array]:
    q, k, v = (linear(w, f'{layer}self_attn.{part}_proj', h) for part in 'qkv')
    return [
        rope(split_heads(q, s.heads), positions),
        rope(split_heads(k, s.kv_heads), positions),
        split_heads(v, s.kv_heads),
    ]


def plain_norm(w: Tensors, name: str, x: Array) -> Array:
    return rms(x) * (1 + w[f'{name}.weight'])


def gated_mlp(w: Tensors, layer: str, h: Array) -> Array:
    gate, up = (linear(w, f'{layer}mlp.{part}_proj', h) for part in ('gate', 'up'))
    return linear(w, f'{layer}mlp.down_proj', gelu(gate) * up)


def prefix(w: Tensors, s: Sizes, x: Array) -> list[tuple[Array, Array]]:
    """[P, width] -> keys and values of every layer, [kv heads, P, E] each."""
    positions, cache = np.arange(len(x)), []
    for i in range(s.layers):
        layer = f'{LANGUAGE}layers.{i}.'
        h = plain_norm(w, f'{layer}input_layernorm', x)
        q, k, v = projections(w, s, layer, h, positions)
        cache.append((k, v))
        x = x + linear(w, f'{layer}self_attn.o_proj', attend(q, k, v))
        x = x + gated_mlp(w, layer, plain_norm(w, f'{layer}post_attention_layernorm', x))
    return cache


def time_features(s: Sizes, t: float) -> Array:
    half = s.expert_width // 2
    period = 0.004 * (4.0 / 0.004) ** (np.arange(half) / (half - 1))
    u = 2 * np.pi * t / period
    return np.concatenate([np.sin(u), np.cos(u)])


def condition(w: Tensors, s: Sizes, t: float) -> Array:
    return silu(linear(w, 'time_mlp_out', silu(linear(w, 'time_mlp_in', time_features(s, t)))))


def velocity(
    w: Tensors, s: Sizes, x_t: Array, t: float, cache: list[tuple[Array, Array]]
) -> tuple[Array, dict[str, Array]]:
    """The flow at one time, and what is saved of its way."""
    cond = condition(w, s, t)

    def adaptive(x: Array, norm: str) -> tuple[Array, Array]:
        scale, shift, gate = np.split(linear(w, f'{norm}.dense', cond), 3)
        return rms(x) * (1 + scale) + shift, gate

    positions = cache[0][0].shape[1] + np.arange(s.horizon)
    x = linear(w, 'action_in_proj', x_t)
    kept = {'suffix_embeds': x}
    for i in range(s.layers):
        layer = f'{EXPERT}layers.{i}.'
        h, gate = adaptive(x, f'{layer}input_layernorm')
        q, k, v = projections(w, s, layer, h, positions)
        k, v = (np.concatenate(pair, axis=1) for pair in zip(cache[i], (k, v), strict=True))
        x = x + gate * linear(w, f'{layer}self_attn.o_proj', attend(q, k, v))
        h, gate = adaptive(x, f'{layer}post_attention_layernorm')
        x = x + gate * gated_mlp(w, layer, h)
        if i == 0:
            kept['layer0_out'] = x
    kept['suffix_hidden'], _ = adaptive(x, f'{EXPERT}norm')
    return linear(w, 'action_out_proj', kept['suffix_hidden']), kept


def pi0_velocity(
    w: Tensors, s: Sizes, x_t: Array, state: Array, t: float, cache: list[tuple[Array, Array]]
) -> tuple[Array, dict[str, Array]]:
    """The same for Pi0: a state token, which sees the prefix and itself, then the actions, which see all."""
    action = linear(w, 'action_in_proj', x_t)
    time = np.tile(time_features(s, t), (s.horizon, 1))
    both = np.concatenate([action, time], axis=1)
    actions = linear(w, 'action_time_mlp_out', silu(linear(w, 'action_time_mlp_in', both)))
    token = linear(w, 'state_proj', state[None])
    positions = cache[0][0].shape[1] + np.arange(1 + s.horizon)
    kept = {'suffix_embeds': np.concatenate([token, actions])}
    for i in range(s.layers):
        layer = f'{EXPERT}layers.{i}.'
        norm = f'{layer}input_layernorm'
        q, k, v = projections(w, s, layer, plain_norm(w, norm, token), positions[:1])
        seen_k, seen_v = (np.concatenate(pair, axis=1) for pair in zip(cache[i], (k, v), strict=True))
        token = token + linear(w, f'{layer}self_attn.o_proj', attend(q, seen_k, seen_v))
        q, k, v = projections(w, s, layer, plain_norm(w, norm, actions), positions[1:])
        seen_k, seen_v = np.concatenate([seen_k, k], axis=1), np.concatenate([seen_v, v], axis=1)
        actions = actions + linear(w, f'{layer}self_attn.o_proj', attend(q, seen_k, seen_v))
        norm = f'{layer}post_attention_layernorm'
        token = token + gated_mlp(w, layer, plain_norm(w, norm, token))
        actions = actions + gated_mlp(w, layer, plain_norm(w, norm, actions))
        if i == 0:
            kept['layer0_out'] = np.concatenate([token, actions])
    kept['suffix_hidden'] = plain_norm(w, f'{EXPERT}norm', actions)
    return linear(w, 'action_out_proj', kept['suffix_hidden']), kept


# ---- weights and cases


def random_weights(s: Sizes, seed: int) -> dict[str, NDArray[np.float32]]:
    """Every bias, norm weight and style is far from trivial."""
    rng = np.random.default_rng(seed)
    w: dict[str, NDArray[np.float32]] = {}

    def add(name: str, *shape: int, std: float) -> None:
        w[name] = rng.normal(0, std, shape).astype(np.float32)

    def add_linear(name: str, out: int, into: int, bias: bool) -> None:
        add(f'{name}.weight', out, into, std=into**-0.5)
        if bias:
            add(f'{name}.bias', out, std=0.2)

    def add_expert_norm(name: str) -> None:
        if s.state_dim:
            add(f'{EXPERT}{name}.weight', s.expert_width, std=0.3)
        else:
            add_linear(f'{EXPERT}{name}.dense', 3 * s.expert_width, s.expert_width, bias=True)

    add(f'{VISION}embeddings.patch_embedding.weight', s.vision_width, 3, s.patch, s.patch, std=0.05)
    add(f'{VISION}embeddings.patch_embedding.bias', s.vision_width, std=0.2)
    add(f'{VISION}embeddings.position_embedding.weight', s.image_tokens, s.vision_width, std=0.5)
    for i in range(s.vision_layers):
        layer = f'{VISION}encoder.layers.{i}.'
        for part in ('q', 'k', 'v', 'out'):
            add_linear(f'{layer}self_attn.{part}_proj', s.vision_width, s.vision_width, bias=True)
        add_linear(f'{layer}mlp.fc1', s.vision_mlp, s.vision_width, bias=True)
        add_linear(f'{layer}mlp.fc2', s.vision_width, s.vision_mlp, bias=True)
    for norm in [f'encoder.layers.{i}.layer_norm{n}' for i in range(s.vision_layers) for n in (1, 2)] + [
        'post_layernorm'
    ]:
        add(f'{VISION}{norm}.weight', s.vision_width, std=0.3)
        w[f'{VISION}{norm}.weight'] += 1
        add(f'{VISION}{norm}.bias', s.vision_width, std=0.2)
    add_linear(PROJECTOR, s.width, s.vision_width, bias=True)
    add(EMBEDDING, s.vocabulary, s.width, std=s.width**-0.5)

    for stack, width, mlp in ((LANGUAGE, s.width, s.mlp), (EXPERT, s.expert_width, s.expert_mlp)):
        for i in range(s.layers):
            layer = f'{stack}layers.{i}.'
            for part, heads in (('q', s.heads), ('k', s.kv_heads), ('v', s.kv_heads)):
                add_linear(f'{layer}self_attn.{part}_proj', heads * s.head_dim, width, bias=False)
            add_linear(f'{layer}self_attn.o_proj', width, s.heads * s.head_dim, bias=False)
            add_linear(f'{layer}mlp.gate_proj', mlp, width, bias=False)
            add_linear(f'{layer}mlp.up_proj', mlp, width, bias=False)
            add_linear(f'{layer}mlp.down_proj', width, mlp, bias=False)
    for i in range(s.layers):
        for norm in ('input_layernorm', 'post_attention_layernorm'):
            add(f'{LANGUAGE}layers.{i}.{norm}.weight', s.width, std=0.3)
            add_expert_norm(f'layers.{i}.{norm}')
    add(f'{LANGUAGE}norm.weight', s.width, std=0.3)
    add_expert_norm('norm')
    if s.state_dim:
        add_linear('state_proj', s.expert_width, s.state_dim, bias=True)
        add_linear('action_time_mlp_in', s.expert_width, 2 * s.expert_width, bias=True)
        add_linear('action_time_mlp_out', s.expert_width, s.expert_width, bias=True)
    else:
        add_linear('time_mlp_in', s.expert_width, s.expert_width, bias=True)
        add_linear('time_mlp_out', s.expert_width, s.expert_width, bias=True)
    add_linear('action_in_proj', s.expert_width, s.action_dim, bias=True)
    add_linear('action_out_proj', s.action_dim, s.expert_width, bias=True)
    return w


def config(s: Sizes) -> dict:
    attention = {
        'num_layers': s.layers,
        'num_heads': s.heads,
        'num_kv_heads': s.kv_heads,
        'head_dim': s.head_dim,
        'rms_norm_eps': 1e-6,
        'activation': 'gelu_tanh',
    }
    return {
        'model_type': 'pi0' if s.state_dim else 'pi05',
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
            'rope_theta': 10000.0,
            'embedding_scale': s.width**0.5,
        },
        'expert': {
            'hidden_size': s.expert_width,
            'intermediate_size': s.expert_mlp,
            **attention,
            'ada_rms': not s.state_dim,
        },
        'action': {
            'action_dim': s.action_dim,
            'action_horizon': s.horizon,
            'time_embedding_min_period': 0.004,
            'time_embedding_max_period': 4.0,
            **({'state_dim': s.state_dim} if s.state_dim else {}),
        },
    }


@dataclass(frozen=True)
class Case:
    """One item: which cameras are there, how long the prompt is in its buffer."""

    cameras: tuple[bool, ...]
    prompt: int
    capacity: int
    steps: int
    seed: int


def styles(w: Tensors, s: Sizes, times: NDArray[np.float32]) -> dict[str, Array]:
    """What Pi0.5 makes of the times, [steps, ...] each."""
    conditions = np.stack([condition(w, s, float(t)) for t in times])
    norms = {
        'mod_first_attn': 'layers.0.input_layernorm',
        'mod_last_mlp': f'layers.{s.layers - 1}.post_attention_layernorm',
        'mod_final': 'norm',
    }
    return {'time_cond': conditions} | {
        name: linear(w, f'{EXPERT}{norm}.dense', conditions) for name, norm in norms.items()
    }


def run_case(w: Tensors, s: Sizes, case: Case) -> dict[str, NDArray]:
    """Inputs drawn from the seed, and all outputs, in the layout of a case file."""
    rng = np.random.default_rng(case.seed)
    present = np.array(case.cameras)
    images = rng.integers(0, 256, (len(present), s.image, s.image, 3), np.uint8)
    images[~present] = 0
    tokens = np.zeros(case.capacity, np.int32)
    tokens[: case.prompt] = rng.integers(0, s.vocabulary, case.prompt)
    token_mask = np.arange(case.capacity) < case.prompt
    noise = rng.standard_normal((s.horizon, s.action_dim), np.float32)
    state = rng.standard_normal(s.state_dim, np.float32)

    vision = np.stack([siglip(w, s, image) for image in images])
    image_tokens = linear(w, PROJECTOR, vision)
    text = w[EMBEDDING][tokens] * s.width**0.5
    embeds = np.concatenate([*image_tokens, text])
    valid = np.concatenate([np.repeat(present, s.image_tokens), token_mask])
    cache = prefix(w, s, embeds[valid])

    def spread(rows: Array) -> Array:
        """[kv heads, P, E] -> [1, kv heads, slots, E], zeros where nothing is."""
        full = np.zeros((1, len(rows), len(valid), rows.shape[-1]))
        full[0][:, valid] = rows
        return full

    times = np.add.accumulate(np.array([1] + [-1 / case.steps] * (case.steps - 1), np.float32))
    x_t, velocities, kept = [noise.astype(np.float64)], [], []
    for t in times:
        if s.state_dim:
            v, on_the_way = pi0_velocity(w, s, x_t[-1], state.astype(np.float64), float(t), cache)
        else:
            v, on_the_way = velocity(w, s, x_t[-1], float(t), cache)
        velocities.append(v)
        kept.append(on_the_way)
        x_t.append(x_t[-1] - v / case.steps)

    last = s.layers - 1
    outputs = {
        'siglip': vision[:, None],
        'image_tokens': image_tokens[:, None],
        'text_embeds': text[None],
        'prefix_embeds': embeds[None],
        'prefix_k.first': spread(cache[0][0]),
        'prefix_v.first': spread(cache[0][1]),
        'prefix_k.last': spread(cache[last][0]),
        'prefix_v.last': spread(cache[last][1]),
        'time': times,
        'time_sincos': np.stack([time_features(s, float(t)) for t in times]),
        'suffix_embeds': np.stack([step['suffix_embeds'] for step in kept])[:, None],
        'layer0_out': kept[0]['layer0_out'][None],
        'suffix_hidden': np.stack([step['suffix_hidden'] for step in kept])[:, None],
        'x_t': np.stack(x_t)[:, None],
        'v_t': np.stack(velocities)[:, None],
        'actions': x_t[-1][None],
        **({} if s.state_dim else styles(w, s, times)),
    }
    return {
        'in.images_u8': images[:, None],
        'in.image_masks': present.astype(np.uint8)[:, None],
        'in.token_ids': tokens[None],
        'in.token_mask': token_mask.astype(np.uint8)[None],
        'in.noise': noise[None],
        'in.num_steps': np.array([case.steps], np.int32),
        **({'in.state': state[None]} if s.state_dim else {}),
        **{f'out.{name}': value.astype(np.float32) for name, value in outputs.items()},
        'out.prefix_mask': valid.astype(np.uint8)[None],
        'out.prefix_position_ids': (np.cumsum(valid) - 1).astype(np.int32)[None],
        'out.suffix_position_ids': (valid.sum() + np.arange(s.horizon + bool(s.state_dim))).astype(np.int32)[
            None
        ],
    }


def write_folder(folder: Path, s: Sizes, cases: list[Case], seed: int = 1) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    weights = random_weights(s, seed)
    save_file(weights, folder / 'model.safetensors')
    (folder / 'config.json').write_text(json.dumps(config(s)))
    exact = {name: value.astype(np.float64) for name, value in weights.items()}
    for index, case in enumerate(cases):
        tensors = {name: np.ascontiguousarray(value) for name, value in run_case(exact, s, case).items()}
        save_file(tensors, folder / f'case_{index:02}.safetensors')
