# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The arm of scene.xml: its joints, what they may do, and the joint angles for a place of the tip."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flashrt_core.errors import Error

ARM_JOINTS = tuple(f'joint_{number}' for number in range(1, 7))
GRIPPER = 'gripper'
JOINTS = (*ARM_JOINTS, GRIPPER)

OPEN_M = 0.04  # of each finger; 0 is closed
LOWER = np.array([-2.6, -1.8, -1.8, -2.6, -2.4, -3.1, 0.0])  # [joints], rad and m
UPPER = np.array([2.6, 1.8, 2.2, 2.6, 2.4, 3.1, OPEN_M])
# The expert stays below 2 rad/s, its detours below 3; the fingers are told to open in one row.
MAX_VELOCITY = np.array([4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 1.0])  # [joints], rad/s and m/s

ROW_PERIOD_S = 0.05  # of commands and of the rows of a chunk
HORIZON = 10  # rows of a chunk
OBSERVED_EVERY = 2  # rows, in demonstrations

# Lengths in scene.xml, m.
_SHOULDER_HEIGHT, _UPPER_ARM, _FOREARM, _TOOL = 0.12, 0.28, 0.26, 0.14
_REACH = _UPPER_ARM + _FOREARM
_SPARE = 0.005  # a stretched arm could go nowhere


def within_reach(tip: ArrayLike) -> NDArray[np.float64]:
    """[3] the place itself, or the nearest to it on the way to the shoulder that the arm reaches."""
    lift = np.array([0.0, 0.0, _SHOULDER_HEIGHT - _TOOL])  # of the tip, while the wrist is at the shoulder
    from_shoulder = np.asarray(tip, np.float64) - lift
    distance = float(np.linalg.norm(from_shoulder))
    return lift + from_shoulder * min(1.0, (_REACH - _SPARE) / distance)


def joint_angles(tip: ArrayLike) -> NDArray[np.float64]:
    """[6] with the tip there [m], the tool pointing down and the fingers along the y axis of the table.

    The elbow is up. Raises Error where the arm is too short.
    """
    x, y, z = tip
    turn = np.arctan2(y, x)
    out, up = np.hypot(x, y), z + _TOOL - _SHOULDER_HEIGHT  # of the wrist, from the shoulder
    distance = np.hypot(out, up)
    if not abs(_UPPER_ARM - _FOREARM) < distance < _REACH:
        raise Error(
            f'the tip cannot be at ({x:.3f}, {y:.3f}, {z:.3f}) m: the wrist would be {distance:.3f} m from '
            f'the shoulder, and the arm is {_REACH:.2f} m long'
        )
    # Law of cosines: the angle at the shoulder between the upper arm and the line to the wrist.
    cosine = (_UPPER_ARM**2 + distance**2 - _FOREARM**2) / (2 * _UPPER_ARM * distance)
    shoulder = np.arctan2(out, up) - np.arccos(cosine)
    rest_out, rest_up = out - _UPPER_ARM * np.sin(shoulder), up - _UPPER_ARM * np.cos(shoulder)
    pitch = np.arctan2(-rest_up, rest_out)  # of the forearm, from level
    return np.array([turn, shoulder, pitch - shoulder, 0.0, -pitch, -turn])
