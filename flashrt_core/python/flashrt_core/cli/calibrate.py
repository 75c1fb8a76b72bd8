# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`flashrt calibrate`: recorded model inputs to the scales of quantised activations."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from flashrt_core.calibrate import CalibrationSettings, Estimator, calibrate
from flashrt_core.errors import Error
from flashrt_core.samples import read_samples


def run(
    checkpoint: Annotated[Path, typer.Argument(help='Folder with config.json and weights.')],
    samples: Annotated[
        Path,
        typer.Argument(help='Model inputs: a .npz or .safetensors file, or a folder of cases.'),
    ],
    output: Annotated[Path, typer.Option('--output', '-o', help='The calibration file to write (JSON).')],
    recipe: Annotated[str, typer.Option(help='fp8, fp8_f16 or the path of a recipe file.')] = 'fp8',
    estimator: Annotated[
        Estimator, typer.Option(help='min_max: the largest value; percentile: cut off outliers.')
    ] = 'min_max',
    fraction: Annotated[float, typer.Option(help='Of the values inside the range, for percentile.')] = 0.9999,
    per_step: Annotated[bool, typer.Option('--per-step', help='One scale per denoise step.')] = False,
    backend: Annotated[str, typer.Option(help='What runs the model.')] = 'cpu',
    threads: Annotated[int, typer.Option(help='0: one per core.')] = 0,
) -> None:
    """Measure the scales that a recipe with FP8 activations needs.

    The samples should look like what the robot will see, and be others than those the result is judged by.
    """
    if not output.resolve().parent.is_dir():
        raise Error(f'calibrate: folder {output.resolve().parent} of the output does not exist')
    settings = CalibrationSettings(recipe, estimator, fraction, per_step, backend, threads)
    calibration = calibrate(checkpoint, read_samples(samples), settings)
    calibration.save(output)
    print(f'{output}: {len(calibration.sites)} sites from {calibration.origin}')
    if calibration.samples == 1:
        print('warning: one observation says little about the range of others', file=sys.stderr)
