# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Times the node on a policy without a model: stop, command stream, overhead, joins of chunks.

    python test/benchmark/runtime_timing.py [--quick] [--out out/timing]

All commands are timed by the middleware: when the node handed them over and when another process got them.
The full run takes twelve minutes, the quick one two, with fewer trials.
"""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from chunk_joins import SETTINGS, measure_joins
from rich import box
from rich.console import Console
from rich.table import Table

from flashrt_core.errors import Error
from flashrt_ros.local_ros import set_up_transport, spinning_node
from flashrt_ros.soak.child import Child
from flashrt_ros.soak.configuration import (
    ARM_TOPIC,
    RAW_CAMERA,
    STUB,
    soak_parameters,
    soak_values,
    write_parameter_file,
)
from flashrt_ros.soak.evidence import Evidence
from flashrt_ros.soak.journal import Journal
from flashrt_ros.soak.rig import LiveRig
from flashrt_ros.soak.seclusion import own_domain, refuse_company, seclude

FORMAT, FORMAT_VERSION = 'flashrt_ros.runtime_timing', 1
_WARM_UP_S = 3.0
_MISSED = 1.5  # periods without a command
# The stop button is heard, but its silence is not what is timed here.
_VALUES = soak_values(estop__required=False)
_SPIN = 'while True: pass'


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    stops: int
    stream_s: float
    cameras_s: float
    joins_s: float


FULL = Scale(stops=200, stream_s=300.0, cameras_s=60.0, joins_s=600.0)
QUICK = Scale(stops=20, stream_s=20.0, cameras_s=20.0, joins_s=60.0)


@dataclass(frozen=True)
class Spread:
    """Of many values in milliseconds."""

    count: int
    p50: float
    p99: float
    max: float


def spread(values_ms: Sequence[float]) -> Spread:
    if not len(values_ms):
        raise Error('nothing was measured')
    return Spread(len(values_ms), *(float(value) for value in np.percentile(values_ms, (50, 99, 100))))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--quick', action='store_true', help='fewer trials')
    parser.add_argument('--out', type=Path, default=Path('out/timing'), help='folder of journals and report')
    parser.add_argument('--domain', type=int, default=own_domain(), help='ROS domain with nobody on it')
    options = parser.parse_args(arguments)
    seclude(options.domain)
    with spinning_node('timing_lookout') as node:
        refuse_company(node)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # no process stays behind
    scale, out = QUICK if options.quick else FULL, options.out
    console = Console()
    results: dict[str, object] = {}
    for name, measure in (
        ('stop', lambda: measure_stops(out / 'stop', scale.stops)),
        ('stream', lambda: measure_stream(out / 'stream', scale.stream_s)),
        ('overhead', lambda: measure_overhead(out / 'overhead', scale.cameras_s)),
        ('joins', lambda: [asdict(item) for item in measure_joins(scale.joins_s)]),
    ):
        with console.status(f'measuring: {name}'):
            results[name] = measure()
        show(name, results[name], console)
    content = {
        'format': FORMAT,
        'format_version': FORMAT_VERSION,
        'machine': platform.machine(),
        'processors': os.cpu_count(),
        'is_quick': options.quick,
    }
    report = out / 'runtime_timing.json'
    report.write_text(json.dumps(content | results, indent=1) + '\n')
    console.print(f'report: {report}', highlight=False)
    return 0


def measure_stops(out: Path, trials: int) -> dict[str, object]:
    """From before true is published until the override has arrived, with every core busy otherwise."""
    pressed_ns = []
    with _rig(out) as rig, _busy():
        for number in range(trials):
            time.sleep(0.3 + 0.02 * (number % 10) / 10)  # at every phase of the control period
            pressed_ns.append(rig.press(True))
            rig.node.wait_for(lambda: not rig.is_commanding, 'a stop', 10.0)
            rig.press(False)
            rig.insist('estop_reset')
            rig.insist('start')
            rig.node.wait_for(lambda: rig.is_in_motion, 'motion', 10.0)
    arm = _evidence(out)
    reactions = [
        next(seen.command.received_ns for seen in arm.seen if seen.is_hold and seen.command.received_ns >= at)
        - at
        for at in pressed_ns
    ]
    return {'reaction_ms': asdict(spread(np.array(reactions) / 1e6)), 'busy_processes': os.cpu_count()}


def measure_stream(out: Path, seconds: float) -> dict[str, object]:
    """Time between commands as the node hands them over, in undisturbed motion."""
    with _rig(out) as rig:
        time.sleep(_WARM_UP_S)
        begin_ns = rig.now_ns()
        time.sleep(seconds)
        end_ns = rig.now_ns()
    seen = [item for item in _evidence(out).seen if begin_ns <= item.command.sent_ns < end_ns]
    intervals_ms = np.diff([item.command.sent_ns for item in seen]) / 1e6
    period_ms = 1e3 / soak_parameters(_VALUES).control_rate_hz
    return {
        'period_ms': period_ms,
        'interval_ms': asdict(spread(intervals_ms)),
        'off_the_period_ms': asdict(spread(np.abs(intervals_ms - period_ms))),
        'commands': len(seen),
        'wanted': round(seconds * 1e3 / period_ms),
        'missed': int((intervals_ms > _MISSED * period_ms).sum()),
    }


def measure_overhead(out: Path, seconds: float) -> dict[str, object]:
    """From the oldest stamp in an observation to the first command of its chunk, less inference itself."""
    with _rig(out, camera_arguments=('--size', '640', '480', '--all-raw'), jpeg=False) as rig:
        time.sleep(_WARM_UP_S)
        before = rig.usage()
        time.sleep(seconds)
        after = rig.usage()
    overhead_ms, age_ms, picture_ms, end_to_command_ms = [], [], [], []
    known: set[int] = set()
    for seen in _evidence(out).seen:
        if not seen.played or not before.at_ns <= seen.command.sent_ns < after.at_ns:
            continue
        chunk = seen.played.chunk
        if chunk.chunk_id not in known:
            known.add(chunk.chunk_id)
            age_ms.append((chunk.start_ns - chunk.stamp_ns) / 1e6)
            picture_ms.append(1e3 * chunk.ages_s[RAW_CAMERA])
            end_to_command_ms.append((seen.command.sent_ns - chunk.end_ns) / 1e6)
            overhead_ms.append(age_ms[-1] + end_to_command_ms[-1])
    return {
        'overhead_ms': asdict(spread(overhead_ms)),
        'stamp_to_inference_ms': asdict(spread(age_ms)),
        'picture_to_inference_ms': asdict(spread(picture_ms)),
        'inference_to_command_ms': asdict(spread(end_to_command_ms)),
        'share_of_one_core': (after.processor_s - before.processor_s) / ((after.at_ns - before.at_ns) / 1e9),
    }


@contextmanager
def _rig(out: Path, *, camera_arguments: tuple[str, ...] = (), jpeg: bool = True) -> Iterator[LiveRig]:
    """A robot in motion, and a recorder of what is sent to it."""
    out.mkdir(parents=True, exist_ok=True)
    params = out / 'params.yaml'
    values = _VALUES if jpeg else _VALUES | {'cameras.wrist.transport': 'raw'}
    write_parameter_file(values, params)
    set_up_transport(params)
    with (
        Child('flashrt_ros.soak.recorder', [str(_journal(out))], out / 'recorder.log') as recorder,
        spinning_node('timing_operator') as client,
        LiveRig(client, params, out, camera_arguments=camera_arguments, settings=STUB) as rig,
    ):
        recorder.ready()
        rig.bring_up()
        yield rig


def _evidence(out: Path) -> Evidence:
    return Evidence(Journal.read(_journal(out)), soak_parameters(_VALUES), ARM_TOPIC)


def _journal(out: Path) -> Path:
    return out / 'recorded.jsonl'


@contextmanager
def _busy() -> Iterator[None]:
    """As many processes that compute without end as the machine has cores."""
    spinners = [subprocess.Popen([sys.executable, '-c', _SPIN]) for _ in range(os.cpu_count())]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()


def show(name: str, result: object, console: Console) -> None:
    SHOW[name](result, console)


def _show_spreads(title: str, rows: dict[str, dict[str, float]], console: Console) -> None:
    table = Table(title=title, box=box.SIMPLE, title_justify='left')
    for column in ('', 'count', 'p50', 'p99', 'max'):
        table.add_column(column, justify='right' if column else 'left')
    for name, values in rows.items():
        figures = (f'{values[key]:.2f} ms' for key in ('p50', 'p99', 'max'))
        table.add_row(name, str(values['count']), *figures)
    console.print(table)


def _show_stop(result: dict, console: Console) -> None:
    title = f'stop pressed to override received, {result["busy_processes"]} busy processes beside'
    _show_spreads(title, {'reaction': result['reaction_ms']}, console)


def _show_stream(result: dict, console: Console) -> None:
    rows = {'interval': result['interval_ms'], 'off the period': result['off_the_period_ms']}
    _show_spreads(f'command stream, period {result["period_ms"]:g} ms', rows, console)
    console.print(
        f'{result["commands"]} commands, {result["wanted"]} wanted, {result["missed"]} intervals of '
        f'{_MISSED:g} periods and more'
    )


def _show_overhead(result: dict, console: Console) -> None:
    rows = {
        'oldest stamp to command, less inference': result['overhead_ms'],
        '... oldest stamp to inference': result['stamp_to_inference_ms'],
        '... stamp of the pictures to inference': result['picture_to_inference_ms'],
        '... end of inference to command': result['inference_to_command_ms'],
    }
    _show_spreads('two raw 640x480 cameras at 30 Hz', rows, console)
    console.print(f'processor time of the node: {result["share_of_one_core"]:.1%} of one core')


def _show_joins(result: list, console: Console) -> None:
    table = Table(
        title=f'steps of the arm, rad per 50 ms; inference {SETTINGS.latency_ms:g} +- '
        f'{SETTINGS.jitter_ms:g} ms',
        box=box.SIMPLE,
        title_justify='left',
    )
    for column in ('', 'chunks', 'at joins p50', 'max', 'elsewhere max'):
        table.add_column(column, justify='right' if column else 'left')
    for item in result:
        figures = (f'{item[key]:.4f}' for key in ('at_join_p50', 'at_join_max', 'elsewhere_max'))
        table.add_row(item['way'], str(item['chunks']), *figures)
    console.print(table)


SHOW: dict[str, Callable] = {
    'stop': _show_stop,
    'stream': _show_stream,
    'overhead': _show_overhead,
    'joins': _show_joins,
}


if __name__ == '__main__':
    sys.exit(main())
