# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Puts together the pipeline of a lerobot checkpoint from its config.json and processor files."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_safetensors

from flashrt_core.engine import ModelConfig
from flashrt_core.errors import Error
from flashrt_core.normalise import LEROBOT_EPS, Scaler, check_widths, make_scaler
from flashrt_core.pipeline import (
    ActionTransform,
    AddState,
    KeepColumns,
    PiPipeline,
    Reanchor,
    Unnormalise,
    column_names,
    order_cameras,
)
from flashrt_core.prompt import LerobotPlainPrompt, StatePrompt
from flashrt_core.relative import RelativeActions, mask_by_name
from flashrt_core.settings import GuidanceSettings, Normalisation, PolicySettings
from flashrt_core.small_file import read_small_file
from flashrt_core.statistics import Statistics

T = TypeVar('T')

_CAMERA_PREFIX = 'observation.images.'
_STATE, _ACTION = 'observation.state', 'action'

_MODES: Mapping[str, Normalisation] = {
    'IDENTITY': 'identity',
    'MEAN_STD': 'zscore',
    'MIN_MAX': 'min_max',
    'QUANTILES': 'quantile',
    'QUANTILE10': 'quantile10',
}

# Steps whose effect is reproduced here, in the order in which it is. Any other step or order could change
# what the model sees, so it is refused; each step may be absent.
_RELATIVE_STEPS = ('relative_actions_processor', 'delta_actions_processor')  # two names of one step
_STEPS_BEFORE: Mapping[str, tuple[str, ...]] = {
    'pi05': (
        'rename_observations_processor',
        'to_batch_processor',
        *_RELATIVE_STEPS,
        'normalizer_processor',
        'pi05_prepare_state_tokenizer_processor_step',
        'tokenizer_processor',
        'device_processor',
    ),
    'pi0': (
        'rename_observations_processor',
        'to_batch_processor',
        'pi0_new_line_processor',
        'tokenizer_processor',
        'device_processor',
        *_RELATIVE_STEPS,
        'normalizer_processor',
    ),
}
_STEPS_AFTER = ('unnormalizer_processor', 'absolute_actions_processor', 'device_processor')


@dataclass(frozen=True)
class _Step:
    config: Mapping[str, Any]
    state_file: str  # beside the processor file; empty: none


def _field(path: Path, fields: Mapping[str, Any], name: str, kind: Any, default: T) -> T:
    """The member of a JSON object if it is of this type; the default where it is missing or null."""
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise Error(f'{path}: {name} is {value!r}, needed {getattr(kind, "__name__", kind)}')
    return value


def _texts(path: Path, fields: Mapping[str, Any], name: str) -> tuple[str, ...]:
    values = _field(path, fields, name, list, [])
    if not all(isinstance(value, str) for value in values):
        raise Error(f'{path}: {name} is {values!r}, needed texts')
    return tuple(values)


def _features(path: Path, document: Mapping[str, Any], name: str) -> Mapping[str, Mapping[str, Any]]:
    features = _field(path, document, name, dict, {})
    return {key: _field(path, features, key, dict, {}) for key in features}


@dataclass(frozen=True)
class _Processor:
    """One processor file: its steps by registry name."""

    path: Path
    sha256: str
    steps: Mapping[str, _Step]

    @classmethod
    def read(cls, folder: Path, name: str, order: Sequence[str]) -> '_Processor':
        """order: the steps that the file may have."""
        path = folder / name
        document, sha256 = _read_json(path)
        steps: dict[str, _Step] = {}
        try:
            for step in document['steps']:
                registered = step.get('registry_name')
                if registered not in order:
                    raise Error(
                        f"{path}: step '{registered or step.get('class')}' is not known; known are "
                        f'{sorted(order)}'
                    )
                if registered in steps:
                    raise Error(f"{path}: step '{registered}' occurs twice; it can be applied once only")
                later = [other for other in steps if order.index(other) > order.index(registered)]
                if later and not {registered, *later} <= set(_RELATIVE_STEPS):
                    raise Error(
                        f"{path}: step '{registered}' comes after '{later[0]}'; only this order is "
                        f'supported: {", ".join(order)}'
                    )
                steps[registered] = _Step(
                    _field(path, step, 'config', dict, {}), _field(path, step, 'state_file', str, '')
                )
        except (KeyError, TypeError, AttributeError) as fault:
            raise Error(f'{path}: no list of processor steps ({type(fault).__name__}: {fault})') from fault
        return cls(path, sha256, steps)

    def config(self, name: str) -> Mapping[str, Any]:
        return self.steps[name].config if name in self.steps else {}


@dataclass(frozen=True, eq=False)
class _Normalisation:
    scaler: Scaler
    kind: Normalisation
    warnings: list[str]


