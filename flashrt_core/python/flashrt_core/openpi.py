# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Puts together the pipeline of an openpi checkpoint from its statistics and the user's settings."""

from pathlib import Path

from flashrt_core.engine import ModelConfig
from flashrt_core.errors import Error
from flashrt_core.normalise import check_widths, make_scaler
from flashrt_core.pipeline import (
    ActionTransform,
    AddState,
    KeepColumns,
    PiPipeline,
    Reanchor,
    ToRobot,
    Unnormalise,
    column_names,
    order_cameras,
)
from flashrt_core.platforms import OPENPI_SLOTS, ROBOTS, AlohaActions, AlohaState
from flashrt_core.prompt import PlainPrompt, StatePrompt
from flashrt_core.relative import RelativeActions, expand_mask
from flashrt_core.settings import PolicySettings
from flashrt_core.statistics import checkpoint_statistics, read_norm_stats


def openpi_pipeline(settings: PolicySettings, config: ModelConfig) -> PiPipeline:
    """Order of openpi: platform, normalise, resize, tokenise; back: un-normalise, add state, platform."""
    if settings.normalisation is None or settings.delta_mask is None:
        missing = 'normalisation' if settings.normalisation is None else 'delta_mask'
        raise Error(f"policy settings: '{missing}' is needed; an openpi checkpoint does not store it")
    if settings.state_text_width:
        raise Error('policy settings: state_text_width belongs to checkpoints of lerobot <= 0.4')
    if settings.state_in_prompt and config.model_type == 'pi0':
        raise Error('policy settings: state_in_prompt is true, but a Pi0 model takes its state as numbers')
    state_dim, action_dim = _dimensions(settings)
    aloha = settings.platform == 'aloha' and settings.adapt_to_pi
    robot = ROBOTS.get(settings.platform)
    cameras = order_cameras(settings, OPENPI_SLOTS, robot.cameras if robot else {}, config.image_size)
    present = {camera.slot for camera in cameras}
    if robot and not present.issuperset(robot.required):
        raise Error(
            f"cameras: {sorted(set(robot.required) - present)} missing; platform '{settings.platform}' needs "
            f'{list(robot.required)}'
        )

    explicit = None if settings.statistics is None else Path(settings.statistics)
    file = read_norm_stats(checkpoint_statistics(Path(settings.checkpoint), settings.asset_id, explicit))
    kind = settings.normalisation
    action_names = tuple(f'action[{i}]' for i in range(action_dim))
    checks = ((file.state, column_names(settings, state_dim)), (file.actions, action_names))
    warnings = [
        warning
        for statistics, names in checks
        for warning in check_widths(
            kind, statistics, names, settings.min_statistics_width, settings.allow_degenerate_statistics
        )
    ]
    state_scaler = make_scaler('openpi', kind, file.state)
    unnormalise = Unnormalise(make_scaler('openpi', kind, file.actions))
    after: list[ActionTransform] = [unnormalise]
    reanchor = None
    masked = sum(map(abs, settings.delta_mask))
    if masked > min(state_dim, action_dim):
        raise Error(
            f'policy settings: delta_mask {settings.delta_mask} names {masked} columns; the state has '
            f'{state_dim}, the actions {action_dim}'
        )
    mask = expand_mask(settings.delta_mask)
    if any(mask):
        add_state = AddState(RelativeActions(mask), state_scaler)
        after.append(add_state)
        reanchor = Reanchor(unnormalise, add_state)
    after.append(KeepColumns(action_dim))
    if aloha:
        after.append(ToRobot(AlohaActions()))
    return PiPipeline(
        cameras=cameras,
        before=(AlohaState(),) if aloha else (),
        state_scaler=state_scaler,
        state_kind=kind,
        prompt=StatePrompt() if settings.state_in_prompt else PlainPrompt(),
        action_kind=kind,
        after=tuple(after),
        state_dim=state_dim,
        action_dim=action_dim,
        model_state_dim=config.state_dim,
        sources={
            'statistics': str(file.path),
            'statistics_sha256': file.sha256,
            'statistics_columns': f'state {file.state.columns}, actions {file.actions.columns}',
            'normalisation': kind,
        },
        warnings=tuple(warnings),
        guidance=settings.guidance,
        reanchor=reanchor,
    )


def _dimensions(settings: PolicySettings) -> tuple[int, int]:
    """Columns of the robot's state and actions, from the platform or the settings."""
    robot = ROBOTS.get(settings.platform)
    if (settings.adapt_to_pi is None) == (settings.platform == 'aloha'):
        raise Error(
            f"policy settings: adapt_to_pi is {settings.adapt_to_pi} with platform '{settings.platform}'; it "
            'is needed for aloha and means nothing elsewhere'
        )
    if robot is None:
        if not settings.state_dim or not settings.action_dim:
            raise Error(
                "policy settings: 'state_dim' and 'action_dim' are needed with platform 'none'; an openpi "
                'checkpoint does not store them'
            )
        return settings.state_dim, settings.action_dim
    for name in ('state_dim', 'action_dim'):
        given, fixed = getattr(settings, name), getattr(robot, name)
        if given not in (0, fixed):
            raise Error(f"policy settings: {name} is {given}, platform '{settings.platform}' has {fixed}")
    if settings.actions not in robot.actions:
        raise Error(
            f"policy settings: actions is '{settings.actions}', platform '{settings.platform}' has "
            f'{" or ".join(robot.actions)}'
        )
    return robot.state_dim, robot.action_dim
