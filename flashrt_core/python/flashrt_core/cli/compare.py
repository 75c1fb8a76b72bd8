# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`flashrt compare`: what a recipe or a backend costs in accuracy, free-running."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flashrt_core.accuracy import Accuracy, Difference, measure
from flashrt_core.programs import Programs
from flashrt_core.samples import read_samples


def run(
    checkpoint: Annotated[Path, typer.Argument(help='Folder with config.json and weights.')],
    samples: Annotated[
        Path,
        typer.Argument(help='Model inputs: a .npz or .safetensors file, or a folder of cases.'),
    ],
    recipe: Annotated[str, typer.Option(help='f32, bf16, fp8, fp8_f16 or the path of a recipe file.')],
    calibration: Annotated[Path | None, typer.Option(help='Made by `flashrt calibrate`.')] = None,
    backend: Annotated[str, typer.Option(help='What runs the recipe.')] = 'cpu',
    reference_recipe: Annotated[str, typer.Option(help='What it is compared with.')] = 'f32',
    reference_backend: Annotated[str, typer.Option(help='What runs the reference.')] = 'cpu',
    calls: Annotated[bool, typer.Option('--calls', help='Also every value of the plan, in order.')] = False,
    threads: Annotated[int, typer.Option(help='0: one per core.')] = 0,
) -> None:
    """Compare a recipe or a backend with a reference on recorded inputs.

    Both run freely from the same noise, so the errors of a step are part of the next. Shown are the error of
    the chunk without its noise, of the velocity of each step, and with --calls of everything between.
    """
    reference = Programs(checkpoint, recipe=reference_recipe, backend=reference_backend, threads=threads)
    other = Programs(checkpoint, recipe=recipe, calibration=calibration, backend=backend, threads=threads)
    accuracy = measure(reference, other, [sample for _, sample in read_samples(samples)], calls)
    console = Console()
    console.print(
        f'{escape(str(checkpoint))}: {recipe} on {backend} against {reference_recipe} on {reference_backend}',
        highlight=False,
    )
    console.print(accuracy_table(accuracy), highlight=False)


def accuracy_table(accuracy: Accuracy) -> Table:
    table = Table(box=None, header_style='bold', pad_edge=False)
    table.add_column('value')
    for name in ('RMS error', 'relative', 'cosine', 'worst'):
        table.add_column(name, justify='right')

    def add(name: str, difference: Difference) -> None:
        table.add_row(
            escape(name),
            f'{difference.rms:.2e}',
            f'{difference.relative:.2e}',
            f'{difference.cosine:.6f}',
            f'{difference.worst:.2e}',
        )

    for name, difference in accuracy.calls.items():
        add(name, difference)
    for step, difference in accuracy.steps.items():
        add(f'velocity, step {step}', difference)
    add('actions - noise', accuracy.chunk)
    return table