def lerobot_pipeline(settings: PolicySettings, config: ModelConfig) -> PiPipeline:
    """Order of lerobot: rename, normalise, write the prompt; back: slice, un-normalise, add state."""
    _check_settings(settings, config)
    checkpoint = Path(settings.checkpoint)
    folder = checkpoint if settings.statistics is None else Path(settings.statistics)
    path = checkpoint / 'config.json'
    document, _ = _read_json(path)
    before = _Processor.read(folder, 'policy_preprocessor.json', _STEPS_BEFORE[config.model_type])
    after = _Processor.read(folder, 'policy_postprocessor.json', _STEPS_AFTER)
    inputs, outputs = (_features(path, document, name) for name in ('input_features', 'output_features'))
    state_dim = _width(settings, 'state_dim', path, inputs.get(_STATE, {}))
    action_dim = _width(settings, 'action_dim', path, outputs.get(_ACTION, {}))

    state = _normalisation(
        settings, before, 'normalizer_processor', _STATE, column_names(settings, state_dim)
    )
    action_names = _action_names(before, path, document, action_dim)
    actions = _normalisation(settings, after, 'unnormalizer_processor', _ACTION, action_names)

    unnormalise = Unnormalise(actions.scaler)
    transforms: list[ActionTransform] = [KeepColumns(action_dim), unnormalise]
    reanchor = None
    mask = _relative_mask(before, after, action_dim)
    if any(mask):
        if len(mask) > state_dim:
            raise Error(f'{before.path}: {len(mask)} relative actions, but the state has {state_dim} columns')
        add_state = AddState(RelativeActions(mask), scaler=None)
        transforms.append(add_state)
        reanchor = Reanchor(unnormalise, add_state)

    slots = tuple(
        key.removeprefix(_CAMERA_PREFIX)
        for key, feature in inputs.items()
        if feature.get('type') == 'VISUAL' and not key.startswith(f'{_CAMERA_PREFIX}empty_camera_')
    )
    renamed = _field(
        before.path, before.config('rename_observations_processor'), 'rename_map', dict, dict[str, str]()
    )
    aliases = {
        old.removeprefix(_CAMERA_PREFIX): _field(before.path, renamed, old, str, '').removeprefix(
            _CAMERA_PREFIX
        )
        for old in renamed
    }
    plain = config.model_type == 'pi0'
    return PiPipeline(
        cameras=order_cameras(settings, slots, aliases, config.image_size),
        before=(),
        state_scaler=state.scaler,
        state_kind=state.kind,
        prompt=LerobotPlainPrompt() if plain else StatePrompt(width=settings.state_text_width),
        action_kind=actions.kind,
        after=tuple(transforms),
        state_dim=state_dim,
        action_dim=action_dim,
        model_state_dim=config.state_dim,
        sources={
            'statistics': f'{before.path}, {after.path}',
            'statistics_sha256': f'{before.sha256}, {after.sha256}',
            'normalisation': f'state: {state.kind}, actions: {actions.kind}',
        },
        warnings=(*state.warnings, *actions.warnings),
        guidance=settings.guidance or _guidance(document),
        max_hard_delay=_field(path, document, 'rtc_training_max_delay', int, 0),
        reanchor=reanchor,
    )


def _check_settings(settings: PolicySettings, config: ModelConfig) -> None:
    """Refuses settings that would contradict what the checkpoint's files say."""
    if settings.platform != 'none':
        raise Error(f"policy settings: platform is '{settings.platform}'; lerobot checkpoints have none")
    for name in ('delta_mask', 'adapt_to_pi', 'asset_id'):
        if getattr(settings, name) is not None:
            raise Error(f"policy settings: '{name}' is an openpi setting; lerobot's files say it themselves")
    if settings.state_in_prompt != (config.model_type == 'pi05'):
        raise Error(
            f'policy settings: state_in_prompt is {settings.state_in_prompt}, but a {config.model_type} '
            f'model of lerobot {"always" if config.model_type == "pi05" else "never"} has it there'
        )


def _read_json(path: Path) -> tuple[dict[str, Any], str]:
    if not path.is_file():
        raise Error(f'lerobot checkpoint: {path} does not exist; no other place is searched')
    data = read_small_file(path)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as fault:
        raise Error(f'{path}: no JSON: {fault}') from fault
    if not isinstance(document, dict):
        raise Error(f'{path}: holds a {type(document).__name__}, needed an object')
    for name in ('use_visual_memory', 'use_proprioceptive_memory'):
        if document.get(name):
            raise Error(f"{path}: '{name}' is not supported")
    return document, hashlib.sha256(data).hexdigest()


def _width(settings: PolicySettings, name: str, path: Path, feature: Mapping[str, Any]) -> int:
    given = getattr(settings, name)
    shape = _field(path, feature, 'shape', list, [])
    if not shape:
        if not given:
            raise Error(f"policy settings: '{name}' is needed; {path} has no shape for it")
        return given
    if len(shape) != 1 or type(shape[0]) is not int or shape[0] < 1:
        raise Error(f'{path}: the shape that tells {name} is {shape!r}, needed one whole number >= 1')
    if given not in (0, shape[0]):
        raise Error(f'policy settings: {name} is {given}, {path} says {shape[0]}')
    return shape[0]


