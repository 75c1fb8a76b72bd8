# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Grippers: what the model means by 0 and 1, and what the robot calls open and closed."""

import numpy as np
from numpy.typing import NDArray

from flashrt_ros.parameters import Parameters


class GripperMap:
    """Maps the gripper columns between the unit of the model and the unit of the robot, both ways."""

    def __init__(self, parameters: Parameters) -> None:
        mapped = [gripper for gripper in parameters.grippers if gripper.model_one != 'robot_units']
        self._columns = [parameters.joint_names.index(gripper.joint) for gripper in mapped]
        opens = np.array([gripper.open for gripper in mapped], np.float64)
        closeds = np.array([gripper.closed for gripper in mapped], np.float64)
        one_is_open = np.array([gripper.model_one == 'open' for gripper in mapped], bool)
        self._zero = np.where(one_is_open, closeds, opens)  # robot value of the model's 0
        self._one = np.where(one_is_open, opens, closeds)

    def to_model(self, robot: NDArray[np.float64]) -> NDArray[np.float64]:
        """[..., joints] in robot units -> the same with gripper columns as the model means them."""
        model = np.array(robot, np.float64)
        model[..., self._columns] = (model[..., self._columns] - self._zero) / (self._one - self._zero)
        return model

    def to_robot(self, model: NDArray[np.float64]) -> NDArray[np.float64]:
        """The inverse; nothing is clipped."""
        robot = np.array(model, np.float64)
        robot[..., self._columns] = self._zero + robot[..., self._columns] * (self._one - self._zero)
        return robot
