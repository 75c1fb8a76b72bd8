# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""From checked parameters to a loaded policy, and whether the two fit the robot."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from flashrt_core.groot.settings import GrootSettings
from flashrt_core.settings import GuidanceSettings, PolicySettings
from flashrt_core.types import ActionPrefix, Observation, PolicySpec
from flashrt_ros.parameter_table import ParameterFaults
from flashrt_ros.parameters import FAMILIES, GROOT, Parameters

if TYPE_CHECKING:
    from flashrt_core.policy import Policy

LoadPolicy = Callable[[Parameters], 'Policy']


def policy_settings(parameters: Parameters) -> PolicySettings | GrootSettings:
    """Of the family that model.config names."""
    if FAMILIES[parameters.model_config] == GROOT:
        return _groot_settings(parameters)
    return _pi_settings(parameters)


def _groot_settings(parameters: Parameters) -> GrootSettings:
    return GrootSettings(
        **_common_settings(parameters),
        embodiment_tag=parameters.embodiment_tag,
        letterbox=parameters.letterbox,
        picture_sizes={
            camera.slot: (camera.height, camera.width) for camera in parameters.cameras if camera.height
        },
        allow_untrained=parameters.allow_untrained,
    )


def _pi_settings(parameters: Parameters) -> PolicySettings:
    joints = parameters.joint_names
    has_joint_actions = parameters.representation != 'end_effector'
    return PolicySettings(
        **_common_settings(parameters),
        origin=parameters.origin,
        platform=parameters.platform,
        cameras=parameters.camera_names,
        resize=parameters.resize,
        fit=parameters.fit,
        state_in_prompt=parameters.state_in_prompt,
        statistics=parameters.statistics or None,
        asset_id=parameters.asset_id or None,
        normalisation=parameters.normalisation or None,
        delta_mask=parameters.delta_mask,
        adapt_to_pi=parameters.adapt_to_pi,
        state_dim=len(joints),
        action_dim=len(joints) if has_joint_actions else 0,
        max_image_bytes=parameters.camera_max_image_bytes,
        horizon=parameters.horizon,
        state_text_width=parameters.state_text_width,
        allow_degenerate_statistics=parameters.allow_degenerate_statistics,
        min_statistics_width=parameters.min_statistics_width,
        real_time_chunking=parameters.chunk_mode == 'rtc',
        guidance=_guidance(parameters),
    )


def _common_settings(parameters: Parameters) -> dict[str, Any]:
    return {
        'checkpoint': parameters.checkpoint,
        'tokenizer': parameters.tokenizer,
        'actions': parameters.representation,
        'state_names': parameters.joint_names,
        # A camera that the model does not have is told from its name, not from its rotation.
        'rotation': {camera.slot: camera.rotation for camera in parameters.cameras if camera.rotation},
        'prompt_capacity': parameters.prompt_capacity,
        'steps': parameters.denoise_steps,
        'state_limit': parameters.state_limit or None,
        'seed': parameters.seed,
        'backend': parameters.backend,
        'recipe': parameters.recipe,
        'calibration': parameters.calibration or None,
        'packed': parameters.packed or None,
        'threads': parameters.threads,
        'device': parameters.device,
        'tuning': parameters.tuning or None,
    }


def _guidance(parameters: Parameters) -> GuidanceSettings | None:
    """None: as the checkpoint says."""
    if not parameters.chunk_rtc_schedule:
        return None
    return GuidanceSettings(
        parameters.chunk_rtc_schedule,
        parameters.chunk_rtc_execution_horizon,
        parameters.chunk_rtc_max_weight,
    )


def load_policy(parameters: Parameters) -> 'Policy':
    """The policy that the parameters describe, not yet warmed up."""
    from flashrt_core.policy import load_policy as load  # brings the native module with it

    return load(policy_settings(parameters))


def prepare(policy: 'Policy', parameters: Parameters) -> int:
    """Warms the policy up, sets the prompt, tries one call, and returns the number of the prompt.

    Raises where policy and robot do not fit.
    """
    if parameters.representation == 'end_effector':
        raise ParameterFaults(
            'actions.representation',
            ['end_effector actions are no joint commands: they run in offline replay, not in this node'],
        )
    check_fit(policy, parameters)
    policy.warm_up()
    prompt_id = policy.set_prompt(parameters.prompt)
    if faults := _trial(policy, prompt_id, parameters):
        raise ParameterFaults('policy and parameters', faults)
    policy.reset()
    return prompt_id


