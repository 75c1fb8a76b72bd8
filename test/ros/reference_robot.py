# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The reference robot of test/cases as the safety functions see it."""

import json

import numpy as np
from fake_policy import CASES

from flashrt_core.pipeline import KeepColumns, StateForms
from flashrt_ros.command_limits import CommandLimits
from flashrt_ros.joint_limits import JointLimits

PROFILE = json.loads((CASES / 'robot_profile.json').read_text())
NAMES = tuple(PROFILE['joint_order_of_the_model'])
PERIOD_S = PROFILE['action_step_s']
AT_REST = np.array([0.1, -0.2, 0.3, -0.4, 0.5, -0.6, 0.04])  # the joints of the profile's robot
ARM, GRIPPER = 'joint_1..joint_6', 'gripper'
LIMITS = JointLimits(
    NAMES,
    np.array([PROFILE['position_limits'][ARM][0]] * 6 + [PROFILE['position_limits'][GRIPPER][0]]),
    np.array([PROFILE['position_limits'][ARM][1]] * 6 + [PROFILE['position_limits'][GRIPPER][1]]),
    np.array([PROFILE['max_velocity'][ARM]] * 6 + [PROFILE['max_velocity'][GRIPPER]]),
)
POSITIONS = np.zeros(7, bool)
VELOCITIES = np.array([True] * 6 + [False])  # and a gripper by position


def chunk(name: str) -> np.ndarray:
    """The columns of the robot, as the pipeline of a policy leaves them."""
    actions = np.load(CASES / 'chunks' / f'{name}.npy')
    state = StateForms(AT_REST, AT_REST, AT_REST)
    return KeepColumns(len(NAMES))(actions, state).astype(np.float64)


def due(rows: int, period_s: float = PERIOD_S) -> np.ndarray:
    return period_s * np.arange(1, rows + 1)


def checker(is_velocity=POSITIONS, max_clamped_rows: int = 10) -> CommandLimits:
    return CommandLimits(LIMITS, is_velocity, max_clamped_rows)
