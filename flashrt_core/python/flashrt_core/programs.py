# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The programs that recorded samples need, compiled once each over the same weights."""

import os
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

from flashrt_core.engine import native_core
from flashrt_core.samples import AnySample

if TYPE_CHECKING:
    from flashrt_core._core import Engine, Equalisation, ModelConfig


@dataclass(frozen=True)
class ProgramKey:
    """What a program is compiled for."""

    cameras: int
    prompt_capacity: int
    horizon: int
    steps: int
    times: tuple[float, ...] = ()  # empty: the engine's own
    max_image_bytes: int = 0  # of the frame of one camera; 0: pictures come resized
    guided: bool = False
    image_sizes: tuple[tuple[int, int], ...] = ()  # GR00T: height and width per camera; empty: squares
    markup_rows: tuple[int, ...] = ()  # GR00T: tokens behind the image of each camera; empty: as published
    keep_values: bool = False  # no memory is reused, so that every value can be read after the run

    @classmethod
    def of(cls, sample: AnySample, times: tuple[float, ...] = ()) -> 'ProgramKey':
        return cls(
            len(sample.images),
            len(sample.token_mask),
            len(sample.noise),
            sample.steps,
            times,
            image_sizes=sample.image_sizes,
            markup_rows=sample.markup_rows,
        )

    @property
    def program(self) -> dict[str, Any]:
        """As the native module takes it."""
        return vars(self) | {'times': list(self.times)}

    def keeping_values(self) -> 'ProgramKey':
        return replace(self, keep_values=True)


class BackendOptions(TypedDict, total=False):
    """What concerns a backend, as Engine takes it."""

    threads: int
    device: int
    tuning: str | os.PathLike | None
    fast_accumulation: bool
    dependent_launch: bool
    specialised_kernels: bool


class Programs:
    """Owns the engines of one checkpoint, or of random weights in its place."""

    def __init__(
        self,
        checkpoint: str | os.PathLike,
        *,
        recipe: str = 'f32',
        calibration: str | os.PathLike | None = None,
        float_activations: bool = False,
        equalisation: 'Equalisation | None' = None,  # to calibrate: of a calibration to come
        backend: str = 'cpu',
        random_seed: int | None = None,
        random_outliers: float = 1.0,
        packed: str | os.PathLike | None = None,
        embodiment_slot: int = -1,  # GR00T
        **backend_options: Unpack[BackendOptions],
    ) -> None:
        self._core = cast(Any, native_core())
        self._checkpoint = os.fspath(checkpoint)
        self._options: dict[str, Any] = {
            'recipe': recipe,
            'calibration': calibration,
            'float_activations': float_activations,
            **({} if equalisation is None else {'equalisation': equalisation}),
            'backend': backend,
            'random_seed': random_seed,
            'random_outliers': random_outliers,
            'packed': packed,
            'embodiment_slot': embodiment_slot,
            **backend_options,
        }
        self._compiled: dict[ProgramKey, Engine] = {}
        read_config = self._core.read_model_config if random_seed is None else self._core.named_config
        self.config: ModelConfig = read_config(self._checkpoint)

    def get(self, key: ProgramKey) -> 'Engine':
        """The weights are loaded with the first program."""
        if key not in self._compiled:
            any_engine = next(iter(self._compiled.values()), None)
            if any_engine is None:
                engine = self._core.Engine(self._checkpoint, **key.program, **self._options)
            else:
                engine = any_engine.recompile(**key.program)
            self._compiled[key] = engine
        return self._compiled[key]

    def with_recipe(self, recipe: str, calibration: str | None) -> 'Programs':
        """Another recipe over the same weights; a backend that can shares those that both hold alike."""
        other = copy(self)
        changes = {'recipe': recipe, 'calibration': calibration, 'float_activations': False}
        other._options = self._options | changes
        other._options.pop('equalisation', None)
        other._compiled = {}
        if self._compiled:
            key, engine = next(iter(self._compiled.items()))
            other._compiled[key] = engine.with_recipe(recipe, calibration=calibration)
        return other
