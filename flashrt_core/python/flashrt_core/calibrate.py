# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Samples to a calibration: runs the model with quantised activations held in float, watches their range."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, get_args

import numpy as np
from numpy.typing import NDArray

from flashrt_core.engine import Engine, native_core
from flashrt_core.errors import Error
from flashrt_core.policy import FlashPolicy, load_policy
from flashrt_core.programs import BackendOptions, ProgramKey, Programs
from flashrt_core.samples import AnySample
from flashrt_core.settings import CheckpointSettings
from flashrt_core.types import CameraFrame, Observation

if TYPE_CHECKING:
    from flashrt_core._core import Calibration

Estimator = Literal['min_max', 'percentile']
# Its name, the engine that is to run it, and its inputs as Engine.infer takes them.
Observed = tuple[str, Engine, tuple]


@dataclass(frozen=True)
class CalibrationSettings:
    """How scales follow from what was observed."""

    recipe: str = 'fp8'
    estimator: Estimator = 'min_max'
    fraction: float = 0.9999  # of the values inside the range, for the percentile
    per_step: bool = False  # one scale per denoise step instead of one for all

    def __post_init__(self) -> None:
        if self.estimator not in get_args(Estimator):
            raise Error(
                f"calibrate: estimator is '{self.estimator}', known are {', '.join(get_args(Estimator))}"
            )
        if not 0 < self.fraction <= 1:
            raise Error(f'calibrate: fraction is {self.fraction}, needed above 0 and at most 1')


def calibrate(
    checkpoint: str | os.PathLike,
    samples: Iterable[tuple[str, AnySample]],
    settings: CalibrationSettings | None = None,
    *,
    backend: str = 'cpu',
    packed: str | os.PathLike | None = None,
    embodiment_slot: int = -1,  # GR00T
    **backend_options: Unpack[BackendOptions],
) -> 'Calibration':
    """Scales of all quantised activations; samples should look like what the robot will see."""
    settings = settings or CalibrationSettings()
    programs = Programs(
        checkpoint,
        recipe=settings.recipe,
        float_activations=True,
        backend=backend,
        packed=packed,
        embodiment_slot=embodiment_slot,
        **backend_options,
    )
    return calibrate_programs(programs, samples, settings)


def calibrate_programs(
    programs: Programs, samples: Iterable[tuple[str, AnySample]], settings: CalibrationSettings
) -> 'Calibration':
    """The same with programs that hold quantised activations in float."""

    def observed() -> Iterator[Observed]:
        for name, sample in samples:
            for camera, image in enumerate(sample.images):
                _refuse_blank(name, f'camera {camera}', image)
            if not sample.noise.any():
                raise Error(
                    f'calibrate: the noise of {name} is all zeros; the model starts from random numbers'
                )
            yield name, cast(Engine, programs.get(ProgramKey.of(sample))), sample.inputs

    return calibrate_observed(observed(), settings)


def load_to_calibrate(settings: CheckpointSettings) -> FlashPolicy:
    """The policy that `calibrate_policy` watches; a calibration of the settings is left aside."""
    return load_policy(replace(settings, calibration=None), float_activations=True)


def calibrate_policy(
    policy: FlashPolicy, observations: Iterable[tuple[str, Observation]], settings: CalibrationSettings
) -> 'Calibration':
    """Scales from what a robot saw and felt; each observation gets noise of its own."""

    def observed() -> Iterator[Observed]:
        for name, observation in observations:
            for camera, image in observation.images.items():
                pixels = image.rgb() if isinstance(image, CameraFrame) else image
                _refuse_blank(name, f"camera '{camera}'", pixels)
            yield name, policy.engine, policy.model_input(observation).inputs

    return calibrate_observed(observed(), settings)


def calibrate_observed(observations: Iterable[Observed], settings: CalibrationSettings) -> 'Calibration':
    """The same with inputs that are ready, and engines that hold quantised activations in float."""
    calibration = cast(Any, native_core()).Calibration()
    used: list[str] = []
    steps: set[int] = set()
    how = settings.estimator, settings.fraction, settings.per_step
    for name, engine, inputs in observations:
        if settings.per_step and steps - {engine.steps}:
            raise Error(
                f'calibrate: {name} has {engine.steps} denoise steps, the samples before it {min(steps)}; '
                'one scale per step needs the same number everywhere'
            )
        steps.add(engine.steps)
        engine.observe(calibration, *inputs)
        if not used:
            calibration.finish(*how)  # a recipe that quantises nothing is refused now, not after all samples
        used.append(name)
    if not used:
        raise Error('calibrate: no sample was given')
    calibration.finish(*how)
    calibration.origin = _origin(used, steps, settings)
    return calibration


def _refuse_blank(name: str, camera: str, image: NDArray[np.uint8]) -> None:
    """Scales measured on nothing cut off what a robot sees: a picture of one colour is a fault."""
    if image.min() == image.max():
        raise Error(
            f'calibrate: {name} shows nothing: every pixel of {camera} is {image.min()}; '
            'calibrate on what the robot sees'
        )


def _origin(used: list[str], steps: set[int], settings: CalibrationSettings) -> str:
    """What the scales were measured on, for people."""
    names = ', '.join(used[:3]) + (', ...' if len(used) > 3 else '')
    counts = ' or '.join(map(str, sorted(steps)))
    how = settings.estimator if settings.estimator == 'min_max' else f'percentile {settings.fraction}'
    each = ', per step' if settings.per_step else ''
    return f'{len(used)} samples ({names}), {counts} steps, recipe {settings.recipe}, {how}{each}'
