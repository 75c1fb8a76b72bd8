# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Checks a folder of GR00T states and actions, with the files of a checkpoint that say how they are coded."""

from pathlib import Path

import numpy as np

from flashrt_core.errors import Error
from flashrt_core.golden import bounds
from flashrt_core.golden.files import data_files, notes
from flashrt_core.golden.options import RunOptions
from flashrt_core.golden.report import Gap, Report
from flashrt_core.groot.action_codec import action_codec
from flashrt_core.groot.embodiment import EMBODIMENTS_FILE, STATISTICS_FILE, read_embodiment
from flashrt_core.groot.processor import PROCESSOR_FILE
from flashrt_core.groot.state_codec import state_codec
from flashrt_core.tensor_file import TensorFile

_PATTERN = 'policy_*.safetensors'
_PERCENTILES_FILE = 'processor_config_percentiles.json'
_FILES = (PROCESSOR_FILE, _PERCENTILES_FILE, STATISTICS_FILE, EMBODIMENTS_FILE)


def check_groot_codec(folder: Path, options: RunOptions, report: Report) -> None:
    """Every policy_*.safetensors, batch item by batch item."""
    for path in data_files(folder):
        if path.match(_PATTERN):
            file = TensorFile(path)
            _check_policy(folder, file, report)
            report.add_unused(path.stem, file.unused())
        elif path.name not in _FILES:
            report.gaps.append(Gap(path.name, 'all of it', 'no check knows this file'))


def _check_policy(folder: Path, file: TensorFile, report: Report) -> None:
    case, said = file.path.stem, notes(file)
    processor = _PERCENTILES_FILE if said.flag('use_percentiles') else PROCESSOR_FILE
    embodiment = read_embodiment(folder, said.text('embodiment_tag'), processor)
    report.compare(case, 'rows of a chunk', embodiment.horizon, said.integer('valid_horizon'))
    states = state_codec(embodiment)
    actions = action_codec(embodiment, states)

    parts = [file.take(f'in.state.{name}', 3) for name in states.columns]
    for name, part in zip(states.columns, parts, strict=True):
        columns = states.columns[name]
        if part.shape != (len(parts[0]), 1, columns.stop - columns.start):
            raise Error(
                f'{file.path}: in.state.{name} has shape {list(part.shape)}, needed [{len(parts[0])}, 1, '
                f'{columns.stop - columns.start}]'
            )
    state = np.concatenate(parts, axis=-1)
    report.compare(case, 'state', states.encode(state), file.take('expect.state', 3), bounds.NORMALISED)

    chunks = file.take('in.action_pred', 3)
    if len(chunks) != len(state) or chunks.shape[1] < actions.horizon or chunks.shape[2] < actions.action_dim:
        raise Error(
            f'{file.path}: in.action_pred has shape {list(chunks.shape)}, needed {len(state)} items of at '
            f'least {actions.horizon} rows and {actions.action_dim} columns'
        )
    # The original computes as this program does and gives float32.
    decoded = np.array([actions.decode(*item) for item in zip(chunks, state[:, 0], strict=True)], np.float32)
    for name, columns in actions.columns.items():
        saved = file.take(f'expect.action.{name}', 3)
        report.compare(case, f'action {name}', decoded[..., columns], saved, bounds.NORMALISED)
