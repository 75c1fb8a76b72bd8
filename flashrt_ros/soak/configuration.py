# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The robot of the soak run: an arm of six joints with a gripper, two cameras, two controllers."""

from collections.abc import Mapping
from pathlib import Path

import yaml

from flashrt_ros.parameters import Parameters, read_parameters
from flashrt_ros.replay_setup import NODE_NAME
from flashrt_ros.stub_policy import StubSettings

ARM = tuple(f'joint_{i}' for i in range(1, 7))
HAND = ('gripper',)
REST = (0.1, -0.2, 0.3, -0.4, 0.5, -0.6, 0.04)
ARM_TOPIC, HAND_TOPIC = 'arm_controller/joint_trajectory', 'hand_controller/commands'
JOINT_TOPIC = 'joint_states'
RAW_CAMERA, JPEG_CAMERA = 'base', 'wrist'
CAMERA_TOPICS = {RAW_CAMERA: 'cam_base/image_raw', JPEG_CAMERA: 'cam_wrist/image_raw/compressed'}
PROMPTS = ('pick up the red block', 'fold the towel')
STUB = StubSettings(horizon=16, latency_ms=60.0, jitter_ms=10.0)


def soak_values(**changes: object) -> dict[str, object]:
    """Flat parameters of the node; changes use '__' for the dots of a name."""
    values = {
        'model.config': 'pi05',
        'model.checkpoint': 'none, the stub policy has no model',
        'model.tokenizer': 'none',
        'model.statistics': 'none',
        'model.origin': 'openpi',
        'model.platform': 'none',
        'model.resize': 'openpi',
        'model.fit': 'letterbox',
        'model.normalisation': 'quantile',
        'model.state_in_prompt': True,
        'model.prompt_capacity': 200,
        'model.denoise_steps': 10,
        'prompt': PROMPTS[0],
        'control_rate_hz': 50.0,
        'dry_run': False,
        'cameras.names': [RAW_CAMERA, JPEG_CAMERA],
        f'cameras.{RAW_CAMERA}.topic': CAMERA_TOPICS[RAW_CAMERA],
        f'cameras.{RAW_CAMERA}.rotation': 0,
        f'cameras.{JPEG_CAMERA}.topic': CAMERA_TOPICS[JPEG_CAMERA],
        f'cameras.{JPEG_CAMERA}.rotation': 0,
        f'cameras.{JPEG_CAMERA}.transport': 'compressed',
        'cameras.max_age_s': 0.3,
        'cameras.max_spread_s': 0.2,
        'joints.topics': [JOINT_TOPIC],
        'joints.names': [*ARM, *HAND],
        'joints.lower': [-2.0, -2.0, -2.0, -2.0, -2.0, -2.0, 0.0],
        'joints.upper': [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 0.08],
        'joints.max_velocity': [1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 0.2],
        'joints.max_age_s': 0.2,
        'grippers.names': [*HAND],
        'grippers.model_one': ['robot_units'],
        'grippers.open': [0.08],
        'grippers.closed': [0.0],
        'actions.representation': 'joint_position',
        'actions.delta_mask': [-7],
        'actions.row_period_s': 0.05,
        'actions.starvation_limit_s': 3.0,
        'estop.required': True,
        'estop.timeout_s': 1.0,
        'outputs.names': ['arm', 'hand'],
        'outputs.arm.topic': ARM_TOPIC,
        'outputs.arm.joints': [*ARM],
        'outputs.arm.quantity': 'position',
        'outputs.hand.topic': HAND_TOPIC,
        'outputs.hand.joints': [*HAND],
        'outputs.hand.quantity': 'position',
        'outputs.hand.type': 'float64_multi_array',
    }
    return values | {name.replace('__', '.'): value for name, value in changes.items()}


def soak_parameters(values: Mapping[str, object]) -> Parameters:
    return read_parameters(values, NODE_NAME)[0]


def write_parameter_file(values: Mapping[str, object], path: Path) -> None:
    path.write_text(yaml.safe_dump({NODE_NAME: {'ros__parameters': dict(values)}}))
