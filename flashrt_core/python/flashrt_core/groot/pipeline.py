# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Everything before and after a GR00T model but for its tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flashrt_core.groot.action_codec import ActionCodec
from flashrt_core.groot.scaling import MeanStd
from flashrt_core.groot.state_codec import StateCodec, StateKey
from flashrt_core.pipeline import Camera, Reanchor, StateForms
from flashrt_core.settings import GuidanceSettings

# Normalised value beyond which a column is reported: the end of its range, or three standard deviations.
_END, _DEVIATIONS = 1.0, 3.0


@dataclass(frozen=True, eq=False)
class GrootPipeline:
    """Pictures, state and actions of one embodiment, in the order of the model."""

    cameras: tuple[Camera, ...]  # oldest first, then by view
    state: StateCodec
    actions: ActionCodec
    sources: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    # Chunks cannot be continued.
    guidance: GuidanceSettings | None = None
    max_hard_delay: int = 0
    reanchor: Reanchor | None = None

    @property
    def state_dim(self) -> int:
        return self.state.state_dim

    @property
    def action_dim(self) -> int:
        return self.actions.action_dim

    def state_forms(self, robot: NDArray[np.float64]) -> StateForms:
        """Normalised without being cut off, so that one sees how far beyond the training data it is."""
        return StateForms(robot, robot, self.state.unclipped(robot))

    def model_state(self, states: Sequence[StateForms]) -> NDArray[np.float32]:
        rows = self.state.encode(np.array([state.robot for state in states]))
        return rows if len(rows) > 1 else rows[0]

    def state_range(self) -> NDArray[np.float64]:
        return np.concatenate(
            [np.full(key.columns.stop - key.columns.start, _beyond(key)) for key in self.state.keys]
        )

    def robot_actions(self, model_actions: NDArray[np.float32], state: StateForms) -> NDArray[np.float64]:
        """[rows of the model, its columns] -> [horizon, action_dim]."""
        return self.actions.decode(model_actions, state.robot)

    def action_range(self, model_action_dim: int) -> NDArray[np.float64]:
        return self.actions.range()


def _beyond(key: StateKey) -> float:
    if key.scaler is None:
        return np.inf
    return _DEVIATIONS if isinstance(key.scaler, MeanStd) else _END
