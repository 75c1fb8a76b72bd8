# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Samples to a calibration: runs the model with quantised activations held in float, watches their range."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from flashrt_core.engine import native_core
from flashrt_core.errors import Error
from flashrt_core.programs import ProgramKey, Programs
from flashrt_core.samples import Sample

if TYPE_CHECKING:
    from flashrt_core._core import Calibration

Estimator = Literal['min_max', 'percentile']


@dataclass(frozen=True)
class CalibrationSettings:
    """How scales follow from what was observed."""

    recipe: str = 'fp8'
    estimator: Estimator = 'min_max'
    fraction: float = 0.9999  # of the values inside the range, for the percentile
    per_step: bool = False  # one scale per denoise step instead of one for all
    backend: str = 'cpu'
    threads: int = 0

    def __post_init__(self) -> None:
        if self.estimator not in get_args(Estimator):
            raise Error(
                f"calibrate: estimator is '{self.estimator}', known are {', '.join(get_args(Estimator))}"
            )
        if not 0 < self.fraction <= 1:
            raise Error(f'calibrate: fraction is {self.fraction}, needed above 0 and at most 1')


def calibrate(
    checkpoint: str | os.PathLike,
    samples: Iterable[tuple[str, Sample]],
    settings: CalibrationSettings | None = None,
) -> 'Calibration':
    """Scales of all quantised activations; samples should look like what the robot will see."""
    settings = settings or CalibrationSettings()
    programs = Programs(
        checkpoint,
        recipe=settings.recipe,
        float_activations=True,
        backend=settings.backend,
        threads=settings.threads,
    )
    return calibrate_programs(programs, samples, settings)


def calibrate_programs(
    programs: Programs, samples: Iterable[tuple[str, Sample]], settings: CalibrationSettings
) -> 'Calibration':
    """The same with programs that hold quantised activations in float."""
    calibration = cast(Any, native_core()).Calibration()
    used: list[str] = []
    steps: set[int] = set()
    for name, sample in samples:
        if settings.per_step and steps - {sample.steps}:
            raise Error(
                f'calibrate: {name} has {sample.steps} denoise steps, the samples before it {min(steps)}; '
                'one scale per step needs the same number everywhere'
            )
        _refuse_blank(name, sample)
        steps.add(sample.steps)
        programs.get(ProgramKey.of(sample)).observe(calibration, *sample.inputs)
        used.append(name)
    if not used:
        raise Error('calibrate: no sample was given')
    calibration.finish(settings.estimator, settings.fraction, settings.per_step)
    calibration.origin = _origin(used, steps, settings)
    return calibration


def _refuse_blank(name: str, sample: Sample) -> None:
    """Scales measured on nothing cut off what a robot sees: an input that is all one value is a fault."""
    for camera, image in enumerate(sample.images):
        if image.min() == image.max():
            raise Error(
                f'calibrate: {name} shows nothing: every pixel of camera {camera} is {image.min()}; '
                'calibrate on what the robot sees'
            )
    if not sample.noise.any():
        raise Error(f'calibrate: the noise of {name} is all zeros; the model starts from random numbers')


def _origin(used: list[str], steps: set[int], settings: CalibrationSettings) -> str:
    """What the scales were measured on, for people."""
    names = ', '.join(used[:3]) + (', ...' if len(used) > 3 else '')
    counts = ' or '.join(map(str, sorted(steps)))
    how = settings.estimator if settings.estimator == 'min_max' else f'percentile {settings.fraction}'
    each = ', per step' if settings.per_step else ''
    return f'{len(used)} samples ({names}), {counts} steps, recipe {settings.recipe}, {how}{each}'
