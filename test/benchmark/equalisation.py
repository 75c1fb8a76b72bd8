# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What equalisation wins and loses where weights and activations are quantised, by strength and format.

Scales are those of the equalised model, as `flashrt calibrate --equalise` measures them. Models: pi05_heads
as it is and with planted outlier channels, and random weights of its sizes whose residual streams have some.
`equalised.py` has weights alone.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from format_errors import FOOTNOTE, Error, Model, Way, label, table
from hard_cases import CASES, SOURCE
from rich.console import Console

from flashrt_core.calibrate import CalibrationSettings, calibrate_programs
from flashrt_core.equalising import equalise
from flashrt_core.programs import ProgramKey

FORMATS = ('e4m3', 'e5m2', 'int8', 'nvfp4')  # whose activations are calibrated
STRENGTHS = (None, 0.25, 0.5, 0.75, 1.0)
PLANTED = ('no fault', 'channels x 10', 'channels x 100', 'channels x 1000')
OUTLIERS = (1, 10, 100, 1000)  # of random weights


def errors(model: Model, way: Way, folder: Path) -> list[Error]:
    """By strength."""
    recipe, calibration = folder / 'recipe.json', folder / 'calibration.json'
    recipe.write_text(way.recipe())
    plain = model.programs(str(recipe), float_activations=True)
    named = [(f'observation {i}', s) for i, s in enumerate(model.calibration_samples(plain))]
    found = []
    for strength in STRENGTHS:
        programs, settings = plain, CalibrationSettings(str(recipe), equalise=strength)
        if strength is not None:
            observed = ((name, plain.get(ProgramKey.of(s)), s.inputs) for name, s in named)
            factors = equalise(observed, strength)
            programs = model.programs(str(recipe), float_activations=True, equalisation=factors)
        calibrate_programs(programs, named, settings).save(calibration)
        found.append(model.error(model.programs(str(recipe), calibration=calibration)))
    return found


def mean(rows: Sequence[Sequence[Error]]) -> list[Error]:
    """Over models."""
    return [
        Error(
            float(np.mean([error.relative for error in column])),
            float(np.linalg.norm([error.deviation for error in column]) / len(column)),
        )
        for column in zip(*rows, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--seeds', type=int, default=3, help='random models that a mean is over')
    parser.add_argument('--random-weights', type=Path, help='only these: a folder with a config.json')
    options = parser.parse_args()
    seeds = range(options.seeds)
    begin = time.perf_counter()
    cases = {case.name: case for case in CASES}
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        models = {f'pi05_heads, {name}': [cases[name].model(folder)] for name in PLANTED}
        for factor in OUTLIERS:
            models[f'random, residual x {factor}'] = [
                Model(SOURCE, random_seed=seed, random_outliers=factor) for seed in seeds
            ]
        if large := options.random_weights:
            drawn = [Model(large, random_seed=seed, calibrated_on=2, judged_on=2) for seed in seeds]
            models = {large.name: drawn}
        for format in FORMATS:
            way = Way(format, weight_scale=None if format == 'nvfp4' else 'channel')
            for name, same in models.items():
                found = mean([errors(model, way, folder) for model in same])
                rows.append((f'{format}{label(format)}: {name}', found))
    columns = ['as it is', *(f'strength {strength}' for strength in STRENGTHS[1:])]
    console = Console(width=120)
    console.print(table('error of actions - noise against float32', columns, rows), highlight=False)
    deviation = np.median([error.deviation / error.relative for _, found in rows for error in found])
    console.print(f'{FOOTNOTE}. Standard deviation of a mean: {deviation:.1%} of it (median).')
    console.print(f'{time.perf_counter() - begin:.0f} s')


if __name__ == '__main__':
    main()
