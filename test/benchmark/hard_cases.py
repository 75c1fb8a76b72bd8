# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What each number format and estimator makes of weights and activations that are hard to quantise.

Weights of pi05_heads with one fault each, the error of the actions relative to float32 on the same weights,
and which recipe recovers. `single_linears.py` shows the reasons.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
from format_errors import (
    ESTIMATORS,
    FOOTNOTE,
    FORMATS,
    RECOVERIES,
    SCALED,
    Error,
    Model,
    Way,
    label,
    recovering_ways,
    table,
    ways,
    write_json,
)
from planted_faults import (
    Tensors,
    constant_sites,
    dead_channels,
    heavy_tails,
    outlier_channels,
    outlier_rows,
    outlier_token,
    plant,
)
from rich.console import Console

from flashrt_core.bench import BEGIN
from flashrt_core.samples import Sample

SOURCE = Path(__file__).parents[1] / 'golden/pi05_heads'
OTHER_TOKEN = 3
FACTORS = (10, 100, 1000)


@dataclass(frozen=True)
class Case:
    """A fault, and the linears that read what it makes hard."""

    name: str
    fault: Callable[[Tensors], None] = lambda tensors: None
    hide: Callable[[Sample], Sample] | None = None  # from the calibration
    readers: tuple[str, ...] = ()

    def model(self, folder: Path) -> Model:
        return Model(plant(SOURCE, folder / self.name, self.fault), hide=self.hide)


def without_first_token(sample: Sample) -> Sample:
    """Another token in its place."""
    tokens = np.where(sample.tokens == BEGIN, OTHER_TOKEN, sample.tokens).astype(np.int32)
    return replace(sample, tokens=tokens)


def dark(sample: Sample) -> Sample:
    """A camera at night."""
    return replace(sample, images=sample.images // 16)


NORM_READERS = ('vision.*.qkv', 'vision.*.fc1', 'denoise.*.qkv', 'denoise.*.gate_up')
CASES = (
    Case('no fault'),
    Case("heavy tails: Student's t, 3 degrees", heavy_tails),
    *(Case(f'rows of weights x {factor}', partial(outlier_rows, factor=factor)) for factor in FACTORS),
    *(
        Case(f'channels x {factor}', partial(outlier_channels, factor=factor), readers=NORM_READERS)
        for factor in FACTORS
    ),
    *(
        Case(f'first token x {factor}', partial(outlier_token, factor=factor), readers=('prefix.*.down',))
        for factor in FACTORS
    ),
    Case('dead channels', dead_channels),
    Case('constant sites', constant_sites),
    Case(
        'calibrated without the first token, x 100',
        partial(outlier_token, factor=100),
        without_first_token,
        ('prefix.*.down',),
    ),
    Case('calibrated in the dark', hide=dark),
)


@dataclass(frozen=True)
class Measured:
    """Every error of one case."""

    case: Case
    errors: dict[Way, Error] = field(default_factory=dict)


def measure(case: Case, wanted: Iterable[Way], folder: Path) -> Measured:
    return Measured(case, dict(case.model(folder).errors(wanted, folder)))


def ways_of(case: Case) -> list[Way]:
    """The grid, and what is tried to recover, exceptions last."""
    return list(dict.fromkeys([*ways(), *recovering_ways(), *exceptions(case).values()]))


def exceptions(case: Case) -> dict[str, Way]:
    """Format -> the way that leaves the readers of what is hard in float32."""
    if not case.readers:
        return {}
    return {
        format: Way(format, weight_scale='channel' if format in SCALED else None, float_calls=case.readers)
        for format in FORMATS
    }


def estimators_table(measured: Iterable[Measured], activations: bool, scale: str):
    """A row for each case and format, a column for each estimator."""
    rows = []
    for item in measured:
        for format in FORMATS:
            way = Way(format, activations, scale if format in SCALED else None)
            errors = [item.errors.get(replace(way, estimator=estimator)) for estimator in ESTIMATORS]
            rows.append((f'{item.case.name}: {format}{label(format)}', errors))
    what = 'weights and activations' if activations else 'weights alone, range of the weights'
    return table(f'{what}, a scale per {scale} of the weights', ESTIMATORS, rows)


def recovery_table(measured: Iterable[Measured]):
    """A row for each case and format, a column for each thing that is tried."""
    rows = []
    for item in measured:
        for format in FORMATS:
            way = Way(format, weight_scale='tensor' if format in SCALED else None)
            errors = [item.errors[change(way)] for change in RECOVERIES.values()]
            by_channel = replace(way, weight_scale=way.weight_scale and 'channel')
            estimated = [replace(by_channel, estimator=estimator) for estimator in ESTIMATORS]
            best = min(
                (item.errors[way] for way in estimated if way in item.errors),
                key=lambda error: error.relative,
            )
            exception = exceptions(item.case).get(format)
            tried = [*errors, best, item.errors[exception] if exception else None]
            rows.append((f'{item.case.name}: {format}{label(format)}', tried))
    columns = [*RECOVERIES, 'best estimator', 'its readers in f32']
    return table('weights and activations: what recovers', columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--json', type=Path, help='write every error to this file')
    arguments = parser.parse_args()
    begin = time.perf_counter()
    measured = []
    console = Console(width=150)
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            measured.append(measure(case, ways_of(case), Path(folder)))
            console.print(f'{case.name}: {time.perf_counter() - begin:.0f} s', style='dim')
    for activations, scale in ((True, 'channel'), (True, 'tensor'), (False, 'channel'), (False, 'tensor')):
        console.print(estimators_table(measured, activations, scale), highlight=False)
    console.print(recovery_table(measured), highlight=False)
    console.print(FOOTNOTE)
    if arguments.json is not None:
        rows = [
            {'case': item.case.name} | asdict(way) | asdict(error)
            for item in measured
            for way, error in item.errors.items()
        ]
        write_json(arguments.json, rows)


if __name__ == '__main__':
    main()
