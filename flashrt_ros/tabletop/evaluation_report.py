# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What an evaluation leaves behind: a table for the screen and for documents, and a result file."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from rich.table import Table

from flashrt_core.result_file import write_result
from flashrt_ros.tabletop.evaluation import Condition, Results, varied
from flashrt_ros.tabletop.evaluation_summary import ACTED_ON, Summary, summarise
from flashrt_ros.tabletop.tasks import COLOURS

FORMAT, VERSION = 'flashrt_evaluation', 1
_LEFT = ('recipe', 'estimator', 'mode', 'control', 'task', 'asked for')


@dataclass(frozen=True)
class Origin:
    """How a result came to be: enough to come back to it."""

    command: str
    parameters: str  # the file
    changed: Mapping[str, Any]  # parameters that the command line changed
    policy: Mapping[str, str]  # of the first condition
    scales: Mapping[str, str]  # recipe and estimator -> what they were measured on
    renderer: str  # of the pictures
    workers: int

    def content(self) -> dict[str, Any]:
        return {
            **asdict(self),
            'versions': {
                'flashrt_ros': version('flashrt_ros'),
                'mujoco': mujoco.__version__,
                'numpy': np.__version__,
                'python': platform.python_version(),
            },
            'machine': f'{platform.machine()}, {os.cpu_count()} cores',
        }


def table(summaries: Sequence[Summary], conditions: Sequence[Condition]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows; of the conditions only what differs."""
    differing = varied(conditions)
    headings = [
        *differing,
        *('task', 'success (95 % interval)', 'median s', 'jump 95 %', 'largest', 'other cube', 'ms'),
    ]
    rows = []
    for one in summaries:
        words = one.condition.words()
        rows.append(
            [
                *(words[heading] for heading in differing),
                one.kind,
                str(one.success),
                _shown(one.median_s, '.2f'),
                _shown(one.jump_95, '.3f'),
                _shown(one.jump_max, '.3f'),
                str(one.is_another_cube),
                _shown(one.inference_ms, '.1f'),
            ]
        )
    return headings, rows


def confusion_table(
    summaries: Sequence[Summary], conditions: Sequence[Condition]
) -> tuple[list[str], list[list[str]]]:
    """Which cube was acted on, by the one asked for; all kinds of a condition together."""
    differing = varied(conditions)
    rows = []
    for condition in conditions:
        matrices = [one.confusion for one in summaries if one.condition == condition]
        if not matrices:
            continue
        words = condition.words()
        for colour, counts in zip(COLOURS, np.sum(matrices, axis=0).tolist(), strict=True):
            rows.append([*(words[heading] for heading in differing), colour, *map(str, counts)])
    return [*differing, 'asked for', *ACTED_ON], rows


def rich_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    shown = Table(box=None, header_style='bold', pad_edge=False)
    for heading in headings:
        shown.add_column(heading, justify='left' if heading in _LEFT else 'right')
    for row in rows:
        shown.add_row(*row)
    return shown


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ['| ' + ' | '.join(cells) + ' |' for cells in (headings, ['---'] * len(headings), *rows)]
    return '\n'.join(lines) + '\n'


def write_evaluation(path: Path, results: Results, origin: Origin, is_complete: bool) -> None:
    """Everything as JSON: summaries, and each episode."""
    summaries = summarise(results)
    write_result(
        path,
        {
            'format': FORMAT,
            'version': VERSION,
            'complete': is_complete,
            **origin.content(),
            'conditions': [
                {
                    **asdict(condition),
                    'summaries': [one.content() for one in summaries if one.condition == condition],
                    'episodes': [episode.content() for episode in episodes],
                }
                for condition, episodes in results.items()
            ],
        },
    )


def _shown(value: float | None, form: str) -> str:
    return '-' if value is None else f'{value:{form}}'
