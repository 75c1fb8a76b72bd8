# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Observations that several recipes are tried on, and the engines that run them over the same weights."""

import hashlib
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from flashrt_core.bench import ACCURACY_SEED, CALIBRATION_SEED, BenchSettings, random_samples
from flashrt_core.errors import Error
from flashrt_core.policy import FlashPolicy, load_policy
from flashrt_core.programs import BackendOptions, ProgramKey, Programs
from flashrt_core.recordings import open_recording
from flashrt_core.samples import Sample, read_samples

if TYPE_CHECKING:
    from flashrt_core._core import Engine

DEFAULT_OBSERVATIONS = 16  # random ones, and of a recording


class Engines(Protocol):
    """One recipe, compiled for whatever the observations need."""

    def get(self, key: Any) -> 'Engine': ...

    def with_recipe(self, recipe: str, calibration: str | None) -> 'Engines':
        """Another recipe over the same weights; those that both hold in the same form may be shared."""
        ...


@dataclass(frozen=True, eq=False)
class Trial:
    """An observation, as engines take it."""

    name: str
    key: Hashable  # of the engine that takes it
    inputs: tuple  # as Engine.infer takes them
    noise: NDArray[np.float32]
    digest: str  # of the inputs; empty: not known
    to_robot: Callable[[NDArray[np.float32]], NDArray[np.float64]] | None = None  # [rows, joints], its units


@dataclass(frozen=True)
class Source:
    """Where model and observations come from: enough to come back to the same ones."""

    checkpoint: str | None = None  # a folder; None: params name it
    random_seed: int | None = None  # random weights; checkpoint may be a name then
    random_outliers: float = 1.0
    samples: str | None = None  # a file or folder of model inputs
    recording: str | None = None
    params: str | None = None  # the parameter file of the policy node that the recording is read with
    observations: int = 0  # that are judged; 0: all of the samples, or DEFAULT_OBSERVATIONS
    calibrate_on: int = 0  # others that are calibrated on; 0: half of the samples, or as many
    cameras: int = 2  # of random observations, as the three below
    horizon: int = 10
    steps: int = 10
    prompt_length: int = 10
    backend: str = 'cpu'
    embodiment_slot: int = -1
    backend_options: Mapping[str, Any] = field(default_factory=dict)  # of BackendOptions

    def content(self) -> dict[str, Any]:
        """For a result file."""
        return asdict(self)

    @classmethod
    def parse(cls, place: str, content: Mapping[str, Any]) -> 'Source':
        """Of a result file."""
        known = {one.name for one in fields(cls)}
        if unknown := sorted(set(content) - known):
            raise Error(f'{place}: source has unknown fields {", ".join(unknown)}')
        return cls(**content)


@dataclass(frozen=True, eq=False)
class Trials:
    """Observations of a source, and how engines for them are loaded."""

    judged: Sequence[Trial]
    to_calibrate: Sequence[Trial]  # never the same as those
    load: Callable[..., Engines]  # recipe, and of engines: calibration, float_activations
    model: str
    checkpoint: str
    joints: tuple[str, ...]  # of the robot, in the order of its actions; empty: not known


def open_trials(source: Source, calibrates: bool) -> Trials:
    """calibrates: some of the observations are set aside to calibrate on."""
    return _of_recording(source, calibrates) if source.params else _of_model(source, calibrates)


def _of_model(source: Source, calibrates: bool) -> Trials:
    assert source.checkpoint is not None

    def load(recipe: str, calibration: str | None = None, float_activations: bool = False) -> Programs:
        return Programs(
            source.checkpoint,
            recipe=recipe,
            calibration=calibration,
            float_activations=float_activations,
            backend=source.backend,
            random_seed=source.random_seed,
            random_outliers=source.random_outliers,
            embodiment_slot=source.embodiment_slot,
            **cast(BackendOptions, dict(source.backend_options)),
        )

    config = load('f32').config
    if source.samples is None:
        judged, to_calibrate = _random(source, config, calibrates)
    else:
        judged, to_calibrate = _split(
            source, list(read_samples(Path(source.samples), source.embodiment_slot)), calibrates
        )
    return Trials(
        judged=[_of_sample(*named) for named in judged],
        to_calibrate=[_of_sample(*named) for named in to_calibrate],
        load=load,
        model=config.model_type,
        checkpoint=source.checkpoint,
        joints=(),
    )


