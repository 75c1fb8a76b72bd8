# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""GR00T N1.6 as fast PyTorch: the stages of one inference with random weights, for comparisons of time.

Computed once, outside of the stages: styles of all blocks and steps, what the time adds to the actions,
rotations, positions, the rows of one embodiment. Within them: everything that follows from pictures, state
and noise, and the whole conversation, text in front of the images included. Keys and values of the
cross-attention are projected once per inference, for the tokens that a block may see; so nothing is masked
but the causal language model, and scaled_dot_product_attention may take its flash kernels.
"""

from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name


@dataclass(frozen=True)
class Sizes:
    """Of the model and of what it is asked; the defaults are the published ones."""

    cameras: int = 2
    horizon: int = 50
    steps: int = 4
    prompt: int = (
        31  # tokens in front of the first image: 14 of the header, 11 of the task, 6 of the image's begin
    )
    image: int = 252
    patch: int = 14
    vision_layers: int = 27
    vision_heads: int = 16
    vision_width: int = 1152
    vision_mlp: int = 4304
    layers: int = 16
    heads: int = 16
    kv_heads: int = 8
    head_dim: int = 128
    width: int = 2048
    mlp: int = 6144
    vocabulary: int = 151680
    blocks: int = 32
    block_heads: int = 32
    block_head_dim: int = 48
    block_mlp: int = 6144
    hidden: int = 1024
    action_dim: int = 128

    @property
    def block_width(self) -> int:
        return self.block_heads * self.block_head_dim

    @property
    def patches(self) -> int:
        return (self.image // self.patch) ** 2

    @property
    def markup(self) -> list[int]:
        """Tokens behind each image: up to the next one, and the end of the conversation."""
        return [7] * (self.cameras - 1) + [3]


# For a processor: the same structure, a few channels.
TINY = Sizes(
    image=56,
    vision_layers=2,
    vision_heads=2,
    vision_width=32,
    vision_mlp=48,
    layers=2,
    heads=4,
    kv_heads=2,
    head_dim=16,
    width=64,
    mlp=96,
    vocabulary=100,
    blocks=4,
    block_heads=4,
    block_head_dim=8,
    block_mlp=64,
    hidden=48,
    action_dim=16,
)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """[B, T, heads * E] -> [B, heads, T, E]."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> Tensor:
    """Of heads [B, H, T, E] and [B, K, S, E]; the result is [B, T, H * E]."""
    grouped = q.shape[1] != k.shape[1]
    y = F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)
    return y.transpose(1, 2).flatten(2)


class VisionLayer(nn.Module):
    def __init__(self, c: Sizes) -> None:
        super().__init__()
        width, self.heads = c.vision_width, c.vision_heads
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, c.vision_mlp), nn.Linear(c.vision_mlp, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split_heads(part, self.heads) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(attend(q, k, v))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x)), approximate='tanh'))


class LanguageLayer(nn.Module):
    def __init__(self, c: Sizes) -> None:
        super().__init__()
        self.c = c
        self.norm1, self.norm2 = nn.RMSNorm(c.width, eps=1e-6), nn.RMSNorm(c.width, eps=1e-6)
        self.q_norm, self.k_norm = nn.RMSNorm(c.head_dim, eps=1e-6), nn.RMSNorm(c.head_dim, eps=1e-6)
        self.qkv = nn.Linear(c.width, (c.heads + 2 * c.kv_heads) * c.head_dim, bias=False)
        self.out = nn.Linear(c.heads * c.head_dim, c.width, bias=False)
        self.gate_up = nn.Linear(c.width, 2 * c.mlp, bias=False)
        self.down = nn.Linear(c.mlp, c.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        c = self.c
        parts = self.qkv(self.norm1(x)).split([n * c.head_dim for n in (c.heads, c.kv_heads, c.kv_heads)], -1)
        q = rotate(self.q_norm(split_heads(parts[0], c.heads)), cos, sin)
        k = rotate(self.k_norm(split_heads(parts[1], c.kv_heads)), cos, sin)
        x = x + self.out(attend(q, k, split_heads(parts[2], c.kv_heads), causal=True))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


class Block(nn.Module):
    """Of the diffusion transformer; `style` is [2, D]: scale and shift of the norm of the attention."""

    def __init__(self, c: Sizes, looks_at_itself: bool) -> None:
        super().__init__()
        width, self.heads = c.block_width, c.block_heads
        self.q = nn.Linear(width, 3 * width if looks_at_itself else width)
        self.out = nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, c.block_mlp), nn.Linear(c.block_mlp, width)

    def forward(self, x: Tensor, style: Tensor, context: tuple[Tensor, Tensor] | None) -> Tensor:
        y = F.layer_norm(x, x.shape[-1:], eps=1e-5) * (1 + style[0]) + style[1]
        if context is None:
            q, k, v = (split_heads(part, self.heads) for part in self.q(y).chunk(3, -1))
        else:
            q, (k, v) = split_heads(self.q(y), self.heads), context
        x = x + self.out(attend(q, k, v))
        return x + self.fc2(F.gelu(self.fc1(F.layer_norm(x, x.shape[-1:], eps=1e-5)), approximate='tanh'))


