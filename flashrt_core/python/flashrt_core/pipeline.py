# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What a checkpoint was trained with, put together: robot units to model units and back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error
from flashrt_core.normalise import Scaler
from flashrt_core.prompt import PromptFormat
from flashrt_core.relative import RelativeActions
from flashrt_core.resize import Resize, Rotate, unit_to_model_range
from flashrt_core.settings import GuidanceSettings, Normalisation, PolicySettings, ResizeVariant

PictureTransform = Callable[[NDArray], NDArray]
StateTransform = Callable[[NDArray], NDArray]


@dataclass(frozen=True, eq=False)
class StateForms:
    """One state as the transforms see it; each [state_dim]."""

    robot: NDArray[np.float64]
    decoded: NDArray  # in the joint conventions of the model
    normalised: NDArray


class ActionTransform(Protocol):
    """[rows, columns] actions and the state they were inferred from -> actions, a step nearer the robot."""

    def __call__(self, actions: NDArray, state: StateForms) -> NDArray: ...


@dataclass(frozen=True, eq=False)
class Unnormalise:
    """Model units to physical units."""

    scaler: Scaler

    def __call__(self, actions: NDArray, state: StateForms) -> NDArray:
        return self.scaler.unnormalise(actions)


@dataclass(frozen=True, eq=False)
class AddState:
    """Relative columns to absolute ones."""

    relative: RelativeActions
    # openpi adds the normalised state after un-normalising it, lerobot the robot's state as it came.
    scaler: Scaler | None

    def __call__(self, actions: NDArray, state: StateForms) -> NDArray:
        return self.relative.to_absolute(actions, self._anchor(state, actions))

    def undo(self, actions: NDArray, state: StateForms) -> NDArray:
        """Absolute columns to relative ones."""
        return self.relative.to_relative(actions, self._anchor(state, actions))

    def _anchor(self, state: StateForms, actions: NDArray) -> NDArray:
        anchor = state.robot if self.scaler is None else self.scaler.unnormalise(state.normalised)
        return anchor.astype(actions.dtype, copy=False)


@dataclass(frozen=True)
class KeepColumns:
    """Drops the padding of the model."""

    columns: int

    def __call__(self, actions: NDArray, state: StateForms) -> NDArray:
        return actions[..., : self.columns]


@dataclass(frozen=True, eq=False)
class ToRobot:
    """The joint conventions of the model to those of the robot."""

    encode: Callable[[NDArray], NDArray]

    def __call__(self, actions: NDArray, state: StateForms) -> NDArray:
        return self.encode(actions)


@dataclass(frozen=True, eq=False)
class Reanchor:
    """The same motion in model units, seen from another state."""

    unnormalise: Unnormalise
    add_state: AddState

    def __call__(self, model_actions: NDArray, old: StateForms, new: StateForms) -> NDArray:
        """[rows, columns without padding] inferred from `old` -> what they would be from `new`."""
        absolute = self.add_state(self.unnormalise(model_actions, old), old)
        return self.unnormalise.scaler.normalise(self.add_state.undo(absolute, new))


@dataclass(frozen=True, eq=False)
class Camera:
    """A picture the model gets: its name in observations, its slot in the model, how it is prepared."""

    name: str
    slot: str
    transforms: tuple[PictureTransform, ...]

    def __call__(self, image: NDArray[np.uint8]) -> NDArray[np.uint8] | NDArray[np.float32]:
        for transform in self.transforms:
            image = transform(image)
        return image


class Pipeline(Protocol):
    """Everything before and after a model but for its tokens and pictures, for one family of models."""

    @property
    def cameras(self) -> tuple[Camera, ...]:
        """In the order of the model."""

    @property
    def state_dim(self) -> int: ...

    @property
    def action_dim(self) -> int: ...

    @property
    def sources(self) -> Mapping[str, str]:
        """What the statistics came from, for humans."""

    @property
    def warnings(self) -> tuple[str, ...]: ...

    @property
    def guidance(self) -> GuidanceSettings | None: ...

    @property
    def max_hard_delay(self) -> int:
        """Rows a checkpoint was trained to take as given; 0 = not trained for it."""

    @property
    def reanchor(self) -> 'Reanchor | None':
        """None: the actions do not count from the state, or chunks cannot be continued."""

    def state_forms(self, robot: NDArray[np.float64]) -> StateForms: ...

    def model_state(self, states: Sequence[StateForms]) -> NDArray[np.float32] | None:
        """[state columns of the model, padding included]; of several moments, oldest first, one row each.

        None where it reads the state in its prompt.
        """

    def state_range(self) -> NDArray[np.float64]:
        """[state_dim] normalised values beyond which a column lies outside of the training data."""

    def robot_actions(self, model_actions: NDArray[np.float32], state: StateForms) -> NDArray[np.float64]: ...

    def action_range(self, model_action_dim: int) -> NDArray[np.float64] | None: ...


