# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Writes a folder that `flashrt golden` compares an engine with: random weights and one case.

    python training/golden.py FOLDER

It shows that what is trained here is what the engine runs. Needs PyTorch (training/requirements.txt).
"""

import argparse
import json
from pathlib import Path

import torch
from model import Pi05, Sizes, time_features
from safetensors.torch import save_file
from torch import Tensor

SEED = 4
SMALL = Sizes(
    image=56,
    vision_width=64,
    vision_layers=2,
    vision_heads=2,
    vision_mlp=96,
    vocabulary=64,
    width=96,
    mlp=160,
    expert_width=64,
    expert_mlp=96,
    layers=3,
    heads=2,
    head_dim=32,
    prompt_capacity=16,
)
CAMERAS, PROMPT, BATCH, STEPS = 2, 11, 2, 10


def random_model(sizes: Sizes, seed: int) -> Pi05:
    """Every weight random, those too that training begins with at zero, and a number of bf16."""
    torch.manual_seed(seed)
    model = Pi05(sizes).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(('dense.weight', 'layernorm.weight')) and not parameter.any():
                parameter.normal_(std=0.5 / parameter.shape[-1] ** 0.5)
            if name.endswith('dense.bias'):
                parameter.normal_(std=0.3)
            parameter.copy_(parameter.bfloat16().float())
    return model


@torch.no_grad()
def trace(
    model: Pi05, images: Tensor, tokens: Tensor, mask: Tensor, noise: Tensor, steps: int
) -> dict[str, Tensor]:
    """out.* of one batch; images [cameras, B, side, side, 3] uint8."""
    paligemma = model.paligemma_with_expert.paligemma
    expert = model.paligemma_with_expert.gemma_expert.model
    seen: dict[str, list[Tensor]] = {}

    def keep(
        name: str, module: torch.nn.Module, take: int | None = None
    ) -> torch.utils.hooks.RemovableHandle:
        def hook(_module: object, _inputs: object, output: Tensor | tuple) -> None:
            seen.setdefault(name, []).append(output if take is None else output[take])

        return module.register_forward_hook(hook)

    hooks = [
        keep('image_tokens', paligemma.model.multi_modal_projector.linear),
        keep('suffix_embeds', model.action_in_proj),
        keep('mod_first_attn', expert.layers[0].input_layernorm.dense),
        keep('mod_last_mlp', expert.layers[-1].post_attention_layernorm.dense),
        keep('mod_final', expert.norm.dense),
        keep('suffix_hidden', expert.norm, 0),
    ]
    pixels = (images.permute(1, 0, 4, 2, 3).float() / 255) * 2 - 1
    prefix = model.prefix(pixels, tokens, mask)
    times = [torch.ones((), dtype=torch.float32)]
    for _ in range(steps - 1):
        times.append(times[-1] + torch.tensor(-1.0 / steps, dtype=torch.float32))
    time = torch.stack(times)
    x, velocities = [noise], []
    for now in time:
        velocities.append(model.velocity(prefix, x[-1], now.expand(len(noise))))
        x.append(x[-1] + torch.tensor(-1.0 / steps, dtype=torch.float32) * velocities[-1])
    for hook in hooks:
        hook.remove()

    slots = prefix.mask[..., None]
    text = torch.nn.functional.embedding(tokens, paligemma.lm_head.weight) * model.sizes.width**0.5
    pictures = seen['image_tokens'][0].unflatten(0, (len(tokens), -1))
    one_item = {
        name: torch.stack([step[0] for step in seen[name]]) for name in seen if name.startswith('mod_')
    }
    return {
        'siglip': prefix.siglip.transpose(0, 1),
        'image_tokens': pictures.transpose(0, 1),
        'text_embeds': text,
        'prefix_embeds': torch.cat([pictures.flatten(1, 2), text], 1) * slots,
        'prefix_mask': prefix.mask.to(torch.uint8),
        'prefix_position_ids': (prefix.mask.int().cumsum(1, dtype=torch.int32) - 1),
        'suffix_position_ids': (prefix.length[:, None] + torch.arange(noise.shape[1])).int(),
        **{
            f'prefix_{part}.{name}': prefix.cache[layer][index] * slots[:, None]
            for index, part in enumerate('kv')
            for name, layer in (('first', 0), ('last', -1))
        },
        'time': time,
        'time_sincos': time_features(time, model.sizes.expert_width),
        'time_cond': model.condition(time),
        **one_item,
        **{name: torch.stack(seen[name]) for name in ('suffix_embeds', 'suffix_hidden')},
        'v_t': torch.stack(velocities),
        'x_t': torch.stack(x),
        'actions': x[-1],
    }


def write_golden(folder: Path, sizes: Sizes = SMALL, seed: int = SEED) -> None:
    model = random_model(sizes, seed)
    rng = torch.Generator().manual_seed(seed)
    images = torch.randint(
        0, 256, (CAMERAS, BATCH, sizes.image, sizes.image, 3), dtype=torch.uint8, generator=rng
    )
    tokens = torch.randint(
        1, sizes.vocabulary, (BATCH, sizes.prompt_capacity), dtype=torch.int32, generator=rng
    )
    lengths = torch.tensor([PROMPT, sizes.prompt_capacity])
    mask = torch.arange(sizes.prompt_capacity) < lengths[:, None]
    tokens = tokens * mask
    noise = torch.randn((BATCH, sizes.horizon, sizes.action_dim), generator=rng)
    inputs = {
        'images_u8': images,
        'image_masks': torch.ones((CAMERAS, BATCH), dtype=torch.uint8),
        'token_ids': tokens,
        'token_mask': mask.to(torch.uint8),
        'noise': noise,
        'num_steps': torch.tensor([STEPS], dtype=torch.int32),
    }
    outputs = trace(model, images, tokens.long(), mask, noise, STEPS)
    named = [(f'in.{name}', t) for name, t in inputs.items()] + [
        (f'out.{name}', t) for name, t in outputs.items()
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'config.json').write_text(json.dumps(sizes.config(), indent=2) + '\n')
    save_file({name: t.bfloat16() for name, t in model.state_dict().items()}, folder / 'model.safetensors')
    save_file({name: t.contiguous() for name, t in named}, folder / 'case_00.safetensors')
    what = f'{CAMERAS} cameras, prompts of {PROMPT} and {sizes.prompt_capacity} tokens, {STEPS} steps'
    (folder / 'cases.json').write_text(json.dumps({'case_00': {'what': what}}, indent=2) + '\n')


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('folder', type=Path)
    write_golden(parser.parse_args().folder)
