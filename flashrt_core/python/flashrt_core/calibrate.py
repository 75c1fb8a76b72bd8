# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Samples to a calibration: runs the model with quantised activations held in float, watches their range."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, get_args

import numpy as np
from numpy.typing import NDArray

from flashrt_core.engine import Engine, native_core
from flashrt_core.equalising import equalise, kept_equalisation
from flashrt_core.errors import Error
from flashrt_core.kept_observations import KeptObservations, read_observations
from flashrt_core.policy import FlashPolicy, load_policy
from flashrt_core.programs import BackendOptions, ProgramKey, Programs
from flashrt_core.samples import AnySample
from flashrt_core.settings import CheckpointSettings
from flashrt_core.types import CameraFrame, Observation

if TYPE_CHECKING:
    from flashrt_core._core import Calibration, Equalisation, Observations

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
    # Strength, above 0 and at most 1, at which channels are evened out first; None: they stay as they are.
    equalise: float | None = None

    def __post_init__(self) -> None:
        if self.estimator not in get_args(Estimator):
            raise Error(
                f"calibrate: estimator is '{self.estimator}', known are {', '.join(get_args(Estimator))}"
            )
        if not 0 < self.fraction <= 1:
            raise Error(f'calibrate: fraction is {self.fraction}, needed above 0 and at most 1')
        if self.equalise is not None and not 0 < self.equalise <= 1:
            raise Error(f'calibrate: equalise is {self.equalise}, needed above 0 and at most 1')


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

    samples: gone through twice to equalise, so that an iterator will not do.
    kept_in: a file that what was observed is written to now and then, at the end and on Ctrl-C. Where it
    exists the same call goes on from it; Error where it is of other weights, another plan, recipe or samples.
    """
    settings = settings or CalibrationSettings()

    def load(equalisation: 'Equalisation | None' = None) -> Programs:
        return Programs(
            checkpoint,
            recipe=settings.recipe,
            float_activations=True,
            equalisation=equalisation,
            backend=backend,
            packed=packed,
            embodiment_slot=embodiment_slot,
            **backend_options,
        )

    if settings.equalise is None:
        return calibrate_programs(load(), samples, settings, kept_in)
    _refuse_packed(packed)
    if iter(samples) is samples:
        raise Error('calibrate: equalising goes through the samples twice; give a list, not an iterator')
    equalisation = kept_equalisation(kept_in, settings.equalise)
    if equalisation is None:
        equalisation = equalise(_observed_of(load(), samples), settings.equalise)
    return calibrate_programs(load(equalisation), samples, settings, kept_in)


def calibrate_programs(
    programs: Programs,
    samples: Iterable[tuple[str, AnySample]],
    settings: CalibrationSettings,
    kept_in: Path | None = None,
) -> 'Calibration':
    """The same with programs that hold quantised activations in float, and are equalised as settings say."""
    return calibrate_observed(_observed_of(programs, samples), settings, kept_in)


def _observed_of(programs: Programs, samples: Iterable[tuple[str, AnySample]]) -> Iterator[Observed]:
    for name, sample in samples:
        for camera, image in enumerate(sample.images):
            _refuse_blank(name, f'camera {camera}', image)
        if not sample.noise.any():
            raise Error(f'calibrate: the noise of {name} is all zeros; the model starts from random numbers')
        yield name, cast(Engine, programs.get(ProgramKey.of(sample))), sample.inputs


def load_to_calibrate(
    checkpoint: CheckpointSettings,
    settings: CalibrationSettings | None = None,
    observations: Callable[[FlashPolicy], Iterable[tuple[str, Observation]]] | None = None,
    kept_in: Path | None = None,
) -> FlashPolicy:
    """The policy that `calibrate_policy` watches; a calibration of the checkpoint's settings is left aside.

    observations: needed to equalise: what a policy that is not equalised is to see in the first pass.
    """
    plain = replace(checkpoint, calibration=None)
    if settings is None or settings.equalise is None:
        return load_policy(plain, float_activations=True)
    _refuse_packed(checkpoint.packed)
    equalisation = kept_equalisation(kept_in, settings.equalise)
    if equalisation is None:
        if observations is None:
            raise Error('calibrate: equalising goes through the observations twice, and was given none')
        policy = load_policy(plain, float_activations=True)
        equalisation = equalise(_seen_by(policy, observations(policy)), settings.equalise)
        del policy  # before the same weights are loaded once more
    return load_policy(plain, float_activations=True, equalisation=equalisation)


def calibrate_policy(
    policy: FlashPolicy,
    observations: Iterable[tuple[str, Observation]],
    settings: CalibrationSettings,
    kept_in: Path | None = None,
) -> 'Calibration':
    """Scales from what a robot saw and felt; each observation gets noise of its own."""
    return calibrate_observed(_seen_by(policy, observations), settings, kept_in)


def _seen_by(policy: FlashPolicy, observations: Iterable[tuple[str, Observation]]) -> Iterator[Observed]:
    for name, observation in observations:
        for camera, image in observation.images.items():
            pixels = image.rgb() if isinstance(image, CameraFrame) else image
            _refuse_blank(name, f"camera '{camera}'", pixels)
        yield name, policy.engine, policy.model_input(observation).inputs


def _refuse_packed(packed: str | os.PathLike | None) -> None:
    if packed is not None:
        raise Error(
            f'calibrate: {packed} was packed without equalisation; equalise the checkpoint itself, or '
            'calibrate without equalise'
        )


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
            if settings.equalise is not None and engine.equalisation.strength != settings.equalise:
                raise Error(
                    f'calibrate: equalise is {settings.equalise}, the engine is equalised with '
                    f'{engine.equalisation.strength}'
                )
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
    """Scales from a file of observations, without a model; recipe and equalisation are those of the file."""
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
    if observations.equalisation.octaves:
        each += f', equalised with strength {observations.equalisation.strength}'
    return (
        f'{observations.samples} samples ({names}), {counts} steps, recipe {observations.recipe}, {how}{each}'
    )