def check_fit(policy: 'Policy', parameters: Parameters) -> None:
    """Raises where the policy is not the one that the parameters describe."""
    spec = policy.spec
    faults = []
    present = [camera for camera in spec.cameras if camera not in spec.past_cameras]
    if set(present) != set(parameters.camera_names):
        faults.append(f'cameras.names is {list(parameters.camera_names)}, the policy wants {present}')
    faults += _joint_faults(spec, parameters)
    faults += _past_faults(spec, parameters)
    if spec.actions != parameters.representation:
        faults.append(
            f'actions.representation is {parameters.representation}, the policy says {spec.actions}'
        )
    if (model := policy.info()['model']) != parameters.model_config:
        faults.append(f'model.config is {parameters.model_config}, the checkpoint holds {model}')
    if faults:
        raise ParameterFaults('policy and parameters', faults)


def _past_faults(spec: PolicySpec, parameters: Parameters) -> Iterator[str]:
    longest_s = spec.look_back * parameters.row_period_s
    if longest_s and longest_s >= parameters.starvation_limit_s:
        yield (
            f'the policy looks back {longest_s:g} s ({spec.look_back} rows), and so long no chunk follows a '
            f'new prompt; actions.starvation_limit_s is {parameters.starvation_limit_s:g}, make it longer'
        )


def _joint_faults(spec: PolicySpec, parameters: Parameters) -> Iterator[str]:
    joints, commanded = parameters.joint_names, parameters.commanded_joints
    if spec.state_dim != len(joints):
        yield f'joints.names has {len(joints)} names, the state of the policy has {spec.state_dim} columns'
    if parameters.representation == 'end_effector':
        return
    if spec.action_dim != len(commanded):
        source = 'actions.joints' if parameters.action_joints else 'joints.names'
        remedy = ''
        if spec.action_columns != spec.state_columns:
            remedy = f'; actions.joints is to name those of {", ".join(spec.action_columns)}'
        yield (
            f'{source} has {len(commanded)} names, the actions of the policy have {spec.action_dim} '
            f'columns{remedy}'
        )
    elif not parameters.action_joints and spec.action_columns != spec.state_columns:
        yield (
            f'the actions of the policy move {", ".join(spec.action_columns)}, its state is '
            f'{", ".join(spec.state_columns)}; name the joints of the actions in this order in actions.joints'
        )
    elif spec.state_dim == len(joints):
        yield from _renamed_joints(spec, joints, commanded)


def _renamed_joints(spec: PolicySpec, joints: tuple[str, ...], commanded: tuple[str, ...]) -> Iterator[str]:
    """A key that state and actions share names the same joints in both.

    Relative actions count from these columns: of another joint they would lead anywhere.
    """
    if not spec.state_columns:
        return
    state = dict(zip(spec.state_columns, joints, strict=True))
    widths = [Counter(map(_key_of, columns)) for columns in (spec.state_columns, spec.action_columns)]
    for column, joint in zip(spec.action_columns, commanded, strict=True):
        is_shared = widths[0][_key_of(column)] == widths[1][_key_of(column)]
        if is_shared and state[column] != joint:
            yield (
                f"column {column} is '{state[column]}' in joints.names and '{joint}' in actions.joints; it "
                'must be one joint in state and actions'
            )


def _key_of(column: str) -> str:
    """'arm' of 'arm[2]'."""
    return column.rpartition('[')[0]


def _trial(policy: 'Policy', prompt_id: int, parameters: Parameters) -> list[str]:
    """One call with black pictures and joints at zero: does a chunk have the rows and columns it needs?

    In mode rtc a second one continues the first: a checkpoint that cannot do that is refused here.
    """
    spec, joints = policy.spec, len(parameters.commanded_joints)
    square = spec.image_size, spec.image_size
    observation = Observation(
        images={
            slot: np.zeros((*spec.picture_sizes.get(slot, square), 3), np.uint8) for slot in spec.cameras
        },
        state=np.zeros(spec.state_dim, np.float64),
        prompt_id=prompt_id,
        is_trial=True,
        past_states=np.zeros((len(spec.past_states), spec.state_dim), np.float64),
    )
    chunk = policy.infer(observation)
    shape = chunk.actions.shape
    if len(shape) != 2 or shape[0] < 1 or shape[1] != joints:
        return [f'a chunk has shape {list(shape)}, needed at least 1 row and {joints} columns']
    if parameters.chunk_mode == 'rtc':
        delay = min(1, shape[0] - 1)
        prefix = ActionPrefix(chunk.model_actions, delay, parameters.chunk_rtc, observation.state)
        policy.infer(observation, prefix=prefix)
    return []
