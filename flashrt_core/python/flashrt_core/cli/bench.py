# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`flashrt bench`: how long an inference takes, where the time goes, and what the result is worth."""

import re
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flashrt_core.bench import BenchReport, BenchSettings, Percentiles, Row, bench, write_json
from flashrt_core.calibrate import Estimator
from flashrt_core.cli.compare import accuracy_table
from flashrt_core.cli.options import (
    CAMERAS_MAX,
    ROWS_MAX,
    Device,
    EmbodimentSlot,
    Outliers,
    RandomSeed,
    RandomWeights,
    Threads,
    command_line,
)
from flashrt_core.errors import Error
from flashrt_core.programs import BackendOptions

OPERATION_RUNS = 20
SLOWEST_SHOWN = 20  # all of them are in the JSON file


def run(
    context: typer.Context,
    checkpoint: Annotated[Path | None, typer.Option(help='Folder with config.json and weights.')] = None,
    random_weights: RandomWeights = None,
    seed: RandomSeed = None,
    outliers: Outliers = 1.0,
    recipe: Annotated[
        str, typer.Option(help='f32, bf16, fp8, fp8_f16, fp8_mixed or the path of a recipe file.')
    ] = 'f32',
    packed: Annotated[
        Path | None, typer.Option(help='Made by `flashrt pack`: read instead of weights.')
    ] = None,
    calibration: Annotated[Path | None, typer.Option(help='Made by `flashrt calibrate`.')] = None,
    calibrate: Annotated[
        int, typer.Option(min=0, help='Calibrate on so many random observations instead.')
    ] = 0,
    estimator: Annotated[
        Estimator, typer.Option(help='Of --calibrate: the largest value, or without outliers.')
    ] = 'min_max',
    backend: Annotated[str, typer.Option(help='What runs the model: cpu or cuda.')] = 'cpu',
    cameras: Annotated[int, typer.Option(min=1, max=CAMERAS_MAX)] = 2,
    horizon: Annotated[int, typer.Option(min=1, max=ROWS_MAX, help='Actions in a chunk.')] = 10,
    steps: Annotated[int, typer.Option(min=1, max=ROWS_MAX, help='Denoise steps.')] = 10,
    prompt_length: Annotated[int, typer.Option(min=1, max=ROWS_MAX, help='Tokens.')] = 10,
    prompt_capacity: Annotated[
        int, typer.Option(min=0, max=ROWS_MAX, help='Most tokens; 0: as many as there are.')
    ] = 0,
    frames: Annotated[
        str | None,
        typer.Option(help='Cameras deliver rgb8 frames, e.g. 640x480, and the engine resizes them.'),
    ] = None,
    new_prompts: Annotated[
        bool, typer.Option('--new-prompts', help='Every inference has another prompt than the one before.')
    ] = False,
    warmup: Annotated[int, typer.Option(min=1, help='Inferences that are not counted.')] = 50,
    runs: Annotated[int, typer.Option(min=1, help='Timed ones; 1000 where p99 matters.')] = 200,
    operations: Annotated[bool, typer.Option('--operations', help='Also time every call alone.')] = False,
    reference: Annotated[
        str | None, typer.Option(help='Also the errors against this recipe on the same backend, e.g. f32.')
    ] = None,
    tuning: Annotated[Path | None, typer.Option(help='Keeps which algorithms are fastest.')] = None,
    fast_accumulation: Annotated[
        bool, typer.Option(help='FP8 products are summed with about 14 bits.')
    ] = True,
    dependent_launch: Annotated[bool, typer.Option(help='Kernels start before the one ahead ends.')] = True,
    specialised_kernels: Annotated[bool, typer.Option(help='Kernels for one architecture.')] = True,
    device: Device = 0,
    threads: Threads = 0,
    embodiment_slot: EmbodimentSlot = -1,
    json_file: Annotated[Path | None, typer.Option('--json', help='Write everything to this file.')] = None,
) -> None:
    """Measure an engine on random observations.

    Errors are taken before any time is. Device times are of the replay alone; whole calls are on the host's
    clock, from inputs in its memory to actions in its memory.
    """
    if (checkpoint is None) == (random_weights is None):
        raise Error('bench: give either --checkpoint or --random-weights')
    if seed is not None and random_weights is None:
        raise Error(f'bench: --seed {seed} is for --random-weights; the weights of {checkpoint} are its own')
    if json_file is not None and not json_file.resolve().parent.is_dir():
        raise Error(f'bench: folder {json_file.resolve().parent} of the report does not exist')
    settings = BenchSettings(
        checkpoint=str(checkpoint or random_weights),
        random_seed=(seed or 0) if random_weights else None,
        random_outliers=outliers,
        packed=str(packed) if packed else None,
        recipe=recipe,
        calibration=str(calibration) if calibration else None,
        calibrate=calibrate,
        estimator=estimator,
        backend=backend,
        cameras=cameras,
        horizon=horizon,
        steps=steps,
        prompt_length=prompt_length,
        prompt_capacity=prompt_capacity,
        frames=_size(frames),
        embodiment_slot=embodiment_slot,
        new_prompts=new_prompts,
        warmup=warmup,
        runs=runs,
        operation_runs=OPERATION_RUNS if operations else 0,
        reference=reference,
        backend_options=BackendOptions(
            threads=threads,
            device=device,
            tuning=str(tuning) if tuning else None,
            fast_accumulation=fast_accumulation,
            dependent_launch=dependent_launch,
            specialised_kernels=specialised_kernels,
        ),
        command=command_line(context),
    )
    report = bench(settings)
    if json_file is not None:
        write_json(report, json_file)
    _print(report)


