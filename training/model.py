# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Pi0.5 as a PyTorch module that can be trained: SigLIP, Gemma and its expert, under openpi's names.

The mathematics is that of the engine (openpi, arXiv 2504.16054): a bidirectional prefix of image and prompt
tokens, and an expert of adaptive RMSNorms that attends to the prefix and to itself. Weights are made for
training; `state_dict()` has the names of a converted openpi checkpoint: the text embedding is `lm_head`.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

NORM_EPSILON = 1e-6
ROPE_BASE = 10000.0
MIN_PERIOD, MAX_PERIOD = 0.004, 4.0  # of the time embedding
KeyValue = tuple[Tensor, Tensor]  # [B, 1, rows, head_dim] each


@dataclass(frozen=True)
class Sizes:
    """Dimensions of a model; both stacks share layers, heads and head_dim, with one key/value head."""

    image: int = 112
    patch: int = 14
    vision_width: int = 160
    vision_layers: int = 4
    vision_heads: int = 5
    vision_mlp: int = 640
    vocabulary: int = 320
    width: int = 192
    mlp: int = 768
    expert_width: int = 128
    expert_mlp: int = 384
    layers: int = 4
    heads: int = 4
    head_dim: int = 64
    action_dim: int = 32
    horizon: int = 10
    steps: int = 10
    prompt_capacity: int = 48

    @property
    def image_tokens(self) -> int:
        return (self.image // self.patch) ** 2

    def config(self) -> dict:
        """config.json of the checkpoint."""
        attention = {
            'num_layers': self.layers,
            'num_heads': self.heads,
            'num_kv_heads': 1,
            'head_dim': self.head_dim,
            'rms_norm_eps': NORM_EPSILON,
            'activation': 'gelu_tanh',
        }
        return {
            'model_type': 'pi05',
            'vision': {
                'image_size': self.image,
                'patch_size': self.patch,
                'num_channels': 3,
                'num_image_tokens': self.image_tokens,
                'hidden_size': self.vision_width,
                'num_layers': self.vision_layers,
                'num_heads': self.vision_heads,
                'intermediate_size': self.vision_mlp,
                'layer_norm_eps': NORM_EPSILON,
                'activation': 'gelu_tanh',
                'projection_dim': self.width,
            },
            'language': {
                'hidden_size': self.width,
                'intermediate_size': self.mlp,
                **attention,
                'vocab_size': self.vocabulary,
                'rope_theta': ROPE_BASE,
                'embedding_scale': self.width**0.5,
            },
            'expert': {
                'hidden_size': self.expert_width,
                'intermediate_size': self.expert_mlp,
                **attention,
                'ada_rms': True,
            },
            'action': {
                'action_dim': self.action_dim,
                'action_horizon': self.horizon,
                'time_embedding_min_period': MIN_PERIOD,
                'time_embedding_max_period': MAX_PERIOD,
            },
            'default_num_steps': self.steps,
            'default_max_token_len': self.prompt_capacity,
        }


class Named(nn.Module):
    """A level of the tensor names and nothing else."""

    def __init__(self, **children: nn.Module) -> None:
        super().__init__()
        for name, child in children.items():
            self.add_module(name, child)


class SiglipLayer(nn.Module):
    def __init__(self, s: Sizes) -> None:
        super().__init__()
        w = s.vision_width
        self.heads = s.vision_heads
        self.layer_norm1, self.layer_norm2 = (nn.LayerNorm(w, eps=NORM_EPSILON) for _ in range(2))
        self.self_attn = Named(
            q_proj=nn.Linear(w, w), k_proj=nn.Linear(w, w), v_proj=nn.Linear(w, w), out_proj=nn.Linear(w, w)
        )
        self.mlp = Named(fc1=nn.Linear(w, s.vision_mlp), fc2=nn.Linear(s.vision_mlp, w))

    def forward(self, x: Tensor) -> Tensor:
        h, a = self.layer_norm1(x), self.self_attn
        q, k, v = (
            project(h).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for project in (a.q_proj, a.k_proj, a.v_proj)
        )
        x = x + a.out_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mlp.fc2(F.gelu(self.mlp.fc1(self.layer_norm2(x)), approximate='tanh'))


class Siglip(nn.Module):
    """[images, 3, side, side] in [-1, 1] -> [images, tokens, width]."""

    def __init__(self, s: Sizes) -> None:
        super().__init__()
        w = s.vision_width
        self.embeddings = Named(
            patch_embedding=nn.Conv2d(3, w, s.patch, s.patch),
            position_embedding=nn.Embedding(s.image_tokens, w),
        )
        nn.init.normal_(self.embeddings.position_embedding.weight, std=0.02)
        self.encoder = Named(layers=nn.ModuleList(SiglipLayer(s) for _ in range(s.vision_layers)))
        self.post_layernorm = nn.LayerNorm(w, eps=NORM_EPSILON)

    def forward(self, images: Tensor) -> Tensor:
        x = self.embeddings.patch_embedding(images).flatten(2).transpose(1, 2)
        x = x + self.embeddings.position_embedding.weight
        for layer in self.encoder.layers:
            x = layer(x)
        return self.post_layernorm(x)


def normalised(x: Tensor) -> Tensor:
    """x over its root mean square, in float32."""
    x = x.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + NORM_EPSILON)


