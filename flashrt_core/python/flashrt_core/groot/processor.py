# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""processor_config.json: how a GR00T N1.6 checkpoint was trained to see its robots.

What the file asks for and this version does not do is refused by name; nothing is taken for something else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from flashrt_core.errors import Error
from flashrt_core.groot.poses import POSE_COLUMNS, PoseFormat
from flashrt_core.json_fields import Fields, read_object

PROCESSOR_FILE = 'processor_config.json'
_PROCESSOR_CLASS = 'Gr00tN1d6Processor'
_MOST_COLUMNS, _MOST_ROWS, _MOST_PIXELS = 1 << 12, 1 << 12, 1 << 13
_REPRESENTATIONS, _TYPES = ('RELATIVE', 'ABSOLUTE', 'DELTA'), ('EEF', 'NON_EEF')
_FORMATS = ('DEFAULT', *POSE_COLUMNS)


@dataclass(frozen=True)
class ActionConfig:
    """What the numbers of an action key mean."""

    is_relative: bool
    is_end_effector: bool
    pose_format: PoseFormat | None  # of relative poses of an end effector; None: columns add up one by one
    state_key: str  # that a relative action counts from


@dataclass(frozen=True)
class Modality:
    """The keys of one kind of data, in the order of the model, and the time steps they are taken from."""

    keys: tuple[str, ...]
    delta_indices: tuple[int, ...]  # in steps of the training data, 0 is now
    sin_cos_keys: frozenset[str]
    mean_std_keys: frozenset[str]

    @property
    def past(self) -> tuple[int, ...]:
        """How many steps ago, oldest first, beside now."""
        return tuple(-delta for delta in self.delta_indices[:-1])


@dataclass(frozen=True)
class Modalities:
    """What one embodiment sees, feels and does."""

    video: Modality
    state: Modality
    action: Modality
    action_configs: Mapping[str, ActionConfig]


@dataclass(frozen=True)
class Processor:
    """The settings that all embodiments of a checkpoint share."""

    path: Path
    tags: tuple[str, ...]  # embodiments it describes
    shortest_side: int  # pixels
    crop_fraction: float
    formalizes_language: bool
    uses_percentiles: bool
    encodes_angles: bool  # apply_sincos_state_encoding
    state_dim: int  # columns of the model, padding included
    action_dim: int
    horizon: int  # rows of the model
    _configs: Fields

    def modalities(self, tag: str) -> Modalities:
        config = self._configs.child(tag)
        video, state, action = (_modality(config.child(name)) for name in ('video', 'state', 'action'))
        language = _modality(config.child('language'))
        _check_times(self.path, tag, video, state, action, language)
        configs = _action_configs(config.child('action'), action)
        return Modalities(video, state, action, configs)


def read_processor(path: Path) -> Processor:
    document = read_object(path)
    if document.text('processor_class') != _PROCESSOR_CLASS:
        raise Error(
            f"{path}: processor_class is '{document.text('processor_class')}', this version runs "
            f"'{_PROCESSOR_CLASS}'"
        )
    given = document.child('processor_kwargs')
    for name in ('use_albumentations', 'clip_outliers', 'use_relative_action'):
        if not given.flag(name):
            raise Error(f'{path}: {name} is false; only true is implemented')
    shortest_side, crop_fraction = _picture_sizes(given)
    if not 0 < crop_fraction <= 1:
        raise Error(f'{path}: the crop keeps {crop_fraction} of a picture, needed above 0 and at most 1')
    configs = given.child('modality_configs')
    return Processor(
        path=path,
        tags=tuple(sorted(configs)),
        shortest_side=shortest_side,
        crop_fraction=crop_fraction,
        formalizes_language=given.flag('formalize_language'),
        uses_percentiles=given.flag('use_percentiles'),
        encodes_angles=given.flag('apply_sincos_state_encoding'),
        state_dim=given.integer('max_state_dim', 1, _MOST_COLUMNS),
        action_dim=given.integer('max_action_dim', 1, _MOST_COLUMNS),
        horizon=given.integer('max_action_horizon', 1, _MOST_ROWS),
        _configs=configs,
    )


