# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Which controller gets which joints of a command, and how far ahead."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flashrt_ros.chunk_player import Command
from flashrt_ros.parameters import OutputParameters, Parameters

_TIME_ROUNDING_S = 1e-9


@dataclass(frozen=True)
class OutputCommand:
    """The part of a command that one controller gets."""

    output: str  # name in outputs.names
    type: str
    quantity: str  # position | velocity
    joints: tuple[str, ...]  # as the robot spells them
    names: tuple[str, ...]  # as in the parameters
    rows: NDArray[np.float64]  # [rows, joints]; message types without times carry the first row
    due_s: NDArray[np.float64]  # [rows], from the time of sending


class OutputMap:
    """Knows the columns of every output."""

    def __init__(self, parameters: Parameters) -> None:
        self._max_horizon_s = parameters.output_max_horizon_s
        self._row_period_s = parameters.row_period_s
        self._prefix = parameters.joint_prefix
        self._columns = {
            output: [parameters.commanded_joints.index(joint) for joint in output.joints]
            for output in parameters.outputs
        }
        self.is_velocity = np.zeros(len(parameters.commanded_joints), bool)  # [joints]
        self.is_trajectory = self.is_velocity.copy()  # [joints], rows are handed out ahead of time
        for output, columns in self._columns.items():
            self.is_velocity[columns] = output.quantity == 'velocity'
            self.is_trajectory[columns] = output.type == 'joint_trajectory'

    def is_handed_out(self, due_s: NDArray[np.float64]) -> NDArray[np.bool_]:
        """[rows] which rows a trajectory holds."""
        ahead = due_s <= self._max_horizon_s + _TIME_ROUNDING_S
        ahead[0] = True
        return ahead

    def split(self, command: Command) -> list[OutputCommand]:
        """One command per output; the first row is always sent, the others up to output.max_horizon_s."""
        ahead = self.is_handed_out(command.due_s)
        return [
            self._part(output, columns, command.rows[ahead][:, columns], command.due_s[ahead])
            for output, columns in self._columns.items()
        ]

    def _part(
        self,
        output: OutputParameters,
        columns: list[int],
        rows: NDArray[np.float64],
        due_s: NDArray[np.float64],
    ) -> OutputCommand:
        if output.type == 'joint_trajectory' and output.quantity == 'velocity':
            # A trajectory of velocities ends at rest, should nothing follow it.
            rows = np.concatenate([rows, np.zeros((1, len(columns)))])
            due_s = np.append(due_s, due_s[-1] + self._row_period_s)
        names = tuple(self._prefix + joint for joint in output.joints)
        return OutputCommand(output.name, output.type, output.quantity, names, output.joints, rows, due_s)
