# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What a replay measured: as a table for the eye, as JSON for programs; report_picture.py draws it."""

import json
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from flashrt_ros.latency import Percentiles

FORMAT = 'flashrt_ros.replay_report'
FORMAT_VERSION = 1
CLOSED_LOOP = 'closed loop'


@dataclass(frozen=True)
class StreamCounts:
    """Where the messages of one stream went."""

    topic: str
    recorded: int | None  # messages of the recording; None: it was none, and nobody counted
    received: int
    dropped: Mapping[str, int]  # reason -> messages that were received and refused
    used: int | None = None  # cameras only: frames that went into an observation
    superseded: int = 0  # a newer frame came before this one was needed
    waiting: int = 0  # not used yet

    @property
    def lost(self) -> int:
        """Messages that were played and never arrived."""
        return 0 if self.recorded is None else self.recorded - self.received

    @property
    def unaccounted(self) -> int:
        """Frames that were received and are in none of the counts, or in two of them (negative)."""
        if self.used is None:
            return 0
        return self.received - self.used - self.superseded - self.waiting - sum(self.dropped.values())

    @property
    def unexplained(self) -> int:
        """Messages without a true account of where they went; the two kinds cannot cancel each other."""
        return abs(self.lost) + abs(self.unaccounted)


@dataclass(frozen=True)
class ChunkTiming:
    """One chunk on the clock of the replay: bag time offline, the node's clock live."""

    chunk_id: int
    stamp_ns: int  # oldest input
    start_ns: int  # of inference
    end_ns: int

    @property
    def latency_ms(self) -> float:
        """From the oldest input's stamp until the chunk was there."""
        return (self.end_ns - self.stamp_ns) / 1e6


@dataclass(frozen=True)
class Report:
    """The outcome of one replay, or of a demo."""

    mode: str  # live | offline, of a replay; or closed loop
    clock: str  # which time the stamps and latencies are in
    bag: str  # or what else the inputs came from
    parameters: str
    messages: int  # that the figures are based on
    duration_s: float
    stages: Mapping[str, Percentiles]
    gated_stage: str  # the one that --budget-ms is about
    chunks: tuple[ChunkTiming, ...]
    streams: Mapping[str, StreamCounts]
    play: Mapping[str, float]  # counters of the chunk player
    policy: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    digest: str = ''  # of the chunks, offline only
    budget_ms: float | None = None

    @property
    def what(self) -> str:
        return self.mode if self.mode == CLOSED_LOOP else f'{self.mode} replay'

    @property
    def deadline_misses(self) -> int:
        """Times that the next chunk was not there when the rows of the last one ended."""
        return int(self.play.get('underruns', 0))

    @property
    def latency_samples(self) -> int:
        """Chunks that the latencies are based on; the node keeps the newest ones only."""
        return max((stage.count for stage in self.stages.values()), default=0)

    @property
    def missing(self) -> list[str]:
        """Each stream with messages that are missing without a reason, in words."""
        return [
            f'{name}: {counts.unexplained} of {counts.recorded} messages are missing without a reason '
            f'(played {counts.recorded}, received {counts.received}, received without account '
            f'{counts.unaccounted})'
            for name, counts in self.streams.items()
            if counts.unexplained
        ]

    @property
    def is_within_budget(self) -> bool:
        """A replay without a single chunk is in no budget."""
        if self.budget_ms is None:
            return True
        gated = self.stages.get(self.gated_stage)
        return gated is not None and gated.p99_ms <= self.budget_ms

    def to_json(self) -> str:
        values = asdict(self) | {
            'deadline_misses': self.deadline_misses,
            'is_within_budget': self.is_within_budget,
            'latency_samples': self.latency_samples,
            'environment': _environment(),
        }
        for name, counts in self.streams.items():
            values['streams'][name] |= {
                'lost': counts.lost,
                'unaccounted': counts.unaccounted,
                'unexplained': counts.unexplained,
            }
        return json.dumps({'format': FORMAT, 'version': FORMAT_VERSION, **values}, indent=2) + '\n'

    def write_json(self, path: Path) -> None:
        partial = path.with_suffix('.partial')
        partial.write_text(self.to_json(), encoding='utf-8')
        partial.replace(path)

    def print(self, console: Console) -> None:
        console.print(self._stage_table())
        console.print(self._stream_table())
        rate = len(self.chunks) / self.duration_s if self.duration_s else 0.0
        longest_s = self.play.get('longest_underrun_s', 0.0)
        console.print(
            f'{len(self.chunks)} chunks in {self.duration_s:.1f} s ({rate:.1f} per second) '
            f'from {self.messages} messages; {self.deadline_misses} deadline misses, '
            f'the longest {longest_s:.2f} s'
        )
        if self.latency_samples < len(self.chunks):
            console.print(
                f'the latencies are those of the last {self.latency_samples} of {len(self.chunks)} chunks'
            )
        if self.budget_ms is not None:
            word = 'within' if self.is_within_budget else '[bold red]OVER[/]'
            console.print(f'{word} the budget: p99 of {self.gated_stage} at most {self.budget_ms:g} ms')

    def _stage_table(self) -> Table:
        table = Table(
            title=f'Latency, {self.what} ({self.clock}) [ms]',
            title_justify='left',
            box=box.SIMPLE_HEAD,
        )
        table.add_column('stage')
        for name in ('count', 'p50', 'p90', 'p99', 'max'):
            table.add_column(name, justify='right')
        for stage, p in self.stages.items():
            figures = (f'{value:.2f}' for value in (p.p50_ms, p.p90_ms, p.p99_ms, p.max_ms))
            style = 'bold' if stage == self.gated_stage else None
            table.add_row(stage.replace('_', ' '), str(p.count), *figures, style=style)
        return table

    def _stream_table(self) -> Table:
        table = Table(title='Messages', title_justify='left', box=box.SIMPLE_HEAD)
        table.add_column('stream', no_wrap=True)
        for name in ('recorded', 'used', 'superseded', 'refused', 'missing'):
            table.add_column(name, justify='right')
        for name, s in self.streams.items():
            refused = ', '.join(f'{count} {reason}' for reason, count in s.dropped.items()) or '0'
            is_camera = s.used is not None
            table.add_row(
                name,
                '' if s.recorded is None else str(s.recorded),
                str(s.used) if is_camera else '',
                str(s.superseded) if is_camera else '',
                refused,
                str(s.unexplained),
                style='red' if s.unexplained else None,
            )
        return table


def percentiles(values_ms: Iterable[float]) -> Percentiles:
    values = np.fromiter(values_ms, np.float64)
    return Percentiles(len(values), *(float(p) for p in np.percentile(values, (50, 90, 99, 100))))


def _environment() -> dict[str, object]:
    return {
        'flashrt_ros': _version('flashrt_ros'),
        'python': platform.python_version(),
        'machine': platform.machine(),
        'processor': _processor(),
        'cores': len(os.sched_getaffinity(0)),
        'ros_distro': os.environ.get('ROS_DISTRO', ''),
    }


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return 'not installed'


def _processor() -> str:
    try:
        lines = Path('/proc/cpuinfo').read_text(encoding='utf-8').splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(':', 1)[1].strip() for line in lines if line.startswith('model name')), '')
