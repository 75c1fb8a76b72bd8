# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What a policy of Pi0.5 or Pi0 is made of."""

from pathlib import Path

import numpy as np

from flashrt_core.engine import Core, FrameOptions, ModelConfig
from flashrt_core.errors import Error
from flashrt_core.lerobot import lerobot_pipeline
from flashrt_core.model_pictures import ModelPictures
from flashrt_core.openpi import openpi_pipeline
from flashrt_core.parts import PolicyParts
from flashrt_core.pipeline import BARS, PiPipeline, column_names
from flashrt_core.prompt_tokens import PiPromptTokens
from flashrt_core.rtc import denoise_times
from flashrt_core.settings import PolicySettings
from flashrt_core.tokenizer import Tokenizer


def pi_parts(settings: PolicySettings, config: ModelConfig, steps: int, core: Core) -> PolicyParts:
    """Reads statistics and tokenizer, and checks them against the model."""
    pipeline = (openpi_pipeline if settings.origin == 'openpi' else lerobot_pipeline)(settings, config)
    tokenizer = Tokenizer(Path(settings.tokenizer))
    if config.state_dim and pipeline.state_dim > config.state_dim:
        raise Error(f'the robot has {pipeline.state_dim} state columns, the model takes {config.state_dim}')
    times = denoise_times(settings.origin, steps)
    frames = bool(settings.max_image_bytes)
    return PolicyParts(
        pipeline=pipeline,
        prompt=PiPromptTokens(tokenizer, pipeline.prompt),
        pictures=ModelPictures(
            pipeline.cameras,
            ((config.image_size, config.image_size),) * len(pipeline.cameras),
            np.uint8 if settings.resize == 'openpi' else np.float32,
            core.Frame if frames else None,
        ),
        state_names=column_names(settings, pipeline.state_dim),
        times=times,
        engine_options={
            'horizon': settings.horizon,
            'times': times.tolist(),
            'float_images': settings.resize != 'openpi',
            'max_image_bytes': settings.max_image_bytes,
            'frame_options': _frame_options(settings, pipeline, core) if frames else (),
            'guided': settings.real_time_chunking,
        },
    )


def _frame_options(settings: PolicySettings, pipeline: PiPipeline, core: Core) -> list[FrameOptions]:
    """What order_cameras does to pictures, in the words of the engine."""
    return [
        core.FrameOptions(
            fit=settings.fit, rotation=settings.rotation.get(camera.name, 0), bars=BARS[settings.resize]
        )
        for camera in pipeline.cameras
    ]
