# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Samples to a calibration: runs the model with quantised activations held in float, watches their range."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, get_args

import numpy as np
from numpy.typing import NDArray

from flashrt_core.engine import Engine, native_core
from flashrt_core.errors import Error
from flashrt_core.kept_observations import KeptObservations, read_observations
from flashrt_core.policy import FlashPolicy, load_policy
from flashrt_core.programs import BackendOptions, ProgramKey, Programs
from flashrt_core.samples import AnySample
from flashrt_core.settings import CheckpointSettings
from flashrt_core.types import CameraFrame, Observation

if TYPE_CHECKING:
    from flashrt_core._core import Calibration, Observations

Estimator = Literal['min_max', 'percentile', 'entropy', 'mse']
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
    kept_in: Path | None = None,
    **backend_options: Unpack[BackendOptions],
) -> 'Calibration':
    """Scales of all quantised activations; samples should look like what the robot will see.

    kept_in: a file that what was observed is written to now and then, at the end and on Ctrl-C. Where it
    exists the same call goes on from it; Error where it is of other weights, another plan, recipe or samples.
    """
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
    return calibrate_programs(programs, samples, settings, kept_in)


def calibrate_programs(
    programs: Programs,
    samples: Iterable[tuple[str, AnySample]],
    settings: CalibrationSettings,
    kept_in: Path | None = None,
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

    return calibrate_observed(observed(), settings, kept_in)


def load_to_calibrate(settings: CheckpointSettings) -> FlashPolicy:
    """The policy that `calibrate_policy` watches; a calibration of the settings is left aside."""
    return load_policy(replace(settings, calibration=None), float_activations=True)


def calibrate_policy(
    policy: FlashPolicy,
    observations: Iterable[tuple[str, Observation]],
    settings: CalibrationSettings,
    kept_in: Path | None = None,
) -> 'Calibration':
    """Scales from what a robot saw and felt; each observation gets noise of its own."""

    def observed() -> Iterator[Observed]:
        for name, observation in observations:
            for camera, image in observation.images.items():
                pixels = image.rgb() if isinstance(image, CameraFrame) else image
                _refuse_blank(name, f"camera '{camera}'", pixels)
            yield name, policy.engine, policy.model_input(observation).inputs

    return calibrate_observed(observed(), settings, kept_in)


def calibrate_observed(
    observations: Iterable[Observed], settings: CalibrationSettings, kept_in: Path | None = None
) -> 'Calibration':
    """The same with inputs that are ready, and engines that hold quantised activations in float."""
    kept = KeptObservations(kept_in, settings.recipe)
    calibration = cast(Any, native_core()).Calibration(kept.observations)
    kept.observations = calibration.observations  # of the two the one that goes on
    how = settings.estimator, settings.fraction, settings.per_step
    steps: set[int] = set(kept.observations.steps)
    try:
        for name, engine, inputs in observations:
            if settings.per_step and steps - {engine.steps}:
                raise Error(
                    f'calibrate: {name} has {engine.steps} denoise steps, the samples before it {min(steps)}'
                    '; one scale per step needs the same number everywhere'
                )
            steps.add(engine.steps)
            if not kept.takes(name, engine, inputs):
                continue
            engine.observe(calibration, *inputs)
            if kept.observations.samples == 1:
                # A recipe that quantises nothing is refused now, not after all samples.
                calibration.finish(*how)
            kept.write_now_and_then()
    except KeyboardInterrupt:
        kept.write()
        raise
    if not kept.observations.samples:
        raise Error('calibrate: no sample was given')
    kept.check_all_were_given()
    kept.write()
    calibration.finish(*how)
    calibration.origin = _origin(kept.observations, settings)
    return calibration


def calibrate_kept(kept_in: Path, settings: CalibrationSettings) -> 'Calibration':
    """Scales from a file of observations, without a model; the recipe is that of the file."""
    observations = read_observations(kept_in)
    calibration = cast(Any, native_core()).Calibration(observations)
    calibration.finish(settings.estimator, settings.fraction, settings.per_step)
    calibration.origin = _origin(observations, settings)
    return calibration


def _refuse_blank(name: str, camera: str, image: NDArray[np.uint8]) -> None:
    """Scales measured on nothing cut off what a robot sees: a picture of one colour is a fault."""
    if image.min() == image.max():
        raise Error(
            f'calibrate: {name} shows nothing: every pixel of {camera} is {image.min()}; '
            'calibrate on what the robot sees'
        )


def _origin(observations: 'Observations', settings: CalibrationSettings) -> str:
    """What the scales were measured on, for people."""
    first = observations.first_samples
    names = ', '.join(first) + (', ...' if observations.samples > len(first) else '')
    counts = ' or '.join(map(str, sorted(observations.steps)))
    how = settings.estimator
    if settings.estimator == 'percentile':
        how = f'{how} {settings.fraction}'
    each = ', per step' if settings.per_step else ''
    return (
        f'{observations.samples} samples ({names}), {counts} steps, recipe {observations.recipe}, {how}{each}'
    )
