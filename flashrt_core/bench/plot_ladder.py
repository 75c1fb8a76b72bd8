# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Draws what bench_ladder measured: plot_ladder.py LADDER.json docs/images/ladder.png."""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use('Agg')
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

FORMAT, VERSION = 'flashrt_ladder', 2
BAR, PREDICTED = '#3b6ea5', '#d1495b'


def read_rows(path: Path) -> tuple[str, list[dict[str, Any]]]:
    """The device and the rows of the file."""
    content = json.loads(path.read_text())
    if (content.get('format'), content.get('version')) != (FORMAT, VERSION):
        raise SystemExit(f'{path}: expected {FORMAT} version {VERSION}, written by bench_ladder --json')
    return content['device'], content['rows']


def draw_times(axes: Axes, rows: list[dict[str, Any]], key: str, title: str) -> None:
    """A bar per row that has this time, and a mark where the prediction saw it."""
    previous = None
    for position, row in enumerate(rows):
        measured, saving = row[f'{key}_ms'], row[f'predicted_{key}_saving_ms']
        if measured is None:
            continue
        end = measured
        axes.barh(position, measured, color=BAR)
        if previous is not None and saving is not None:
            predicted = previous - saving
            axes.plot(predicted, position, '|', color=PREDICTED, markersize=13, markeredgewidth=2)
            end = max(measured, predicted)
        axes.annotate(
            f'{measured:.2f}', (end, position), (5, 0), textcoords='offset points', va='center', fontsize=8
        )
        previous = measured
    axes.set_title(title, fontsize=10)
    axes.set_xlabel('ms')
    axes.set_xlim(0, axes.get_xlim()[1] * 1.1)
    axes.spines[['top', 'right']].set_visible(False)


def draw(device: str, rows: list[dict[str, Any]], output: Path) -> None:
    figure, (launched, replayed) = plt.subplots(1, 2, sharey=True, figsize=(11, 5.2), layout='constrained')
    draw_times(launched, rows, 'launched', 'kernels launched one by one, then one graph')
    draw_times(replayed, rows, 'replayed', 'the same calls replayed as a graph')
    labels = [f'{row["name"]}\n{row["nodes"]:,} nodes' for row in rows]
    launched.set_yticks(range(len(rows)), labels, fontsize=8)
    launched.invert_yaxis()
    mark = {'color': PREDICTED, 'marker': '|', 'markersize': 12, 'markeredgewidth': 2, 'linestyle': ''}
    marks = [
        Line2D([], [], color=BAR, linewidth=7, label='measured'),
        Line2D([], [], label='predicted from the row above', **mark),
    ]
    replayed.legend(handles=marks, loc='lower right', fontsize=8, frameon=False)
    figure.suptitle(f'Pi0.5 in FP8 on {device}: what each step of the method saves', fontsize=11)
    figure.savefig(output, dpi=150)


if __name__ == '__main__':
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    draw(*read_rows(Path(sys.argv[1])), Path(sys.argv[2]))