def _picture_sizes(given: Fields) -> tuple[int, float]:
    """Shortest side in pixels and the part that the crop keeps; older files say both in pixels."""
    if given.has('shortest_image_edge') and given.has('crop_fraction'):
        return given.integer('shortest_image_edge', 1, _MOST_PIXELS), given.number('crop_fraction')
    crop, target = (_side(given, name) for name in ('image_crop_size', 'image_target_size'))
    return target, crop / target


def _side(given: Fields, name: str) -> int:
    sides = given.integers(name, 1, _MOST_PIXELS)
    if len(sides) != 2 or sides[0] != sides[1]:
        raise Error(f'{given.place}: {name} is {sides}, needed two equal sides')
    return sides[0]


def _modality(fields: Fields) -> Modality:
    keys = tuple(fields.texts('modality_keys'))
    if not keys or len(set(keys)) != len(keys):
        raise Error(f'{fields.place}: modality_keys {list(keys)} must hold at least one key and none twice')
    kinds = [
        frozenset(fields.texts(name) if fields.has(name) else ())
        for name in ('sin_cos_embedding_keys', 'mean_std_embedding_keys')
    ]
    for kind in kinds:
        if unknown := sorted(kind - set(keys)):
            raise Error(f'{fields.place}: {unknown} are to be encoded, the keys are {list(keys)}')
    deltas = fields.integers('delta_indices', -_MOST_ROWS, _MOST_ROWS)
    return Modality(keys, tuple(deltas), *kinds)


def _check_times(
    path: Path, tag: str, video: Modality, state: Modality, action: Modality, language: Modality
) -> None:
    def refuse(name: str, modality: Modality, needed: str) -> None:
        raise Error(
            f"{path}: embodiment '{tag}': {name}.delta_indices is {list(modality.delta_indices)}; only "
            f'{needed} is implemented'
        )

    for name, modality in (('video', video), ('state', state)):
        deltas = modality.delta_indices
        if not deltas or deltas[-1] != 0 or list(deltas) != sorted(set(deltas)):
            refuse(name, modality, 'increasing steps that end with 0')
    if not action.delta_indices or action.delta_indices != tuple(range(len(action.delta_indices))):
        refuse('action', action, '0, 1, 2, ...')
    if language.delta_indices != (0,) or len(language.keys) != 1:
        refuse('language', language, '[0] with one key')


def _action_configs(fields: Fields, action: Modality) -> Mapping[str, ActionConfig]:
    place = fields.place
    if not fields.has('action_configs'):
        raise Error(f'{place}: action_configs is null; only one per key is implemented')
    if action.sin_cos_keys:
        raise Error(f'{place}: sin_cos_embedding_keys of actions are not implemented')
    given = fields.objects('action_configs')
    if len(given) != len(action.keys):
        raise Error(f'{place}: {len(given)} action_configs for the keys {list(action.keys)}')
    return {key: _action_config(key, config, action) for key, config in zip(action.keys, given, strict=True)}


def _action_config(key: str, config: Fields, action: Modality) -> ActionConfig:
    representation = config.choice('rep', _REPRESENTATIONS)
    kind, pose_format = config.choice('type', _TYPES), config.choice('format', _FORMATS)
    state_key = config.text('state_key') if config.has('state_key') else key

    def refuse(what: str) -> None:
        raise Error(f"{config.place}: action key '{key}': {what} is not implemented")

    if representation == 'DELTA':
        refuse('rep DELTA')
    is_relative = representation == 'RELATIVE'
    if is_relative and key in action.mean_std_keys:
        refuse('a RELATIVE key in mean_std_embedding_keys')
    is_pose = is_relative and kind == 'EEF'
    if is_pose and pose_format == 'DEFAULT':
        refuse('a RELATIVE pose of type EEF in format DEFAULT')
    composed = cast(PoseFormat, pose_format) if is_pose else None
    return ActionConfig(is_relative, kind == 'EEF', composed, state_key)