class Groot(nn.Module):
    """Three stages: `see`, `understand`, `denoise`."""

    def __init__(self, c: Sizes) -> None:
        super().__init__()
        self.c = c
        width = c.block_width
        self.patch = nn.Linear(3 * c.patch**2, c.vision_width)
        self.vision = nn.ModuleList(VisionLayer(c) for _ in range(c.vision_layers))
        self.vision_norm = nn.LayerNorm(c.vision_width, eps=1e-6)
        self.connector_norm = nn.LayerNorm(4 * c.vision_width, eps=1e-5)
        self.connector_in = nn.Linear(4 * c.vision_width, c.width)
        self.connector_out = nn.Linear(c.width, c.width)
        self.embed = nn.Embedding(c.vocabulary, c.width)
        self.language = nn.ModuleList(LanguageLayer(c) for _ in range(c.layers))
        self.language_norm = nn.RMSNorm(c.width, eps=1e-6)
        self.context_norm = nn.LayerNorm(c.width, eps=1e-5)
        self.text_kv = nn.Linear(c.width, (c.blocks + 3) // 4 * 2 * width)
        self.image_kv = nn.Linear(c.width, (c.blocks + 1) // 4 * 2 * width)
        self.state_in, self.state_out = nn.Linear(c.action_dim, c.hidden), nn.Linear(c.hidden, width)
        self.action_in, self.action_mid = nn.Linear(c.action_dim, width), nn.Linear(width, width, bias=False)
        self.action_out = nn.Linear(width, width)
        self.blocks = nn.ModuleList(Block(c, i % 2 == 1) for i in range(c.blocks))
        self.output = nn.Linear(width, c.hidden)
        self.decoder, self.velocity = nn.Linear(c.hidden, c.hidden), nn.Linear(c.hidden, c.action_dim)
        # What a real model would have computed when it was loaded.
        tokens, half = c.prompt + c.cameras * c.patches // 4 + sum(c.markup), c.head_dim // 2
        angles = torch.arange(tokens)[:, None] * 1e6 ** (-torch.arange(half) / half)
        self.register_buffer('cos', angles.cos())
        self.register_buffer('sin', angles.sin())
        self.register_buffer('positions', torch.randn(c.patches, c.vision_width))
        self.register_buffer('action_positions', torch.randn(c.horizon, width))
        self.register_buffer('styles', 0.1 * torch.randn(c.steps, c.blocks, 2, width))
        self.register_buffer('output_styles', 0.1 * torch.randn(c.steps, 2, width))
        self.register_buffer('action_times', torch.randn(c.steps, width))

    def see(self, pictures: Tensor) -> Tensor:
        """Pictures [N, H, W, 3] uint8 -> [N, patches / 4, width]."""
        c = self.c
        side = c.image // c.patch
        x = ((pictures.float() - 127.5) / 127.5).to(self.patch.weight.dtype)
        x = x.unflatten(1, (side, c.patch)).unflatten(3, (side, c.patch)).transpose(2, 3)
        x = self.patch(x.reshape(len(pictures), c.patches, -1)) + self.positions
        for layer in self.vision:
            x = layer(x)
        x = self.vision_norm(x)
        x = x.unflatten(1, (side // 2, 2, side // 2, 2)).transpose(2, 3)  # squares of 2 x 2 patches
        x = self.connector_norm(x.reshape(len(pictures), c.patches // 4, -1))
        return self.connector_out(F.gelu(self.connector_in(x)))

    def understand(
        self, features: Tensor, tokens: Tensor, state: Tensor
    ) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """Tokens of the prompt and of what stands behind the images, state [1, A] float32.

        The token of the state [1, D], and keys and values of each second block.
        """
        c = self.c
        embedded = self.embed(tokens)
        rows = [embedded[: c.prompt]]
        begin = c.prompt
        for view, count in enumerate(c.markup):
            rows += [features[view], embedded[begin : begin + count]]
            begin += count
        x = torch.cat(rows)[None]
        for layer in self.language:
            x = layer(x, self.cos, self.sin)
        x = self.context_norm(self.language_norm(x))
        parts = x.split([len(part) for part in rows], 1)
        text = self._keys_and_values(self.text_kv(torch.cat(parts[0::2], 1)))
        image = self._keys_and_values(self.image_kv(torch.cat(parts[1::2], 1)))
        context = [(text if i % 2 == 0 else image)[i // 2] for i in range((c.blocks + 1) // 2)]
        return self.state_out(F.relu(self.state_in(state.to(x.dtype)))), context

    def _keys_and_values(self, kv: Tensor) -> list[tuple[Tensor, Tensor]]:
        parts = [split_heads(part, self.c.block_heads) for part in kv.split(self.c.block_width, -1)]
        return [(parts[i], parts[i + 1]) for i in range(0, len(parts), 2)]

    def denoise(
        self,
        actions: Tensor,
        state: Tensor,
        context: list[tuple[Tensor, Tensor]],
        times: tuple[Tensor, Tensor, Tensor],
    ) -> Tensor:
        """One step of actions [T, A] float32, the time as `times_of` gives it."""
        c = self.c
        styles, output_style, action_time = times
        x = self.action_mid(self.action_in(actions.to(state.dtype))) + action_time
        x = self.action_out(F.silu(x)) + self.action_positions
        x = torch.cat([state, x])[None]
        for i, block in enumerate(self.blocks):
            x = block(x, styles[i], context[i // 2] if i % 2 == 0 else None)
        x = F.layer_norm(x[0, 1:], x.shape[-1:], eps=1e-6) * (1 + output_style[0]) + output_style[1]
        velocity = self.velocity(F.relu(self.decoder(self.output(x))))
        return actions + velocity.float() / c.steps

    def times_of(self, step: int) -> tuple[Tensor, Tensor, Tensor]:
        return self.styles[step], self.output_styles[step], self.action_times[step]


def random_groot(c: Sizes, device: str, dtype: torch.dtype, seed: int = 0) -> Groot:
    """Weights whose products are about as large as what they multiply."""
    torch.manual_seed(seed)
    with torch.device(device):
        model = Groot(c).to(dtype).eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2:
            parameter.normal_(0, 0.02 if name.startswith('embed') else 1 / sqrt(parameter.shape[1]))
    return model
