# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`flashrt sensitivity`: which linears cost accuracy when they are quantised, and what keeping them wins."""

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from flashrt_core.calibrate import Estimator
from flashrt_core.cli.options import (
    Backend,
    Device,
    EmbodimentSlot,
    Outliers,
    RandomSeed,
    RandomWeights,
    Threads,
    Tuning,
    command_line,
    table_console,
)
from flashrt_core.errors import Error
from flashrt_core.outcomes import certainty
from flashrt_core.recipes import FloatType, runs_on
from flashrt_core.result_file import check_output, write_result
from flashrt_core.sensitivity import (
    DEFAULT_CURVE,
    Sensitivity,
    SensitivitySettings,
    Variant,
    curve_sizes,
    inferences,
    open_bench,
    study,
)
from flashrt_core.trials import Source

INTERRUPTED = 130  # exit code, as shells have it


def run(
    context: typer.Context,
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar='CHECKPOINT|RECORDING',
            help='Folder with config.json and weights; with --params, a recording of rosbag2.',
        ),
    ] = None,
    samples: Annotated[
        Path | None,
        typer.Argument(
            help='Of a checkpoint: a .npz or .safetensors file, or a folder of cases; left out: random ones.'
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option('--output', '-o', help='The result (JSON), written after each variant.')
    ] = None,
    params: Annotated[
        Path | None, typer.Option(help='Parameter file of the policy node, which names the checkpoint.')
    ] = None,
    random_weights: RandomWeights = None,
    seed: RandomSeed = None,
    outliers: Outliers = 1.0,
    recipe: Annotated[
        str, typer.Option(help='What quantises: fp8, ... or the path of a recipe file.')
    ] = 'fp8',
    by: Annotated[
        str, typer.Option(help='Groups: stage, block, projection, or patterns of calls: vision.*,prefix.0.*')
    ] = 'stage',
    kept: Annotated[
        FloatType | None,
        typer.Option('--float', help='What kept groups are held in; else as the recipe holds values.'),
    ] = None,
    reference: Annotated[str, typer.Option(help='The recipe that errors are taken against.')] = 'f32',
    calibration: Annotated[Path | None, typer.Option(help='Made by `flashrt calibrate`.')] = None,
    calibrate_on: Annotated[
        int, typer.Option(min=0, help='Or on so many observations that are not judged; 0: half of them.')
    ] = 0,
    estimator: Annotated[Estimator, typer.Option(help='How scales follow from them.')] = 'min_max',
    same_samples: Annotated[
        bool, typer.Option('--same-samples', help='Judge by what is calibrated on; errors are too small.')
    ] = False,
    observations: Annotated[
        int,
        typer.Option(min=0, help='How many are judged; 0: all samples, 16 random ones or of a recording.'),
    ] = 0,
    curve: Annotated[
        int, typer.Option(min=0, help='Measure the top 1, 2, ... of the ranking in float, to this one.')
    ] = DEFAULT_CURVE,
    cameras: Annotated[int, typer.Option(min=1, help='Of random observations, as the next three.')] = 2,
    horizon: Annotated[int, typer.Option(min=1, help='Actions in a chunk.')] = 10,
    steps: Annotated[int, typer.Option(min=1, help='Denoise steps.')] = 10,
    prompt_length: Annotated[int, typer.Option(min=1, help='Tokens.')] = 10,
    backend: Backend = 'cpu',
    device: Device = 0,
    tuning: Tuning = None,
    threads: Threads = 0,
    embodiment_slot: EmbodimentSlot = -1,
) -> None:
    """Rank groups of linears by what quantising them costs.

    Each group is kept in float while the rest is quantised, and quantised while the rest is in float; then
    the top of the ranking is kept together. Every number is measured, none is a sum of others.
    """
    if output is None:
        raise Error('sensitivity: --output is needed, the file for the result')
    if params is None and (source is None) == (random_weights is None):
        raise Error('sensitivity: give a checkpoint, --random-weights, or a recording with --params')
    if params is not None and (source is None or samples is not None or random_weights is not None):
        raise Error('sensitivity: --params names the checkpoint, so only the recording is given beside it')
    if seed is not None and random_weights is None:
        raise Error(f'sensitivity: --seed {seed} is for --random-weights')
    if random_weights is not None and samples is None and source is not None:
        raise Error('sensitivity: with --random-weights only samples are given beside it')
    check_output(output)
    where = Source(
        checkpoint=None if params else str(source or random_weights),
        random_seed=(seed or 0) if random_weights else None,
        random_outliers=outliers,
        samples=_path(samples),
        recording=_path(source) if params else None,
        params=_path(params),
        observations=observations,
        calibrate_on=calibrate_on,
        cameras=cameras,
        horizon=horizon,
        steps=steps,
        prompt_length=prompt_length,
        backend=backend,
        embodiment_slot=embodiment_slot,
        backend_options={'threads': threads, 'device': device, 'tuning': _path(tuning)},
    )
    settings = SensitivitySettings(
        source=where,
        recipe=recipe,
        kept=kept,
        reference=reference,
        by=by,
        calibration=_path(calibration),
        estimator=estimator,
        same_samples=same_samples,
        curve=curve,
        command=command_line(context),
    )
    result = _measured(settings, output)
    _print(result, output)


def _path(path: Path | None) -> str | None:
    """Of results, which are read from other folders than the one they were written in."""
    return None if path is None else str(path.resolve())


