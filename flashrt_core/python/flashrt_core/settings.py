# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Every choice that turns a checkpoint into a policy; what moves an arm has no default."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, get_args

from flashrt_core.errors import Error
from flashrt_core.resize import Fit
from flashrt_core.types import ActionKind

Origin = Literal['openpi', 'lerobot']
Platform = Literal['none', 'aloha', 'libero', 'droid']
ResizeVariant = Literal['openpi', 'lerobot', 'lerobot_0_4']
Normalisation = Literal['identity', 'zscore', 'quantile', 'min_max', 'quantile10']
Schedule = Literal['linear', 'exp', 'ones', 'zeros']


@dataclass(frozen=True)
class GuidanceSettings:
    """How strongly the next chunk is held to the chunk in play (guided real-time chunking)."""

    schedule: Schedule
    execution_horizon: int  # rows; guidance ends there
    max_weight: float

    def __post_init__(self) -> None:
        check_choices(self, schedule=Schedule)
        horizon, weight = self.execution_horizon, self.max_weight
        whole = isinstance(horizon, int) and _is_number(horizon)
        if not (whole and horizon >= 1 and _is_number(weight) and 0 < weight < math.inf):
            raise Error(
                f'guidance: execution_horizon {horizon!r} and max_weight {weight!r} must be positive and '
                'finite, the first a whole number'
            )


@dataclass(frozen=True, kw_only=True)
class CheckpointSettings:
    """What the settings of every family of models have.

    If they do not decide a field that says "or the checkpoint" (None or 0), the checkpoint's own files do; if
    these do not either, loading fails and names the field.
    """

    checkpoint: str | os.PathLike  # folder with config.json and *.safetensors
    tokenizer: str | os.PathLike
    actions: ActionKind
    state_names: tuple[str, ...] = ()  # for messages only
    rotation: Mapping[str, int] = field(
        default_factory=dict
    )  # slot -> degrees counter-clockwise, before resize
    # Bytes of the largest picture of a camera: pictures go to the engine as they come, and it resizes them
    # where it runs. 0: they are resized here.
    max_image_bytes: int = 0
    prompt_capacity: int = 0  # tokens; or the checkpoint
    steps: int = 0  # denoising steps; or the checkpoint
    state_limit: float | None = None  # refuse observations whose normalised state is beyond +-limit
    real_time_chunking: bool = False  # compile the model so that infer takes a prefix
    seed: int = 0  # of the noise where infer is given neither noise nor seed

    backend: str = 'cpu'  # or 'cuda'
    recipe: str = 'f32'  # f32, bf16, fp8, fp8_f16, fp8_mixed or the path of a recipe file
    calibration: str | os.PathLike | None = None  # of `flashrt calibrate`, for FP8 activations
    packed: str | os.PathLike | None = None  # of `flashrt pack`: read instead of the weights
    threads: int = 0  # 0 = as many as the machine has
    device: int = 0  # cuda, as the following: index of the GPU
    tuning: str | os.PathLike | None = None  # keeps which algorithms are fastest; made where there is none

    def __post_init__(self) -> None:
        check_choices(self, actions=ActionKind)
        for name, degrees in self.rotation.items():
            if degrees not in (0, 90, 180, 270):
                raise Error(
                    f"policy settings: rotation of '{name}' is {degrees}; a rotation is 0, 90, 180 or 270 "
                    'degrees'
                )
        for item in fields(self):
            value = getattr(self, item.name)
            if item.type is int and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
                raise Error(f'policy settings: {item.name} is {value!r}, needed a whole number >= 0')
            # The text 'false' would count as true.
            if item.type in (bool, bool | None) and not isinstance(value, item.type):
                raise Error(f'policy settings: {item.name} is {value!r}, needed true or false')
        if self.state_limit is not None and not (_is_number(self.state_limit) and self.state_limit > 0):
            raise Error(f'policy settings: state_limit is {self.state_limit!r}, needed a number > 0 or none')


@dataclass(frozen=True, kw_only=True)
class PolicySettings(CheckpointSettings):
    """Of Pi0.5 and Pi0. tokenizer: a SentencePiece model file."""

    origin: Origin  # whose pipeline the checkpoint was trained with: arithmetic, prompt format, times
    platform: Platform  # joint and camera conventions of the robot
    cameras: tuple[str, ...]  # slots that are present; names of the model, the platform or a rename_map
    resize: ResizeVariant  # 'openpi': antialiased bytes, as served by openpi; 'lerobot': bilinear floats
    # 'lerobot_0_4': as lerobot <= 0.4, whose bars are at -3 instead of -1
    fit: Fit  # 'letterbox' keeps the aspect ratio and pads with black
    state_in_prompt: bool  # openpi: discrete_state_input; always true for Pi0.5 of lerobot, false for Pi0

    statistics: str | os.PathLike | None = None  # norm_stats.json, or a folder with lerobot's processor files
    asset_id: str | None = None  # instead: <checkpoint>/assets/<asset_id>/norm_stats.json
    normalisation: Normalisation | None = None  # or the checkpoint (lerobot)
    delta_mask: tuple[int, ...] | None = (
        None  # (6, -1): 6 columns relative to the state, 1 absolute; () = none
    )
    adapt_to_pi: bool | None = None  # needed for ALOHA: joint signs and gripper maps of the base model
    state_dim: int = 0  # columns of the robot's state; or the platform or the checkpoint (lerobot)
    action_dim: int = 0  # columns of the robot's actions; or the platform or the checkpoint (lerobot)
    horizon: int = 0  # rows of a chunk; or the checkpoint
    state_text_width: int = (
        0  # 32 for checkpoints of lerobot <= 0.4, which wrote padding zeros into the prompt
    )

    allow_degenerate_statistics: bool = False
    min_statistics_width: float = 1e-3  # robot units; a column narrower than this is degenerate
    guidance: GuidanceSettings | None = None  # needed for a prefix of mode 'guided'; or the checkpoint

    def __post_init__(self) -> None:
        check_choices(self, origin=Origin, platform=Platform, resize=ResizeVariant, fit=Fit)
        super().__post_init__()
        if self.normalisation is not None:
            check_choices(self, normalisation=Normalisation)
        if self.statistics is not None and self.asset_id is not None:
            raise Error(
                f"policy settings: statistics '{self.statistics}' and asset_id '{self.asset_id}' both name "
                'the statistics; give one'
            )
        if not self.cameras or len(set(self.cameras)) != len(self.cameras):
            raise Error(
                f'policy settings: cameras {list(self.cameras)} must hold at least one name and none twice'
            )
        for name in self.rotation:
            if name not in self.cameras:
                raise Error(f"policy settings: rotation of '{name}', the cameras are {list(self.cameras)}")
        if any(type(count) is not int or not count for count in self.delta_mask or ()):
            raise Error(
                f'policy settings: delta_mask is {self.delta_mask}, needed counts of columns such as (6, -1)'
            )
        width = self.min_statistics_width
        if not (_is_number(width) and 0 <= width < math.inf):
            raise Error(f'policy settings: min_statistics_width is {width!r}, needed a number >= 0')


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_choices(settings: object, **choices: object) -> None:
    """Each field of the settings holds one of the values of its Literal type."""
    for name, choice in choices.items():
        value = getattr(settings, name)
        if value not in get_args(choice):
            raise Error(f"policy settings: {name} is '{value}', known: {', '.join(get_args(choice))}")
