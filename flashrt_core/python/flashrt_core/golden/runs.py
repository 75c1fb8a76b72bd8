# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""One inference of a saved sample, with the values it left in the plan and where its slots lie."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from flashrt_core.golden.report import Report
from flashrt_core.programs import ProgramKey, Programs
from flashrt_core.samples import Sample

if TYPE_CHECKING:
    from flashrt_core._core import Guidance, ModelConfig


@dataclass(frozen=True)
class Layout:
    """Where things lie in the plan of one program."""

    config: 'ModelConfig'
    key: ProgramKey

    @property
    def suffix_rows(self) -> int:
        """Pi0 has a state token in front of the actions."""
        return self.key.horizon + (1 if self.config.state_dim else 0)

    @property
    def last_layer(self) -> int:
        return self.config.layers - 1

    def prefix_rows(self, layer: int, part: str) -> str:
        """The prefix in the cache, which holds the suffix first; part: 'k' or 'v'."""
        end = self.suffix_rows + self.key.cameras * self.config.image_tokens + self.key.prompt_capacity
        return f'cache.{layer}.{part}[{self.suffix_rows}:{end}]'

    def after_first_layer(self, stage: str) -> str:
        """The residual that enters what follows layer 0."""
        following = 'norm' if self.last_layer == 0 else '1.attn_norm'
        return f'{stage}.{following}.residual'


@dataclass(frozen=True, eq=False)
class Run:
    """A sample and what became of it."""

    sample: Sample
    layout: Layout
    values: dict[str, NDArray[np.float32]]

    @cached_property
    def prefix_mask(self) -> NDArray[np.bool_]:
        """[slots] as the reference counts them: all cameras, then the whole prompt buffer."""
        images = np.repeat(self.sample.camera_mask, self.layout.config.image_tokens)
        return np.concatenate([images, self.sample.token_mask])

    @property
    def prefix_length(self) -> int:
        return int(self.prefix_mask.sum())

    @cached_property
    def actions(self) -> NDArray[np.float32]:
        """[steps + 1, horizon, action_dim], the noise first."""
        return np.concatenate([self.sample.noise[None], self.values['actions']])


def run_sample(
    programs: Programs,
    key: ProgramKey,
    sample: Sample,
    values: Iterable[str],
    report: Report,
    case: str,
    guidance: 'Guidance | None' = None,
) -> Run:
    """Runs the sample twice: keeping all values, and with memory reused. Both must agree bit for bit."""
    traced = programs.get(key.keeping_values()).trace(sorted({*values, 'actions'}), *sample.inputs, guidance)
    if key.steps == 1:  # a stage that runs once has no axis of steps
        traced = {name: value[None] if _is_stepped(name) else value for name, value in traced.items()}
    reused = programs.get(key).infer(*sample.inputs, guidance)
    report.compare(
        case, 'actions with memory reused', reused.view(np.uint32), traced['actions'][-1].view(np.uint32)
    )
    return Run(sample, Layout(programs.config, key), traced)


def _is_stepped(value: str) -> bool:
    return value == 'actions' or value.startswith('denoise.')
