# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The values that cross the edge of a policy: what goes in, what comes out, what it declares."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error

ActionKind = Literal['joint_position', 'joint_velocity', 'end_effector']
PrefixMode = Literal['guided', 'hard']


@dataclass(frozen=True)
class Channels:
    """How the bytes of a pixel lie."""

    count: int
    rgb: slice | list[int]  # which of them are red, green and blue


# Pixels of whole bytes per colour, which an engine can resize from.
BYTE_ENCODINGS: Mapping[str, Channels] = {
    'rgb8': Channels(3, slice(0, 3)),
    'bgr8': Channels(3, slice(2, None, -1)),
    'rgba8': Channels(4, slice(0, 3)),
    'bgra8': Channels(4, slice(2, None, -1)),
    'mono8': Channels(1, [0, 0, 0]),
}


@dataclass(frozen=True)
class CameraFrame:
    """One picture as a driver delivers it; the fields mean what they mean in sensor_msgs/Image."""

    data: bytes | bytearray | memoryview | NDArray[np.uint8]
    encoding: str
    height: int
    width: int
    step: int  # bytes from one row to the next, at least the bytes of the pixels
    is_bigendian: bool = False

    def rgb(self) -> NDArray[np.uint8]:
        """[height, width, 3]; a view of the data where that is what they hold."""
        if self.encoding not in BYTE_ENCODINGS:
            raise Error(
                f"camera frame: encoding is '{self.encoding}', a policy takes {', '.join(BYTE_ENCODINGS)}; "
                'decode it first'
            )
        channels = BYTE_ENCODINGS[self.encoding]
        row_bytes = self.width * channels.count
        data = np.frombuffer(self.data, np.uint8)
        if min(self.height, self.width) < 1 or self.step < row_bytes or data.size != self.step * self.height:
            raise Error(
                f'camera frame: {data.size} bytes do not hold {self.height} rows of {self.width} '
                f'{self.encoding} pixels with step {self.step}'
            )
        rows = data.reshape(self.height, self.step)[:, :row_bytes]
        return rows.reshape(self.height, self.width, channels.count)[..., channels.rgb]


@dataclass(frozen=True)
class Observation:
    """What the robot sees and feels at one moment."""

    images: Mapping[str, NDArray[np.uint8] | CameraFrame]  # slot name -> [height, width, 3] RGB
    state: NDArray[np.float64]  # [state_dim], robot units, in the order of the policy's state
    stamps_ns: Mapping[str, int] = field(default_factory=dict)  # stream name -> header stamp that was used
    prompt_id: int = 0  # as returned by set_prompt
    is_trial: bool = False  # made up to try the policy, not measured: state_limit does not apply to it
    # [moments, state_dim] as `state`, at the moments of PolicySpec.past_states; None where there are none.
    past_states: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class ActionChunk:
    """What the policy wants done, row by row, from the moment of its observation on."""

    actions: NDArray[np.float64]  # [horizon, action_dim], robot units
    model_actions: NDArray[np.float32]  # as the noise, normalised, padding included
    stamps_ns: Mapping[str, int]  # copied from the observation
    prompt_id: int
    seed: int | None  # None when the caller gave the noise
    timings: Mapping[str, float]  # stage -> ms; 'preprocess', 'engine' and 'postprocess' at least
    out_of_range: tuple['OutOfRange', ...] = ()  # state columns beyond the training data


@dataclass(frozen=True)
class OutOfRange:
    """A state column whose normalised value lies beyond the range of the training data."""

    index: int  # column of the state after the platform transform
    name: str
    normalised: float


@dataclass(frozen=True)
class ActionPrefix:
    """The part of the chunk in play that the next chunk has to continue."""

    model_actions: NDArray[np.float32]  # [rows, columns], normalised; rows not yet executed, oldest first
    delay: int  # rows that will be executed before the new chunk is ready
    mode: PrefixMode = 'guided'
    # [state_dim], robot units: the state that the rows were inferred from. Needed where the actions of the
    # checkpoint count from the state: from that of the new observation the same motion is other numbers.
    state: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        if np.ndim(self.model_actions) != 2:
            raise Error(
                f'action prefix: model_actions has shape {np.shape(self.model_actions)}, '
                'needed [rows, columns]'
            )
        if (
            self.mode not in ('guided', 'hard')
            or not isinstance(self.delay, int | np.integer)
            or self.delay < 0
        ):
            raise Error(
                f"action prefix: mode '{self.mode}' and delay {self.delay}; "
                'modes are guided and hard, delay is a whole number >= 0'
            )


@dataclass(frozen=True)
class PastPicture:
    """What a camera showed so many rows of actions ago."""

    camera: str
    rows: int  # 1 or more


@dataclass(frozen=True)
class PolicySpec:
    """What a loaded policy takes and gives; all sizes are fixed when it is loaded."""

    cameras: tuple[str, ...]  # slot names that must be present, in the order of the model
    image_size: int  # pixels of the square the model sees
    state_dim: int  # columns of the robot's state
    action_dim: int  # columns of the robot's actions
    horizon: int  # rows of a chunk
    model_action_dim: int  # columns of the model's actions, padding included
    prompt_capacity: int  # tokens
    actions: ActionKind
    max_hard_delay: int = 0  # rows of a hard prefix that the checkpoint was trained for
    model_rows: int = 0  # of the model's actions; 0: as many as a chunk has
    # Camera -> height and width that its pictures must have, up to their scale; of others any.
    picture_sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    # What the checkpoint calls the columns, those of the actions by what they move; empty: not known.
    state_columns: tuple[str, ...] = ()
    action_columns: tuple[str, ...] = ()
    # Those of `cameras` that are another one in the past; and how many rows of actions ago the state is
    # wanted too, oldest first.
    past_cameras: Mapping[str, PastPicture] = field(default_factory=dict)
    past_states: tuple[int, ...] = ()

    @property
    def look_back(self) -> int:
        """Rows of actions from the oldest of what the policy wants to now; 0: it wants the present alone."""
        return max([*self.past_states, *(past.rows for past in self.past_cameras.values())], default=0)

    @property
    def noise_shape(self) -> tuple[int, int]:
        """Rows and columns of the noise and of the model's actions."""
        return self.model_rows or self.horizon, self.model_action_dim
