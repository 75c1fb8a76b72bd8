# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What a GR00T model gives as the actions of a robot."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error
from flashrt_core.groot.embodiment import Embodiment
from flashrt_core.groot.poses import POSE_COLUMNS, PoseFormat, compose
from flashrt_core.groot.processor import ActionConfig
from flashrt_core.groot.scaling import MeanStd, Range
from flashrt_core.groot.state_codec import StateCodec


@dataclass(frozen=True, eq=False)
class ActionKey:
    """One key: its columns, how they are un-normalised, and the part of the state that they count from."""

    name: str
    columns: slice  # of the model's actions and of the robot's alike
    scaler: Range | MeanStd
    anchor: slice | None  # columns of the robot's state; None: absolute
    pose_format: PoseFormat | None  # None: an anchor is added column by column

    def decode(self, actions: NDArray, state: NDArray) -> NDArray[np.float64]:
        """[horizon, columns of the model] and [state_dim] robot units -> [horizon, columns of this key]."""
        values = self.scaler.unnormalise(actions[..., self.columns])
        if self.anchor is None:
            return values
        if self.pose_format is None:
            return values + state[self.anchor]
        try:
            return compose(state[self.anchor], values, self.pose_format)
        except Error as fault:
            raise Error(f"infer: action key '{self.name}': {fault}") from None


@dataclass(frozen=True, eq=False)
class ActionCodec:
    """The keys of the actions in the order of the model; the robot's actions are all their columns."""

    keys: tuple[ActionKey, ...]
    action_dim: int
    horizon: int

    def decode(self, model_actions: NDArray, state: NDArray) -> NDArray[np.float64]:
        """[rows, columns of the model] and the state they were inferred from -> [horizon, action_dim].

        Both in float64 and in robot units; what is relative to the model is absolute to the robot.
        """
        actions, state = model_actions[: self.horizon], np.asarray(state, np.float64)
        return np.concatenate([key.decode(actions, state) for key in self.keys], axis=-1)

    @property
    def columns(self) -> Mapping[str, slice]:
        return {key.name: key.columns for key in self.keys}

    def range(self) -> NDArray[np.float64]:
        """[2, action_dim] lowest and highest actions of the training data; NaN where they count from a state.

        As far as the statistics tell: what they map to -1 and +1, or mean -+ 2 std.
        """
        ends = np.full((2, self.action_dim), np.nan)
        for key in self.keys:
            if key.anchor is None:
                end = 2.0 if isinstance(key.scaler, MeanStd) else 1.0
                both = np.full((2, key.columns.stop - key.columns.start), [[-end], [end]])
                ends[:, key.columns] = key.scaler.unnormalise(both)
        return ends


def action_codec(embodiment: Embodiment, state: StateCodec) -> ActionCodec:
    modality, configs = embodiment.modalities.action, embodiment.modalities.action_configs
    keys: list[ActionKey] = []
    start = 0
    for name in modality.keys:
        stop = start + embodiment.statistics('action', name).columns
        columns = slice(start, stop)
        anchor = _anchor(embodiment, name, configs[name], stop - start, state)
        scaler = _scaler(embodiment, name, configs[name], stop - start)
        keys.append(ActionKey(name, columns, scaler, anchor, configs[name].pose_format))
        start = stop
    processor = embodiment.processor
    if start > processor.action_dim or embodiment.horizon > processor.horizon:
        raise Error(
            f"embodiment '{embodiment.tag}': its chunks have {embodiment.horizon} rows and {start} columns, "
            f'the model gives {processor.horizon} and {processor.action_dim}'
        )
    return ActionCodec(tuple(keys), start, embodiment.horizon)


def _scaler(embodiment: Embodiment, name: str, config: ActionConfig, columns: int) -> Range | MeanStd:
    if config.is_relative:  # by step and by min and max, whatever use_percentiles says
        statistics = embodiment.statistics('relative_action', name)
        low, high = statistics.bounds('min', 'max')
        if low.shape != (embodiment.horizon, columns):
            raise Error(
                f"{statistics.place}: 'min' has shape {list(low.shape)}, needed one row for each of "
                f'{embodiment.horizon} steps, with {columns} columns'
            )
        return Range(low, high)
    statistics = embodiment.statistics('action', name)
    if name in embodiment.modalities.action.mean_std_keys:
        return MeanStd(statistics.get('mean'), statistics.get('std'))
    kinds = ('q01', 'q99') if embodiment.processor.uses_percentiles else ('min', 'max')
    return Range(*statistics.bounds(*kinds))


def _anchor(
    embodiment: Embodiment, name: str, config: ActionConfig, columns: int, state: StateCodec
) -> slice | None:
    if not config.is_relative:
        return None
    place = f"embodiment '{embodiment.tag}': action key '{name}'"
    if config.state_key not in state.columns:
        raise Error(
            f"{place} counts from state key '{config.state_key}'; the state has {sorted(state.columns)}"
        )
    anchor = state.columns[config.state_key]
    found = anchor.stop - anchor.start
    needed = columns if config.pose_format is None else POSE_COLUMNS[config.pose_format]
    if not found == columns == needed:
        raise Error(
            f"{place} has {columns} columns, state key '{config.state_key}' that it counts from {found}; "
            f'needed {needed} of both'
        )
    return anchor
