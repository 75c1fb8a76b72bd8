# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What weights and activations that are hard to quantise cost, and what recovers.

A part of the tables of test/benchmark that is quick to measure.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

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


class Models:
    """The models of hard_cases.py, each way of which is measured once."""

    def __init__(self, hard_cases: ModuleType, folder: Path) -> None:
        self._hard_cases = hard_cases
        self._cases = {case.name: case for case in hard_cases.CASES}
        self._folder = folder
        self._measured: dict[tuple, float] = {}

    def model(self, case: str) -> Any:
        return self._cases[case].model(self._folder)

    def readers(self, case: str) -> tuple[str, ...]:
        return self._cases[case].readers

    def error(self, case: str, format: str, **changes) -> float:
        """Of the actions; changes: of the way."""
        way = self._hard_cases.Way(format, **changes)
        if (case, way) not in self._measured:
            errors = self._hard_cases.measure(self._cases[case], [way], self._folder).errors
            self._measured[case, way] = errors[way].relative
        return self._measured[case, way]


@pytest.fixture(scope='module')
def models(tmp_path_factory) -> Iterator[Models]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARK))
        import hard_cases

        yield Models(hard_cases, tmp_path_factory.mktemp('planted'))


def test_outlier_channels_cost_int8_most_of_the_actions_and_e4m3_nothing(models):
    for factor in (100, 1000):
        case = f'channels x {factor}'
        assert models.error(case, 'int8') > 10 * models.error('no fault', 'int8')
        assert models.error(case, 'e4m3') < 1.1 * models.error('no fault', 'e4m3')


def test_float32_for_the_linears_that_read_them_recovers_int8(models):
    case = 'channels x 100'
    kept = models.error(case, 'int8', float_calls=models.readers(case))
    assert kept < 0.1 * models.error(case, 'int8')


def test_an_outlier_token_costs_int8_and_its_reader_in_float32_recovers(models):
    case = 'first token x 1000'
    assert models.error(case, 'int8') > 1.5 * models.error('no fault', 'int8')
    kept = models.error(case, 'int8', float_calls=models.readers(case))
    assert kept < 1.2 * models.error('no fault', 'int8')


def test_a_scale_per_channel_recovers_weights_of_two_ranges(models):
    case = 'rows of weights x 100'
    by_tensor = models.error(case, 'int8', activations=False, weight_scale='tensor')
    assert models.error(case, 'int8', activations=False) < 0.3 * by_tensor


@pytest.mark.parametrize('case', ['dead channels', 'constant sites'])
@pytest.mark.parametrize('estimator', ['min_max', 'percentile', 'entropy', 'mse'])
def test_sites_and_weights_of_zeros_or_of_one_value_break_no_estimator(models, case, estimator):
    assert models.error(case, 'e4m3', estimator=estimator) < 0.06


def test_equalisation_recovers_outlier_channels(models, tmp_path):
    """The channels move into weights that are small there; the model computes the same."""
    import equalised

    way = equalised.Way('mxfp4', weight_scale=None)
    recipe = tmp_path / 'recipe.json'
    recipe.write_text(way.recipe())
    model = models.model('channels x 100')
    factors = equalised.equalisation(model, 0.5, tmp_path)
    as_it_is = model.error(model.programs(str(recipe))).relative
    assert model.error(model.programs(str(recipe), equalisation=factors)).relative < 0.5 * as_it_is
