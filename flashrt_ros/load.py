# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""From checked parameters to a loaded policy, and whether the two fit the robot."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from flashrt_core.groot.settings import GrootSettings
from flashrt_core.settings import GuidanceSettings, PolicySettings
from flashrt_core.types import ActionPrefix, Observation
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
    spec, joints = policy.spec, len(parameters.joint_names)
    faults = []
    if past := [camera for camera in spec.cameras if '@' in camera]:
        faults.append(
            f'the policy wants to see {past}, what cameras showed steps ago, which this node does not keep; '
            'it needs a checkpoint whose video.delta_indices is [0]'
        )
    elif set(spec.cameras) != set(parameters.camera_names):
        faults.append(
            f'cameras.names is {list(parameters.camera_names)}, the policy wants {list(spec.cameras)}'
        )
    if spec.state_dim != joints:
        faults.append(
            f'joints.names has {joints} names, the state of the policy has {spec.state_dim} columns'
        )
    if parameters.representation != 'end_effector' and spec.action_dim != joints:
        faults.append(
            f'joints.names has {joints} names, the actions of the policy have {spec.action_dim} columns'
        )
    elif parameters.representation != 'end_effector' and spec.action_columns != spec.state_columns:
        faults.append(
            f'the actions of the policy move {_listed(spec.action_columns)}, its state is '
            f'{_listed(spec.state_columns)}; this node commands the joints that it reads, in the same order: '
            'it needs a checkpoint whose state and action keys name the same joints alike'
        )
    if spec.actions != parameters.representation:
        faults.append(
            f'actions.representation is {parameters.representation}, the policy says {spec.actions}'
        )
    if (model := policy.info()['model']) != parameters.model_config:
        faults.append(f'model.config is {parameters.model_config}, the checkpoint holds {model}')
    if faults:
        raise ParameterFaults('policy and parameters', faults)


def _listed(columns: tuple[str, ...]) -> str:
    return ', '.join(columns)


def _trial(policy: 'Policy', prompt_id: int, parameters: Parameters) -> list[str]:
    """One call with black pictures and joints at zero: does a chunk have the rows and columns it needs?

    In mode rtc a second one continues the first: a checkpoint that cannot do that is refused here.
    """
    spec, joints = policy.spec, len(parameters.joint_names)
    square = spec.image_size, spec.image_size
    observation = Observation(
        images={
            slot: np.zeros((*spec.picture_sizes.get(slot, square), 3), np.uint8) for slot in spec.cameras
        },
        state=np.zeros(joints, np.float64),
        prompt_id=prompt_id,
        is_trial=True,
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
