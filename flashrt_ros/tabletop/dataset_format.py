# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The files of a data set: one safetensors file per episode, statistics, and a summary of how it was made.

    DIR/dataset.json             summary; it is there when the data set is complete
    DIR/norm_stats.json          statistics as openpi writes them
    DIR/episodes/<scene>.safetensors

An episode holds n observations: `images` u8 [n, 2, 112, 112, 3] (front, wrist; RGB), `state` f32 [n, 7]
(measured joints, rad and m), `actions` f32 [n, 10, 7] (row i: joint targets i + 1 row periods after the
observation), `cubes` f32 [n, 3, 3] (middles of the red, green and blue cube, m). Its metadata are texts:
scene, prompt, kind, block, base, detours.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from flashrt_core.errors import Error
from flashrt_ros.tabletop.arm import GRIPPER, HORIZON, JOINTS, OBSERVED_EVERY, ROW_PERIOD_S
from flashrt_ros.tabletop.tasks import Task
from flashrt_ros.tabletop.variation import CAMERAS

if TYPE_CHECKING:  # reading needs no physics
    from flashrt_ros.tabletop.demonstration import Demonstration

FORMAT_VERSION = 1
SUMMARY, STATISTICS, EPISODES = 'dataset.json', 'norm_stats.json', 'episodes'
# The file has the names of openpi, whose quantiles are 1 % and 99 %: a task that is done to the millimetre
# needs the whole range, since a state beyond it looks like one at its edge.
QUANTILES = {'q01': 0.001, 'q99': 0.999}
# A column that hardly moves, as joint_4 does, would be stretched to noise.
LEAST_WIDTH = {name: 0.04 if name == GRIPPER else 0.2 for name in JOINTS}  # rad, m


@dataclass(frozen=True, eq=False)
class Episode:
    """One file, read."""

    scene: int
    prompt: str
    task: Task
    detours: int
    images: NDArray[np.uint8]
    state: NDArray[np.float32]
    actions: NDArray[np.float32]
    cubes: NDArray[np.float32]


def episode_path(folder: Path, scene: int) -> Path:
    return folder / EPISODES / f'{scene:010d}.safetensors'


def write_episode(folder: Path, scene: int, prompt: str, demonstration: 'Demonstration') -> None:
    task = demonstration.task
    tensors = {
        'images': demonstration.images,
        'state': demonstration.states,
        'actions': demonstration.actions,
        'cubes': demonstration.cubes,
    }
    metadata = {
        'scene': str(scene),
        'prompt': prompt,
        'kind': task.kind,
        'block': task.block,
        'base': task.base,
        'detours': str(demonstration.detours),
    }
    contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    save_file(contiguous, episode_path(folder, scene), metadata)


def read_episode(path: Path) -> Episode:
    """Raises Error where the file is no episode."""
    try:
        with safe_open(path, 'numpy') as file:
            texts = file.metadata()
            arrays = {name: file.get_tensor(name) for name in ('images', 'state', 'actions', 'cubes')}
            task = Task(texts['kind'], texts['block'], texts['base'])
            return Episode(int(texts['scene']), texts['prompt'], task, int(texts['detours']), **arrays)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as fault:
        raise Error(f'{path} is no episode of a data set: {type(fault).__name__}: {fault}') from fault


def read_summary(folder: Path) -> Mapping[str, object]:
    """Raises Error where the data set is not there, not complete or of another version."""
    path = folder / SUMMARY
    try:
        summary = json.loads(path.read_text(encoding='utf-8'))
    except (OSError, ValueError) as fault:
        raise Error(f'{path} cannot be read ({fault}): the data set is not there, or not complete') from fault
    version = summary.get('format_version') if isinstance(summary, dict) else None
    if version != FORMAT_VERSION:
        raise Error(f'{path}: format version {version}, this program reads {FORMAT_VERSION}; make it anew')
    return summary


def read_dataset(folder: Path) -> Iterator[Episode]:
    """All episodes in the order of their scenes, one in memory at a time."""
    for scene in read_summary(folder)['scenes']:
        yield read_episode(episode_path(folder, scene))


def layout_of_rows() -> Mapping[str, object]:
    """What the numbers mean, for the summary."""
    return {
        'joints': list(JOINTS),
        'cameras': list(CAMERAS),
        'row_period_s': ROW_PERIOD_S,
        'horizon': HORIZON,
        'observation_period_s': ROW_PERIOD_S * OBSERVED_EVERY,
        'actions': 'absolute joint targets; row i holds i + 1 row periods after the observation',
        'quantiles': QUANTILES,
        'least_width': LEAST_WIDTH,
    }


def column_statistics(rows: NDArray[np.floating]) -> Mapping[str, list[float]]:
    """rows: [rows, joints] -> mean, std, q01, q99, min and max of each column."""
    rows = np.asarray(rows, np.float64)
    low, high = (np.quantile(rows, fraction, axis=0) for fraction in QUANTILES.values())
    spare = np.maximum(0.0, np.array(list(LEAST_WIDTH.values())) - (high - low)) / 2
    values = {
        'mean': rows.mean(axis=0),
        'std': rows.std(axis=0),
        'q01': low - spare,
        'q99': high + spare,
        'min': rows.min(axis=0),
        'max': rows.max(axis=0),
    }
    return {name: value.tolist() for name, value in values.items()}


def write_statistics(folder: Path, state: NDArray[np.floating], actions: NDArray[np.floating]) -> None:
    """state: [rows, joints]; actions: [rows, joints], the rows of all chunks."""
    groups = {'state': column_statistics(state), 'actions': column_statistics(actions)}
    text = json.dumps({'norm_stats': groups}, indent=2)
    (folder / STATISTICS).write_text(f'{text}\n', encoding='utf-8')
