# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Draws a replay report: latency of every chunk over time, its distribution, and the stages."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from flashrt_ros.report import Report

_WAIT, _INFER, _LIMIT = '#9ecae1', '#3182bd', '#d62728'


def write_picture(report: Report, path: Path) -> None:
    figure = Figure(figsize=(11, 7), layout='constrained')
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 2)
    _draw_timeline(figure.add_subplot(grid[0, :]), report)
    _draw_histogram(figure.add_subplot(grid[1, 0]), report)
    _draw_stages(figure.add_subplot(grid[1, 1]), report)
    figure.suptitle(f'{report.what} of {Path(report.bag).name}: {len(report.chunks)} chunks')
    figure.savefig(path, dpi=110)


def _draw_timeline(axes: Axes, report: Report) -> None:
    axes.set_title('each chunk, from the stamp of its oldest input')
    axes.set_xlabel('time [s]')
    axes.set_ylabel('ms')
    if report.chunks:
        start = report.chunks[0].start_ns
        at_s = np.array([chunk.end_ns - start for chunk in report.chunks]) / 1e9
        waited = np.array([chunk.start_ns - chunk.stamp_ns for chunk in report.chunks]) / 1e6
        inferred = np.array([chunk.end_ns - chunk.start_ns for chunk in report.chunks]) / 1e6
        width_s = 0.6 * float(np.median(np.diff(at_s))) if len(at_s) > 1 else 0.05
        axes.bar(at_s, waited, width_s, color=_WAIT, label='sensor to inference')
        axes.bar(at_s, inferred, width_s, bottom=waited, color=_INFER, label='inference')
    _draw_budget(axes.axhline, report)
    if axes.get_legend_handles_labels()[0]:
        axes.margins(y=0.2)  # room for the legend
        axes.legend(loc='upper right', ncols=3)


def _draw_histogram(axes: Axes, report: Report) -> None:
    axes.set_title('stamp to chunk')
    axes.set_xlabel('ms')
    axes.set_ylabel('chunks')
    if report.chunks:
        axes.hist([chunk.latency_ms for chunk in report.chunks], bins=30, color=_INFER)
    _draw_budget(axes.axvline, report)


def _draw_stages(axes: Axes, report: Report) -> None:
    axes.set_title('stages: p50, and p99 as a line')
    axes.set_xlabel('ms')
    names = list(report.stages)
    middle = np.array([report.stages[name].p50_ms for name in names])
    high = np.array([report.stages[name].p99_ms for name in names])
    rows = np.arange(len(names))
    axes.barh(rows, middle, color=_WAIT)
    axes.hlines(rows, middle, high, color=_INFER)
    axes.set_yticks(rows, [name.replace('_', ' ') for name in names])
    axes.invert_yaxis()


def _draw_budget(line: object, report: Report) -> None:
    if report.budget_ms is not None:
        line(report.budget_ms, color=_LIMIT, linestyle='--', label=f'budget {report.budget_ms:g} ms')
