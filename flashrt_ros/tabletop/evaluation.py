# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What an evaluation compares, which episodes it plays, and how each of them ended."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flashrt_core.errors import Error
from flashrt_ros.tabletop.seeds import evaluation_scenes
from flashrt_ros.tabletop.tasks import KINDS, TASKS, WORDINGS, Task

PLAYED = ('skip', 'blend', 'fusion', 'rtc')  # modes of the node's player
NAIVE, BLOCK = 'naive', 'block'  # what a loop without a player does; played as skip, from another moment on
MODES = (NAIVE, BLOCK, *PLAYED)


@dataclass(frozen=True)
class Condition:
    """One way to run the policy, judged on the same scenes as all others."""

    recipe: str  # name or path
    estimator: str  # of the scales that were made for it; empty: none were
    steps: int  # of denoising; 0: as the checkpoint says
    mode: str
    delay_s: float
    control: str

    def words(self) -> dict[str, str]:
        """Heading -> what a table shows."""
        return {
            'recipe': Path(self.recipe).name,
            'estimator': self.estimator or '-',
            'steps': str(self.steps or 'default'),
            'mode': self.mode,
            'delay': f'{self.delay_s * 1e3:g} ms',
            'control': self.control,
        }


def crossed(
    recipes: Sequence[tuple[str, str]],  # with their estimators
    steps: Sequence[int],
    modes: Sequence[str],
    delays_s: Sequence[float],
    controls: Sequence[str],
) -> tuple[Condition, ...]:
    """Every combination."""
    choices = itertools.product(recipes, steps, modes, delays_s, controls)
    return tuple(Condition(*recipe, *others) for recipe, *others in choices)


def varied(conditions: Sequence[Condition]) -> list[str]:
    """Headings in which conditions differ."""
    rows = [condition.words() for condition in conditions]
    return [heading for heading in rows[0] if len({row[heading] for row in rows}) > 1]


@dataclass(frozen=True)
class Assignment:
    """A scene with what is asked for in it, and in which words."""

    scene: int
    task: Task
    wording: int

    @property
    def prompt(self) -> str:
        return self.task.prompt(self.wording)


def assignments(
    kinds: Sequence[str], episodes: int, first: int = 0, wordings: Sequence[int] = (0, 1)
) -> tuple[Assignment, ...]:
    """So many scenes of evaluation for each kind; every cube, pair and wording in turn."""
    return tuple(_assigned(kinds, evaluation_scenes(episodes, first), wordings))


def _assigned(kinds: Sequence[str], scenes: range, wordings: Sequence[int]) -> Iterator[Assignment]:
    for kind in kinds:
        if kind not in KINDS:
            raise Error(f"'{kind}' is no kind of task; there are: {', '.join(KINDS)}")
        if unknown := [wording for wording in wordings if wording not in range(len(WORDINGS[kind]))]:
            raise Error(f'{kind} has no wording {unknown[0]}; there are 0 to {len(WORDINGS[kind]) - 1}')
        tasks = [task for task in TASKS if task.kind == kind]
        for scene in scenes:
            wording = wordings[scene // len(tasks) % len(wordings)]
            yield Assignment(scene, tasks[scene % len(tasks)], wording)


@dataclass(frozen=True)
class Episode:
    """How it ended. The same on every machine but for the time that inference took."""

    assignment: Assignment
    is_success: bool
    why: str
    acted_on: str  # colour of the cube that something was done with; empty: none
    time_s: float  # since the task was given
    jumps: tuple[float, ...] = ()  # rad, where a chunk follows another
    chunks: int = 0
    underruns: int = 0  # times that nothing followed the last row
    refused: int = 0  # first commands that the gate held back
    inference_ms: tuple[float, ...] = field(default=(), compare=False)

    def content(self) -> dict[str, object]:
        """For JSON."""
        task = self.assignment.task
        return {
            'scene': self.assignment.scene,
            'kind': task.kind,
            'block': task.block,
            'base': task.base,
            'wording': self.assignment.wording,
            'prompt': self.assignment.prompt,
            'success': self.is_success,
            'why': self.why,
            'acted_on': self.acted_on,
            'time_s': round(self.time_s, 3),
            'chunks': self.chunks,
            'underruns': self.underruns,
            'refused': self.refused,
            'largest_jump': round(max(self.jumps, default=0.0), 6),
        }


Results = Mapping[Condition, Sequence[Episode]]
