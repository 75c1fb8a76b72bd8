# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Grippers: what the model means by 0 and 1, and what the robot calls open and closed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flashrt_ros.parameters import GripperParameters, Parameters


class GripperMap:
    """Maps the gripper columns between the unit of the model and the unit of the robot.

    States go to the model and have the columns of joints.names, actions come from it and have
    those of the commanded joints.
    """

    def __init__(self, parameters: Parameters) -> None:
        mapped = [gripper for gripper in parameters.grippers if gripper.model_one != 'robot_units']
        self._state = _Columns.of(mapped, parameters.joint_names)
        self._actions = _Columns.of(mapped, parameters.commanded_joints)

    def to_model(self, robot: NDArray[np.float64]) -> NDArray[np.float64]:
        """[..., joints of the state] in robot units -> the same with grippers as the model means them."""
        model, columns = np.array(robot, np.float64), self._state
        model[..., columns.indices] = (model[..., columns.indices] - columns.zero) / columns.width
        return model

    def to_robot(self, model: NDArray[np.float64]) -> NDArray[np.float64]:
        """[..., commanded joints]: the inverse; nothing is clipped."""
        robot, columns = np.array(model, np.float64), self._actions
        robot[..., columns.indices] = columns.zero + robot[..., columns.indices] * columns.width
        return robot


@dataclass(frozen=True, eq=False)
class _Columns:
    indices: list[int]  # of the grippers among the joints
    zero: NDArray[np.float64]  # robot value of the model's 0
    width: NDArray[np.float64]  # from there to that of its 1

    @classmethod
    def of(cls, grippers: Sequence[GripperParameters], joints: tuple[str, ...]) -> '_Columns':
        here = [gripper for gripper in grippers if gripper.joint in joints]
        opens = np.array([gripper.open for gripper in here], np.float64)
        closeds = np.array([gripper.closed for gripper in here], np.float64)
        one_is_open = np.array([gripper.model_one == 'open' for gripper in here], bool)
        zero = np.where(one_is_open, closeds, opens)
        return cls(
            [joints.index(gripper.joint) for gripper in here],
            zero,
            np.where(one_is_open, opens, closeds) - zero,
        )
