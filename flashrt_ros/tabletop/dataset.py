# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Makes a data set of demonstrations: python -m flashrt_ros.tabletop.dataset --episodes 2400 --seed 1 -o DIR

Only successes are kept; what was tried and what was kept is printed and written down. The same seed and
number give the same episodes on any number of processes, as far as renderer and processor are the same.
"""

import argparse
import json
import multiprocessing
import os
import platform
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from flashrt_core.errors import Error
from flashrt_ros.tabletop.dataset_format import (
    EPISODES,
    FORMAT_VERSION,
    SUMMARY,
    layout_of_rows,
    write_episode,
    write_statistics,
)
from flashrt_ros.tabletop.demonstration import demonstrate
from flashrt_ros.tabletop.pictures import Pictures
from flashrt_ros.tabletop.robot import SimulatedRobot
from flashrt_ros.tabletop.seeds import generator, training_scenes
from flashrt_ros.tabletop.tasks import KINDS, TASKS, WORDINGS, Task
from flashrt_ros.tabletop.variation import TRAINING, draw_layout

# What is harder and longer is shown more often.
_SHARES = {'touch': 0.2, 'lift': 0.2, 'place': 0.3, 'stack': 0.3}


@dataclass(frozen=True, eq=False)
class Tried:
    """What became of one episode; the rows are empty where it was not kept."""

    scene: int
    task: Task
    is_kept: bool
    why: str
    states: NDArray[np.float32]  # [n, joints]
    actions: NDArray[np.float32]  # [n, horizon, joints]


def draw_task(scene: int) -> tuple[Task, str]:
    """The task and the prompt of a training scene."""
    random = generator(scene, 'task')
    kind = random.choice(KINDS, p=[_SHARES[kind] for kind in KINDS])
    possible = [task for task in TASKS if task.kind == kind]
    task = possible[random.integers(len(possible))]
    return task, task.prompt(int(random.integers(len(WORDINGS[task.kind]))))


class _Maker:
    """One robot and its pictures in one process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._robot = SimulatedRobot(draw_layout(0, TRAINING), TASKS[0])
        self._pictures = Pictures(self._robot.world)

    def make(self, scene: int) -> Tried:
        task, prompt = draw_task(scene)
        shown = demonstrate(self._robot, scene, task, TRAINING, self._pictures.draw)
        if shown.is_success:
            write_episode(self._folder, scene, prompt, shown)
            return Tried(scene, task, True, '', shown.states, shown.actions)
        return Tried(scene, task, False, shown.verdict.why, shown.states[:0], shown.actions[:0])


_maker: _Maker | None = None  # of this process


def _begin(folder: Path) -> None:
    global _maker
    _maker = _Maker(folder)


def _make(scene: int) -> Tried:
    return _maker.make(scene)


def make_dataset(folder: Path, dataset: int, episodes: int, workers: int) -> list[Tried]:
    """Writes everything; raises Error where the folder is in use or a worker dies."""
    scenes = training_scenes(dataset, episodes)
    if folder.exists() and any(folder.iterdir()):
        raise Error(f'{folder} is not empty; name another folder')
    (folder / EPISODES).mkdir(parents=True, exist_ok=True)
    tried = sorted(_tried(folder, scenes, workers), key=lambda item: item.scene)
    kept = [item for item in tried if item.is_kept]
    if not kept:
        raise Error(f'none of {episodes} episodes succeeded')
    actions = np.concatenate([item.actions for item in kept])
    write_statistics(
        folder, np.concatenate([item.states for item in kept]), actions.reshape(-1, actions.shape[-1])
    )
    _write_summary(folder, dataset, tried)
    return tried


def _tried(folder: Path, scenes: range, workers: int) -> Iterator[Tried]:
    # 'spawn': a context of OpenGL does not outlive a fork.
    pool = ProcessPoolExecutor(
        workers, multiprocessing.get_context('spawn'), initializer=_begin, initargs=(folder,)
    )
    with pool:
        futures = [pool.submit(_make, scene) for scene in scenes]
        try:
            for future in track(as_completed(futures), 'demonstrations', len(futures)):
                yield future.result()
        except BrokenProcessPool as fault:
            raise Error('a process that makes demonstrations died; its last words are above') from fault
        finally:
            for future in futures:
                future.cancel()


def counts(tried: list[Tried]) -> Mapping[str, Mapping[str, int]]:
    """Kind -> tried, kept and observations."""
    return {
        kind: {
            'tried': len(of_kind),
            'kept': sum(item.is_kept for item in of_kind),
            'observations': sum(len(item.states) for item in of_kind),
        }
        for kind in KINDS
        if (of_kind := [item for item in tried if item.task.kind == kind])
    }


def _write_summary(folder: Path, dataset: int, tried: list[Tried]) -> None:
    kept = [item for item in tried if item.is_kept]
    summary = {
        'format_version': FORMAT_VERSION,
        'seed': dataset,
        'tried': len(tried),
        'kept': len(kept),
        'observations': sum(len(item.states) for item in kept),
        'by_kind': counts(tried),
        'failures': dict(Counter(item.why for item in tried if not item.is_kept).most_common()),
        'variation': asdict(TRAINING),
        **layout_of_rows(),
        'versions': {
            'python': platform.python_version(),
            **{name: metadata.version(name) for name in ('mujoco', 'numpy')},
        },
        'scenes': [item.scene for item in kept],
    }
    part = folder / f'{SUMMARY}.part'
    part.write_text(json.dumps(summary, indent=2) + '\n', encoding='utf-8')
    part.rename(folder / SUMMARY)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog='flashrt_ros.tabletop.dataset', description=__doc__.splitlines()[0])
    parser.add_argument('--episodes', type=int, required=True, help='to try')
    parser.add_argument('--seed', type=int, required=True, help='number of the data set, from 1 on')
    parser.add_argument('-o', '--out', type=Path, required=True, help='a new folder')
    parser.add_argument('--workers', type=int, default=len(os.sched_getaffinity(0)), help='%(default)s')
    options = parser.parse_args(arguments)
    console = Console()
    try:
        tried = make_dataset(options.out, options.seed, options.episodes, options.workers)
    except Error as error:
        Console(stderr=True).print(f'FAILED: {error}', style='bold red', markup=False, highlight=False)
        return 1
    table = Table('task', 'tried', 'kept', 'observations')
    for kind, numbers in counts(tried).items():
        table.add_row(kind, *(str(number) for number in numbers.values()))
    console.print(table)
    kept = sum(item.is_kept for item in tried)
    console.print(f'tried {len(tried)}, kept {kept}: {options.out}', highlight=False)
    return 0


if __name__ == '__main__':
    sys.exit(main())
