# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Draws an evaluation: success with its interval, time and jumps of every condition."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from flashrt_ros.tabletop.evaluation import Condition, varied
from flashrt_ros.tabletop.evaluation_summary import Summary
from flashrt_ros.tabletop.tasks import KINDS

_COLOURS = dict(zip(KINDS, ('#3182bd', '#31a354', '#e6850e', '#756bb1'), strict=True))
_ROW_IN = 0.2  # of the picture, per point


def write_picture(summaries: Sequence[Summary], conditions: Sequence[Condition], path: Path) -> None:
    """One line of points per condition, in the order of the table, a colour per kind of task."""
    kinds = [kind for kind in KINDS if any(one.kind == kind for one in summaries)]
    lines = len(conditions) * (len(kinds) + 1)
    figure = Figure(figsize=(11, 1.6 + _ROW_IN * lines), layout='constrained')
    FigureCanvasAgg(figure)
    success, time, jump = figure.subplots(1, 3, sharey=True, width_ratios=(2, 1, 1))
    differing = varied(conditions)
    labels = [', '.join(condition.words()[name] for name in differing) for condition in conditions]
    places = [place * (len(kinds) + 1) for place in range(len(conditions))]
    middle = (len(kinds) - 1) / 2
    success.set_yticks([place + middle for place in places], labels)
    success.invert_yaxis()
    _name(success, 'success with 95 % interval [%]')
    _name(time, 'median time to success [s]')
    _name(jump, 'jump at joins, 95 % [rad]')
    success.set_xlim(-2, 102)
    for one in summaries:
        y = places[conditions.index(one.condition)] + kinds.index(one.kind)
        colour, share = _COLOURS[one.kind], one.success.successes / one.success.tried
        low, high = one.success.interval()
        off = [[100 * max(0.0, share - low)], [100 * max(0.0, high - share)]]
        success.errorbar(100 * share, y, xerr=off, fmt='o', color=colour, capsize=2, markersize=4)
        if one.median_s is not None:
            time.plot(one.median_s, y, 'o', color=colour, markersize=4)
        if one.jump_95 is not None:
            jump.plot(one.jump_95, y, 'o', color=colour, markersize=4)
    for kind in kinds:
        success.plot([], [], 'o', color=_COLOURS[kind], label=kind)
    for axes in (time, jump):
        axes.set_xlim(left=0.0)
    figure.legend(loc='outside upper center', ncols=len(kinds))
    figure.savefig(path, dpi=110)


def _name(axes: Axes, text: str) -> None:
    axes.set_xlabel(text)
    axes.grid(alpha=0.3)
