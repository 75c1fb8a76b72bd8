# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The saved tensors of GR00T N1.6: which values of the plan they are, in which layout they are saved."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from flashrt_core.groot.samples import GrootSample
from flashrt_core.tensor_file import TensorFile

if TYPE_CHECKING:
    from flashrt_core._core import ModelConfig

SQUARE = 2  # patches of a side that become one row
PATCH = 14
PROJECTION = 'action_head.model.proj_out_2'  # folded into the decoder by the engine


@dataclass(frozen=True, eq=False)
class GrootRun:
    """A sample and what became of it."""

    sample: GrootSample
    values: dict[str, NDArray[np.float32]]
    times: tuple[float, ...]


# Compared values, and which of their rows are valid where not all are.
Built = tuple[NDArray, NDArray[np.bool_] | None]


@dataclass(frozen=True)
class Output:
    """One saved tensor of one row of a batch."""

    values: tuple[str, ...]  # of the plan
    actual: Callable[[GrootRun], Built]
    expected: Callable[[NDArray], NDArray]  # the rows of this sample, of the whole saved tensor
    exact: bool = False


def groot_outputs(
    config: 'ModelConfig', sample: GrootSample, steps: int, checkpoint: Path
) -> dict[str, Output]:
    """All that is known of a run, by the name it is saved under."""
    outputs = _vision(sample, _counted(checkpoint, 'vision_model.encoder.layers.'))
    outputs |= _language(sample, config.layers)
    outputs |= _head(sample, steps, _counted(checkpoint, 'transformer_blocks.'), checkpoint)
    return outputs


def _counted(checkpoint: Path, prefix: str) -> int:
    """Layers of a stack, by the names of its tensors."""
    names = TensorFile(checkpoint / 'model.safetensors').names()
    numbers = {int(name.partition(prefix)[2].partition('.')[0]) for name in names if prefix in name}
    return len(numbers)


def _same(tensor: NDArray) -> NDArray:
    return tensor


# ---- vision and connector: rows of all images of the batch, in their order


def _to_raster(rows: NDArray, height: int, width: int) -> NDArray:
    """Tokens in squares of 2 x 2 patches to rows of patches."""
    down, across = height // PATCH // SQUARE, width // PATCH // SQUARE
    squares = rows.reshape(-1, down, across, SQUARE, SQUARE, rows.shape[-1])
    return squares.transpose(0, 1, 3, 2, 4, 5).reshape(-1, rows.shape[-1])


