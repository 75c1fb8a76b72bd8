# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Training statistics: one number per column and kind, read from openpi's file and checked."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error
from flashrt_core.small_file import read_small_file


@dataclass(frozen=True, eq=False)
class Statistics:
    """What is known about the columns of one quantity, in robot units; each value has shape [columns]."""

    name: str  # 'state' or 'actions', for messages
    values: Mapping[str, NDArray]  # mean, std, q01, q99, min, max, q10, q90: those that the file has

    @property
    def columns(self) -> int:
        return max((len(value) for value in self.values.values()), default=0)

    def get(self, kind: str, wanted_by: str) -> NDArray:
        """The statistic of that kind; one that is missing is never replaced by another."""
        if kind not in self.values:
            raise Error(
                f"statistics of {self.name}: '{kind}' is missing, {wanted_by} needs it; the file has "
                f'{sorted(self.values)}'
            )
        return self.values[kind]


@dataclass(frozen=True, eq=False)
class StatisticsFile:
    """The statistics of a checkpoint and where they came from."""

    path: Path
    sha256: str
    state: Statistics
    actions: Statistics


def checkpoint_statistics(checkpoint: Path, asset_id: str | None, explicit: Path | None) -> Path:
    """The one file that may be used: an explicit path, or the checkpoint's own; nothing is searched for."""
    if explicit is not None:
        return explicit
    if asset_id is None:
        raise Error(
            "openpi statistics: give 'statistics' (path of a norm_stats.json) or 'asset_id' (for "
            f'{checkpoint}/assets/<asset_id>/norm_stats.json)'
        )
    parts = Path(asset_id).parts
    if not parts or Path(asset_id).is_absolute() or '..' in parts:
        raise Error(
            f"openpi statistics: asset_id '{asset_id}' must name a folder inside {checkpoint / 'assets'}"
        )
    return checkpoint / 'assets' / asset_id / 'norm_stats.json'


def read_norm_stats(path: Path) -> StatisticsFile:
    """Reads openpi's norm_stats.json."""
    try:
        is_there = path.is_file()
    except OSError as fault:  # such as a name that is too long
        raise Error(f'openpi statistics: {path} cannot be read: {fault.strerror}') from None
    if not is_there:
        raise Error(f'openpi statistics: {path} does not exist; no other place is searched')
    data = read_small_file(path)
    try:
        groups = json.loads(data)['norm_stats']
        state, actions = (_group(name, groups[name]) for name in ('state', 'actions'))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as fault:
        raise Error(
            f'openpi statistics: {path} is not {{"norm_stats": {{"state": {{...}}, "actions": {{...}}}}}} '
            f'with lists of numbers ({type(fault).__name__}: {fault})'
        ) from fault
    return StatisticsFile(path, hashlib.sha256(data).hexdigest(), state, actions)


def _group(name: str, group: Mapping[str, Sequence[float] | None]) -> Statistics:
    values = {kind: np.array(value, np.float64) for kind, value in group.items() if value is not None}
    for kind, value in values.items():
        if value.ndim != 1 or value.size == 0:
            raise ValueError(f'{name}.{kind} has shape {value.shape}')
    return Statistics(name, values)
