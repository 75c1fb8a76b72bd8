# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""A tiny checkpoint that fits the reference robot of test/cases, and a parameter file that names it."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import yaml
from fake_policy import values

from flashrt_ros.demo_checkpoint import ASSET_ID, TOKENIZER, Sizes, write_demo_checkpoint

SIZES = Sizes(image=56, vision_layers=1, layers=1, vocabulary=712, horizon=10)
SLOTS = {'base': 'base_0_rgb', 'wrist': 'left_wrist_0_rgb'}  # of the robot -> of the model
JOINTS = 7
# q01 and q99 of every joint: -2 and 2 of the robot lie at -1 and 1 of the model.
LOW, HIGH = -2.0, 2.0


def write_tiny_checkpoint(folder: Path) -> Path:
    swing = np.sin(np.arange(40)[:, np.newaxis] / 10 + np.arange(14))
    write_demo_checkpoint(folder, 0.4 + 0.3 * swing, SIZES)
    column = {'mean': [0.0], 'std': [1.0], 'q01': [LOW], 'q99': [HIGH]}
    statistics = {kind: value * JOINTS for kind, value in column.items()}
    write_statistics(folder, {'state': statistics, 'actions': statistics})
    return folder


def statistics_path(folder: Path) -> Path:
    return folder / 'assets' / ASSET_ID / 'norm_stats.json'


def write_statistics(folder: Path, groups: Mapping) -> None:
    statistics_path(folder).write_text(json.dumps({'norm_stats': groups}))


def tiny_values(checkpoint: Path, transport: str = 'compressed', **changes: object) -> dict[str, object]:
    """Flat parameters of the reference robot on this checkpoint; changes use '__' for the dots of a name."""
    suffix = '/compressed' if transport == 'compressed' else ''
    cameras = {
        f'cameras.{slot}.{key}': value
        for robot, slot in SLOTS.items()
        for key, value in (
            ('topic', f'cam_{robot}/image_raw{suffix}'),
            ('transport', transport),
            ('rotation', 0),
        )
    }
    flat = {
        name: value
        for name, value in values(**changes).items()
        if not name.startswith(('cameras.base.', 'cameras.wrist.'))
    }
    given = {
        'model.checkpoint': str(checkpoint),
        'model.tokenizer': str(checkpoint / TOKENIZER),
        'model.statistics': str(statistics_path(checkpoint)),
        'cameras.names': list(SLOTS.values()),
        **cameras,
    }
    changed = {name.replace('__', '.'): value for name, value in changes.items()}
    return flat | given | changed


def write_params(path: Path, flat: Mapping[str, object]) -> Path:
    path.write_text(yaml.safe_dump({'/**': {'policy': {'ros__parameters': dict(flat)}}}))
    return path
