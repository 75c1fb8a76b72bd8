# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The error of the actions of one model per number format, estimator of ranges and granularity of scales.

Everything but the linears of a recipe stays in float32, so that the error is that of the format alone. Run
it on a checkpoint, or on random weights of a configuration; random observations stand for a robot, those that
are judged are never those that are calibrated on.
"""

import argparse
import itertools
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from flashrt_core.bench import ACCURACY_SEED, CALIBRATION_SEED, BenchSettings, random_samples
from flashrt_core.calibrate import CalibrationSettings, Estimator, calibrate_programs
from flashrt_core.programs import ProgramKey, Programs
from flashrt_core.samples import Sample

if TYPE_CHECKING:
    from flashrt_core._core import Calibration

ESTIMATORS: tuple[Estimator, ...] = ('min_max', 'percentile', 'entropy', 'mse')
SCALED = ('e4m3', 'e5m2', 'int8')  # one scale per tensor or channel of weights; the others have one per block
FORMATS = (*SCALED, 'nvfp4', 'mxfp4')
FRACTION = 0.9999  # of the percentile
CUDA_RUNS = ('e4m3',)  # the CPU backend emulates the others

# What recipes of the package leave in float32, and GR00T's prompt in what the recipe calls values.
FLOAT_LINEARS = ('styles.*', '*.action_in', '*.velocity')


@dataclass(frozen=True)
class Way:
    """How the linears of a model are quantised."""

    format: str
    activations: bool = True  # not the weights alone
    weight_scale: str | None = 'channel'  # or tensor; None of formats with blocks
    estimator: Estimator = 'min_max'  # of the ranges of activations; of those of weights, for weights alone
    per_step: bool = False
    float_calls: tuple[str, ...] = ()  # patterns of linears that stay in float32

    @property
    def is_calibrated(self) -> bool:
        """Activations have scales that are decided before they are seen; blocks of mxfp4 have none."""
        return self.activations and self.format != 'mxfp4'

    def recipe(self) -> str:
        """As JSON."""
        rule: dict[str, str | float] = {'match': '*', 'weight': self.format}
        rule['activation'] = self.format if self.activations else 'f32'
        if self.weight_scale is not None:
            rule['weight_scale'] = self.weight_scale
        if not self.activations and self.estimator != 'min_max':
            rule['weight_range'] = self.estimator
            if self.estimator == 'percentile':
                rule['weight_fraction'] = FRACTION
        left = [{'match': match, 'weight': 'f32', 'activation': 'f32'} for match in FLOAT_LINEARS]
        left += [{'match': match, 'weight': 'f32', 'activation': 'f32'} for match in self.float_calls]
        head = {'format': 'flashrt_recipe', 'version': 1, 'name': 'way', 'values': 'f32'}
        return json.dumps(head | {'rules': [rule, *left]})


def ways() -> list[Way]:
    """Every format, weights alone and with activations, by granularity and estimator."""
    result = []
    for format, activations in itertools.product(FORMATS, (False, True)):
        for scale in ('tensor', 'channel') if format in SCALED else (None,):
            for estimator in ESTIMATORS if format != 'mxfp4' else ('min_max',):
                result.append(Way(format, activations, scale, estimator))
    return result


@dataclass(frozen=True)
class Error:
    """Of actions - noise, root mean square, relative to float32."""

    relative: float
    deviation: float  # of the mean over observations, standard

    def __str__(self) -> str:
        return f'{self.relative:.2%}'


@dataclass
class Model:
    """A checkpoint folder, or random weights of its configuration, with the observations to judge it on."""

    checkpoint: Path
    random_seed: int | None = None
    random_outliers: float = 1.0
    cameras: int = 1
    prompt_length: int = 10
    steps: int = 4
    calibrated_on: int = 4
    judged_on: int = 8
    threads: int = 2
    # What becomes of an observation before it is calibrated on: a mode that calibration does not see.
    hide: Callable[[Sample], Sample] | None = None
    _reference: list[NDArray] = field(default_factory=list)

    def programs(self, recipe: str = 'f32', **options) -> Programs:
        return Programs(
            self.checkpoint,
            recipe=recipe,
            random_seed=self.random_seed,
            random_outliers=self.random_outliers,
            threads=self.threads,
            **options,
        )

    def errors(self, ways: Iterable[Way], folder: Path) -> Iterator[tuple[Way, Error]]:
        """In the order of the ways; files go into the folder."""
        recipe = folder / 'recipe.json'
        for _, group in itertools.groupby(ways, Way.recipe):
            together = list(group)
            recipe.write_text(together[0].recipe())
            calibration = self._observed(together[0], recipe) if together[0].is_calibrated else None
            for way in together:
                path = None
                if calibration is not None:
                    calibration.finish(way.estimator, FRACTION, way.per_step)
                    path = folder / 'calibration.json'
                    calibration.save(path)
                yield way, self.error(self.programs(str(recipe), calibration=path))

    def _observations(self, programs: Programs, seed: int, count: int) -> list[Sample]:
        settings = BenchSettings(
            checkpoint=str(self.checkpoint),
            cameras=self.cameras,
            steps=self.steps,
            prompt_length=self.prompt_length,
            new_prompts=True,
        )
        return random_samples(programs.config, settings, seed, count)

    def _chunks(self, programs: Programs) -> list[NDArray]:
        """actions - noise of the observations to judge: what the model adds to where it starts."""
        samples = self._observations(programs, ACCURACY_SEED, self.judged_on)
        return [
            programs.get(ProgramKey.of(sample)).infer(*sample.inputs) - sample.noise for sample in samples
        ]

    def _observed(self, way: Way, recipe: Path) -> 'Calibration':
        """What was observed, to be finished in several ways."""
        programs = self.programs(str(recipe), float_activations=True)
        samples = self.calibration_samples(programs)
        named = [(f'observation {i}', sample) for i, sample in enumerate(samples)]
        return calibrate_programs(programs, named, CalibrationSettings(recipe=str(recipe)))

    def calibration_samples(self, programs: Programs) -> list[Sample]:
        samples = self._observations(programs, CALIBRATION_SEED, self.calibrated_on)
        return [self.hide(sample) for sample in samples] if self.hide else samples

    def error(self, programs: Programs) -> Error:
        """Each observation counts the same."""
        if not self._reference:
            self._reference = self._chunks(self.programs())
        pairs = zip(self._chunks(programs), self._reference, strict=True)
        errors = np.array([np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in pairs])
        deviation = errors.std(ddof=1) / np.sqrt(errors.size) if errors.size > 1 else np.nan
        return Error(float(errors.mean()), float(deviation))


def table(title: str, columns: Sequence[str], rows: Iterable[tuple[str, Sequence[Error | None]]]) -> Table:
    """Errors; empty where a way makes no sense."""
    result = Table(title=title, box=None, title_justify='left', header_style='bold', pad_edge=False)
    result.add_column('')
    for column in columns:
        result.add_column(column, justify='right')
    for name, errors in rows:
        result.add_row(name, *('' if error is None else str(error) for error in errors))
    return result


def by_estimator(title: str, errors: Mapping[Way, Error]) -> Table:
    """A row for each format and granularity, a column for each estimator."""
    rows: dict[str, dict[str, Error]] = {}
    for way, error in errors.items():
        name = f'{way.format}, {"weights alone" if not way.activations else "both"}'
        if way.weight_scale is not None:
            name += f', a scale per {way.weight_scale}'
        rows.setdefault(name + label(way.format), {})[way.estimator] = error
    filled = [(name, [row.get(estimator) for estimator in ESTIMATORS]) for name, row in rows.items()]
    return table(title, ESTIMATORS, filled)


def label(format: str) -> str:
    """What the CUDA backend cannot run is marked wherever it is printed."""
    return '' if format in CUDA_RUNS else ' *'


FOOTNOTE = '* emulated by the CPU backend; the CUDA backend refuses it'

# What is tried to recover: name -> change of a way with a scale per tensor and min_max.
RECOVERIES: dict[str, Callable[[Way], Way]] = {
    'as it is': lambda way: way,
    'a scale per channel': lambda way: replace(way, weight_scale=way.weight_scale and 'channel'),
    'and per step': lambda way: replace(way, weight_scale=way.weight_scale and 'channel', per_step=True),
}


def recovered(errors: Mapping[Way, Error]) -> Table:
    rows = []
    for format in FORMATS:
        way = Way(format, weight_scale='tensor' if format in SCALED else None)
        rows.append((format + label(format), [errors[change(way)] for change in RECOVERIES.values()]))
    return table('recovered, weights and activations, min_max', list(RECOVERIES), rows)


def recovering_ways() -> list[Way]:
    return [
        change(Way(format, weight_scale='tensor' if format in SCALED else None))
        for format in FORMATS
        for change in RECOVERIES.values()
    ]


def write_json(path: Path, rows: list[dict]) -> None:
    path.write_text(
        json.dumps({'format': 'flashrt_format_errors', 'version': 1, 'rows': rows}, indent=1) + '\n'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--checkpoint', type=Path, help='folder with config.json and weights')
    parser.add_argument('--random-weights', type=Path, help='instead: folder with a config.json')
    parser.add_argument('--seed', type=int, default=0, help='of the random weights')
    parser.add_argument('--outliers', type=float, default=1.0, help='of the random weights: factor')
    parser.add_argument('--observations', type=int, default=8, help='that are judged')
    parser.add_argument('--steps', type=int, default=4, help='denoise steps')
    parser.add_argument('--calibrate', type=int, default=4, help='observations that are calibrated on')
    parser.add_argument(
        '--short', action='store_true', help='of large models: no weights alone, scales per channel'
    )
    parser.add_argument('--json', type=Path, help='write every error to this file')
    arguments = parser.parse_args()
    if (arguments.checkpoint is None) == (arguments.random_weights is None):
        parser.error('give either --checkpoint or --random-weights')
    model = Model(
        arguments.checkpoint or arguments.random_weights,
        random_seed=None if arguments.checkpoint else arguments.seed,
        random_outliers=arguments.outliers,
        steps=arguments.steps,
        calibrated_on=arguments.calibrate,
        judged_on=arguments.observations,
    )
    begin = time.perf_counter()
    wanted = [
        way for way in ways() if not arguments.short or (way.activations and way.weight_scale != 'tensor')
    ]
    with tempfile.TemporaryDirectory() as folder:
        errors = dict(model.errors(dict.fromkeys([*wanted, *recovering_ways()]), Path(folder)))
    console = Console(width=120)
    title = f'{model.checkpoint}: error of actions - noise against float32, {model.judged_on} observations'
    console.print(by_estimator(title, {way: errors[way] for way in wanted}), highlight=False)
    console.print(recovered(errors), highlight=False)
    deviation = np.median([error.deviation / error.relative for error in errors.values()])
    console.print(f'{FOOTNOTE}. Standard deviation of a mean: {deviation:.1%} of it (median).')
    console.print(f'{len(errors)} ways in {time.perf_counter() - begin:.0f} s')
    if arguments.json is not None:
        write_json(arguments.json, [asdict(way) | asdict(error) for way, error in errors.items()])


if __name__ == '__main__':
    main()
