# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`flashrt golden`: saved results of the original implementations against this one."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from flashrt_core.cli.options import Backend, Device, Packed, Threads, Tuning
from flashrt_core.errors import Error
from flashrt_core.golden import Report, RunOptions, check_folder
from flashrt_core.programs import BackendOptions


def run(
    folder: Annotated[Path, typer.Argument(help='Cases with saved inputs and outputs.')],
    model: Annotated[
        Path | None,
        typer.Option(help='Folder with the weights, where the cases have none; or the folder they lie in.'),
    ] = None,
    backend: Backend = 'cpu',
    recipe: Annotated[str, typer.Option(help='f32 or bf16.')] = 'f32',
    packed: Packed = None,
    device: Device = 0,
    tuning: Tuning = None,
    threads: Threads = 0,
    per_case: Annotated[bool, typer.Option('--per-case', help='One row per case and tensor.')] = False,
    json_file: Annotated[
        Path | None, typer.Option('--json', help='Write all comparisons to this file.')
    ] = None,
) -> None:
    """Compare this program with saved results, tensor by tensor.

    Exit code 0: all within their bounds; 1: a bound is exceeded, or something saved was not compared;
    2: the model is not supported yet, or the input was refused.
    """
    how = BackendOptions(threads=threads, device=device, tuning=tuning)
    report = check_folder(folder, RunOptions(model, backend, recipe, packed, how))
    if json_file is not None:
        try:
            json_file.write_text(report.to_json() + '\n', encoding='utf-8')
        except OSError as fault:
            raise Error(f'golden: {json_file} cannot be written: {fault}') from fault
    _print(report, per_case)
    if not report.passed():
        raise typer.Exit(1)


def _print(report: Report, per_case: bool) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)  # a log file is as wide as the table
    how = f' on {report.backend}, {report.recipe}' if report.backend else ''
    console.print(f'[bold]{escape(report.folder)}[/]{how}', highlight=False)
    console.print(report.table(per_case), highlight=False)
    for gap in report.gaps:
        console.print(
            f'[yellow]not compared[/] {escape(gap.place)}: {escape(gap.what)} ({escape(gap.why)})',
            highlight=False,
        )
    failed = sum(not item.passed for item in report.comparisons)
    verdict = '[bold green]passed[/]' if report.passed() else '[bold red]failed[/]'
    console.print(
        f'{verdict}: {len(report.comparisons)} comparisons, {failed} beyond their bounds, '
        f'{len(report.gaps)} not compared',
        highlight=False,
    )