def _vision(sample: GrootSample, layers: int) -> dict[str, Output]:
    sizes = sample.image_sizes
    prefixes = [''] if len(set(sizes)) == 1 else [f'{view}.' for view in range(len(sizes))]

    def of_images(tensor: NDArray, rows: list[int]) -> NDArray:
        """The rows of this sample, whose images follow those of the samples before it."""
        # All images of a saved batch have the same size wherever a batch has more than one row.
        begin = sample.image_numbers.start * rows[0]
        return tensor[begin : begin + sum(rows)]

    def in_raster(run: GrootRun, names: tuple[str, ...]) -> Built:
        towers = [run.values[name] for name in names]
        sized = sizes if len(towers) > 1 else sizes[:1]
        raster = [_to_raster(rows, *size) for rows, size in zip(towers, sized, strict=True)]
        return np.concatenate(raster), None

    def unshuffled(run: GrootRun, names: tuple[str, ...]) -> Built:
        rows = np.concatenate([run.values[name] for name in names])
        squares = rows.reshape(-1, SQUARE * SQUARE, rows.shape[-1])
        return squares.transpose(0, 2, 1).reshape(len(squares), -1), None

    patches = [height // PATCH * (width // PATCH) for height, width in sizes]
    merged = [count // SQUARE**2 for count in patches]

    def patch_rows(*values: str, build: Callable[[GrootRun, tuple[str, ...]], Built]) -> Output:
        rows = merged if build is unshuffled else patches
        return Output(values, lambda run: build(run, values), lambda tensor: of_images(tensor, rows))

    def named(value: str) -> tuple[str, ...]:
        return tuple(f'vision.{prefix}{value}' for prefix in prefixes)

    def after(layer: int) -> str:
        return 'norm.residual' if layer == layers - 1 else f'{layer + 1}.attn_norm.residual'

    connected = tuple(f'backbone.{view}.connector_out' for view in range(len(sizes)))
    return {
        'vision.embeddings': patch_rows(*named('patch'), build=in_raster),
        **{
            f'vision.layer_{layer:02}': patch_rows(*named(after(layer)), build=in_raster)
            for layer in range(layers)
        },
        'vision.post_layernorm': patch_rows(*named('norm'), build=in_raster),
        'vision.pixel_unshuffle': patch_rows(*named('norm'), build=unshuffled),
        'connector.output': Output(
            connected,
            lambda run: (np.concatenate([run.values[name] for name in connected]), None),
            lambda tensor: of_images(tensor, merged),
        ),
    }


# ---- language model: the rows of one conversation, whose padding is left out


def _language(sample: GrootSample, layers: int) -> dict[str, Output]:
    def rows(tensor: NDArray) -> NDArray:
        return tensor[sample.index][sample.token_mask]

    def whole(*names: str) -> Output:
        """Computed in two parts: in front of the first image, and from there on."""
        return Output(names, lambda run: (np.concatenate([run.values[name] for name in names]), None), rows)

    def after(layer: int) -> str:
        return 'norm.residual' if layer == layers - 1 else f'{layer + 1}.attn_norm.residual'

    def both(value: str) -> Output:
        return whole(f'prompt.{value}', f'backbone.{value}')

    def text_block(run: GrootRun, part: slice) -> Built:
        """Keys or values of text: all rows behind the first image, then the prompt."""
        cache = run.values['text_kv'][:, part]
        built = np.zeros((len(sample.tokens), cache.shape[1]), np.float32)
        first = sample.prompt_length + int(np.argmin(sample.is_image[sample.prompt_length :]))
        behind = len(sample.tokens) - first
        built[first:] = cache[:behind]
        built[: sample.prompt_length] = cache[behind:]
        return built, ~sample.is_image

    def image_block(run: GrootRun, part: slice) -> Built:
        cache = run.values['backbone.image_kv'][:, part]
        built = np.zeros((len(sample.tokens), cache.shape[1]), np.float32)
        built[sample.prompt_length :] = cache
        return built, sample.is_image

    def kv(name: str, build: Callable[[GrootRun, slice], Built], index: int) -> Output:
        def part(run: GrootRun) -> slice:
            width = run.values['denoise.embeds'].shape[-1]
            return slice(index * width, (index + 1) * width)

        return Output((name, 'denoise.embeds'), lambda run: build(run, part(run)), rows)

    return {
        'llm.inputs_embeds': whole('prompt.embed', 'backbone.embeds'),
        **{f'llm.layer_{layer:02}': both(after(layer)) for layer in range(layers)},
        'llm.final_norm': both('norm'),
        'head.vl_embeds': both('context_norm'),
        'cross_kv.block_00.key': kv('text_kv', text_block, 0),
        'cross_kv.block_00.value': kv('text_kv', text_block, 1),
        'cross_kv.block_02.key': kv('backbone.image_kv', image_block, 0),
        'cross_kv.block_02.value': kv('backbone.image_kv', image_block, 1),
    }


# ---- action head


def _silu(x: NDArray) -> NDArray:
    return x / (1 + np.exp(-x.astype(np.float64)))


def _head(sample: GrootSample, steps: int, blocks: int, checkpoint: Path) -> dict[str, Output]:
    def row(tensor: NDArray) -> NDArray:
        return tensor[sample.index]

    def at(name: str, step: int) -> Output:
        return Output((name,), lambda run: (run.values[name][step], None), row)

    def after(block: int) -> str:
        following = 'norm' if block == blocks - 1 else f'{block + 1}.attn_norm'
        return f'denoise.{following}.residual'

    weights = TensorFile(checkpoint / 'model.safetensors')
    projection = weights.take(f'{PROJECTION}.weight', 2).astype(np.float64)
    bias = weights.take(f'{PROJECTION}.bias', 1)
    outputs = {
        'head.state_features': Output(
            ('state.state_out',), lambda run: (run.values['state.state_out'], None), row
        ),
        'action_pred': at('actions', steps - 1),
    }
    for block in range(blocks):
        outputs[f'step_0.block_{block:02}.norm1'] = at(f'denoise.{block}.attn_norm', 0)
        outputs[f'step_0.block_{block:02}.attn_out'] = at(f'denoise.{block}.attn_out', 0)
        outputs[f'step_0.block_{block:02}'] = at(after(block), 0)
    for step in range(steps):
        outputs |= _of_step(sample, step, projection, bias)
        outputs[f'step_{step}.block_{blocks - 1:02}'] = at(after(blocks - 1), step)
    return outputs


def _of_step(sample: GrootSample, step: int, projection: NDArray, bias: NDArray) -> dict[str, Output]:
    def row(tensor: NDArray) -> NDArray:
        return tensor[sample.index]

    def value(name: str, build: Callable[[NDArray], NDArray] = _same) -> Output:
        return Output((name,), lambda run: (build(run.values[name][step]), None), row)

    def actions_in(run: GrootRun) -> Built:
        return (sample.noise if step == 0 else run.values['actions'][step - 1]), None

    def features(run: GrootRun) -> Built:
        """Positions are added by the layer that makes them."""
        rows = run.values['denoise.action_out'][step]
        return rows - run.values['styles.action_positions'], None

    def decoded(run: GrootRun) -> Built:
        """The row of the state is not decoded."""
        velocity = run.values['denoise.velocity'][step]
        all_rows = np.concatenate([np.zeros_like(velocity[:1]), velocity])
        return all_rows, np.arange(len(all_rows)) > 0

    def time_token(tensor: NDArray) -> NDArray:
        return np.broadcast_to(tensor, (len(sample.noise), len(tensor)))

    def cosines_first(tensor: NDArray) -> NDArray:
        return np.roll(tensor, len(tensor) // 2)

    name = f'step_{step}.'
    return {
        f'{name}timestep': Output((), lambda run: (np.float64(run.times[step]), None), row, exact=True),
        f'{name}actions_in': Output(('actions',), actions_in, row),
        f'{name}actions_out': value('actions'),
        f'{name}tau': value('styles.action_tau', time_token),
        f'{name}action_features': Output(('denoise.action_out', 'styles.action_positions'), features, row),
        f'{name}time_proj': value('styles.time', cosines_first),
        # The plan keeps what all readers want, its SiLU.
        f'{name}temb': Output(
            ('styles.time_out',),
            lambda run: (run.values['styles.time_out'][step], None),
            lambda tensor: _silu(row(tensor)),
        ),
        f'{name}dit_input': value('denoise.embeds'),
        f'{name}dit_output': value('denoise.norm', lambda rows: rows @ projection.T + bias),
        f'{name}decoder_output': Output(('denoise.velocity',), decoded, row),
    }
