# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""How far and how fast each joint may be commanded."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error
from flashrt_ros.parameters import Parameters


@dataclass(frozen=True, eq=False)
class JointLimits:
    """Each array [joints], in the order of `names`; refused where a limit is missing or means nothing."""

    names: tuple[str, ...]  # of the commanded joints, without the prefix
    lower: NDArray[np.float64]  # rad or m
    upper: NDArray[np.float64]  # rad or m
    max_velocity: NDArray[np.float64]  # rad/s or m/s

    def __post_init__(self) -> None:
        for field in ('lower', 'upper', 'max_velocity'):
            shape = np.shape(getattr(self, field))
            if shape != (len(self.names),):
                raise Error(f'joint limits: {field} has shape {shape}, needed ({len(self.names)},)')
        # Written as claims that NaN fails.
        has_range = (self.lower < self.upper) & np.isfinite(self.lower) & np.isfinite(self.upper)
        can_move = (self.max_velocity > 0) & np.isfinite(self.max_velocity)
        faulty = np.flatnonzero(~(has_range & can_move))
        if faulty.size:
            listed = '; '.join(
                f'{self.names[i]}: lower {self.lower[i]}, upper {self.upper[i]}, '
                f'max_velocity {self.max_velocity[i]}'
                for i in faulty
            )
            raise Error(f'joint limits: {listed}; needed finite lower < upper and finite max_velocity > 0')


def limits_of(parameters: Parameters) -> JointLimits:
    """The limits in joints.lower, joints.upper and joints.max_velocity."""
    return JointLimits(
        parameters.commanded_joints,
        np.array(parameters.joint_lower, np.float64),
        np.array(parameters.joint_upper, np.float64),
        np.array(parameters.joint_max_velocity, np.float64),
    )
