# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Trains a Pi0.5 on demonstrations of the tabletop, and writes a checkpoint that loads like any other.

    python -m flashrt_ros.tabletop.dataset --episodes 2400 --seed 1 -o DATA
    python training/train.py DATA -o CHECKPOINT

Flow matching as in arXiv 2504.16054: x_t = t * noise + (1 - t) * actions, the model learns noise - actions,
and t follows Beta(1.5, 1). Several (t, noise) are drawn for each observation, whose prefix is computed once.
"""

import argparse
import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from checkpoint import Range, inference_weights, write_checkpoint, write_tokenizer
from demonstrations import Batch, Demonstrations
from model import Pi05, Sizes
from prompts import PromptTable
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from flashrt_core.tokenizer import Tokenizer
from flashrt_ros.tabletop.arm import GRIPPER, JOINTS
from flashrt_ros.tabletop.dataset_format import STATISTICS
from flashrt_ros.tabletop.tasks import PROMPTS

STATE_NOISE = tuple(0.0004 if name == GRIPPER else 0.004 for name in JOINTS)  # m, rad


@dataclass(frozen=True)
class Settings:
    """Everything that decides the result beside the data."""

    steps: int = 5000
    batch: int = 512
    draws: int = 4  # of time and noise per observation
    learning_rate: float = 1e-3
    warm_up: int = 300  # steps
    final_share: float = 0.02  # of the learning rate, at the end of the cosine
    weight_decay: float = 0.01
    beside_weight: float = 0.3  # of the losses beside the flow
    averaging: float = 0.999  # of the weights, per four steps
    seed: int = 7


class Beside(nn.Module):
    """Where the cubes are, read from the front view and from the text: helps training, is not exported."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.cubes = nn.Linear(sizes.vision_width, 9)
        self.named = nn.Linear(sizes.width, 3)

    def loss(self, siglip: Tensor, last_text: Tensor, batch: Batch) -> Tensor:
        seen = self.cubes(siglip[:, 0].mean(1)).unflatten(-1, (3, 3))
        return F.mse_loss(seen.float(), batch.cubes) + F.mse_loss(self.named(last_text).float(), batch.named)


def pixels_of(images: Tensor, is_varied: bool) -> Tensor:
    """[B, cameras, side, side, 3] uint8 -> [B, cameras, 3, side, side] in [-1, 1]; varied: light, grain."""
    pixels = images.permute(0, 1, 4, 2, 3).float() / 255 * 2 - 1
    if not is_varied:
        return pixels
    one = (len(pixels), pixels.shape[1], 1, 1, 1)
    contrast, light = (torch.randn(one, device=pixels.device) for _ in range(2))
    grain = torch.randn_like(pixels)
    return (pixels * (1 + 0.15 * contrast) + 0.1 * light + 0.03 * grain).clamp(-1, 1)


def padded(actions: Tensor, width: int) -> Tensor:
    return F.pad(actions, (0, width - actions.shape[-1]))


