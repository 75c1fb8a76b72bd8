# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`flashrt compare`: where two backends or recipes part, call by call or running freely."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flashrt_core.accuracy import Accuracy, Difference, measure
from flashrt_core.bench import ACCURACY_SEED, BenchSettings, random_samples
from flashrt_core.cli.options import Backend, Device, EmbodimentSlot, Seed, Threads, Tuning
from flashrt_core.comparison import CallRow, compare_calls
from flashrt_core.engine import native_core
from flashrt_core.errors import Error
from flashrt_core.programs import BackendOptions, Programs
from flashrt_core.samples import AnySample, read_samples

if TYPE_CHECKING:
    from flashrt_core._core import Equalisation


def run(
    checkpoint: Annotated[
        str,
        typer.Argument(help='Folder with config.json and weights; with --seed pi05, pi0, groot_n16 too.'),
    ],
    samples: Annotated[
        Path | None,
        typer.Argument(
            help='Model inputs: a .npz or .safetensors file, or a folder of cases; left out: a random one.'
        ),
    ] = None,
    recipe: Annotated[
        str, typer.Option(help='f32, bf16, fp8, fp8_f16, fp8_mixed or the path of a recipe file.')
    ] = 'f32',
    calibration: Annotated[Path | None, typer.Option(help='Made by `flashrt calibrate`.')] = None,
    packed: Annotated[
        Path | None, typer.Option(help='Of the recipe, made by `flashrt pack`: read instead of weights.')
    ] = None,
    backend: Backend = 'cpu',
    reference_recipe: Annotated[str, typer.Option(help='What it is compared with.')] = 'f32',
    reference_backend: Annotated[str, typer.Option(help='What runs the reference.')] = 'cpu',
    seed: Seed = None,
    outliers: Annotated[
        float,
        typer.Option(help='Of the random weights: factor of a few channels and a token, e.g. 100.'),
    ] = 1.0,
    all_calls: Annotated[
        bool, typer.Option('--all', help='Show every value; otherwise stop at the first beyond its bound.')
    ] = False,
    free_running: Annotated[
        bool, typer.Option('--free-running', help='Let both run freely: errors grow from call to call.')
    ] = False,
    calls: Annotated[bool, typer.Option('--calls', help='Free running: also every value.')] = False,
    device: Device = 0,
    tuning: Tuning = None,
    threads: Threads = 0,
    embodiment_slot: EmbodimentSlot = -1,
) -> None:
    """Compare a recipe or a backend with a reference.

    Each call works on what the reference computed before it, so a difference belongs to the call that shows
    it; bounds follow from the types. Exit code 1: a value is beyond its bound. Free running there are no
    bounds: shown are the errors of what stages hand on, of the velocity of each step, and of the chunk
    without its noise.
    """
    if calls and not free_running:
        raise Error('compare: --calls is for --free-running; --all shows every value call by call')
    if all_calls and free_running:
        raise Error(
            'compare: --all is for the comparison call by call; --calls shows every value running freely'
        )
    how = BackendOptions(threads=threads, device=device, tuning=tuning)
    reference = Programs(
        checkpoint,
        recipe=reference_recipe,
        equalisation=_equalisation_of(calibration),
        backend=reference_backend,
        random_seed=seed,
        random_outliers=outliers,
        embodiment_slot=embodiment_slot,
        **how,
    )
    other = Programs(
        checkpoint,
        recipe=recipe,
        calibration=calibration,
        backend=backend,
        random_seed=seed,
        random_outliers=outliers,
        packed=packed,
        embodiment_slot=embodiment_slot,
        **how,
    )
    named = list(read_samples(samples, embodiment_slot)) if samples else _random(checkpoint, reference)
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)  # a log file is as wide as the table
    on = '' if samples else ', on a random observation'
    console.print(
        escape(f'{checkpoint}: {recipe} on {backend} against {reference_recipe} on {reference_backend}{on}'),
        highlight=False,
    )
    if free_running:
        accuracy = measure(reference, other, [sample for _, sample in named], calls)
        console.print(accuracy_table(accuracy), highlight=False)
        return
    rows = compare_calls(reference, other, named, all_calls)
    failed = [row for row in rows if not row.passed]
    if all_calls or failed:
        console.print(_call_table(rows if all_calls else failed), highlight=False)
    console.print(
        f'{sum(row.count for row in rows)} results of {len(rows)} values, {len(failed)} beyond their bounds',
        highlight=False,
    )
    for row in failed:
        why = (
            f'{row.not_finite} elements are not finite'
            if row.not_finite
            else f'its bound allows {row.reason}'
        )
        console.print(escape(f'{row.value}: {why}'), highlight=False)
    if failed:
        raise typer.Exit(1)


def _equalisation_of(calibration: Path | None) -> 'Equalisation | None':
    """The reference is equalised as well: it computes the same, and what its norms write can be compared."""
    if calibration is None:
        return None
    return cast(Any, native_core()).Calibration.load(calibration).equalisation


def _random(checkpoint: str, programs: Programs) -> list[tuple[str, AnySample]]:
    settings = BenchSettings(checkpoint)
    return [('random observation', random_samples(programs.config, settings, ACCURACY_SEED, 1)[0])]


def _call_table(rows: list[CallRow]) -> Table:
    table = Table(box=None, header_style='bold', pad_edge=False)
    for name in ('value', 'operation', 'types', 'RMS error', 'bound', 'worst', 'step', 'sample', ''):
        table.add_column(name, justify='right' if name in ('RMS error', 'bound', 'worst', 'step') else 'left')
    for row in rows:
        table.add_row(
            escape(row.value),
            row.operation,
            ' -> '.join(row.types) if row.types[0] != row.types[1] else row.types[0],
            f'{row.rms:.2e}',
            f'{row.bound:.2e}',
            f'{row.worst:.2e}',
            str(row.step),
            escape(row.sample),
            '' if row.passed else 'BEYOND',
        )
    return table


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

    for name, difference in accuracy.values.items():
        add(name, difference)
    for step, difference in accuracy.steps.items():
        add(f'velocity, step {step}', difference)
    add('actions - noise', accuracy.chunk)
    return table
