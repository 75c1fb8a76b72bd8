# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What it costs to keep a group of linears in float: measured time, or bytes that are moved."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flashrt_core.bench import FORMAT as BENCH_FORMAT
from flashrt_core.bench import VERSION as BENCH_VERSION
from flashrt_core.errors import Error
from flashrt_core.json_fields import Fields
from flashrt_core.result_file import read_result


@dataclass(frozen=True)
class MovedBytes:
    """Of the weights of a group, in one inference."""

    quantised: float
    kept: float  # in float


@dataclass(frozen=True)
class Costs:
    """Of keeping each group in float, beside quantising it."""

    of: Mapping[str, float]
    unit: str  # ms, or MB
    how: str  # for people


def byte_costs(moved: Mapping[str, MovedBytes]) -> Costs:
    costs = {name: (bytes.kept - bytes.quantised) / 1e6 for name, bytes in moved.items()}
    return Costs(costs, 'MB', 'weights that one inference moves')


def time_costs(
    calls: Mapping[str, Sequence[str]],
    moved: Mapping[str, MovedBytes],
    files: Sequence[Path],
    recipe: str,
    model: str,
) -> Costs:
    """From files of `flashrt bench --operations --json`.

    One of the recipe, and one with the linears in float. Where one of them is missing, the times of the other
    are scaled by the bytes of the weights that are moved.

    calls: of each group. recipe: as the study was told.
    """
    benches = [_Bench.read(path, model) for path in files]
    quantised = [bench for bench in benches if bench.recipe == recipe]
    kept = [bench for bench in benches if bench.recipe != recipe]
    if len(quantised) > 1 or len(kept) > 1:
        named = ', '.join(f'{bench.path} ({bench.recipe})' for bench in benches)
        raise Error(
            f'recipe: times of {named} were given; needed is one file of recipe {recipe}, one with the '
            'linears in float, or one of the two'
        )
    costs = {}
    for name, members in calls.items():
        bytes = moved[name]
        if not bytes.kept:  # nothing of it runs with each observation
            costs[name] = 0.0
            continue
        slow = kept[0].time_of(members) if kept else 0.0
        fast = quantised[0].time_of(members) if quantised else slow * bytes.quantised / bytes.kept
        if not kept:
            slow = fast * bytes.kept / bytes.quantised
        costs[name] = slow - fast
    measured = ' and '.join(f'{bench.path.name} ({bench.recipe})' for bench in (*quantised, *kept))
    guessed = '' if quantised and kept else '; the other recipe by the bytes of its weights, not measured'
    return Costs(costs, 'ms', f'times of calls in {measured} on {benches[0].device}{guessed}')


@dataclass(frozen=True)
class _Bench:
    path: Path
    recipe: str
    device: str
    times: Mapping[str, tuple[int, float]]  # call -> row of the file that it is in, its milliseconds

    @classmethod
    def read(cls, path: Path, model: str) -> '_Bench':
        content = read_result(path, {BENCH_FORMAT: BENCH_VERSION})
        if (found := content.text('model')) != model:
            raise Error(f'{path} was measured with a {found}, the study is of a {model}')
        rows = content.objects('calls')
        if not rows:
            raise Error(f'{path} holds no times of single calls; measure with `flashrt bench --operations`')
        times = {call: (i, ms) for i, row in enumerate(rows) for call, ms in _calls_of(row)}
        return cls(path, content.child('settings').text('recipe'), content.text('device'), times)

    def time_of(self, calls: Sequence[str]) -> float:
        """Rows in which one kernel does the work of several calls count once."""
        if missing := [call for call in calls if call not in self.times]:
            raise Error(f'{self.path} has no time of {missing[0]}; it is of another model or other sizes')
        return sum(dict(self.times[call] for call in calls).values())


def _calls_of(row: Fields) -> list[tuple[str, float]]:
    return [(name, row.number('median_ms')) for name in row.text('name').split(' + ')]
