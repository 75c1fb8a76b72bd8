# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Comparing call by call: a difference belongs to the call that shows it; bounds follow from types."""

import numpy as np
import pytest

from flashrt_core import Error
from flashrt_core.calibrate import calibrate
from flashrt_core.comparison import compare_calls
from flashrt_core.programs import ProgramKey, Programs
from flashrt_core.samples import read_samples


@pytest.fixture(scope='module')
def model(golden):
    return golden / 'pi05_tiny'


@pytest.fixture(scope='module')
def samples(model):
    return list(read_samples(model / 'case_03.safetensors'))


@pytest.fixture(scope='module')
def scales(model, samples, tmp_path_factory):
    path = tmp_path_factory.mktemp('scales') / 'scales.json'
    calibrate(model, samples, threads=2).save(path)
    return path


def programs(model, **options):
    return Programs(model, threads=2, **options)


def test_a_recipe_against_itself_is_equal(model, samples):
    for row in compare_calls(programs(model), programs(model), samples, all_calls=True):
        assert row.rms == row.worst == 0, row.value


@pytest.mark.parametrize('recipe', ['bf16', 'fp8', 'fp8_f16'])
def test_recipes_stay_within_bounds_that_are_not_far_away(model, samples, scales, recipe):
    other = programs(model, recipe=recipe, calibration=scales if recipe.startswith('fp8') else None)
    rows = compare_calls(programs(model), other, samples, all_calls=True)
    assert all(row.passed for row in rows)
    for operation in ('linear', 'add_norm', 'attention', 'glu', 'qkv_rope'):
        closest = max(row.rms / row.bound for row in rows if row.operation == operation)
        assert closest > 0.1, f'{operation}: a bound that nothing comes near finds nothing'
    steps = {row.step for row in rows if row.value.startswith('denoise')}
    assert len(steps) > 1


def test_calls_run_on_what_the_reference_computed(model, samples):
    """With other weights every linear differs, and nothing that has no weights does."""
    rows = compare_calls(programs(model), programs(model, random_seed=1), samples, all_calls=True)
    for row in rows:
        if row.operation in ('attention', 'glu', 'qkv_rope', 'euler_step'):
            assert row.rms == 0, row.value
        if row.operation == 'linear':
            assert not row.passed, row.value


def test_it_stops_at_the_first_value_beyond_its_bound(model, samples):
    rows = compare_calls(programs(model), programs(model, random_seed=1), samples)
    assert [row.passed for row in rows] == [True] * (len(rows) - 1) + [False]
    assert rows[-1].value == 'styles.time_in'  # the first with weights; sines before it have none
    assert rows[-1].reason == 'rounded factors and another order of a long sum'


def test_both_engines_compute_as_before(model, samples):
    _, sample = samples[0]
    key = ProgramKey.of(sample).keeping_values()
    first, second = programs(model).get(key), programs(model, random_seed=1).get(key)
    before = [engine.infer(*sample.inputs) for engine in (first, second)]
    first.compare(second, *sample.inputs, all=True)
    for engine, actions in zip((first, second), before, strict=True):
        np.testing.assert_array_equal(engine.infer(*sample.inputs), actions)


def test_engines_of_other_sizes_are_refused(model, samples):
    _, sample = samples[0]
    key = ProgramKey.of(sample).keeping_values()
    engine = programs(model).get(key)
    other = programs(model).get(ProgramKey(**(vars(key) | {'steps': 2})))
    with pytest.raises(Error, match='have other stages; compile both engines for the same sizes'):
        engine.compare(other, *sample.inputs)
    shared = programs(model).get(ProgramKey.of(sample))
    with pytest.raises(Error, match='needs keep_values'):
        shared.compare(engine, *sample.inputs)


def test_nothing_to_compare_is_an_error(model):
    with pytest.raises(Error, match='no sample was given'):
        compare_calls(programs(model), programs(model), [])
