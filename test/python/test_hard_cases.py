# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What weights and activations that are hard to quantise cost, and what recovers.

A part of the tables of test/benchmark that is quick to measure.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARK = Path(__file__).parents[1] / 'benchmark'


@pytest.fixture(scope='module')
def linears() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARK))
        import single_linears

        yield single_linears


@pytest.fixture(scope='module')
def error_of_linear(linears) -> Callable[[str, str, str], float]:
    cases = {case.name: case for case in linears.cases()}

    def error_of_linear(case: str, format: str, way: str = 'min_max') -> float:
        return linears.errors_of(cases[case], format, way).total

    return error_of_linear


HEAVY = 'heavy tails, Student t, 3 degrees'
LINEAR_CASES = ('normal', HEAVY, '3 channels x 100', 'one token x 100, error of the others')
PERCENTILES = ('percentile 0.9999', 'percentile 0.999')


@pytest.mark.parametrize('case', LINEAR_CASES)
@pytest.mark.parametrize('format', ['e4m3', 'e5m2'])
@pytest.mark.parametrize('percentile', PERCENTILES)
def test_a_float_format_wins_nothing_by_cutting_off(error_of_linear, case, format, percentile):
    """Its step follows the value: a smaller range rounds nothing finer, and what is cut off is lost."""
    assert error_of_linear(case, format, percentile) > 0.98 * error_of_linear(case, format)


def test_heavy_tails_cost_a_float_format_several_times_as_much_when_they_are_cut_off(error_of_linear):
    assert error_of_linear(HEAVY, 'e4m3', 'percentile 0.9999') > 4 * error_of_linear(HEAVY, 'e4m3')


def test_int8_wins_by_cutting_off_where_outliers_are_few_and_of_one_kind(error_of_linear):
    for case in ('3 channels x 10', 'one token x 100, error of the others'):
        assert error_of_linear(case, 'int8', 'percentile 0.999') < 0.7 * error_of_linear(case, 'int8')


def test_and_loses_where_they_are_a_tail(error_of_linear):
    errors = [error_of_linear(HEAVY, 'int8', way) for way in ('min_max', *PERCENTILES)]
    assert errors == sorted(errors)
    assert error_of_linear(HEAVY, 'int8', 'mse') < 0.9 * errors[0], 'the least squared error lies between'


@pytest.mark.parametrize('format', ['nvfp4', 'mxfp4'])
def test_blocks_keep_rows_apart_but_not_channels(error_of_linear, format):
    alone = error_of_linear('normal', format)
    assert error_of_linear('one token x 100, error of the others', format) < 1.05 * alone
    assert error_of_linear('3 channels x 100', format) > 3 * alone
