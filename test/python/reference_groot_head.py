# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The action head of GR00T N1.6 written down once more: float64, step by step, nothing precomputed."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

Array = NDArray[np.float64]


class ReferenceHead:
    """What becomes of context, states and noise, for one embodiment."""

    def __init__(self, checkpoint: Path, slot: int) -> None:
        config = json.loads((checkpoint / 'config.json').read_text())
        transformer = config['diffusion_model_cfg']
        self._layers: int = transformer['num_layers']
        self._heads: int = transformer['num_attention_heads']
        self._text_every: int = 2 * config['attend_text_every_n_blocks']
        self._steps: int = config['num_inference_timesteps']
        self._buckets: int = config['num_timestep_buckets']
        self._slot = slot
        self._weights: Mapping[str, Array] = {
            name.removeprefix('action_head.'): tensor.astype(np.float64)
            for name, tensor in load_file(checkpoint / 'model.safetensors').items()
            if name.startswith('action_head.')
        }

    def actions(self, context: Array, is_image: NDArray[np.bool_], states: Array, noise: Array) -> Array:
        """[tokens, width], [tokens], [moments, state_dim], [rows, action_dim] -> [rows, action_dim]."""
        state_tokens = self._of_slot(
            'state_encoder.layer2', _relu(self._of_slot('state_encoder.layer1', states))
        )
        actions = noise.astype(np.float64)
        for step in range(self._steps):
            bucket = int(step / self._steps * self._buckets)
            actions = actions + self._velocity(context, is_image, state_tokens, actions, bucket) / self._steps
        return actions

    def _velocity(
        self, context: Array, is_image: NDArray[np.bool_], state_tokens: Array, actions: Array, bucket: int
    ) -> Array:
        rows = len(actions)
        time = self._linear(
            'model.timestep_encoder.timestep_embedder.linear_2',
            _silu(
                self._linear('model.timestep_encoder.timestep_embedder.linear_1', _cos_sin(bucket, 128, 127))
            ),
        )
        embedded = self._of_slot('action_encoder.W1', actions)
        half = embedded.shape[1] // 2
        tau = np.tile(np.roll(_cos_sin(bucket, half, half), half), (rows, 1))  # sines first
        hidden = _silu(self._of_slot('action_encoder.W2', np.concatenate([embedded, tau], axis=1)))
        tokens = (
            self._of_slot('action_encoder.W3', hidden) + self._weights['position_embedding.weight'][:rows]
        )
        h = np.concatenate([state_tokens, tokens])
        for layer in range(self._layers):
            h = self._block(layer, h, context, is_image, time)
        shift, scale = np.split(self._linear('model.proj_out_1', _silu(time)), 2)
        out = self._linear('model.proj_out_2', _layer_norm(h, 1e-6) * (1 + scale) + shift)
        decoded = self._of_slot('action_decoder.layer2', _relu(self._of_slot('action_decoder.layer1', out)))
        return decoded[-rows:]

    def _block(self, layer: int, h: Array, context: Array, is_image: NDArray[np.bool_], time: Array) -> Array:
        at = f'model.transformer_blocks.{layer}.'
        scale, shift = np.split(self._linear(f'{at}norm1.linear', _silu(time)), 2)
        y = _layer_norm(h, 1e-5) * (1 + scale) + shift
        seen = y
        if layer % 2 == 0:
            seen = context[~is_image if layer % self._text_every == 0 else is_image]
        q, k, v = (
            _split(self._linear(f'{at}attn1.to_{name}', source), self._heads)
            for name, source in (('q', y), ('k', seen), ('v', seen))
        )
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        attended = weights / weights.sum(axis=-1, keepdims=True) @ v
        merged = attended.transpose(1, 0, 2).reshape(len(h), -1)
        h = h + self._linear(f'{at}attn1.to_out.0', merged)
        hidden = _gelu_tanh(self._linear(f'{at}ff.net.0.proj', _layer_norm(h, 1e-5)))
        return h + self._linear(f'{at}ff.net.2', hidden)

    def _linear(self, name: str, x: Array) -> Array:
        return x @ self._weights[f'{name}.weight'].T + self._weights[f'{name}.bias']

    def _of_slot(self, name: str, x: Array) -> Array:
        return x @ self._weights[f'{name}.W'][self._slot] + self._weights[f'{name}.b'][self._slot]


def _cos_sin(bucket: int, half: int, divisor: int) -> Array:
    angles = bucket * 10000.0 ** (-np.arange(half) / divisor)
    return np.concatenate([np.cos(angles), np.sin(angles)])


def _split(x: Array, heads: int) -> Array:
    return x.reshape(len(x), heads, -1).transpose(1, 0, 2)


def _layer_norm(x: Array, eps: float) -> Array:
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + eps)


def _relu(x: Array) -> Array:
    return np.maximum(x, 0)


def _silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def _gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
