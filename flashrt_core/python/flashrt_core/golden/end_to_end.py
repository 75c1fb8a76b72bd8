# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Checks a folder of whole policies: raw observation to robot actions, through the policy that robots run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from flashrt_core.engine import native_core
from flashrt_core.golden import bounds
from flashrt_core.golden.files import data_files, file_in, find
from flashrt_core.golden.options import RunOptions
from flashrt_core.golden.report import Gap, Report
from flashrt_core.json_fields import Fields, read_object
from flashrt_core.pipeline import Unnormalise
from flashrt_core.platforms import OPENPI_SLOTS, ROBOTS
from flashrt_core.policy import FlashPolicy, load_policy
from flashrt_core.settings import Platform, PolicySettings
from flashrt_core.statistics import read_norm_stats
from flashrt_core.tensor_file import TensorFile
from flashrt_core.tokenizer import pad_tokens
from flashrt_core.types import ActionChunk, Observation

MOST_COLUMNS = 1 << 10  # of a state or actions
_IMAGE_PREFIX, _CASE_IMAGE = 'observation.', 'in.image.'


@dataclass(frozen=True, eq=False)
class _ModelInputs:
    """What the policy handed to its engine."""

    images: NDArray[np.uint8]
    tokens: NDArray[np.int32]
    noise: NDArray[np.float32]
    state: NDArray[np.float32] | None
    guidance: object


class _Recorder:
    """The native module, with engines that remember their inputs."""

    def __init__(self) -> None:
        self._core: Any = native_core()
        self.inputs: list[_ModelInputs] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)

    def Engine(self, *arguments: Any, **options: Any) -> '_RecordedEngine':  # noqa: N802 - as in the module
        return _RecordedEngine(self._core.Engine(*arguments, **options), self.inputs)


@dataclass(frozen=True, eq=False)
class _RecordedEngine:
    engine: Any
    inputs: list[_ModelInputs]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def infer(self, *inputs: Any) -> NDArray[np.float32]:
        self.inputs.append(_ModelInputs(*inputs))
        return self.engine.infer(*inputs)


def check_end_to_end(folder: Path, options: RunOptions, report: Report) -> None:
    """One policy per case of cases.json."""
    options.check_recipe('f32')
    cases = read_object(folder / 'cases.json')
    for name, case in cases.members().items():
        path = file_in(folder, f'{name}.safetensors', cases.place)
        if not path.is_file():
            report.gaps.append(Gap('cases.json', name, 'listed, but there is no such file'))
            continue
        file = TensorFile(path)
        _check_policy(name, case, folder, file, options, report)
        report.add_unused(name, file.unused())
    known = {f'{name}.safetensors' for name in cases} | {f'{name}.norm_stats.json' for name in cases}
    known.add('cases.json')
    for path in data_files(folder):
        if path.name not in known:
            report.gaps.append(Gap(path.name, 'all of it', 'cases.json does not list it'))


def _settings(
    case: Fields, statistics: Path, cameras: tuple[str, ...], folder: Path, options: RunOptions
) -> PolicySettings:
    platform = cast(Platform, case.choice('platform', ROBOTS))
    return PolicySettings(
        checkpoint=find(case, 'model', folder, options.model),
        tokenizer=find(case, 'tokenizer', folder, options.model),
        origin='openpi',
        platform=platform,
        cameras=cameras,
        resize='openpi',
        fit='letterbox',
        state_in_prompt=case.flag('discrete_state_input'),
        actions=ROBOTS[platform].actions[0],  # for the caller; the numbers do not depend on it
        statistics=statistics,
        normalisation='quantile' if case.flag('use_quantile_norm') else 'zscore',
        delta_mask=tuple(case.integers('delta_mask', -MOST_COLUMNS, MOST_COLUMNS))
        if case.has('delta_mask')
        else (),
        adapt_to_pi=case.flag('adapt_to_pi') if case.has('adapt_to_pi') else None,
        prompt_capacity=case.integer('max_token_len', 1),
        steps=case.integer('num_steps', 1),
        allow_degenerate_statistics=True,
        backend=options.backend,
        packed=options.packed,
        threads=options.backend_options.get('threads', 0),
        device=options.backend_options.get('device', 0),
        tuning=options.backend_options.get('tuning'),
    )


