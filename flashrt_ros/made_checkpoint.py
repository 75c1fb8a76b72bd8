# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What checkpoints made on the spot share: random weights by name, and a folder that appears whole."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Tensors = dict[str, NDArray[np.float32]]


@contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """A new folder to write to, which takes the place of `folder` at the end."""
    staging = folder.with_name(folder.name + '.partial')
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    yield staging
    shutil.rmtree(folder, ignore_errors=True)
    staging.rename(folder)


class RandomWeights:
    """Seeded tensors whose activations stay near 1: weights have the deviation 1 / sqrt(inputs)."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.tensors: Tensors = {}

    def normal(self, *shape: int, std: float) -> NDArray[np.float32]:
        return self.rng.normal(0.0, std, shape).astype(np.float32)

    def linear(self, name: str, out: int, into: int, bias: bool = True, gain: float = 1.0) -> None:
        self.tensors[f'{name}.weight'] = self.normal(out, into, std=gain / into**0.5)
        if bias:
            self.tensors[f'{name}.bias'] = self.normal(out, std=0.1)

    def layer_norm(self, name: str, width: int) -> None:
        self.tensors[f'{name}.weight'] = 1 + self.normal(width, std=0.1)
        self.tensors[f'{name}.bias'] = self.normal(width, std=0.1)

    def siglip_layer(self, layer: str, width: int, mlp: int) -> None:
        self.layer_norm(f'{layer}.layer_norm1', width)
        self.layer_norm(f'{layer}.layer_norm2', width)
        for part in ('q', 'k', 'v', 'out'):
            self.linear(f'{layer}.self_attn.{part}_proj', width, width)
        self.linear(f'{layer}.mlp.fc1', mlp, width)
        self.linear(f'{layer}.mlp.fc2', width, mlp)

    def language_layer(
        self, layer: str, width: int, mlp: int, heads: int, kv_heads: int, head_dim: int, gain: float = 1.0
    ) -> None:
        """Sharp queries and keys, a strong output: near-uniform attention averages a changed patch away."""
        for part, count, sharpness in (('q', heads, 1.7), ('k', kv_heads, 1.7), ('v', kv_heads, 1.0)):
            self.linear(f'{layer}.self_attn.{part}_proj', count * head_dim, width, bias=False, gain=sharpness)
        self.linear(f'{layer}.self_attn.o_proj', width, heads * head_dim, bias=False, gain=2 * gain)
        self.linear(f'{layer}.mlp.gate_proj', mlp, width, bias=False)
        self.linear(f'{layer}.mlp.up_proj', mlp, width, bias=False)
        self.linear(f'{layer}.mlp.down_proj', width, mlp, bias=False, gain=gain)


def stored(array: NDArray[np.float64]) -> NDArray[np.float32]:
    """As safetensors takes it, which writes memory as it lies."""
    return array.astype(np.float32, order='C')
