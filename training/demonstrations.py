# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""A whole data set of the tabletop in the memory of the device, and batches drawn from it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from flashrt_ros.tabletop.dataset_format import read_dataset, read_summary
from flashrt_ros.tabletop.tasks import KINDS, PROMPTS, TASKS, read_task

# Of the batches, whatever the data set holds of each: what is longer and harder is seen more often.
SHARES = {'touch': 0.18, 'lift': 0.22, 'place': 0.28, 'stack': 0.32}
TABLE_MIDDLE, SPREAD_M = (0.35, 0.0, 0.05), 0.1  # cube positions become numbers near 1


@dataclass(frozen=True)
class Batch:
    images: Tensor  # [B, cameras, side, side, 3] uint8
    state: Tensor  # [B, joints], robot units
    actions: Tensor  # [B, horizon, joints], robot units
    sentence: Tensor  # [B] indices of PROMPTS
    cubes: Tensor  # [B, 3, 3] scaled
    named: Tensor  # [B, 3] the cube that the sentence names, scaled


class Demonstrations:
    """Reads everything once; draws with one generator, so that a seed repeats the batches."""

    def __init__(self, folder: Path, device: str, seed: int) -> None:
        self.summary = read_summary(folder)
        count = int(self.summary['observations'])
        arrays: dict[str, np.ndarray] = {}
        tasks = np.empty(count, np.int64)
        at = 0
        for episode in read_dataset(folder):
            end = at + len(episode.state)
            for name in ('images', 'state', 'actions', 'cubes'):
                part = getattr(episode, name)
                if name not in arrays:
                    arrays[name] = np.empty((count, *part.shape[1:]), part.dtype)
                arrays[name][at:end] = part
            tasks[at:end] = TASKS.index(episode.task)
            at = end
        self._data = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
        middle = torch.tensor(TABLE_MIDDLE, device=device)
        self._data['cubes'] = (self._data['cubes'] - middle) / SPREAD_M
        self._task = torch.from_numpy(tasks).to(device)
        blocks = torch.tensor([task.block_index for task in TASKS], device=device)
        self._block = blocks[self._task]
        wordings = [[i for i, prompt in enumerate(PROMPTS) if read_task(prompt) == task] for task in TASKS]
        self._sentences = torch.tensor(wordings, device=device)
        kinds = torch.tensor([KINDS.index(task.kind) for task in TASKS], device=device)[self._task]
        shares = torch.tensor([SHARES[kind] for kind in KINDS], device=device, dtype=torch.double)
        weight = (shares / torch.bincount(kinds, minlength=len(KINDS)).clamp(min=1))[kinds].cumsum(0)
        self._until = weight / weight[-1].clone()
        self._random = torch.Generator(device).manual_seed(seed)

    def __len__(self) -> int:
        return len(self._task)

    def draw(self, size: int) -> Batch:
        device = self._until.device
        where = torch.rand(size, generator=self._random, device=device, dtype=torch.double)
        index = torch.searchsorted(self._until, where).clamp(max=len(self) - 1)
        known = self._sentences[self._task[index]]
        wording = torch.randint(known.shape[1], (size, 1), generator=self._random, device=device)
        cubes = self._data['cubes'][index]
        return Batch(
            images=self._data['images'][index],
            state=self._data['state'][index],
            actions=self._data['actions'][index],
            sentence=known.gather(1, wording)[:, 0],
            cubes=cubes,
            named=cubes[torch.arange(size, device=device), self._block[index]],
        )
