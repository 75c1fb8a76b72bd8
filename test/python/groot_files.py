# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Checkpoint files of an invented robot, to be changed by a test before they are written."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

# Keys of state and actions; relative_arm counts from arm, step by step.
HORIZON = 4
STATE = {'arm': 3, 'tool': 9, 'gripper': 1, 'wheel': 2}
ACTION = {'relative_arm': 3, 'tool': 9, 'gripper': 1, 'base': 2}


def _modality(keys: list[str], deltas: list[int], **fields: Any) -> dict[str, Any]:
    return {
        'delta_indices': deltas,
        'modality_keys': keys,
        'sin_cos_embedding_keys': None,
        'mean_std_embedding_keys': None,
        'action_configs': None,
    } | fields


def _action(rep: str, kind: str = 'NON_EEF', pose_format: str = 'DEFAULT', state_key: str | None = None):
    return {'rep': rep, 'type': kind, 'format': pose_format, 'state_key': state_key}


class GrootFiles:
    """The three documents of a checkpoint, for the tag 'robot'."""

    def __init__(self) -> None:
        self.modalities: dict[str, Any] = {
            'video': _modality(['front', 'wrist'], [0]),
            'state': _modality(
                list(STATE), [0], sin_cos_embedding_keys=['wheel'], mean_std_embedding_keys=['gripper']
            ),
            'action': _modality(
                list(ACTION),
                list(range(HORIZON)),
                mean_std_embedding_keys=['gripper'],
                action_configs=[
                    _action('RELATIVE', state_key='arm'),
                    _action('RELATIVE', 'EEF', 'XYZ_ROT6D'),
                    _action('ABSOLUTE'),
                    _action('ABSOLUTE'),
                ],
            ),
            'language': _modality(['task'], [0]),
        }
        self.processor: dict[str, Any] = {
            'processor_class': 'Gr00tN1d6Processor',
            'processor_kwargs': {
                'modality_configs': {'robot': self.modalities},
                'image_crop_size': None,
                'image_target_size': None,
                'use_albumentations': True,
                'shortest_image_edge': 256,
                'crop_fraction': 0.95,
                'formalize_language': True,
                'max_state_dim': 20,
                'max_action_dim': 18,
                'max_action_horizon': 10,
                'use_percentiles': False,
                'clip_outliers': True,
                'apply_sincos_state_encoding': True,
                'use_relative_action': True,
            },
        }
        relative = {key: _statistics([HORIZON, ACTION[key]]) for key in ('relative_arm', 'tool')}
        self.statistics: dict[str, Any] = {
            'robot': {
                'state': {key: _statistics([columns]) for key, columns in STATE.items()},
                'action': {key: _statistics([columns]) for key, columns in ACTION.items()},
                'relative_action': relative,
            }
        }
        self.slots: dict[str, Any] = {'robot': 3}

    @property
    def kwargs(self) -> dict[str, Any]:
        return self.processor['processor_kwargs']

    def write(self, folder: Path) -> Path:
        for name, document in (
            ('processor_config.json', self.processor),
            ('statistics.json', self.statistics),
            ('embodiment_id.json', self.slots),
        ):
            (folder / name).write_text(json.dumps(deepcopy(document)))
        return folder


def write_byte_tokenizer(folder: Path, added: dict[str, int]) -> Path:
    """A vocabulary of the 256 bytes, which every text can be written with, and no merges."""
    printing = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    spelled = {byte: chr(byte) for byte in printing}
    spelled |= {byte: chr(256 + i) for i, byte in enumerate(b for b in range(256) if b not in printing)}
    (folder / 'vocab.json').write_text(json.dumps({text: byte for byte, text in spelled.items()}))
    (folder / 'merges.txt').write_text('#version: 0.2\n')
    (folder / 'added_tokens.json').write_text(json.dumps(added))
    return folder


def _statistics(shape: list[int]) -> dict[str, Any]:
    """min -1.5, max 2.5, quantiles -1 and 2, mean 0.5, std 2 in every column; steps are 0.1 apart."""
    step = np.zeros(shape) + (0.1 * np.arange(shape[0])[:, None] if len(shape) == 2 else 0)
    values = {'min': -1.5, 'max': 2.5, 'q01': -1.0, 'q99': 2.0, 'mean': 0.5, 'std': 2.0}
    return {kind: (value + step).tolist() for kind, value in values.items()}