Named = list[tuple[str, Any]]


def _random(source: Source, config: Any, calibrates: bool) -> tuple[Named, Named]:
    settings = BenchSettings(
        cast(str, source.checkpoint),
        cameras=source.cameras,
        horizon=source.horizon,
        steps=source.steps,
        prompt_length=source.prompt_length,
        new_prompts=True,
    )
    judged = source.observations or DEFAULT_OBSERVATIONS
    counts = {ACCURACY_SEED: judged, CALIBRATION_SEED: (source.calibrate_on or judged) if calibrates else 0}

    def of(seed: int) -> Named:
        samples = random_samples(config, settings, seed, counts[seed]) if counts[seed] else []
        return [(f'random observation {seed}.{i}', sample) for i, sample in enumerate(samples)]

    return of(ACCURACY_SEED), of(CALIBRATION_SEED)


def _split(source: Source, named: Named, calibrates: bool) -> tuple[Named, Named]:
    """Those to calibrate on are spread over all of them; no observation is in both parts."""
    aside = (source.calibrate_on or len(named) // 2) if calibrates else 0
    if calibrates and not 0 < aside < len(named):
        raise Error(
            f'{len(named)} observations cannot be split into {aside or 1} to calibrate on and others that '
            'are judged; give more of them, or --calibration'
        )
    taken = {(2 * i + 1) * len(named) // (2 * aside) for i in range(aside)}
    judged = [one for i, one in enumerate(named) if i not in taken]
    count = source.observations or len(judged)
    if count > len(judged):
        raise Error(f'{count} observations are to be judged, {len(judged)} are left beside {aside}')
    return judged[:count], [one for i, one in enumerate(named) if i in taken]


def _of_sample(name: str, sample: Sample) -> Trial:
    digest = hashlib.sha256()
    for array in sample.inputs:
        if array is not None:
            digest.update(f'{array.shape}'.encode())
            digest.update(array.tobytes())
    return Trial(name, ProgramKey.of(sample), sample.inputs, sample.noise, digest.hexdigest())


@dataclass(frozen=True, eq=False)
class _OneEngine:
    """Engines of a policy, which has one."""

    engine: 'Engine'

    def get(self, key: Any) -> 'Engine':
        return self.engine

    def with_recipe(self, recipe: str, calibration: str | None) -> '_OneEngine':
        return _OneEngine(self.engine.with_recipe(recipe, calibration=calibration))


def _of_recording(source: Source, calibrates: bool) -> Trials:
    assert source.recording is not None
    assert source.params is not None
    count = source.observations or DEFAULT_OBSERVATIONS
    aside = (source.calibrate_on or count) if calibrates else 0
    with open_recording(Path(source.recording), Path(source.params), _warn) as recording:
        settings = replace(
            recording.settings, packed=None, backend=source.backend, **dict(source.backend_options)
        )

        def load(recipe: str, calibration: str | None = None, float_activations: bool = False) -> _OneEngine:
            changed = replace(settings, recipe=recipe, calibration=calibration)
            return _OneEngine(cast(Any, load_policy(changed, float_activations=float_activations)).engine)

        policy = load_policy(replace(settings, recipe='f32', calibration=None))
        trials = [
            _of_observation(policy, name, observation)
            for name, observation in recording.observations(policy, count + aside)
        ]
        joints = tuple(recording.joints)
    split = replace(source, observations=0, calibrate_on=min(aside, len(trials) // 2))
    judged, to_calibrate = _split(split, [(trial.name, trial) for trial in trials], calibrates)
    return Trials(
        judged=[trial for _, trial in judged],
        to_calibrate=[trial for _, trial in to_calibrate],
        load=load,
        model=policy.info()['model'],
        checkpoint=str(settings.checkpoint),
        joints=joints,
    )


def _of_observation(policy: FlashPolicy, name: str, observation: Any) -> Trial:
    given = policy.model_input(observation)
    return Trial(
        name=name,
        key=None,
        inputs=given.inputs,
        noise=given.noise,
        digest='',
        to_robot=lambda actions: policy.pipeline.robot_actions(actions, given.state),
    )


def _warn(text: str) -> None:
    print(f'warning: {text}', file=sys.stderr)
