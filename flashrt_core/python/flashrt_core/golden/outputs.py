# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The saved outputs of Pi0.5 and Pi0: which values of the plan they are, in which layout they are saved."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flashrt_core.golden import bounds
from flashrt_core.golden.runs import Layout, Run
from flashrt_core.rtc import denoise_times


@dataclass(frozen=True)
class Output:
    """One saved tensor."""

    values: Callable[[Layout], tuple[str, ...]]  # of the plan
    build: Callable[..., NDArray]  # (run, *values) -> one item of the batch, its valid slots only
    batch_axis: int | None  # None: the same for the whole batch
    slots: Callable[[Run], NDArray[np.bool_]] | None = None  # valid ones, of slot_axis; None: all
    slot_axis: int = 0
    exact: bool = False
    of_time: bool = False  # moves with the last bit of the times
    bound: Callable[[Run], float] = lambda run: bounds.INTERMEDIATE

    def expected(self, tensor: NDArray, item: int) -> NDArray:
        """One item of the batch, the axis of its slots first; a tensor without these axes as it is."""
        if self.batch_axis is not None:
            if tensor.ndim <= self.batch_axis or tensor.shape[self.batch_axis] <= item:
                return tensor
            tensor = tensor.take(item, self.batch_axis)
        return np.moveaxis(tensor, self.slot_axis, 0) if tensor.ndim > self.slot_axis else tensor

    def actual(self, run: Run) -> tuple[NDArray, NDArray[np.bool_] | None]:
        """In the layout of expected, and which of its slots are valid."""
        values = [run.values[name] for name in self.values(run.layout)]
        built = np.moveaxis(self.build(run, *values), self.slot_axis, 0)
        if self.slots is None:
            return built, None
        valid = self.slots(run)
        spread = np.zeros((len(valid), *built.shape[1:]), built.dtype)
        spread[valid] = built
        return spread, valid


def _no_values(layout: Layout) -> tuple[str, ...]:
    return ()


def _named(*names: str) -> Callable[[Layout], tuple[str, ...]]:
    return lambda layout: names


def _same(run: Run, value: NDArray) -> NDArray:
    return value


def _by_camera(run: Run, value: NDArray) -> NDArray:
    return value.reshape(len(run.sample.images), -1, value.shape[-1])


def _cameras(run: Run) -> NDArray[np.bool_]:
    return run.sample.camera_mask


def _prompt(run: Run) -> NDArray[np.bool_]:
    return run.sample.token_mask


def _prefix(run: Run) -> NDArray[np.bool_]:
    return run.prefix_mask


def _heads_first(run: Run, cache: NDArray) -> NDArray:
    config = run.layout.config
    return cache.reshape(-1, config.kv_heads, config.head_dim).transpose(1, 0, 2)


def _first_step(run: Run, value: NDArray) -> NDArray:
    return value[0]


def _cache(part: str, last: bool) -> Output:
    def k_bound(run: Run) -> float:
        return bounds.LONG_PREFIX_K if run.prefix_length > bounds.LONG_PREFIX else bounds.INTERMEDIATE

    output = Output(
        lambda layout: (layout.prefix_rows(layout.last_layer if last else 0, part),),
        _heads_first,
        batch_axis=0,
        slots=_prefix,
        slot_axis=1,
    )
    return output if part == 'v' else Output(**{**vars(output), 'bound': k_bound})


COMMON = {
    'out.siglip': Output(_named('vision.norm'), _by_camera, batch_axis=1, slots=_cameras),
    'out.image_tokens': Output(_named('vision.projector'), _by_camera, batch_axis=1, slots=_cameras),
    'out.text_embeds': Output(_named('prompt.embed'), _same, batch_axis=0, slots=_prompt),
    'out.prefix_embeds': Output(_named('prefix.embeds'), _same, batch_axis=0, slots=_prefix),
    'out.prefix_mask': Output(
        _no_values, lambda run: run.prefix_mask.astype(np.uint8), batch_axis=0, exact=True
    ),
    'out.prefix_position_ids': Output(
        _no_values, lambda run: np.arange(run.prefix_length), batch_axis=0, slots=_prefix, exact=True
    ),
    'out.prefix_k.first': _cache('k', last=False),
    'out.prefix_k.last': _cache('k', last=True),
    'out.prefix_v.first': _cache('v', last=False),
    'out.prefix_v.last': _cache('v', last=True),
    'out.suffix_position_ids': Output(
        _no_values,
        lambda run: run.prefix_length + np.arange(run.layout.suffix_rows),
        batch_axis=0,
        exact=True,
    ),
    # Runs use the saved times; these are the ones the engine takes by itself.
    'out.time': Output(
        _no_values,
        lambda run: denoise_times('openpi', run.sample.steps),
        batch_axis=None,
        bound=lambda run: bounds.TIME,
    ),
    'out.time_sincos': Output(_named('styles.time'), _same, batch_axis=None, of_time=True),
    'out.suffix_hidden': Output(_named('denoise.norm'), _same, batch_axis=1, of_time=True),
    'out.v_t': Output(_named('denoise.velocity'), _same, batch_axis=1, of_time=True),
    'out.x_t': Output(_no_values, lambda run: run.actions, batch_axis=1, bound=lambda run: bounds.ACTIONS),
    'out.actions': Output(
        _no_values, lambda run: run.actions[-1], batch_axis=0, bound=lambda run: bounds.ACTIONS
    ),
}

PI05 = COMMON | {
    'out.time_cond': Output(_named('styles.time_out'), _same, batch_axis=None, of_time=True),
    'out.mod_first_attn': Output(_named('styles.0.attn_style'), _same, batch_axis=None, of_time=True),
    'out.mod_last_mlp': Output(
        lambda layout: (f'styles.{layout.last_layer}.mlp_style',), _same, batch_axis=None, of_time=True
    ),
    'out.mod_final': Output(_named('styles.norm_style'), _same, batch_axis=None, of_time=True),
    'out.suffix_embeds': Output(_named('denoise.action_in'), _same, batch_axis=1, of_time=True),
    'out.layer0_out': Output(
        lambda layout: (layout.after_first_layer('denoise'),), _first_step, batch_axis=0, of_time=True
    ),
}


def _state_then_actions(run: Run, state: NDArray, actions: NDArray) -> NDArray:
    """[1, D] and [steps, horizon, D] -> [steps, 1 + horizon, D]."""
    return np.concatenate([np.broadcast_to(state, (len(actions), *state.shape)), actions], axis=1)


def _pi0_layer0(layout: Layout) -> tuple[str, ...]:
    # The last layer of the state token ends with its keys and values.
    state = () if layout.last_layer == 0 else (layout.after_first_layer('state'),)
    return (*state, layout.after_first_layer('denoise'))


def _pi0_layer0_slots(run: Run) -> NDArray[np.bool_]:
    slots = np.ones(run.layout.suffix_rows, bool)
    slots[0] = run.layout.last_layer > 0
    return slots


PI0 = COMMON | {
    'out.suffix_embeds': Output(
        _named('state.state_in', 'denoise.action_time_out'), _state_then_actions, batch_axis=1, of_time=True
    ),
    'out.layer0_out': Output(
        _pi0_layer0,
        lambda run, *parts: np.concatenate([*parts[:-1], parts[-1][0]]),
        batch_axis=0,
        slots=_pi0_layer0_slots,
        of_time=True,
    ),
}

OUTPUTS = {'pi05': PI05, 'pi0': PI0}
