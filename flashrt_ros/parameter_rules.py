# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Values of parameters that are fine alone and wrong together."""

import itertools
from collections.abc import Iterator, Mapping

_MAX_FRAME_SIDE = 4096  # as in flashrt_core/base/frame_descriptor.hpp
_LIMITS = ('lower', 'upper', 'max_velocity')


def contradictions(fields: Mapping[str, object]) -> Iterator[str]:
    """Values that are fine alone and wrong together; a rule is skipped where one of its values is faulty."""
    for names, rule in _RULES:
        if all(name in fields for name in names):
            yield from rule(*(fields[name] for name in names))


def _one_source_of_statistics(statistics: str, asset_id: str, origin: str) -> Iterator[str]:
    if statistics and asset_id:
        yield f"model.statistics '{statistics}' and model.asset_id '{asset_id}' exclude each other; give one"
    if not statistics and not asset_id and origin == 'openpi':
        yield 'model.statistics or model.asset_id is missing: one of them must name the statistics'


def _fp8_is_calibrated(recipe: str, calibration: str) -> Iterator[str]:
    if recipe in ('fp8', 'fp8_f16', 'fp8_mixed') and not calibration:
        yield (
            f'model.calibration is missing: recipe {recipe} needs the scales of the activations; name the '
            'file that `flashrt calibrate RECORDING --params THIS_FILE` is to write'
        )


def _aloha_says_adapt_to_pi(platform: str, adapt_to_pi: bool | None) -> Iterator[str]:
    if platform == 'aloha' and adapt_to_pi is None:
        yield 'model.adapt_to_pi is missing: platform aloha needs true or false'


def _openpi_says(origin: str, normalisation: str, delta_mask: tuple | None) -> Iterator[str]:
    if origin == 'openpi' and not normalisation:
        yield 'model.normalisation is missing: openpi checkpoints do not say it (pi05 quantile, pi0 zscore)'
    if origin == 'openpi' and delta_mask is None:
        yield 'actions.delta_mask is missing: an openpi checkpoint does not say which actions are relative'


def _not_empty(key_name: str):
    def rule(names: tuple[str, ...]) -> Iterator[str]:
        if not names:
            yield f'{key_name} is empty'

    return rule


def _names_once(key_name: str):
    def rule(names: tuple[str, ...]) -> Iterator[str]:
        yield from _not_empty(key_name)(names)
        for name in dict.fromkeys(names):
            if names.count(name) > 1:
                yield f"{key_name} names '{name}' {names.count(name)} times"

    return rule


def _action_names_once(action_joints: tuple[str, ...]) -> Iterator[str]:
    if action_joints:
        yield from _names_once('actions.joints')(action_joints)


def _source_of_limits(source: str, *columns: tuple[float, ...]) -> Iterator[str]:
    for key_name, values in zip(_LIMITS, columns, strict=True):
        if source == 'robot_description' and values:
            yield f'joints.{key_name} and joints.limits: robot_description exclude each other; give one'
        if source == 'parameters' and not values:
            yield f'joints.{key_name} is missing: one value per joint, or joints.limits: robot_description'