def _measured(settings: SensitivitySettings, output: Path) -> Sensitivity:
    console = Console(stderr=True)
    written = 0

    def save(content: dict[str, Any]) -> None:
        nonlocal written
        write_result(output, content)
        written = len(content['variants'])

    with (
        tempfile.TemporaryDirectory() as folder,
        Progress(console=console, transient=True, disable=not console.is_terminal) as progress,
    ):
        task = progress.add_task('reference, calibration', total=None)
        try:
            bench = open_bench(settings, Path(folder), output.with_suffix('.calibration.json'))
            total = inferences(settings, len(bench.groups), len(bench.trials.judged))
            progress.update(task, description=f'{len(bench.groups)} groups', total=total, completed=0)
            bench.tick = lambda: progress.advance(task)
            return study(settings, bench, save)
        except KeyboardInterrupt:
            progress.stop()
            print(f'interrupted: {output} holds {written} variants' if written else 'interrupted')
            raise typer.Exit(INTERRUPTED) from None


def _print(result: Sensitivity, output: Path) -> None:
    settings, bench = result.settings, result.bench
    console = table_console()

    def say(text: str) -> None:
        console.print(escape(text), highlight=False)

    calls = [linear.name for linear in bench.linears]
    say(
        f'{bench.trials.checkpoint}: {settings.recipe} on {settings.source.backend} against '
        f'{settings.reference}, kept groups in {bench.kept}; weights {bench.weights_digest}'
    )
    say(f'recipe runs on: {runs_on(bench.recipe.emulated(calls))}')
    say(f'calibration: {bench.calibration_origin or "none, the recipe needs no scales"}')
    if settings.calibration is not None and not settings.same_samples:
        say('A calibration names its first observations only: see that none of the others is judged here.')
    say(f'errors of actions - noise; {certainty(len(bench.trials.judged))}')
    console.print(_ranking(result), highlight=False)
    console.print(_curve(result), highlight=False)
    console.print(_details(result), highlight=False)
    say(f'{output}: {len(bench.measured)} variants')


def _ranking(result: Sensitivity) -> Table:
    """Each group kept alone, and quantised alone."""
    table = _table('kept in float', 'calls', 'relative', 'gain (RMS)', '95 %', 'alone quantised', 'MB more')
    bench = result.bench
    everything = frozenset(bench.names)
    for ranked in result.content()['ranking']:
        name = ranked['group']
        variant = bench.measured[frozenset([name])]
        calls = next(group.calls for group in bench.groups if group.name == name)
        more = sum(result.moved[call][1] - result.moved[call][0] for call in calls)
        alone = bench.measured[everything - {name}]
        table.add_row(
            escape(name),
            str(len(calls)),
            f'{variant.errors.chunk.relative:.3e}',
            f'{ranked["gain"]:+.2e}',
            _interval(ranked['gain_interval'], '+.1e'),
            f'{alone.errors.chunk.relative:.3e}',
            f'{more / 1e6:.3f}',
        )
    return table


def _curve(result: Sensitivity) -> Table:
    """The top of the ranking kept together."""
    bench = result.bench
    names = ('top', 'and with it', 'relative', '95 %', 'cosine', 'worst', 'weights MB', 'runs on')
    table = _table(*names, *(['worst joint'] if bench.joints else []))
    calls = [linear.name for linear in bench.linears]
    for size in curve_sizes(len(bench.groups), result.settings.curve):
        kept = frozenset(result.ranking[:size])
        variant = bench.measured[kept]
        added = 'all of them' if size == len(bench.groups) else result.ranking[size - 1] if size else 'none'
        table.add_row(
            str(size),
            escape(added),
            f'{variant.errors.chunk.relative:.3e}',
            _interval(variant.errors.relative, '.2e'),
            f'{variant.errors.chunk.cosine:.6f}',
            f'{variant.errors.chunk.worst:.2e}',
            f'{variant.weight_bytes / 1e6:.2f}',
            runs_on(bench.recipe_keeping(kept).emulated(calls)),
            *([_worst_joint(variant, bench.joints)] if bench.joints else []),
        )
    return table


def _details(result: Sensitivity) -> Table:
    """Relative errors of each step's velocity, and RMS errors of each joint in its unit."""
    bench = result.bench
    sizes = [0, *([1] if len(bench.groups) > 1 and result.settings.curve else []), len(bench.groups)]
    shown = [bench.measured[frozenset(result.ranking[:size])].errors for size in sizes]
    names = [f'top {size} in {bench.kept}' for size in sizes[1:-1]]
    table = _table('error of', 'all quantised', *names, f'all in {bench.kept}')
    for step, columns in enumerate(zip(*(errors.steps for errors in shown), strict=True), 1):
        table.add_row(f'velocity, step {step}', *(f'{difference.relative:.3e}' for difference in columns))
    for name, columns in zip(
        bench.joints, zip(*(errors.joints for errors in shown), strict=True), strict=True
    ):
        table.add_row(escape(f'{name}, RMS'), *(f'{difference.rms:.3e}' for difference in columns))
    return table


def _worst_joint(variant: Variant, joints: tuple[str, ...]) -> str:
    rms, name = max((joint.rms, name) for joint, name in zip(variant.errors.joints, joints, strict=True))
    return escape(f'{name} {rms:.2e}')


def _interval(interval: tuple[float, float] | None, form: str) -> str:
    return '' if interval is None else f'{interval[0]:{form}} .. {interval[1]:{form}}'


def _table(*names: str) -> Table:
    table = Table(box=None, header_style='bold', pad_edge=False)
    left = ('kept in float', 'and with it', 'runs on', 'worst joint', 'error of')
    for name in names:
        table.add_column(name, justify='left' if name in left else 'right')
    return table
