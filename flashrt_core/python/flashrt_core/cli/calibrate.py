# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`flashrt calibrate`: what a model or a robot saw to the scales of quantised activations."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.progress import track

from flashrt_core.calibrate import (
    CalibrationSettings,
    Estimator,
    calibrate,
    calibrate_kept,
    calibrate_policy,
    load_to_calibrate,
)
from flashrt_core.cli.options import INT_MAX, EmbodimentSlot, Packed, Tuning, given
from flashrt_core.errors import Error
from flashrt_core.policy import FlashPolicy
from flashrt_core.recordings import open_recording
from flashrt_core.samples import AnySample, read_samples
from flashrt_core.types import Observation

if TYPE_CHECKING:
    from flashrt_core._core import Calibration

DEFAULT_OBSERVATIONS = 32
DEFAULT_FRACTION = 0.9999

Item = TypeVar('Item')


def run(
    source: Annotated[
        Path,
        typer.Argument(
            metavar='CHECKPOINT|RECORDING|OBSERVED',
            help='Folder with config.json and weights; with --params, a recording of rosbag2; or a file of '
            '--observed, from which scales are made without the model.',
        ),
    ],
    samples: Annotated[
        Path | None,
        typer.Argument(help='Of a checkpoint: a .npz or .safetensors file, or a folder of cases.'),
    ] = None,
    params: Annotated[
        Path | None, typer.Option(help='Parameter file of the policy node, which names the checkpoint.')
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            '--output', '-o', help='The file to write (JSON); with --params, else model.calibration.'
        ),
    ] = None,
    observations: Annotated[
        int | None,
        typer.Option(min=1, help='How many to take of a recording, spread over its length; else 32.'),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(help='fp8, fp8_f16, fp8_mixed or the path of a recipe file; else fp8, or model.recipe.'),
    ] = None,
    estimator: Annotated[
        Estimator,
        typer.Option(
            help='The range of a site. min_max: the largest value; percentile: the bound of a fraction of '
            'the values; entropy: what changes their distribution least; mse: what rounds with the least '
            'squared error.'
        ),
    ] = 'min_max',
    fraction: Annotated[
        float | None, typer.Option(help='Of the values inside the range, for percentile; else 0.9999.')
    ] = None,
    per_step: Annotated[bool, typer.Option('--per-step', help='One scale per denoise step.')] = False,
    equalise: Annotated[
        float | None,
        typer.Option(
            help='Evens out channels that are far larger than the others first, by moving them into the '
            'weights, in a pass of its own over the samples. Strength: 1 evens out the activations, towards '
            '0 the weights; 0.5 is a good first try. Else not at all.'
        ),
    ] = None,
    observed: Annotated[
        Path | None,
        typer.Option(
            help='Keeps what was observed in this file, from time to time and on Ctrl-C: the same command '
            'goes on from it.'
        ),
    ] = None,
    backend: Annotated[
        str | None, typer.Option(help='cpu or cuda; else cpu, or model.backend. The scales fit both.')
    ] = None,
    packed: Packed = None,
    device: Annotated[
        int | None, typer.Option(min=0, max=INT_MAX, help='Index of the GPU; else 0, or model.device.')
    ] = None,
    tuning: Tuning = None,
    threads: Annotated[
        int | None, typer.Option(min=0, max=INT_MAX, help='0: one per core; else 0, or model.threads.')
    ] = None,
    embodiment_slot: EmbodimentSlot = -1,
) -> None:
    """Measure the scales that a recipe with FP8 activations needs.

    Either `flashrt calibrate CHECKPOINT SAMPLES -o FILE` on inputs of the model, or `flashrt calibrate
    RECORDING --params P` on what a robot saw: observations are formed as the node forms them.

    They should look like what the robot will see, and be others than those the result is judged by.

    `flashrt calibrate OBSERVED -o FILE --estimator E` makes further calibrations of what --observed kept.
    """
    if fraction is not None and estimator != 'percentile':
        raise Error(f'calibrate: --fraction {fraction} is for --estimator percentile')
    if observations is not None and params is None:
        raise Error(f'calibrate: --observations {observations} is for a recording, which needs --params')
    how = CalibrationSettings(
        recipe or 'fp8', estimator, DEFAULT_FRACTION if fraction is None else fraction, per_step, equalise
    )
    engine = given(backend=backend, packed=packed, device=device, tuning=tuning, threads=threads)
    if observed is not None:
        _check_folder(observed)
    if params is not None:
        if samples is not None:
            raise Error('calibrate: --params names the checkpoint, so only the recording is given beside it')
        if embodiment_slot >= 0:
            raise Error(f'calibrate: --embodiment-slot {embodiment_slot}: --params names the embodiment')
        changes = engine | given(recipe=recipe)
        with _saying_what_is_kept(observed):
            calibration, output = _from_recording(
                source, params, output, observations or DEFAULT_OBSERVATIONS, changes, how, observed
            )
    elif samples is None and output is not None and source.is_file():
        _check_folder(output)
        if unused := engine | given(recipe=recipe, observed=observed, equalise=equalise):
            raise Error(
                f'calibrate: {source} is a file of observations: it needs no model, so without '
                + ', '.join(f'--{name}' for name in unused)
            )
        calibration = calibrate_kept(source, how)
    else:
        if samples is None or output is None:
            raise Error(
                'calibrate: give CHECKPOINT SAMPLES --output FILE, or, for what a robot saw, RECORDING '
                '--params FILE'
            )
        _check_folder(output)
        named = _Again(partial(read_samples, samples, embodiment_slot))
        with _saying_what_is_kept(observed):
            calibration = calibrate(
                source, named, how, embodiment_slot=embodiment_slot, kept_in=observed, **engine
            )
    calibration.save(output)
    print(f'{output}: {len(calibration.sites)} sites from {calibration.origin}')
    if octaves := calibration.equalisation.octaves:
        moved = [abs(octave) for site in octaves.values() for octave in site if octave]
        print(
            f'equalised: {len(moved)} of {sum(map(len, octaves.values()))} channels moved, by up to '
            f'{2 ** max(moved, default=0)}; see what it wins with flashrt compare --free-running'
        )
    if calibration.samples == 1:
        _warn('one observation says little about the range of others')