def _commanded(joints: tuple[str, ...], action_joints: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The commanded joints, and the parameter that names them."""
    return ('actions.joints', action_joints) if action_joints else ('joints.names', joints)


def _limits(
    joints: tuple[str, ...], action_joints: tuple[str, ...], *columns: tuple[float, ...]
) -> Iterator[str]:
    source, names = _commanded(joints, action_joints)
    for key_name, values in zip(_LIMITS, columns, strict=True):
        if values and len(values) != len(names):
            yield f'joints.{key_name} has {len(values)} values, {source} has {len(names)}'
    for name, low, high in zip(names, *columns[:2], strict=False):
        if not low < high:
            yield f'joints.lower is {low} and joints.upper is {high} for {name}: lower must be below upper'


def _one_gap_or_one_per_joint(
    joints: tuple[str, ...], action_joints: tuple[str, ...], gaps: tuple[float, ...]
) -> Iterator[str]:
    _, names = _commanded(joints, action_joints)
    if len(gaps) not in (1, len(names)):
        yield (
            f'safety.max_first_gap has {len(gaps)} values, wanted 1 for all joints or {len(names)}, one per '
            'joint'
        )


def _reaction_fits(representation: str, reaction: str) -> Iterator[str]:
    if representation == 'joint_velocity' and reaction == 'hold':
        yield (
            'safety.reaction is hold, but a velocity that is held moves the arm on '
            '(actions.representation joint_velocity); set zero_velocity or stop_publishing'
        )
    if representation == 'joint_position' and reaction == 'zero_velocity':
        yield (
            'safety.reaction is zero_velocity, but positions are commanded '
            '(actions.representation joint_position); set hold or stop_publishing'
        )


def _guidance_is_whole(schedule: str, execution_horizon: int, max_weight: float) -> Iterator[str]:
    given = (bool(schedule), execution_horizon > 0, max_weight > 0)
    if any(given) and not all(given):
        yield (
            f"chunk.rtc_schedule '{schedule}', chunk.rtc_execution_horizon {execution_horizon} and "
            f'chunk.rtc_max_weight {max_weight} belong together; give all three or none'
        )


def _grippers(
    joints: tuple[str, ...],
    action_joints: tuple[str, ...],
    names: tuple[str, ...],
    ones: tuple[str, ...],
    opens: tuple,
    closeds: tuple,
) -> Iterator[str]:
    for name in names:
        if name not in joints and name not in action_joints:
            or_those = ' or actions.joints' if action_joints else ''
            yield f"grippers.names: '{name}' is not in joints.names{or_those}"
    for key_name, values in (('model_one', ones), ('open', opens), ('closed', closeds)):
        if len(values) != len(names):
            yield f'grippers.{key_name} has {len(values)} values, grippers.names has {len(names)}'
    for name, opened, closed in zip(names, opens, closeds, strict=False):
        if opened == closed:
            yield f'grippers.open and grippers.closed are both {opened} for {name}'


def _delta_mask(mask: tuple[int, ...] | None, joints: tuple[str, ...]) -> Iterator[str]:
    if mask is None:
        return
    columns = sum(abs(count) for count in mask)
    if columns != len(joints):
        yield f'actions.delta_mask {list(mask)} covers {columns} columns, joints.names has {len(joints)}'


def _sides_that_an_engine_resizes(max_image_bytes: int, max_side: int) -> Iterator[str]:
    if max_image_bytes and max_side > _MAX_FRAME_SIDE:
        yield (
            f'cameras.max_side_px is {max_side}, but with cameras.max_image_bytes the engine resizes '
            f'pictures, whose sides may have {_MAX_FRAME_SIDE} pixels'
        )


def _chunks_can_be_continued(model: str, mode: str) -> Iterator[str]:
    if model.startswith('groot') and mode == 'rtc':
        yield (
            f'chunk.mode is rtc, but {model} was not trained to continue a chunk, and cannot be guided yet; '
            'set skip, blend or fusion'
        )


_RULES = (
    (('statistics', 'asset_id', 'origin'), _one_source_of_statistics),
    (('recipe', 'calibration'), _fp8_is_calibrated),
    (('platform', 'adapt_to_pi'), _aloha_says_adapt_to_pi),
    (('origin', 'normalisation', 'delta_mask'), _openpi_says),
    (('camera_names',), _names_once('cameras.names')),
    (('camera_max_image_bytes', 'camera_max_side_px'), _sides_that_an_engine_resizes),
    (('joint_names',), _names_once('joints.names')),
    (('action_joints',), _action_names_once),
    (('joint_topics',), _not_empty('joints.topics')),
    (('output_names',), _names_once('outputs.names')),
    (('joint_limits', 'joint_lower', 'joint_upper', 'joint_max_velocity'), _source_of_limits),
    (('joint_names', 'action_joints', 'joint_lower', 'joint_upper', 'joint_max_velocity'), _limits),
    (('joint_names', 'action_joints', 'max_first_gap'), _one_gap_or_one_per_joint),
    (('representation', 'reaction'), _reaction_fits),
    (('chunk_rtc_schedule', 'chunk_rtc_execution_horizon', 'chunk_rtc_max_weight'), _guidance_is_whole),
    (
        (
            'joint_names',
            'action_joints',
            'gripper_names',
            'gripper_model_one',
            'gripper_open',
            'gripper_closed',
        ),
        _grippers,
    ),
    (('delta_mask', 'joint_names'), _delta_mask),
    (('model_config', 'chunk_mode'), _chunks_can_be_continued),
)


def camera_contradictions(
    fields: Mapping[str, object], cameras: Mapping[str, Mapping[str, object]]
) -> Iterator[str]:
    """Without a letterbox the model is compiled for the shape of each camera; with one any is taken."""
    if 'letterbox' not in fields:
        return
    is_off = fields['letterbox'] == 'off'
    for slot, read in cameras.items():
        for side in ('height', 'width'):
            if is_off and read.get(side) == 0:
                yield f'cameras.{slot}.{side} is missing: it is needed with model.letterbox off'
            if not is_off and read.get(side):
                yield (
                    f'cameras.{slot}.{side} is {read[side]}, which means nothing with model.letterbox '
                    f'{fields["letterbox"]}; leave it out'
                )


def output_contradictions(
    fields: Mapping[str, object], outputs: Mapping[str, Mapping[str, object]]
) -> Iterator[str]:
    """Together the outputs name every joint exactly once, each in a quantity that the actions hold."""
    if not outputs or not all('joints' in read and 'quantity' in read for read in outputs.values()):
        return
    if not all(
        name in fields for name in ('joint_names', 'action_joints', 'gripper_names', 'representation')
    ):
        return
    source, commanded = _commanded(fields['joint_names'], fields['action_joints'])
    for output, read in outputs.items():
        if not read['joints']:
            yield f'outputs.{output}.joints is empty; name its joints, or leave it out of outputs.names'
    named = list(itertools.chain.from_iterable(read['joints'] for read in outputs.values()))
    for joint in dict.fromkeys(named):
        if joint not in commanded:
            yield f"outputs name '{joint}', which is not in {source}"
        if named.count(joint) > 1:
            yield f"outputs name '{joint}' {named.count(joint)} times, wanted once"
    for joint in commanded:
        if joint not in named:
            yield f"no output names '{joint}'"
    if fields['representation'] == 'end_effector':
        return
    for output, read in outputs.items():
        for joint in read['joints']:
            is_velocity = (
                fields['representation'] == 'joint_velocity' and joint not in fields['gripper_names']
            )
            wanted = 'velocity' if is_velocity else 'position'
            if read['quantity'] != wanted:
                yield (
                    f"outputs.{output}.quantity is {read['quantity']}, but the actions of '{joint}' are "
                    f'{wanted} values (actions.representation {fields["representation"]})'
                )
