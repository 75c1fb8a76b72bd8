# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The outcome of a soak run: broken rules, reaction times, figures; as tables and as JSON."""

import json
import os
import platform
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

FORMAT = 'flashrt_ros.soak_report'
FORMAT_VERSION = 1
_SHOWN = 20  # findings


@dataclass(frozen=True)
class Finding:
    """A rule that was broken, once."""

    rule: str
    text: str


@dataclass
class Trials:
    """What one kind of fault led to, every time that it was brought about."""

    fault: str
    count: int = 0
    reaction_s: list[float] = field(default_factory=list)
    bound_s: float | None = None  # of the exact rule; None: the motion may go on
    live_bound_s: float | None = None  # with the slack of a live run
    resume_s: list[float] = field(default_factory=list)  # from when it may move again until it moves


@dataclass(frozen=True)
class Verdict:
    """A run is well when it has no findings."""

    title: str
    duration_s: float
    findings: tuple[Finding, ...]
    trials: tuple[Trials, ...]
    figures: Mapping[str, object]

    @property
    def is_well(self) -> bool:
        return not self.findings


def show(verdict: Verdict, console: Console) -> None:
    table = Table(title=f'{verdict.title}: {verdict.duration_s:.0f} s', box=box.SIMPLE, title_justify='left')
    for name in ('fault', 'times', 'reaction p50', 'max', 'bound', 'live bound', 'moves again p50', 'max'):
        table.add_column(name, justify='left' if name == 'fault' else 'right')
    for item in verdict.trials:
        bounds = ('', '') if item.bound_s is None else (_ms(item.bound_s), _ms(item.live_bound_s))
        table.add_row(item.fault, str(item.count), *_middle_and_most(item.reaction_s), *bounds,
                      *_middle_and_most(item.resume_s))  # fmt: skip
    console.print(table)
    figures = Table(box=box.SIMPLE, show_header=False)
    for name, value in verdict.figures.items():
        figures.add_row(name, f'{value:.4g}' if isinstance(value, float) else str(value))
    console.print(figures)
    for finding in verdict.findings[:_SHOWN]:
        console.print(f'BROKEN: {finding.rule}: {finding.text}', style='bold red', markup=False)
    if (more := len(verdict.findings) - _SHOWN) > 0:
        console.print(f'and {more} more', style='bold red')


def write_json(verdicts: list[Verdict], path: Path) -> None:
    content = {
        'format': FORMAT,
        'format_version': FORMAT_VERSION,
        'machine': platform.machine(),
        'processors': os.cpu_count(),
        'is_well': all(verdict.is_well for verdict in verdicts),
        'runs': [asdict(verdict) for verdict in verdicts],
    }
    path.write_text(json.dumps(content, indent=1) + '\n')


def _middle_and_most(values: list[float]) -> tuple[str, str]:
    return (_ms(statistics.median(values)), _ms(max(values))) if values else ('', '')


def _ms(seconds: float) -> str:
    return f'{seconds * 1e3:.0f} ms'
