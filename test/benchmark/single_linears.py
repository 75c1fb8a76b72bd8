# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Where the error of a quantised activation comes from, on single linears.

From the rounding of what lies inside the range and the clipping of what lies outside: what each way of
choosing the range makes of the two. `hard_cases.py` measures whole models.
"""

from dataclasses import dataclass

import numpy as np
from number_formats import FORMATS, rounded
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

ROWS, WIDTH, OUTPUTS = 512, 256, 64
OUTLIERS = 3  # channels of an activation
LIMITS = ('min_max', 'percentile 0.9999', 'percentile 0.999', 'mse')
GRID = np.geomspace(1, 1e-4, 81)  # parts of the largest magnitude that the search for `mse` tries


@dataclass(frozen=True)
class Case:
    """y = x W^T; the error is that of the rows of y from `first_row` on, relative to them."""

    name: str
    x: NDArray  # [ROWS, WIDTH]
    weight: NDArray  # [OUTPUTS, WIDTH]
    first_row: int = 0  # of those that are judged


@dataclass(frozen=True)
class Errors:
    """Of y, root mean square, relative."""

    limit: float  # the range as a part of the largest magnitude
    total: float
    rounding: float  # of the values inside the range
    clipping: float  # of those outside


def cases() -> list[Case]:
    rng = np.random.default_rng(5)
    normal = rng.standard_normal((ROWS, WIDTH))
    weight = rng.standard_normal((OUTPUTS, WIDTH)) / np.sqrt(WIDTH)
    result = [
        Case('normal', normal, weight),
        Case('heavy tails, Student t, 3 degrees', rng.standard_t(3, (ROWS, WIDTH)), weight),
    ]
    channels = rng.choice(WIDTH, OUTLIERS, replace=False)
    for factor in (10, 100, 1000):
        # What the channels add to y stays of the size of what the others add.
        gain = np.ones(WIDTH)
        gain[channels] = factor
        result.append(Case(f'{OUTLIERS} channels x {factor}', normal * gain, weight / gain))
    for factor in (10, 100, 1000):
        x = normal.copy()
        x[0] *= factor
        result.append(Case(f'one token x {factor}, error of the others', x, weight, 1))
    return result


def limit_of(way: str, format: str, x: NDArray) -> float:
    magnitudes = np.abs(x)
    if way == 'min_max':
        return magnitudes.max()
    if way.startswith('percentile'):
        return np.quantile(magnitudes, float(way.split()[1]))
    limits = magnitudes.max() * GRID
    return min(limits, key=lambda limit: np.square(rounded(format, x, limit) - x).sum())


def errors_of(case: Case, format: str, way: str) -> Errors:
    """Of x in this format; the weight stays as it is."""
    limit = limit_of(way, format, case.x)
    error = rounded(format, case.x, limit) - case.x
    is_outside = np.abs(case.x) > limit
    reference = np.linalg.norm((case.x @ case.weight.T)[case.first_row :])

    def relative(part: NDArray) -> float:
        return float(np.linalg.norm((part @ case.weight.T)[case.first_row :]) / reference)

    return Errors(
        limit=float(limit / np.abs(case.x).max()),
        total=relative(error),
        rounding=relative(np.where(is_outside, 0, error)),
        clipping=relative(np.where(is_outside, error, 0)),
    )


def table_of(case: Case) -> Table:
    table = Table(title=case.name, box=None, title_justify='left', header_style='bold', pad_edge=False)
    table.add_column('')
    for way in LIMITS:
        table.add_column(way, justify='right')
    for format in FORMATS:
        ways = ['min_max'] if format == 'mxfp4' else LIMITS
        table.add_row(format, *(_text(errors_of(case, format, way)) for way in ways))
    return table


def _text(errors: Errors) -> str:
    return f'{errors.total:.2%} = {errors.rounding:.2%} + {errors.clipping:.2%} at {errors.limit:.3g}'


def main() -> None:
    console = Console(width=170)
    console.print(
        'Error of y = rounding inside the range + clipping outside it (added as squares), at the range as a '
        'part of the largest magnitude'
    )
    for case in cases():
        console.print(table_of(case), highlight=False)


if __name__ == '__main__':
    main()
