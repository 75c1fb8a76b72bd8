# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Times the CPU backend against PyTorch on the same weights, threads and inputs, and compares the actions.

    python test/benchmark/pytorch_comparison.py [--threads 2] [--runs 20]

PyTorch is no dependency: install it beside (`pip install torch`). Its side is fast code as well:
fused q|k|v and gate|up, scaled_dot_product_attention, adaptive-norm styles of all steps computed once.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its usual name

from flashrt_core import _core
from flashrt_ros.demo_checkpoint import Sizes, write_demo_checkpoint

MEDIUM = Sizes(
    vision_width=384,
    vision_layers=8,
    vision_heads=6,
    vision_mlp=1536,
    width=512,
    mlp=2048,
    expert_width=256,
    expert_mlp=1024,
    layers=8,
    heads=8,
    head_dim=64,
    horizon=10,
    prompt_capacity=48,
)


class TorchPi05:
    """Pi0.5 in float32 on openpi's tensor names."""

    def __init__(self, folder: Path, cameras: int, prompt: int, times: list[float]) -> None:
        config = json.loads((folder / 'config.json').read_text())
        self.vision, self.language, self.expert = config['vision'], config['language'], config['expert']
        self.cameras, self.times = cameras, times
        w = {
            name.removeprefix('paligemma_with_expert.'): t
            for name, t in load_file(folder / 'model.safetensors').items()
        }
        self.w = w
        self.embed = w['paligemma.lm_head.weight'] * self.language['hidden_size'] ** 0.5
        root = 'paligemma.model.vision_tower.vision_model.encoder.layers.{}.self_attn.{}_proj.{}'
        self.vision_qkv = [
            tuple(torch.cat([w[root.format(i, part, kind)] for part in 'qkv']) for kind in ('weight', 'bias'))
            for i in range(self.vision['num_layers'])
        ]
        self.stacks = {
            stack: [
                (
                    torch.cat([w[f'{stack}.layers.{i}.self_attn.{part}_proj.weight'] for part in 'qkv']),
                    torch.cat([w[f'{stack}.layers.{i}.mlp.{part}_proj.weight'] for part in ('gate', 'up')]),
                )
                for i in range(self.language['num_layers'])
            ]
            for stack in ('paligemma.model.language_model', 'gemma_expert.model')
        }
        head_dim = self.language['head_dim']
        inverse = 10000.0 ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
        prefix = cameras * self.vision['num_image_tokens'] + prompt
        angles = (
            torch.arange(prefix + config['action']['action_horizon'], dtype=torch.float64)[:, None] * inverse
        )
        self.cos, self.sin, self.prefix = angles.cos().float(), angles.sin().float(), prefix
        self.styles = [self._style_rows(time, config['action']) for time in times]

    def _style_rows(self, time: float, action: dict) -> dict[str, tuple[Tensor, ...]]:
        half = self.expert['hidden_size'] // 2
        low, high = action['time_embedding_min_period'], action['time_embedding_max_period']
        period = low * (high / low) ** (torch.arange(half, dtype=torch.float64) / (half - 1))
        u = 2 * torch.pi * time / period
        features = torch.cat([u.sin(), u.cos()]).float()
        hidden = F.silu(F.linear(features, self.w['time_mlp_in.weight'], self.w['time_mlp_in.bias']))
        condition = F.silu(F.linear(hidden, self.w['time_mlp_out.weight'], self.w['time_mlp_out.bias']))
        return {
            name.removesuffix('.dense.weight'): F.linear(
                condition, t, self.w[name.replace('.weight', '.bias')]
            ).chunk(3)
            for name, t in self.w.items()
            if name.endswith('.dense.weight')
        }

    def _siglip(self, images: Tensor) -> Tensor:
        w, root, v = self.w, 'paligemma.model.vision_tower.vision_model', self.vision
        x = F.conv2d(
            images,
            w[f'{root}.embeddings.patch_embedding.weight'],
            w[f'{root}.embeddings.patch_embedding.bias'],
            stride=v['patch_size'],
        )
        x = x.flatten(2).transpose(1, 2) + w[f'{root}.embeddings.position_embedding.weight']
        for i in range(v['num_layers']):
            at = f'{root}.encoder.layers.{i}'

            def norm(x: Tensor, part: str, at: str = at) -> Tensor:
                return F.layer_norm(x, x.shape[-1:], w[f'{at}.{part}.weight'], w[f'{at}.{part}.bias'], 1e-6)

            def linear(x: Tensor, part: str, at: str = at) -> Tensor:
                return F.linear(x, w[f'{at}.{part}.weight'], w[f'{at}.{part}.bias'])

            qkv = F.linear(norm(x, 'layer_norm1'), *self.vision_qkv[i])
            q, k, value = (t.unflatten(-1, (v['num_heads'], -1)).transpose(1, 2) for t in qkv.chunk(3, -1))
            attended = F.scaled_dot_product_attention(q, k, value).transpose(1, 2).flatten(2)
            x = x + linear(attended, 'self_attn.out_proj')
            x = x + linear(F.gelu(linear(norm(x, 'layer_norm2'), 'mlp.fc1'), approximate='tanh'), 'mlp.fc2')
        x = F.layer_norm(
            x, x.shape[-1:], w[f'{root}.post_layernorm.weight'], w[f'{root}.post_layernorm.bias'], 1e-6
        )
        projector = 'paligemma.model.multi_modal_projector.linear'
        return F.linear(x, w[f'{projector}.weight'], w[f'{projector}.bias']).flatten(0, 1)

    def _rope(self, x: Tensor, start: int) -> Tensor:
        cos, sin = (table[start : start + x.shape[1]] for table in (self.cos, self.sin))
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def _qkv(self, x: Tensor, weight: Tensor, start: int) -> tuple[Tensor, Tensor, Tensor]:
        heads, head_dim = self.language['num_heads'], self.language['head_dim']
        qkv = F.linear(x, weight).unflatten(-1, (-1, head_dim)).transpose(0, 1)
        q, k, v = qkv.split([heads, 1, 1])
        return self._rope(q, start), self._rope(k, start), v

    def _layer(
        self,
        stack: str,
        i: int,
        x: Tensor,
        start: int,
        cache: tuple[Tensor, Tensor] | None,
        style: dict | None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        at = f'{stack}.layers.{i}'
        qkv_weight, gate_up_weight = self.stacks[stack][i]

        def norm(x: Tensor, part: str) -> tuple[Tensor, Tensor | float]:
            x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
            if style is None:
                return x * (1 + self.w[f'{at}.{part}.weight']), 1.0
            scale, shift, gate = style[f'{at}.{part}']
            return x * (1 + scale) + shift, gate

        h, gate = norm(x, 'input_layernorm')
        q, k, v = self._qkv(h, qkv_weight, start)
        keys, values = (k, v) if cache is None else (torch.cat([cache[0], k], 1), torch.cat([cache[1], v], 1))
        attended = F.scaled_dot_product_attention(q[None], keys[None], values[None], enable_gqa=True)[0]
        attended = attended.transpose(0, 1).flatten(1)
        x = x + F.linear(attended, self.w[f'{at}.self_attn.o_proj.weight']) * gate
        h, gate = norm(x, 'post_attention_layernorm')
        a, b = F.linear(h, gate_up_weight).chunk(2, -1)
        x = x + F.linear(F.gelu(a, approximate='tanh') * b, self.w[f'{at}.mlp.down_proj.weight']) * gate
        return x, (k, v)

    @torch.inference_mode()
    def infer(self, images: np.ndarray, tokens: np.ndarray, noise: np.ndarray) -> np.ndarray:
        pixels = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255 * 2 - 1
        x = torch.cat([self._siglip(pixels), self.embed[torch.from_numpy(tokens).long()]])
        caches, stack, layers = [], 'paligemma.model.language_model', self.language['num_layers']
        for i in range(layers - 1):
            x, cache = self._layer(stack, i, x, 0, None, None)
            caches.append(cache)
        last = f'{stack}.layers.{layers - 1}'
        h = (
            x
            * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
            * (1 + self.w[f'{last}.input_layernorm.weight'])
        )
        _, k, v = self._qkv(h, self.stacks[stack][-1][0], 0)
        caches.append((k, v))

        actions = torch.from_numpy(noise)
        stack = 'gemma_expert.model'
        for style in self.styles:
            x = F.linear(actions, self.w['action_in_proj.weight'], self.w['action_in_proj.bias'])
            for i in range(layers):
                x, _ = self._layer(stack, i, x, self.prefix, caches[i], style)
            scale, shift, _ = style[f'{stack}.norm']
            x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * (1 + scale) + shift
            actions = actions - F.linear(
                x, self.w['action_out_proj.weight'], self.w['action_out_proj.bias']
            ) / len(self.times)
        return actions.numpy()


def median_ms(run: Callable[[], object], runs: int) -> float:
    samples = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        samples.append((time.perf_counter() - start) * 1e3)
    return statistics.median(samples)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--runs', type=int, default=20, help='per round, after a warm-up of 3; three rounds')
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    cameras, prompt = 2, 32
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (cameras, MEDIUM.image, MEDIUM.image, 3), dtype=np.uint8)
    tokens = rng.integers(4, MEDIUM.vocabulary, prompt, dtype=np.int32)
    noise = rng.standard_normal((MEDIUM.horizon, MEDIUM.action_dim), dtype=np.float32)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / 'checkpoint'
        write_demo_checkpoint(folder, rng.uniform(0.1, 0.6, (MEDIUM.horizon + 2, 14)), MEDIUM)
        engine = _core.Engine(
            folder, cameras=cameras, prompt_capacity=prompt, steps=MEDIUM.steps, threads=options.threads
        )
        reference = TorchPi05(folder, cameras, prompt, engine.times)
    sides = {
        'flashrt cpu': lambda: engine.infer(images, tokens, noise),
        'pytorch': lambda: reference.infer(images, tokens, noise),
    }
    difference = np.abs(sides['flashrt cpu']() - sides['pytorch']()).max()
    print(
        f'{MEDIUM}\n{cameras} cameras, {prompt} tokens, {options.threads} threads, float32, '
        f'torch {torch.__version__}'
    )
    print(f'largest difference of the actions: {difference:.2e}')
    if not difference < 1e-3:
        raise SystemExit('the two sides do not compute the same actions')
    for run in sides.values():
        median_ms(run, 3)
    for round_ in range(3):
        times = {name: median_ms(run, options.runs) for name, run in sides.items()}
        print(f'round {round_}: ' + ', '.join(f'{name} {ms:.1f} ms' for name, ms in times.items()), end='')
        print(f', ratio {times["flashrt cpu"] / times["pytorch"]:.2f}')


if __name__ == '__main__':
    main()
