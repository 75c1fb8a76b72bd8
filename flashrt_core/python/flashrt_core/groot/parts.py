# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What a policy of GR00T N1.6 is made of."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from flashrt_core.engine import ModelConfig
from flashrt_core.errors import Error
from flashrt_core.groot.action_codec import action_codec
from flashrt_core.groot.chat import Chat
from flashrt_core.groot.embodiment import Embodiment, read_embodiment
from flashrt_core.groot.pictures import TOKEN_PIXELS, picture_steps, size_after
from flashrt_core.groot.pipeline import GrootPipeline
from flashrt_core.groot.processor import ActionConfig
from flashrt_core.groot.prompt_tokens import GrootPromptTokens
from flashrt_core.groot.settings import GrootSettings
from flashrt_core.groot.state_codec import StateCodec, state_codec
from flashrt_core.groot.tokenizer import QwenTokenizer
from flashrt_core.model_pictures import ModelPictures
from flashrt_core.parts import PolicyParts
from flashrt_core.pipeline import Camera, PictureTransform
from flashrt_core.resize import Rotate
from flashrt_core.types import PastPicture

Size = tuple[int, int]  # height and width


def groot_parts(settings: GrootSettings, config: ModelConfig) -> PolicyParts:
    """Reads what the checkpoint says about the embodiment; checks it against model and settings."""
    embodiment = read_embodiment(Path(settings.checkpoint), settings.embodiment_tag)
    _check_sizes(embodiment, config)
    _check_actions(embodiment, settings)
    state = state_codec(embodiment)
    actions = action_codec(embodiment, state)
    cameras, sizes = _cameras(embodiment, settings)
    chat = Chat(
        QwenTokenizer(Path(settings.tokenizer)),
        embodiment.processor.formalizes_language,
        tuple(height * width // TOKEN_PIXELS**2 for height, width in sizes),
    )
    prompt = GrootPromptTokens(chat)
    if prompt.image_token != config.image_token:
        raise Error(
            f'tokenizer: {prompt.path} writes pictures as token {prompt.image_token}, the model reads them '
            f'as {config.image_token}: it does not belong to this checkpoint'
        )
    return PolicyParts(
        pipeline=GrootPipeline(cameras, state, actions, _sources(embodiment, settings)),
        prompt=prompt,
        pictures=ModelPictures(cameras, sizes, np.uint8),
        state_names=_state_names(settings, state),
        times=np.empty(0, np.float32),  # the model has its own
        horizon=embodiment.horizon,
        picture_sizes={
            camera.name: settings.picture_sizes[camera.slot]
            for camera in cameras
            if camera.slot in settings.picture_sizes
        },
        state_columns=_column_names(state.columns),
        action_columns=_column_names(actions.columns, embodiment.modalities.action_configs),
        past_cameras={
            camera_name(view, rows): PastPicture(view, rows)
            for rows in embodiment.modalities.video.past
            for view in embodiment.modalities.video.keys
        },
        past_states=embodiment.modalities.state.past,
        engine_options={
            'horizon': 0,  # all rows take part, whatever the robot plays of them
            'times': (),
            'float_images': False,
            'max_image_bytes': 0,
            'frame_options': (),
            'guided': False,
            'image_sizes': sizes,
            'markup_rows': chat.markup_rows,
            'state_rows': len(embodiment.modalities.state.delta_indices),
            'embodiment_slot': embodiment.slot,
            'allow_untrained': settings.allow_untrained,
        },
    )


def _check_sizes(embodiment: Embodiment, config: ModelConfig) -> None:
    """The files around a model must be those of that model."""
    processor = embodiment.processor
    for name, said, known in (
        ('max_state_dim', processor.state_dim, config.state_dim),
        ('max_action_dim', processor.action_dim, config.action_dim),
        ('max_action_horizon', processor.horizon, config.horizon),
    ):
        if said != known:
            raise Error(f'{processor.path}: {name} is {said}, the model in config.json has {known}')
    if embodiment.slot >= config.embodiments:
        raise Error(
            f"embodiment '{embodiment.tag}' has slot {embodiment.slot}, the model has "
            f'{config.embodiments} slots'
        )


def _check_actions(embodiment: Embodiment, settings: GrootSettings) -> None:
    configs = embodiment.modalities.action_configs
    poses = [key for key, config in configs.items() if config.is_end_effector]
    if poses and settings.actions != 'end_effector':
        raise Error(
            f"policy settings: actions is '{settings.actions}', but {poses} of embodiment '{embodiment.tag}' "
            'are poses of an end effector'
        )


def _cameras(embodiment: Embodiment, settings: GrootSettings) -> tuple[tuple[Camera, ...], tuple[Size, ...]]:
    """One per time step and view, oldest first, with the sizes that the model sees."""
    video, processor = embodiment.modalities.video, embodiment.processor
    for name in ('rotation', 'picture_sizes'):
        if unknown := sorted(set(getattr(settings, name)) - set(video.keys)):
            raise Error(
                f"policy settings: {name} names {unknown}; the views of embodiment '{embodiment.tag}' are "
                f'{list(video.keys)}'
            )
    is_square = settings.letterbox != 'off'
    steps = picture_steps(is_square, processor.shortest_side, processor.crop_fraction)
    cameras, sizes = [], []
    for rows in (*video.past, 0):
        for view in video.keys:
            degrees = settings.rotation.get(view, 0)
            turn: tuple[PictureTransform, ...] = (Rotate(degrees),) if degrees else ()
            cameras.append(Camera(camera_name(view, rows), view, turn + steps))
            if not is_square and view not in settings.picture_sizes:
                raise Error(f"policy settings: picture_sizes lacks '{view}'; it is needed with letterbox off")
            height, width = (1, 1) if is_square else settings.picture_sizes[view]
            sizes.append(size_after(steps, *((width, height) if degrees in (90, 270) else (height, width))))
    return tuple(cameras), tuple(sizes)


def camera_name(view: str, rows: int) -> str:
    """'front', and 'front@-5' for what it showed five steps of the training data ago."""
    return f'{view}@-{rows}' if rows else view


def _state_names(settings: GrootSettings, state: StateCodec) -> tuple[str, ...]:
    if settings.state_names:
        if len(settings.state_names) != state.state_dim:
            raise Error(
                f'state_names: {len(settings.state_names)} names for {state.state_dim} columns of the state: '
                f'{", ".join(_column_names(state.columns))}'
            )
        return settings.state_names
    return _column_names(state.columns)


def _column_names(
    keys: Mapping[str, slice], configs: Mapping[str, ActionConfig] | None = None
) -> tuple[str, ...]:
    """'arm[0]', 'arm[1]', ...; with configs, actions by the key of the state that they move."""
    return tuple(
        f'{configs[name].state_key if configs else name}[{index}]'
        for name, columns in keys.items()
        for index in range(columns.stop - columns.start)
    )


def _sources(embodiment: Embodiment, settings: GrootSettings) -> dict[str, str]:
    ends = 'percentiles' if embodiment.processor.uses_percentiles else 'min and max'
    letterbox = 'off' if settings.letterbox == 'off' else 'on'
    return {**embodiment.sources, 'normalisation': f'by {ends}', 'letterbox': letterbox}
