# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Checks a folder of policy server messages: what they mean, and that they are written as they were read."""

from pathlib import Path
from typing import Any

import numpy as np

from flashrt_core.golden.files import data_files
from flashrt_core.golden.options import RunOptions
from flashrt_core.golden.report import Gap, Report
from flashrt_core.groot.wire import ModalityMessage, decode, encode
from flashrt_core.small_file import read_small_file


def _modality(key: str) -> ModalityMessage:
    return ModalityMessage(
        {
            'delta_indices': [0],
            'modality_keys': [key],
            'sin_cos_embedding_keys': None,
            'mean_std_embedding_keys': None,
            'action_configs': None,
        }
    )


# Both versions say the same; the files are named <version>_<message>.
_MESSAGES: dict[str, Any] = {
    'ping_request': {'endpoint': 'ping'},
    'ping_response': {'status': 'ok', 'message': 'Server is running'},
    'reset_request': {'endpoint': 'reset', 'data': {'options': None}},
    'error_response': {'error': 'Unknown endpoint: foo'},
    'get_modality_config_request': {'endpoint': 'get_modality_config'},
    'get_modality_config_response': {'video': _modality('front'), 'language': _modality('task')},
    'get_action_request': {
        'endpoint': 'get_action',
        'data': {
            'observation': {
                'video': {'front': np.arange(0, 240, 20, np.uint8).reshape(1, 1, 2, 2, 3)},
                'state': {'arm': np.array([[[0.5, -1.25, 2.0]]], np.float32)},
                'language': {'task': [['pick up the cube']]},
            },
            'options': None,
        },
    },
    'get_action_response': [
        {'arm': np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], np.float32).reshape(1, 2, 3)},
        {},
    ],
}


def check_groot_wire(folder: Path, options: RunOptions, report: Report) -> None:
    """Every message; those that hold arrays or configurations also tell their version."""
    for path in data_files(folder):
        version, _, name = path.stem.partition('_')
        if path.suffix != '.msgpack' or name not in _MESSAGES or version not in ('n16', 'n17'):
            report.gaps.append(Gap(path.name, 'all of it', 'no check knows this file'))
            continue
        data = read_small_file(path)
        message = decode(data)
        _compare(path.stem, message.content, _MESSAGES[name], report)
        if message.form is not None:
            report.compare_text(path.stem, 'version', message.form, version)
        written = encode(message.content, 'n16' if version == 'n16' else 'n17')
        report.compare(path.stem, 'bytes', list(written), list(data))


def _compare(case: str, found: Any, wanted: Any, report: Report) -> None:
    """Arrays by their numbers and types, everything around them as text."""
    if isinstance(wanted, np.ndarray) and isinstance(found, np.ndarray):
        report.compare_text(case, 'array type', found.dtype.str, wanted.dtype.str)
        report.compare(case, 'array', found, wanted)
    elif isinstance(wanted, dict) and isinstance(found, dict):
        report.compare_text(case, 'keys', repr([*found]), repr([*wanted]))
        for key in wanted:
            _compare(case, found.get(key), wanted[key], report)
    elif isinstance(wanted, list) and isinstance(found, list) and len(found) == len(wanted):
        for pair in zip(found, wanted, strict=True):
            _compare(case, *pair, report)
    else:
        report.compare_text(case, 'value', repr(found), repr(wanted))
