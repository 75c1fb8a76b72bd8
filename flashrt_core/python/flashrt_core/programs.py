# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The programs that recorded samples need, compiled once each over the same weights."""

import os
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
        core = cast(Any, native_core())
        self._load = lambda program: core.Engine(
            os.fspath(checkpoint),
            **program,
            recipe=recipe,
            calibration=calibration,
            float_activations=float_activations,
            backend=backend,
            random_seed=random_seed,
            random_outliers=random_outliers,
            packed=packed,
            embodiment_slot=embodiment_slot,
            **({} if equalisation is None else {'equalisation': equalisation}),
            **backend_options,
        )
        self._compiled: dict[ProgramKey, Engine] = {}
        read_config = core.read_model_config if random_seed is None else core.named_config
        self.config: ModelConfig = read_config(os.fspath(checkpoint))

    def get(self, key: ProgramKey) -> 'Engine':
        """The weights are loaded with the first program."""
        if key not in self._compiled:
            any_engine = next(iter(self._compiled.values()), None)
            program = vars(key) | {'times': list(key.times)}
            self._compiled[key] = (
                self._load(program) if any_engine is None else any_engine.recompile(**program)
            )
        return self._compiled[key]