@dataclass(frozen=True, eq=False)
class PiPipeline:
    """The transforms of Pi0.5 and Pi0, in the order of the original."""

    cameras: tuple[
        Camera, ...
    ]  # present ones, in the order of the model; absent slots are not part of the plan
    before: tuple[StateTransform, ...]  # robot -> decoded
    state_scaler: Scaler
    state_kind: Normalisation
    prompt: PromptFormat
    action_kind: Normalisation
    after: tuple[ActionTransform, ...]
    state_dim: int
    action_dim: int
    model_state_dim: int  # 0: the model reads the state in its prompt
    sources: Mapping[str, str]  # what the statistics came from, for humans
    warnings: tuple[str, ...] = ()
    guidance: GuidanceSettings | None = None
    max_hard_delay: int = 0  # rows a checkpoint was trained to take as given; 0 = not trained for it
    reanchor: Reanchor | None = None  # None: the actions do not count from the state

    def state_forms(self, robot: NDArray[np.float64]) -> StateForms:
        decoded = robot
        for transform in self.before:
            decoded = transform(decoded)
        return StateForms(robot, decoded, self.state_scaler.normalise(decoded))

    def model_state(self, states: Sequence[StateForms]) -> NDArray[np.float32] | None:
        """The continuous state of Pi0, padded with zeros after normalisation; none for Pi0.5."""
        if not self.model_state_dim:
            return None
        padded = np.zeros(self.model_state_dim, np.float32)
        normalised = states[-1].normalised
        padded[: len(normalised)] = normalised
        return padded

    def state_range(self) -> NDArray[np.float64]:
        return np.full(self.state_dim, _REPORTED_BEYOND.get(self.state_kind, 1.0))

    def robot_actions(self, model_actions: NDArray[np.float32], state: StateForms) -> NDArray[np.float64]:
        """[horizon, model_action_dim] -> [horizon, action_dim]."""
        actions: NDArray = model_actions
        for transform in self.after:
            actions = transform(actions, state)
        return np.asarray(actions, np.float64)

    def action_range(self, model_action_dim: int) -> NDArray[np.float64] | None:
        """[2, action_dim]: lowest and highest actions of the training data, in robot units.

        As far as the statistics tell: what they map to -1 and +1, or mean -+ 2 std. NaN in the columns that
        count from the state; None where the actions are not normalised.
        """
        end = _END_OF_RANGE.get(self.action_kind)
        if end is None:
            return None
        # A state of NaN reaches those columns that it is added to, and no others.
        unknown = np.full(self.state_dim, np.nan)
        ends = np.full((2, model_action_dim), [[-end], [end]], np.float32)
        return np.sort(self.robot_actions(ends, StateForms(unknown, unknown, unknown)), axis=0)


# Beyond these normalised values a state is reported: the end of the range, or three standard deviations.
_REPORTED_BEYOND: Mapping[Normalisation, float] = {'zscore': 3.0, 'identity': np.inf}

# Normalised value at which the training data end; mean -+ 2 std hold 95 % of a normal distribution.
_END_OF_RANGE: Mapping[Normalisation, float] = {
    'zscore': 2.0,
    'quantile': 1.0,
    'min_max': 1.0,
    'quantile10': 1.0,
}

# Value of the bars around a picture, in the range of the model.
BARS: Mapping[ResizeVariant, float] = {'openpi': -1.0, 'lerobot': -1.0, 'lerobot_0_4': -3.0}


def order_cameras(
    settings: PolicySettings, slots: tuple[str, ...], aliases: Mapping[str, str], size: int
) -> tuple[Camera, ...]:
    """The cameras of the settings in the order of the model's slots, whatever the order of their names."""
    by_slot: dict[str, str] = {}
    for name in settings.cameras:
        slot = aliases.get(name, name)
        if slot not in slots:
            raise Error(
                f"cameras: '{name}' is no slot of this checkpoint; it has {list(slots)}"
                + (f', also called {sorted(aliases)}' if aliases else '')
            )
        if slot in by_slot:
            raise Error(f"cameras: '{by_slot[slot]}' and '{name}' are both slot '{slot}'")
        by_slot[slot] = name
    fit: tuple[PictureTransform, ...] = (Resize(size, size, 'pil', settings.fit),)
    if settings.resize != 'openpi':
        padding = (BARS[settings.resize] + 1) / 2
        fit = (Resize(size, size, 'torch', settings.fit, padding), unit_to_model_range)
    cameras = []
    for slot in slots:
        if slot in by_slot:
            degrees = settings.rotation.get(by_slot[slot], 0)
            turn: tuple[PictureTransform, ...] = (Rotate(degrees),) if degrees else ()
            cameras.append(Camera(by_slot[slot], slot, turn + fit))
    return tuple(cameras)


def column_names(settings: PolicySettings, state_dim: int) -> tuple[str, ...]:
    """One name per state column, for messages."""
    if settings.state_names and len(settings.state_names) != state_dim:
        raise Error(f'state_names: {len(settings.state_names)} names for {state_dim} columns of the state')
    return settings.state_names or tuple(f'state[{i}]' for i in range(state_dim))