class Trainer:
    def __init__(
        self, data: Path, tokenizer: Tokenizer, settings: Settings, device: str, sizes: Sizes
    ) -> None:
        torch.manual_seed(settings.seed)
        self.settings, self.device = settings, device
        self.demonstrations = Demonstrations(data, device, settings.seed)
        statistics = json.loads((data / STATISTICS).read_text())['norm_stats']
        self.state, self.actions = (Range(statistics[name], device) for name in ('state', 'actions'))
        self.joints = len(JOINTS)
        self.prompts = PromptTable(tokenizer, PROMPTS, self.joints, device)
        self.model = Pi05(sizes).to(device)
        self.beside = Beside(sizes).to(device)
        self._forget_padding()
        self.averaged = {name: t.clone() for name, t in self.model.state_dict().items()}
        self.parameters = [*self.model.parameters(), *self.beside.parameters()]
        self.optimiser = torch.optim.AdamW(
            self.parameters,
            lr=settings.learning_rate,
            betas=(0.9, 0.95),
            weight_decay=settings.weight_decay,
            fused=device != 'cpu',
        )
        self.loss = torch.compile(self._loss) if device != 'cpu' else self._loss

    def _forget_padding(self) -> None:
        """Columns beyond the joints are neither read nor written: they stay the noise that they were."""
        into, out = self.model.action_in_proj, self.model.action_out_proj
        with torch.no_grad():
            into.weight[:, self.joints :] = 0
            out.weight[self.joints :] = 0
            out.bias[self.joints :] = 0
        keep = torch.arange(self.model.sizes.action_dim, device=self.device) < self.joints
        into.weight.register_hook(lambda gradient: gradient * keep)
        out.weight.register_hook(lambda gradient: gradient * keep[:, None])
        out.bias.register_hook(lambda gradient: gradient * keep)

    def _loss(
        self, images: Tensor, tokens: Tensor, mask: Tensor, clean: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The loss of the flow, and what the losses beside it read."""
        settings = self.settings
        with torch.autocast(torch.device(self.device).type, torch.bfloat16, enabled=self.device != 'cpu'):
            prefix = self.model.prefix(pixels_of(images, is_varied=True), tokens, mask)
            clean = clean.repeat_interleave(settings.draws, 0)
            # The inverse of the distribution function of Beta(1.5, 1); never 0.
            moment = torch.rand(len(clean), device=clean.device).pow(1 / 1.5) * 0.999 + 0.001
            noise = torch.randn_like(clean)
            share = moment[:, None, None]
            velocity = self.model.velocity(prefix, share * noise + (1 - share) * clean, moment)
        error = (velocity.float() - (noise - clean))[..., : self.joints]
        last = mask.sum(1) - 1 + prefix.hidden.shape[1] - mask.shape[1]
        text = prefix.hidden[torch.arange(len(last), device=last.device), last]
        return error.square().mean(), prefix.siglip.float(), text.float()

    def step(self, number: int) -> tuple[Tensor, Tensor]:
        """The losses of the flow and beside it."""
        settings = self.settings
        done = number / settings.steps
        cosine = settings.final_share + (1 - settings.final_share) * 0.5 * (1 + math.cos(math.pi * done))
        for group in self.optimiser.param_groups:
            group['lr'] = settings.learning_rate * min(1.0, (number + 1) / settings.warm_up) * cosine
        batch = self.demonstrations.draw(settings.batch)
        noisy = batch.state + torch.randn_like(batch.state) * torch.tensor(STATE_NOISE, device=self.device)
        tokens, mask = self.prompts.tokens(batch.sentence, self.state.normalised(noisy))
        clean = padded(self.actions.normalised(batch.actions), self.model.sizes.action_dim)
        flow, siglip, text = self.loss(batch.images, tokens, mask, clean)
        beside = self.beside.loss(siglip, text, batch)
        (flow + settings.beside_weight * beside).backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        if number % 4 == 3:
            self._average(number)
        return flow.detach(), beside.detach()

    @torch.no_grad()
    def _average(self, number: int) -> None:
        """Early on fewer steps count, so that the beginning is forgotten."""
        keep = min(self.settings.averaging, (1 + number / 4) / (10 + number / 4))
        now = self.model.state_dict()
        names = list(self.averaged)
        torch._foreach_lerp_([self.averaged[name] for name in names], [now[name] for name in names], 1 - keep)

    def save(self, folder: Path, data: Path, seconds: float) -> None:
        sizes = self.model.sizes
        weights = inference_weights(self.model, self.averaged)
        facts = {
            'sizes': asdict(sizes),
            'settings': asdict(self.settings),
            'data': {
                name: self.demonstrations.summary[name] for name in ('seed', 'tried', 'kept', 'observations')
            },
            'parameters': sum(t.numel() for t in weights.values()),
            'training_seconds': round(seconds, 1),
            'device': torch.cuda.get_device_name() if self.device != 'cpu' else 'cpu',
            'torch': torch.__version__,
        }
        card = CARD.format(facts=json.dumps(facts, indent=2), sentences='\n'.join(f'- {p}' for p in PROMPTS))
        write_checkpoint(folder, sizes, weights, data / STATISTICS, card)


CARD = """# Tabletop Pi0.5

A model of the architecture of Pi0.5 (SigLIP, Gemma prefix, adaptive-RMSNorm action expert), trained from
random weights by `training/train.py` on scripted demonstrations in the simulated tabletop of this project. It
is not Pi0.5: it has none of its weights and none of its abilities. It knows the sentences below and refuses
every other word; it acts in this one simulated scene, with these cubes, cameras and light. No real robot was
involved.

Licence: Apache-2.0, as the project.

## Sentences

{sentences}

## Results

Not evaluated yet: `flashrt evaluate` does it, and the numbers belong here.

## How it was made

```json
{facts}
```
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('data', type=Path, help='folder of flashrt_ros.tabletop.dataset')
    parser.add_argument('-o', '--out', type=Path, required=True, help='folder of the checkpoint')
    parser.add_argument('--steps', type=int, default=Settings.steps, help='%(default)s')
    parser.add_argument('--batch', type=int, default=Settings.batch, help='%(default)s')
    parser.add_argument('--seed', type=int, default=Settings.seed, help='%(default)s')
    parser.add_argument('--device', default='cuda', help='%(default)s')
    options = parser.parse_args()
    torch.set_float32_matmul_precision('high')
    settings = Settings(steps=options.steps, batch=options.batch, seed=options.seed)
    tokenizer = write_tokenizer(options.out, PROMPTS)
    sizes = Sizes(vocabulary=tokenizer.vocab_size)
    trainer = Trainer(options.data, tokenizer, settings, options.device, sizes)
    print(f'{len(trainer.demonstrations)} observations, {settings.steps} steps', flush=True)
    begin = time.perf_counter()
    for number in range(settings.steps):
        flow, beside = trainer.step(number)
        if number % 500 == 499 or number == settings.steps - 1:
            print(f'step {number + 1}: flow {flow:.4f}, beside {beside:.4f}', flush=True)
    seconds = time.perf_counter() - begin
    trainer.save(options.out, options.data, seconds)
    print(f'{options.out}, {seconds:.0f} s', flush=True)


if __name__ == '__main__':
    main()
