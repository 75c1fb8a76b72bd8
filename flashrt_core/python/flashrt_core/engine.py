# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What the policy needs of the native module, and how it is found."""

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error

if TYPE_CHECKING:
    from flashrt_core._core import Calibration, ChannelMaxima, Equalisation


class ModelConfig(Protocol):
    """Sizes of a checkpoint; padded model dimensions."""

    model_type: str  # 'pi05', 'pi0' or 'groot_n16'
    image_size: int
    action_dim: int
    horizon: int
    state_dim: int  # 0 where the state is part of the prompt
    steps: int  # 0 where the checkpoint does not say
    prompt_capacity: int  # 0 where the checkpoint does not say
    vocab_size: int
    image_token: int  # stands for a row of a picture in a conversation; 0 where there is none
    embodiments: int  # slots, one of which is loaded; 0 where there are none


class Guidance(Protocol):
    """previous [H, A] float32, weights [H] float32, guidance [S] float32, committed_rows."""


class Frame(Protocol):
    """A picture of a camera, as types.CameraFrame describes it; its data are not copied."""


class FrameOptions(Protocol):
    """fit, rotation and bars of the pictures of one camera."""


class Device(Protocol):
    """What an engine runs on."""

    name: str
    versions: str  # of driver and libraries


class Engine(Protocol):
    """One compiled model."""

    weights_digest: str
    plan_digest: str
    horizon: int
    steps: int

    @property
    def device(self) -> Device: ...

    @property
    def equalisation(self) -> 'Equalisation': ...

    def infer(
        self,
        images: NDArray[np.uint8] | NDArray[np.float32] | Sequence[Frame],
        tokens: NDArray[np.int32],
        noise: NDArray[np.float32],
        state: NDArray[np.float32] | None = None,
        guidance: Guidance | None = None,
    ) -> NDArray[np.float32]: ...

    def observe(
        self,
        calibration: 'Calibration',
        images: NDArray[np.uint8] | NDArray[np.float32] | Sequence[Frame],
        tokens: NDArray[np.int32],
        noise: NDArray[np.float32],
        state: NDArray[np.float32] | None = None,
    ) -> None: ...

    def observe_channels(
        self,
        maxima: 'ChannelMaxima',
        images: NDArray[np.uint8] | NDArray[np.float32] | Sequence[Frame],
        tokens: NDArray[np.int32],
        noise: NDArray[np.float32],
        state: NDArray[np.float32] | None = None,
    ) -> None: ...

    def equalise(self, maxima: 'ChannelMaxima', strength: float) -> 'Equalisation': ...


class Core(Protocol):
    """The native module, or a stand-in for it."""

    def read_model_config(self, checkpoint: str) -> ModelConfig: ...

    def Engine(  # noqa: N802 - the name of the class in the native module
        self,
        checkpoint: str,
        *,
        cameras: int,
        prompt_capacity: int,
        steps: int,
        horizon: int,
        times: Sequence[float],
        recipe: str,
        calibration: str | None,
        float_images: bool,
        max_image_bytes: int,
        frame_options: Sequence[FrameOptions],
        guided: bool,
        float_activations: bool,
        packed: str | None,
        backend: str,
        threads: int,
        device: int,
        tuning: str | None,
        image_sizes: Sequence[tuple[int, int]] = (),
        markup_rows: Sequence[int] = (),
        state_rows: int = 1,
        embodiment_slot: int = -1,
        allow_untrained: bool = False,
        equalisation: 'Equalisation | None' = None,
    ) -> Engine: ...

    def Frame(  # noqa: N802
        self,
        data: bytes | bytearray | memoryview | NDArray[np.uint8],
        encoding: str,
        height: int,
        width: int,
        step: int,
    ) -> Frame: ...

    def FrameOptions(self, *, fit: str, rotation: int, bars: float) -> FrameOptions: ...  # noqa: N802

    def Guidance(  # noqa: N802
        self,
        previous: NDArray[np.float32],
        weights: NDArray[np.float32],
        guidance: NDArray[np.float32],
        committed_rows: int,
    ) -> Guidance: ...


def native_core() -> Core:
    """The native module; transforms and tests do without it, so it is imported when a policy is loaded."""
    try:
        return cast(Core, importlib.import_module('flashrt_core._core'))
    except ImportError as fault:
        raise Error(
            f'the native module flashrt_core._core cannot be imported ({fault}); build the project with '
            '`pip install .`, `make demo` or `colcon build`'
        ) from fault