def _size(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = re.fullmatch(r'(\d+)x(\d+)', text)
    if match is None:
        raise Error(f"bench: frames are '{text}', needed width x height, e.g. 640x480")
    return int(match[1]), int(match[2])


def _print(report: BenchReport) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)  # a log file is as wide as the table

    def say(text: str) -> None:
        console.print(escape(text), highlight=False)

    settings = report.settings
    say(
        f'{settings.checkpoint}: {settings.recipe} on {settings.backend}, {report.device} ({report.versions})'
    )
    say(
        f'{report.model}, {settings.cameras} cameras, prompt {settings.prompt_length} of '
        f'{settings.prompt_capacity or settings.prompt_length}, horizon {settings.horizon}, '
        f'{settings.steps} steps; weights {report.weights_digest}'
    )
    if settings.frames is not None:
        say('frames of {} x {} pixels, rgb8, resized by the engine'.format(*settings.frames))
    say(f'calibration: {report.calibration_origin}')
    if report.accuracy is not None:
        say(f'errors against {settings.reference}:')
        console.print(accuracy_table(report.accuracy), highlight=False)
    console.print(_times(report), highlight=False)
    console.print(_table('stage', report.stages), highlight=False)
    if report.calls:
        console.print(_table('operation', report.operations), highlight=False)
        slowest = sorted(report.calls, key=lambda row: -row.median_ms)[:SLOWEST_SHOWN]
        console.print(_table('slowest calls', slowest), highlight=False)
    counted = ', '.join(
        f'{name} {report.before[name]} -> {report.after[name]}'
        for name in ('captures', 'allocations', 'tunings')
    )
    kinds = ', '.join(f'{count} {kind}' for kind, count in report.after['graph_node_kinds'].items())
    say(f'during inferences and replays: {counted}')
    say(f'graph: {report.after["graph_nodes"]} nodes{f" ({kinds})" if kinds else ""}')
    memory = ', '.join(f'{name} {size / 1e9:.2f} GB' for name, size in report.memory_bytes.items())
    say(f'memory: {memory}')
    say(f'loaded in {report.load_s:.2f} s, first actions after {report.first_action_s:.2f} s')


def _times(report: BenchReport) -> Table:
    table = Table(box=None, header_style='bold', pad_edge=False)
    for name in ('ms', 'median', 'p90', 'p99', 'max', 'runs'):
        table.add_column(name, justify='left' if name == 'ms' else 'right')

    def add(name: str, times: Percentiles) -> None:
        figures = (times.median, times.p90, times.p99, times.max)
        table.add_row(name, *(f'{figure:.3f}' for figure in figures), str(times.count))

    add('whole call, host clock', report.inference)
    add('replay, device clock', report.replay)
    add('new prompt, device clock', report.prompt)
    return table


def _table(first: str, rows: list[Row]) -> Table:
    table = Table(box=None, header_style='bold', pad_edge=False)
    for name in (first, 'times', 'ms', 'GFLOP', 'MB', 'floor ms', 'share', 'kernels'):
        table.add_column(name, justify='left' if name in (first, 'kernels') else 'right')
    for row in rows:
        table.add_row(
            escape(row.name),
            str(row.calls),
            f'{row.median_ms:.4f}',
            f'{row.flops / 1e9:.2f}',
            f'{row.bytes / 1e6:.2f}',
            '' if row.floor_ms is None else f'{row.floor_ms:.4f}',
            '' if row.share is None else f'{row.share:.0%}',
            escape(', '.join(row.kernels)) if len(row.kernels) <= 3 else f'{len(row.kernels)} kernels',
        )
    return table
