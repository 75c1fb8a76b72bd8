# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Draws accuracy against latency: one point per way of running a model that was timed."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from flashrt_core.summary import Row

_EVERYWHERE, _CPU_ONLY = '#3182bd', '#d62728'


def write_picture(rows: Sequence[Row], path: Path) -> None:
    """Where nothing was timed, the weights stand for it, and the axis says so."""
    figure = Figure(figsize=(10, 6), layout='constrained')
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    judged = [row for row in rows if row.relative is not None]
    timed = [row for row in judged if row.latency is not None]
    if timed:
        on = ', '.join(dict.fromkeys(row.latency.on for row in timed if row.latency))
        axes.set_xlabel(f'latency [ms], median of whole calls: {on}')
        points = [(row, row.latency.median_ms) for row in timed if row.latency]
    else:
        axes.set_xlabel('weights [MB]; no latency was measured')
        points = [(row, row.weight_bytes / 1e6) for row in judged]
    axes.set_ylabel('relative error of actions - noise')
    axes.grid(alpha=0.3)
    if any(row.relative for row, _ in points):
        axes.set_yscale('log', nonpositive='clip')
    for number, (row, x) in enumerate(points, 1):
        _draw(axes, row, x, f'{number}  {row.variant}')
    numbers: dict[tuple[float, float | None], list[str]] = {}  # of the points in one place
    for number, (row, x) in enumerate(points, 1):
        numbers.setdefault((x, row.relative), []).append(str(number))
    for place, together in numbers.items():
        axes.annotate(', '.join(together), place, xytext=(6, 4), textcoords='offset points')
    left = len(judged) - len(points)
    axes.set_title(f'{len(points)} variants' + (f'; {left} without latency are left out' if left else ''))
    if points:
        figure.legend(loc='outside right upper', fontsize=8)
    figure.savefig(path, dpi=110)


def _draw(axes: Axes, row: Row, x: float, label: str) -> None:
    assert row.relative is not None
    is_cpu_only = row.runs_on.startswith('cpu only')
    low, high = row.interval or (row.relative, row.relative)
    off = [[max(0.0, row.relative - low)], [max(0.0, high - row.relative)]]
    label += ' (cpu only)' if is_cpu_only else ''
    axes.errorbar(
        x, row.relative, off, fmt='o', color=_CPU_ONLY if is_cpu_only else _EVERYWHERE, capsize=3, label=label
    )
