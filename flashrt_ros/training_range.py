# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Whether the limits of the robot and the statistics of a checkpoint are about the same robot."""

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error
from flashrt_ros.grippers import GripperMap
from flashrt_ros.joint_limits import JointLimits
from flashrt_ros.outputs import OutputMap
from flashrt_ros.parameters import Parameters

_TOLERATED = 0.1  # of the width of the training range; statistics have outliers and limits are set with care


def compare_ranges(
    parameters: Parameters, limits: JointLimits, action_range: NDArray[np.float64] | None
) -> list[str]:
    """`compare` with Policy.action_range, where grippers are in the unit of the model."""
    if action_range is None:
        return []
    low, high = GripperMap(parameters).to_robot(action_range)
    return compare(limits, low, high, OutputMap(parameters).is_velocity)


def compare(
    limits: JointLimits,
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    is_velocity: NDArray[np.bool_],
) -> list[str]:
    """A warning per joint whose training range reaches well beyond its limits, as of another unit or robot.

    low, high: [joints], the ends of the training range in robot units, either way round, because a gripper
    may close upwards; NaN where a column counts from the state, which says nothing about positions.
    is_velocity: [joints], columns that are compared with -+max_velocity. Raises Error where the two do not
    touch.
    """
    first, last = np.minimum(low, high), np.maximum(low, high)
    lower = np.where(is_velocity, -limits.max_velocity, limits.lower)
    upper = np.where(is_velocity, limits.max_velocity, limits.upper)
    known = np.isfinite(first) & np.isfinite(last)
    texts = [
        f'{name}: trained on {first[i]:.4g}..{last[i]:.4g}, limits {lower[i]:g}..{upper[i]:g}'
        for i, name in enumerate(limits.names)
    ]
    apart = known & ~((first <= upper) & (last >= lower))
    if apart.any():
        listed = '; '.join(texts[i] for i in np.flatnonzero(apart))
        raise Error(
            f'the limits and the statistics of the checkpoint have nothing in common: {listed}. Is it the '
            'checkpoint of this robot, are the units right, and the order of joints.names and actions.joints?'
        )
    tolerated = _TOLERATED * (last - first)
    wide = known & ~((lower - first <= tolerated) & (last - upper <= tolerated))
    return [
        f'{texts[i]}: the policy will be clamped where it was trained to go' for i in np.flatnonzero(wide)
    ]
