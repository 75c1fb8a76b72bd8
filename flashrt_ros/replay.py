# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`flashrt replay`: a recording through the policy node over DDS, or offline without ROS."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from flashrt_core.errors import Error
from flashrt_ros.bag import BagError
from flashrt_ros.replay_offline import replay_offline
from flashrt_ros.replay_setup import live_replay
from flashrt_ros.report import Report
from flashrt_ros.report_picture import write_picture

OVER_BUDGET, FAULTY = 1, 2  # exit codes
DEFAULT_INFERENCE_MS = 50.0


def run(
    bag: Annotated[Path, typer.Argument(help='rosbag2 recording: a folder, or a .db3 or .mcap file')],
    params: Annotated[Path, typer.Option(help='parameter file of the policy node')],
    offline: Annotated[
        bool, typer.Option('--offline', help='without ROS, deterministic, on bag time')
    ] = False,
    clock: Annotated[bool, typer.Option('--clock', help='keep the stamps and publish /clock')] = False,
    budget_ms: Annotated[float | None, typer.Option(help='exit 1 if the p99 latency is above')] = None,
    out: Annotated[
        Path, typer.Option(help='folder of report.json, report.png and, offline, the chunks')
    ] = Path('out/replay'),
    inference_ms: Annotated[
        float | None,
        typer.Option(
            min=0.001, help='offline: what an inference takes on the clock of the recording; else 50'
        ),
    ] = None,
) -> None:
    """Play a recording through the policy node; report the latency from sensor stamp to command.

    Live, one constant moves all header stamps to now: ages and jitter stay as recorded.

    Only cameras and joints that the parameters name are played: recorded commands reach no robot.

    Exit code: 0, 1 over the budget, 2 for a fault or when messages are missing without a reason.
    """
    console = Console()
    try:
        if offline and clock:
            raise BagError('--offline runs on the time of the recording already; leave out --clock')
        if inference_ms is not None and not offline:
            raise BagError('--inference-ms is for --offline; live, an inference takes as long as it takes')
        _check_folder(out)
        if offline:
            inference_s = (inference_ms or DEFAULT_INFERENCE_MS) / 1e3
            report = replay_offline(bag, params, out, console, inference_s=inference_s)
        else:
            report = live_replay()(bag, params, out, console, simulated_time=clock)
    except Error as error:
        _complain(str(error))
        raise typer.Exit(FAULTY) from None
    report = replace(report, budget_ms=budget_ms)
    publish(report, out, console)
    for line in report.missing:  # the figures are not those of the whole recording
        _complain(line)
    if report.missing:
        raise typer.Exit(FAULTY)
    if not report.is_within_budget:
        raise typer.Exit(OVER_BUDGET)


def publish(report: Report, out: Path, console: Console) -> None:
    """Table to the console, JSON and picture to `out`."""
    report.print(console)
    out.mkdir(parents=True, exist_ok=True)
    report.write_json(out / 'report.json')
    write_picture(report, out / 'report.png')
    written = [out / 'report.json', out / 'report.png']
    written += [out / 'chunks.safetensors'] if report.digest else []
    console.print('wrote ' + ', '.join(os.fspath(path) for path in written), highlight=False)


def _check_folder(out: Path) -> None:
    """Before the work: what is there already of `out` must be folders."""
    there = next(path for path in (out.resolve(), *out.resolve().parents) if path.exists())
    if not there.is_dir():
        raise BagError(f'--out {out}: {there} is not a folder')


def _complain(text: str) -> None:
    Console(stderr=True).print(text, style='red', markup=False, highlight=False, soft_wrap=True)
