# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Recorded inputs of GR00T: rows of a batch without their padding, and how pictures lie in them."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error
from flashrt_core.tensor_file import TensorFile

PIXELS_PER_ROW = 28  # of the side of the square that becomes one row of the language model


@dataclass(frozen=True, eq=False)
class GrootSample:
    """One row of a batch as the engine takes it."""

    index: int  # in the batch
    image_numbers: range  # of its images among those of the batch
    images: tuple[NDArray[np.uint8], ...]  # [H, W, 3] each
    tokens: NDArray[np.int32]  # valid ones: the whole conversation
    token_mask: NDArray[np.bool_]  # [slots] of the padded row: valid ones
    is_image: NDArray[np.bool_]  # per token
    noise: NDArray[np.float32]  # [horizon, action_dim]
    state: NDArray[np.float32]  # [state_dim]
    slot: int  # embodiment
    steps: int

    @property
    def inputs(self) -> tuple:
        """As Engine.infer takes them."""
        same = len(set(self.image_sizes)) == 1
        images = np.stack(self.images) if same else np.concatenate([i.ravel() for i in self.images])
        return images, self.tokens, self.noise, self.state

    @property
    def image_sizes(self) -> tuple[tuple[int, int], ...]:
        return tuple(image.shape[:2] for image in self.images)

    @cached_property
    def image_runs(self) -> tuple[range, ...]:
        """Tokens of each image."""
        edges = np.flatnonzero(np.diff(self.is_image, prepend=False, append=False))
        return tuple(range(begin, end) for begin, end in edges.reshape(-1, 2).tolist())

    @property
    def prompt_length(self) -> int:
        """Tokens in front of the first image."""
        return self.image_runs[0].start

    @property
    def markup_rows(self) -> tuple[int, ...]:
        """Tokens behind each image up to the next one, or to the end."""
        begins = [run.start for run in self.image_runs[1:]] + [len(self.tokens)]
        return tuple(begin - run.stop for run, begin in zip(self.image_runs, begins, strict=True))


def is_of_groot(file: TensorFile) -> bool:
    """Whether the file holds what `groot_samples` reads."""
    return 'in.input_ids' in file


def groot_samples(file: TensorFile) -> list[GrootSample]:
    """The rows of the batch.

    in.input_ids, in.attention_mask and in.image_mask [batch, slots], in.image_u8.i [3, H, W] in the order of
    the batch, in.noise [batch, horizon, action_dim], in.state [batch, 1, state_dim], in.embodiment_id
    [batch], and in.num_steps [1] or a tensor step_k.actions_out per denoise step.
    """
    ids, masks = file.take('in.input_ids', 2), file.take('in.attention_mask', 2) != 0
    image_masks = file.take('in.image_mask', 2) != 0
    noise, state = file.take('in.noise', 3), file.take('in.state', 3)
    slots = file.take('in.embodiment_id', 1)
    if (
        not len(ids) == len(noise) == len(state) == len(slots)
        or not masks.shape == image_masks.shape == ids.shape
        or not len(ids)
    ):
        raise Error(f'{file.path}: its inputs are batches of different sizes')
    if state.shape[1] != 1:
        raise Error(f'{file.path}: in.state holds {state.shape[1]} time steps, one is supported')
    steps = _steps(file)
    first = 0
    samples = []
    for index, (row, mask) in enumerate(zip(ids, masks, strict=True)):
        tokens = row[mask].astype(np.int32)
        is_image = image_masks[index, mask]
        if is_image.any() and not np.array_equal(tokens == tokens[is_image][0], is_image):
            raise Error(f'{file.path}: in.image_mask of row {index} does not mark all tokens of one id')
        count = int(np.sum(np.diff(is_image, prepend=False) & is_image))
        numbers = range(first, first + count)
        images = tuple(
            np.ascontiguousarray(np.moveaxis(file.take(f'in.image_u8.{number}', 3), 0, -1))
            for number in numbers
        )
        samples.append(
            GrootSample(
                index,
                numbers,
                images,
                tokens,
                mask,
                is_image,
                np.ascontiguousarray(noise[index]),
                np.ascontiguousarray(state[index, 0]),
                int(slots[index]),
                steps,
            )
        )
        _check_runs(samples[-1], file)
        first += count
    return samples


def _steps(file: TensorFile) -> int:
    if 'in.num_steps' in file:
        return int(file.take('in.num_steps', 1)[0])
    steps = sum(name.startswith('step_') and name.endswith('.actions_out') for name in file.names())
    if not steps:
        raise Error(f'{file.path}: in.num_steps is missing, the number of denoise steps')
    return steps


def _check_runs(sample: GrootSample, file: TensorFile) -> None:
    if not sample.images:
        raise Error(f'{file.path}: row {sample.index} has no image')
    for run, (height, width) in zip(sample.image_runs, sample.image_sizes, strict=True):
        rows = height // PIXELS_PER_ROW * (width // PIXELS_PER_ROW)
        if len(run) != rows:
            raise Error(
                f'{file.path}: row {sample.index} has {len(run)} image tokens from token {run.start} on, '
                f'an image of {height} x {width} pixels makes {rows}'
            )
    if any(later.start <= run.stop for run, later in pairwise(sample.image_runs)):
        raise Error(f'{file.path}: row {sample.index}: images without a token between them')