@contextmanager
def _saying_what_is_kept(observed: Path | None) -> Iterator[None]:
    """Ctrl-C ends the command either way."""
    try:
        yield
    except KeyboardInterrupt:
        if observed is None or not observed.exists():
            raise
        _warn(f'interrupted; {observed} keeps what was observed, and the same command goes on from it')
        raise typer.Exit(130) from None


def _from_recording(
    bag: Path,
    params: Path,
    output: Path | None,
    count: int,
    changes: dict[str, Any],
    how: CalibrationSettings,
    kept_in: Path | None,
) -> tuple['Calibration', Path]:
    """The calibration, and where it goes; changes: fields of the policy settings that options replace."""
    with open_recording(bag, params, _warn) as recording:
        settings = replace(recording.settings, **changes)
        target = output or settings.calibration
        if target is None:
            raise Error(f'calibrate: give --output, or name the file as model.calibration in {params}')
        target = Path(target)
        _check_folder(target)
        how = replace(how, recipe=settings.recipe)

        def observed(policy: FlashPolicy) -> Iterator[tuple[str, Observation]]:
            return _with_progress(recording.observations(policy, count), count)

        policy = load_to_calibrate(settings, how, observed, kept_in)
        return calibrate_policy(policy, observed(policy), how, kept_in), target


@dataclass(frozen=True)
class _Again:
    """Samples that are read anew each time, so that they need not all be held."""

    read: Callable[[], Iterable[tuple[str, AnySample]]]

    def __iter__(self) -> Iterator[tuple[str, AnySample]]:
        return _with_progress(self.read())


def _check_folder(output: Path) -> None:
    """Before the work."""
    if not output.resolve().parent.is_dir():
        raise Error(f'calibrate: folder {output.resolve().parent} of the output does not exist')


def _with_progress(items: Iterable[Item], total: int | None = None) -> Iterator[Item]:
    console = Console(stderr=True)
    return iter(
        track(items, 'calibrate', total, console=console, transient=True, disable=not console.is_terminal)
    )


def _warn(text: str) -> None:
    print(f'warning: {text}', file=sys.stderr)