class PlainNorm(nn.Module):
    """RMSNorm with the weight 1 + w; there is no gate."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor, condition: None = None) -> tuple[Tensor, None]:
        return normalised(x) * (1 + self.weight), None


class AdaptiveNorm(nn.Module):
    """RMSNorm whose scale, shift and gate follow from a condition; as published, it begins as zeros."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, 3 * width)
        nn.init.zeros_(self.dense.weight)
        nn.init.zeros_(self.dense.bias)

    def forward(self, x: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
        scale, shift, gate = self.dense(condition)[:, None].chunk(3, -1)
        return normalised(x) * (1 + scale) + shift, gate


def rotated(x: Tensor, positions: Tensor) -> Tensor:
    """RoPE on the halves; x [B, heads, rows, head_dim], positions [B, rows]."""
    half = x.shape[-1] // 2
    inverse = ROPE_BASE ** (-torch.arange(half, device=x.device, dtype=torch.float64) / half)
    angle = positions[:, None, :, None].float() * inverse.float()
    a, b = x.float().chunk(2, -1)
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1).to(x.dtype)


class GemmaLayer(nn.Module):
    """One layer of either stack: grouped-query attention on one key/value head, GEGLU."""

    def __init__(self, s: Sizes, width: int, mlp: int, norm: type[nn.Module]) -> None:
        super().__init__()
        self.heads = s.heads
        inner = s.heads * s.head_dim
        linear = lambda into, out: nn.Linear(into, out, bias=False)  # noqa: E731 - four times in a row
        self.self_attn = Named(
            q_proj=linear(width, inner),
            k_proj=linear(width, s.head_dim),
            v_proj=linear(width, s.head_dim),
            o_proj=linear(inner, width),
        )
        self.mlp = Named(
            gate_proj=linear(width, mlp), up_proj=linear(width, mlp), down_proj=linear(mlp, width)
        )
        self.input_layernorm, self.post_attention_layernorm = norm(width), norm(width)

    def project(
        self, x: Tensor, positions: Tensor, condition: Tensor | None
    ) -> tuple[Tensor, KeyValue, Tensor | None]:
        """Rotated queries, keys and values of these rows, and the gate of the attention."""
        h, gate = self.input_layernorm(x, condition)
        h = h.to(x.dtype)
        a = self.self_attn
        q = a.q_proj(h).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return (
            rotated(q, positions),
            (rotated(a.k_proj(h)[:, None], positions), a.v_proj(h)[:, None]),
            gate,
        )

    def finish(self, x: Tensor, attended: Tensor, gate: Tensor | None, condition: Tensor | None) -> Tensor:
        branch = self.self_attn.o_proj(attended.transpose(1, 2).flatten(2))
        x = x + (branch if gate is None else branch * gate)
        h, gate = self.post_attention_layernorm(x, condition)
        h = h.to(x.dtype)
        m = self.mlp
        branch = m.down_proj(F.gelu(m.gate_proj(h), approximate='tanh') * m.up_proj(h))
        return x + (branch if gate is None else branch * gate)


def attend(q: Tensor, key_value: KeyValue, mask: Tensor) -> Tensor:
    """mask [B, keys]: which of them are there."""
    k, v = (t.expand(-1, q.shape[1], -1, -1) for t in key_value)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None])


def time_features(time: Tensor, width: int) -> Tensor:
    """[B] -> [B, width]: sines, then cosines, of periods in geometric order; computed in float64."""
    half = width // 2
    exponent = torch.arange(half, device=time.device, dtype=torch.float64) / (half - 1)
    period = MIN_PERIOD * (MAX_PERIOD / MIN_PERIOD) ** exponent
    u = 2 * math.pi * time.double()[:, None] / period
    return torch.cat([u.sin(), u.cos()], -1).float()


@dataclass
class Prefix:
    """What the expert reads of an observation, and what a trainer may look at."""

    cache: list[KeyValue]  # by layer
    mask: Tensor  # [B, rows]
    length: Tensor  # [B]
    siglip: Tensor  # [B, cameras, tokens, vision_width]
    hidden: Tensor  # [B, rows, width], behind the layers of which the expert reads only keys and values


