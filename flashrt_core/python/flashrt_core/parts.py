# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What a policy is made of, whatever the family of its model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashrt_core.model_pictures import ModelPictures
from flashrt_core.pipeline import Pipeline
from flashrt_core.prompt_tokens import PromptTokens
from flashrt_core.types import PastPicture


@dataclass(frozen=True, eq=False)
class PolicyParts:
    """The parts around an engine, and how it is to be compiled."""

    pipeline: Pipeline
    prompt: PromptTokens
    pictures: ModelPictures
    state_names: tuple[str, ...]  # one per column
    times: NDArray[np.float32]  # of the denoise steps, for guidance
    engine_options: Mapping[str, Any]  # beyond those of every family
    horizon: int = 0  # rows of a chunk; 0: as many as the engine gives
    # As PolicySpec has them:
    picture_sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    state_columns: tuple[str, ...] = ()
    action_columns: tuple[str, ...] = ()
    past_cameras: Mapping[str, PastPicture] = field(default_factory=dict)
    past_states: tuple[int, ...] = ()
