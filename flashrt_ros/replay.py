# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`flashrt replay`: a recording through the policy node over DDS, or offline without ROS."""

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from flashrt_core.errors import Error
from flashrt_ros.bag import BagError
from flashrt_ros.parameters import Parameters
from flashrt_ros.replay_offline import replay_offline
from flashrt_ros.replay_setup import checked_parameters, live_replay, stub_command
from flashrt_ros.report import Report
from flashrt_ros.report_picture import write_picture
from flashrt_ros.stub_policy import StubPolicy, StubSettings

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
    stub_latency_ms: Annotated[
        float | None,
        typer.Option(min=0.001, help='no model: a policy that moves the joints a little, after this time'),
    ] = None,
) -> None:
    """Play a recording through the policy node; report the latency from sensor stamp to command.

    Live, one constant moves all header stamps to now: ages and jitter stay as recorded.

    Only cameras and joints that the parameters name are played: recorded commands reach no robot.

    With --stub-latency-ms the node, its inputs and its play are tested without a checkpoint.

    Exit code: 0, 1 over the budget, 2 for a fault or when messages are missing without a reason.
    """
    console = Console()
    try:
        _check_options(offline, clock, budget_ms, inference_ms, stub_latency_ms)
        _check_folder(out)
        stub = None if stub_latency_ms is None else _stub(params, stub_latency_ms)
        if offline:
            inference_s = (stub_latency_ms or inference_ms or DEFAULT_INFERENCE_MS) / 1e3
            load = {'load': partial(_load_stub, settings=stub)} if stub else {}
            report = replay_offline(bag, params, out, console, inference_s=inference_s, **load)
        else:
            replay_live = live_replay()
            command = {'command': stub_command(stub)} if stub else {}
            report = replay_live(bag, params, out, console, simulated_time=clock, **command)
    except Error as error:
        _complain(str(error))
        raise typer.Exit(FAULTY) from None
    if stub:
        note = f"a stub of {stub_latency_ms:g} ms ran, not the model: the times of the policy are the stub's"
        report = replace(report, warnings=(note, *report.warnings))
        console.print(f'[bold]{note}[/]', highlight=False)
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


def _check_options(
    offline: bool,
    clock: bool,
    budget_ms: float | None,
    inference_ms: float | None,
    stub_latency_ms: float | None,
) -> None:
    """Raises BagError where options contradict each other."""
    if offline and clock:
        raise BagError('--offline runs on the time of the recording already; leave out --clock')
    if inference_ms is not None and not offline:
        raise BagError('--inference-ms is for --offline; live, an inference takes as long as it takes')
    if stub_latency_ms is None:
        return
    if inference_ms is not None:
        raise BagError('--stub-latency-ms says what an inference takes; leave out --inference-ms')
    if offline and budget_ms is not None:
        raise BagError('offline, a stub takes no time that --budget-ms could judge; leave out --offline')


def _stub(params: Path, latency_ms: float) -> StubSettings:
    """Chunks of the length that the parameters ask for, and always the same latency."""
    horizon = checked_parameters(params, lambda _: None, None).horizon
    return StubSettings(latency_ms=latency_ms, jitter_ms=0.0, horizon=horizon or StubSettings.horizon)


def _load_stub(parameters: Parameters, settings: StubSettings) -> StubPolicy:
    """For the clock of a recording, on which nobody waits."""
    return StubPolicy(parameters, settings, wait=lambda _: None)


def _check_folder(out: Path) -> None:
    """Before the work: what is there already of `out` must be folders."""
    there = next(path for path in (out.resolve(), *out.resolve().parents) if path.exists())
    if not there.is_dir():
        raise BagError(f'--out {out}: {there} is not a folder')


def _complain(text: str) -> None:
    Console(stderr=True).print(text, style='red', markup=False, highlight=False, soft_wrap=True)