def _check_policy(
    name: str, case: Fields, folder: Path, file: TensorFile, options: RunOptions, report: Report
) -> None:
    images = {}
    for tensor in file.names():
        if tensor.startswith(_CASE_IMAGE):
            image = file.take(tensor, 3)
            channels_first = image.shape[0] == 3 and image.shape[-1] != 3
            camera = tensor.removeprefix(_CASE_IMAGE).removeprefix(_IMAGE_PREFIX)
            images[camera] = np.ascontiguousarray(image.transpose(1, 2, 0) if channels_first else image)
    statistics = folder / f'{name}.norm_stats.json'
    settings = _settings(case, statistics, tuple(images), folder, options)
    recorder = _Recorder()
    policy = load_policy(settings, recorder)
    observation = Observation(
        images=images, state=file.take('in.state', 1), prompt_id=policy.set_prompt(case.text('prompt'))
    )
    chunk = policy.infer(observation, noise=file.take('in.noise', 2))
    (inputs,) = recorder.inputs
    _compare_inputs(name, policy, inputs, observation.state, file, report)
    _compare_actions(name, policy, settings, chunk, file, report)


def _compare_inputs(
    name: str,
    policy: FlashPolicy,
    inputs: _ModelInputs,
    state: NDArray,
    file: TensorFile,
    report: Report,
) -> None:
    # An absent camera is black and masked in the reference; here the model does not get it.
    given = dict(zip((camera.slot for camera in policy.pipeline.cameras), inputs.images, strict=True))
    saved = np.stack([file.take(f'out.image.{slot}', 3) for slot in OPENPI_SLOTS])
    masks = np.concatenate([file.take(f'out.image_mask.{slot}', 1) for slot in OPENPI_SLOTS])
    present = np.array([slot in given for slot in OPENPI_SLOTS])
    images = np.stack([given.get(slot, np.zeros_like(saved[0])) for slot in OPENPI_SLOTS])
    report.compare(name, 'images', images, saved, valid=present)
    report.compare(name, 'image masks', present, masks)

    ids = file.take('out.token_ids', 1)
    tokens, mask = pad_tokens(inputs.tokens, len(ids))
    report.compare(name, 'token ids', tokens, ids)
    report.compare(name, 'token mask', mask, file.take('out.token_mask', 1))

    forms = policy.pipeline.state_forms(np.asarray(state, np.float64))
    report.compare(name, 'state decoded', forms.decoded, file.take('out.state_decoded', 1), bounds.NORMALISED)
    report.compare(
        name, 'state normalised', forms.normalised, file.take('out.state_normalised', 1), bounds.NORMALISED
    )
    saved_state = file.take('out.state_model', 1)
    if inputs.state is None:  # Pi0.5 reads the state in its prompt; the reference pads it all the same
        padded = np.zeros(len(saved_state))
        padded[: len(forms.normalised)] = forms.normalised
        report.compare(name, 'state padded, unused', padded, saved_state, bounds.NORMALISED)
    else:
        report.compare(name, 'state of the model', inputs.state, saved_state, bounds.NORMALISED)


def _compare_actions(
    name: str,
    policy: FlashPolicy,
    settings: PolicySettings,
    chunk: ActionChunk,
    file: TensorFile,
    report: Report,
) -> None:
    report.compare(
        name, 'model actions', chunk.model_actions, file.take('out.model_actions', 2), bounds.ACTIONS
    )
    statistics = read_norm_stats(Path(str(settings.statistics))).actions
    kind = str(settings.normalisation)

    first = policy.pipeline.after[0]
    assert isinstance(first, Unnormalise)
    saved = file.take('out.actions_unnormalised', 2)
    unnormalised = first.scaler.unnormalise(chunk.model_actions)
    bound = bounds.robot_units(statistics, kind, saved.shape[1])
    report.compare(name, 'actions unnormalised', unnormalised, saved, bound)

    saved = file.take('out.actions', 2)
    bound = bounds.robot_units(statistics, kind, saved.shape[1])
    report.compare(name, 'robot actions', chunk.actions, saved, bound)