def _normalisation(
    settings: PolicySettings, processor: _Processor, step_name: str, feature: str, names: tuple[str, ...]
) -> _Normalisation:
    if step_name not in processor.steps:
        raise Error(f"{processor.path}: step '{step_name}' is missing")
    step = processor.steps[step_name]
    modes = _field(processor.path, step.config, 'norm_map', dict, {})
    if modes.get('VISUAL', 'IDENTITY') != 'IDENTITY':
        raise Error(
            f"{processor.path}: pictures are normalised by '{modes['VISUAL']}'; only IDENTITY is supported"
        )
    mode = modes.get('STATE' if feature == _STATE else 'ACTION', 'IDENTITY')
    if not isinstance(mode, str) or mode not in _MODES:
        raise Error(
            f"{processor.path}: normalisation '{mode}' of {feature} is not known; known: {list(_MODES)}"
        )
    kind = _MODES[mode]
    statistics = _statistics(processor, step, feature)
    if kind != 'identity' and not statistics.values:
        # lerobot would use such values as they are; a robot must not find that out by moving.
        if settings.normalisation != 'identity':
            raise Error(
                f'{processor.path}: {mode} needs statistics of {feature}, but the file has none; give '
                "'statistics' (a folder with processor files), or normalisation 'identity' if the model was "
                'trained without'
            )
        kind = 'identity'
    if settings.normalisation not in (None, kind):
        raise Error(
            f"policy settings: normalisation is '{settings.normalisation}', {processor.path} says '{kind}' "
            f'for {feature}'
        )
    warnings = check_widths(
        kind, statistics, names, settings.min_statistics_width, settings.allow_degenerate_statistics
    )
    eps = float(_field(processor.path, step.config, 'eps', int | float, LEROBOT_EPS))
    if not 0 < eps < np.inf:
        raise Error(f'{processor.path}: eps is {eps}, needed a number > 0')
    return _Normalisation(make_scaler('lerobot', kind, statistics, eps), kind, warnings)


def _statistics(processor: _Processor, step: _Step, feature: str) -> Statistics:
    if not step.state_file:
        return Statistics(feature, {})
    path = processor.path.parent / step.state_file
    if Path(step.state_file).name != step.state_file or not path.is_file():
        raise Error(f"{processor.path}: state_file '{step.state_file}' is no file beside it")
    try:
        tensors = load_safetensors(read_small_file(path))
    except (SafetensorError, ValueError) as fault:
        raise Error(f'{path}: no safetensors file: {fault}') from fault
    values = {
        kind: tensor.reshape(-1)
        for name, tensor in tensors.items()
        for prefix, _, kind in [name.rpartition('.')]
        if prefix == feature
    }
    return Statistics(feature, values)


def _relative_step(processor: _Processor) -> Mapping[str, Any]:
    found = [name for name in _RELATIVE_STEPS if name in processor.steps]
    if len(found) > 1:
        raise Error(f'{processor.path}: {" and ".join(found)} both make actions relative; keep one')
    return processor.config(found[0]) if found else {}


def _relative_mask(before: _Processor, after: _Processor, action_dim: int) -> tuple[bool, ...]:
    step = _relative_step(before)
    enabled = bool(step.get('enabled'))
    undone = bool(after.config('absolute_actions_processor').get('enabled'))
    if enabled != undone:
        raise Error(
            f'{before.path} {"makes" if enabled else "does not make"} actions relative, {after.path} '
            f'{"undoes" if undone else "does not undo"} it; the two files do not belong together'
        )
    if not enabled:
        return ()
    names, excluded = (_texts(before.path, step, name) for name in ('action_names', 'exclude_joints'))
    return mask_by_name(action_dim, names, excluded)


def _action_names(
    before: _Processor, path: Path, document: Mapping[str, Any], action_dim: int
) -> tuple[str, ...]:
    """For messages."""
    names = _texts(before.path, _relative_step(before), 'action_names')
    names = names or _texts(path, document, 'action_feature_names')
    return names if len(names) == action_dim else tuple(f'action[{i}]' for i in range(action_dim))


def _guidance(document: Mapping[str, Any]) -> GuidanceSettings | None:
    stored = document.get('rtc_config')
    if not stored:
        return None
    try:
        return GuidanceSettings(
            schedule=stored['prefix_attention_schedule'].lower(),
            execution_horizon=stored['execution_horizon'],
            max_weight=stored['max_guidance_weight'],
        )
    except (KeyError, AttributeError, TypeError) as fault:
        raise Error(f'config.json: rtc_config is not complete ({type(fault).__name__}: {fault})') from fault