class Pi05(nn.Module):
    """Images, prompt tokens and noisy actions to the velocity of the actions."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        s = self.sizes = sizes
        vision = Named(vision_model=Siglip(s))
        projector = Named(linear=nn.Linear(s.vision_width, s.width))
        language = Named(
            layers=nn.ModuleList(GemmaLayer(s, s.width, s.mlp, PlainNorm) for _ in range(s.layers))
        )
        expert = Named(
            layers=nn.ModuleList(
                GemmaLayer(s, s.expert_width, s.expert_mlp, AdaptiveNorm) for _ in range(s.layers)
            ),
            norm=AdaptiveNorm(s.expert_width),
        )
        table = nn.Linear(s.width, s.vocabulary, bias=False)
        nn.init.normal_(table.weight, std=0.02)
        self.paligemma_with_expert = Named(
            paligemma=Named(
                model=Named(vision_tower=vision, multi_modal_projector=projector, language_model=language),
                lm_head=table,
            ),
            gemma_expert=Named(model=expert),
        )
        e = s.expert_width
        self.action_in_proj, self.action_out_proj = nn.Linear(s.action_dim, e), nn.Linear(e, s.action_dim)
        self.time_mlp_in, self.time_mlp_out = nn.Linear(e, e), nn.Linear(e, e)

    def prefix(self, images: Tensor, tokens: Tensor, token_mask: Tensor) -> Prefix:
        """images [B, cameras, 3, side, side] in [-1, 1], tokens and token_mask [B, slots]."""
        model = self.paligemma_with_expert.paligemma.model
        siglip = model.vision_tower.vision_model(images.flatten(0, 1))
        pictures = model.multi_modal_projector.linear(siglip).unflatten(0, images.shape[:2]).flatten(1, 2)
        table = self.paligemma_with_expert.paligemma.lm_head.weight
        text = F.embedding(tokens, table) * self.sizes.width**0.5
        x = torch.cat([pictures, text.to(pictures.dtype)], 1)
        there = torch.ones(pictures.shape[:2], dtype=torch.bool, device=x.device)
        mask = torch.cat([there, token_mask], 1)
        positions = mask.long().cumsum(1) - 1
        cache = []
        for layer in model.language_model.layers:
            q, key_value, _ = layer.project(x, positions, None)
            cache.append(key_value)
            x = layer.finish(x, attend(q, key_value, mask), None, None)
        return Prefix(cache, mask, mask.sum(1), siglip.unflatten(0, images.shape[:2]), x)

    def condition(self, time: Tensor) -> Tensor:
        """[B] -> [B, expert_width]."""
        features = time_features(time, self.sizes.expert_width)
        return F.silu(self.time_mlp_out(F.silu(self.time_mlp_in(features))))

    def velocity(self, prefix: Prefix, actions: Tensor, time: Tensor) -> Tensor:
        """actions [B * draws, horizon, action_dim], time [B * draws]; draws of an observation in a row."""
        draws = len(actions) // len(prefix.mask)
        mask, length = (t.repeat_interleave(draws, 0) for t in (prefix.mask, prefix.length))
        mask = torch.cat([mask, torch.ones(actions.shape[:2], dtype=torch.bool, device=mask.device)], 1)
        positions = length[:, None] + torch.arange(actions.shape[1], device=mask.device)
        condition = self.condition(time)
        x = self.action_in_proj(actions)
        expert = self.paligemma_with_expert.gemma_expert.model
        for layer, cached in zip(expert.layers, prefix.cache, strict=True):
            q, own, gate = layer.project(x, positions, condition)
            keys, values = (
                torch.cat([old.repeat_interleave(draws, 0).to(new.dtype), new], 2)
                for old, new in zip(cached, own, strict=True)
            )
            x = layer.finish(x, attend(q, (keys, values), mask), gate, condition)
        h, _ = expert.norm(x, condition)
        return self.action_out_proj(h.to(x.dtype))

    @torch.no_grad()
    def sample(self, prefix: Prefix, noise: Tensor, steps: int) -> Tensor:
        """Euler steps from noise [B, horizon, action_dim] to actions; times add up in float32 as openpi's."""
        actions, time = noise, torch.ones((), dtype=torch.float32)
        step = torch.tensor(-1.0 / steps, dtype=torch.float32)
        for _ in range(steps):
            velocity = self.velocity(prefix, actions, time.expand(len(actions)).to(actions.device))
            actions = actions + step.to(actions.device) * velocity.float()
            time = time + step
        return actions
