# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Recorded model inputs: what the engine takes for one inference, read from files of batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error
from flashrt_core.groot.samples import GrootSample, groot_samples, is_of_groot
from flashrt_core.tensor_file import TensorFile


@dataclass(frozen=True, eq=False)
class Sample:
    """One item of a batch. Absent cameras and prompt padding are not part of what the model sees."""

    images: NDArray[np.uint8]  # [cameras present, size, size, 3]
    tokens: NDArray[np.int32]  # [valid tokens]
    noise: NDArray[np.float32]  # [horizon, action_dim]
    state: NDArray[np.float32] | None  # [state_dim], Pi0 only
    camera_mask: NDArray[np.bool_]  # [camera slots]
    token_mask: NDArray[np.bool_]  # [prompt slots]
    steps: int

    # How GR00T is given other sizes than those published.
    image_sizes: tuple[tuple[int, int], ...] = ()
    markup_rows: tuple[int, ...] = ()

    @property
    def inputs(self) -> tuple:
        """As Engine.infer takes them."""
        return self.images, self.tokens, self.noise, self.state


AnySample = Sample | GrootSample


def samples_in(file: TensorFile) -> list[Sample]:
    """The items of the batch in one file.

    in.images_u8 [cameras, batch, size, size, 3], in.image_masks [cameras, batch], in.token_ids and
    in.token_mask [batch, slots], in.noise [batch, horizon, action_dim], in.num_steps [1]; for Pi0 also
    in.state [batch, state_dim].
    """
    images = _typed(file, 'in.images_u8', 5, np.uint8)
    camera_mask = _typed(file, 'in.image_masks', 2, np.uint8) != 0
    tokens = _typed(file, 'in.token_ids', 2, np.int32)
    token_mask = _typed(file, 'in.token_mask', 2, np.uint8) != 0
    noise = _typed(file, 'in.noise', 3, np.float32)
    steps = _typed(file, 'in.num_steps', 1, np.int32)
    state = _typed(file, 'in.state', 2, np.float32) if 'in.state' in file else None

    batch = len(noise)
    sizes = {
        'in.images_u8': images.shape[1],
        'in.image_masks': camera_mask.shape[1],
        'in.token_ids': len(tokens),
        'in.token_mask': len(token_mask),
        'in.state': batch if state is None else len(state),
    }
    for name, size in sizes.items():
        if size != batch:
            raise Error(f'{file.path}: {name} holds a batch of {size}, in.noise one of {batch}')
    if camera_mask.shape[0] != images.shape[0] or token_mask.shape != tokens.shape or steps.shape != (1,):
        raise Error(
            f'{file.path}: masks {list(camera_mask.shape)} and {list(token_mask.shape)} do not fit images '
            f'{list(images.shape)} and tokens {list(tokens.shape)}, or in.num_steps {list(steps.shape)} '
            'is not [1]'
        )
    if not batch:
        raise Error(f'{file.path}: in.noise {list(noise.shape)} holds no item')
    samples = []
    for b in range(batch):
        if not camera_mask[:, b].any() or not token_mask[b].any():
            raise Error(f'{file.path}: item {b} of the batch has no camera or no prompt token that is valid')
        samples.append(
            Sample(
                images=np.ascontiguousarray(images[camera_mask[:, b], b]),
                tokens=np.ascontiguousarray(tokens[b, token_mask[b]]),
                noise=np.ascontiguousarray(noise[b]),
                state=None if state is None else np.ascontiguousarray(state[b]),
                camera_mask=camera_mask[:, b],
                token_mask=token_mask[b],
                steps=int(steps[0]),
            )
        )
    return samples


def read_samples(path: Path, embodiment_slot: int = -1) -> Iterator[tuple[str, AnySample]]:
    """Samples with their names; path: a .safetensors or .npz file, or a folder of case_*.safetensors.

    embodiment_slot: of GR00T, needed there: rows of other embodiments are for other weights, and left out.
    """
    files = [path]
    if path.is_dir():
        files = sorted(path.glob('case_*.safetensors'))
        if not files:
            raise Error(f'{path} holds no case_*.safetensors; give a file or a folder of cases')
    found, other_slots = False, set[int]()
    for item in files:
        file = TensorFile(item)
        samples: Sequence[AnySample] = groot_samples(file) if is_of_groot(file) else samples_in(file)
        for index, sample in enumerate(samples):
            if isinstance(sample, GrootSample) and sample.slot != embodiment_slot:
                other_slots.add(sample.slot)
                continue
            found = True
            yield f'{item.stem}[{index}]', sample
    if other_slots and not found:
        raise Error(
            f'{path}: its rows are of embodiment slots {sorted(other_slots)}, none of {embodiment_slot}; '
            'give --embodiment-slot'
        )


def _typed(file: TensorFile, name: str, axes: int, dtype: type) -> NDArray:
    tensor = file.take(name, axes)
    if tensor.dtype != dtype:
        raise Error(f"{file.path}: tensor '{name}' is {tensor.dtype}, needed {np.dtype(dtype)}")
    return tensor
