# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Joint and camera conventions of the robots openpi knows, seen from the base model."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from flashrt_core.types import ActionKind

Family = Literal['pi0', 'pi05', 'pi0_fast']

OPENPI_SLOTS = ('base_0_rgb', 'left_wrist_0_rgb', 'right_wrist_0_rgb')
_DROID_FAST_SLOTS = ('base_0_rgb', 'base_1_rgb', 'wrist_0_rgb')

# Per arm: six joints and the gripper. The base model turns joints 1 and 2 the other way round.
_ALOHA_SIGNS = np.array([1, -1, -1, 1, 1, 1, 1] * 2, np.float64)
_ALOHA_GRIPPERS = [6, 13]

# Metres between the fingers of the ViperX gripper, and radians of its motor, both closed and open.
_GRIPPER_LINEAR = (0.01844, 0.05800)
_GRIPPER_ANGLE_OF_STATE = (0.5476, 1.6296)
_GRIPPER_ANGLE_OF_ACTION = (-0.6213, 1.4910)
_ARM_LENGTH, _HORN_RADIUS = 0.036, 0.022  # metres, of the gripper's crank


def _spread(x: NDArray, bounds: tuple[float, float]) -> NDArray:
    """[0, 1] -> bounds."""
    return x * (bounds[1] - bounds[0]) + bounds[0]


def _shrink(x: NDArray, bounds: tuple[float, float]) -> NDArray:
    """bounds -> [0, 1]."""
    return (x - bounds[0]) / (bounds[1] - bounds[0])


@dataclass(frozen=True)
class AlohaState:
    """[14] robot state -> [14] as the base model knows it: joint signs, gripper opening to motor angle."""

    def __call__(self, state: NDArray) -> NDArray[np.float64]:
        decoded = _ALOHA_SIGNS * state
        linear = _spread(decoded[..., _ALOHA_GRIPPERS], _GRIPPER_LINEAR)
        sine = (_HORN_RADIUS**2 + linear**2 - _ARM_LENGTH**2) / (2 * _HORN_RADIUS * linear)
        angle = np.arcsin(np.clip(sine, -1.0, 1.0))
        decoded[..., _ALOHA_GRIPPERS] = _shrink(angle, _GRIPPER_ANGLE_OF_STATE)
        return decoded


@dataclass(frozen=True)
class AlohaActions:
    """[rows, 14] actions of the base model -> robot; in other units than the state, hence not its inverse."""

    def __call__(self, actions: NDArray) -> NDArray[np.float64]:
        encoded = _ALOHA_SIGNS * actions
        angle = encoded[..., _ALOHA_GRIPPERS] + _GRIPPER_ANGLE_OF_STATE[0]
        encoded[..., _ALOHA_GRIPPERS] = _shrink(angle, _GRIPPER_ANGLE_OF_ACTION)
        return encoded


@dataclass(frozen=True)
class Robot:
    """What openpi fixes for one platform."""

    state_dim: int
    action_dim: int
    actions: tuple[ActionKind, ...]  # kinds that its checkpoints can have
    cameras: Mapping[str, str]  # name on the platform -> slot of Pi0 and Pi0.5
    required: tuple[str, ...]  # slots
    fast_slots: tuple[str, ...] = OPENPI_SLOTS
    # Slots that a Pi0-FAST model attends to even when they are black.
    fast_black: frozenset[str] = field(default_factory=frozenset)


ROBOTS: Mapping[str, Robot] = {
    # LIBERO's client turns both pictures by 180 degrees before it sends them; see PolicySettings.rotation.
    'aloha': Robot(
        state_dim=14,
        action_dim=14,
        actions=('joint_position',),
        cameras=dict(zip(('cam_high', 'cam_left_wrist', 'cam_right_wrist'), OPENPI_SLOTS, strict=True)),
        required=('base_0_rgb',),
    ),
    'libero': Robot(
        state_dim=8,
        action_dim=7,
        actions=('end_effector',),
        cameras={'image': 'base_0_rgb', 'wrist_image': 'left_wrist_0_rgb'},
        required=('base_0_rgb', 'left_wrist_0_rgb'),
        fast_black=frozenset({'right_wrist_0_rgb'}),
    ),
    'droid': Robot(
        state_dim=8,
        action_dim=8,
        actions=('joint_position', 'joint_velocity'),
        cameras={'exterior_image_1_left': 'base_0_rgb', 'wrist_image_left': 'left_wrist_0_rgb'},
        required=('base_0_rgb', 'left_wrist_0_rgb'),
        fast_slots=_DROID_FAST_SLOTS,
        fast_black=frozenset({'base_1_rgb'}),
    ),
}


def camera_masks(robot: Robot, family: Family, present: Collection[str]) -> dict[str, bool]:
    """Slot -> whether the model attends to it, in the order of the model; present: slots with a picture."""
    if family != 'pi0_fast':
        return {slot: slot in present for slot in OPENPI_SLOTS}
    return {slot: slot in present or slot in robot.fast_black for slot in robot.fast_slots}
