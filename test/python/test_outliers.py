# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What outliers of vision and language model cost in FP8, and the recipe that recovers; emulated on the CPU.

Weights are random. `pytest -s` prints the tables.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from flashrt_core.accuracy import Accuracy, Difference
from flashrt_core.bench import BenchSettings, bench
from flashrt_core.cli.compare import accuracy_table

RECOVERING = Path(__file__).parents[2] / 'config/recipes/fp8_denoise.json'


@pytest.fixture(scope='module')
def settings(golden, tmp_path_factory) -> BenchSettings:
    """A model that is wide enough for three channels to be few."""
    config = json.loads((golden / 'pi05_tiny/config.json').read_text())
    config['vision'] |= {'hidden_size': 192, 'intermediate_size': 384, 'projection_dim': 256}
    config['language'] |= {'hidden_size': 256, 'intermediate_size': 512, 'embedding_scale': 16.0}
    config['expert'] |= {'hidden_size': 128, 'intermediate_size': 256}
    folder = tmp_path_factory.mktemp('wide')
    (folder / 'config.json').write_text(json.dumps(config))
    return BenchSettings(
        checkpoint=str(folder),
        random_seed=0,
        random_outliers=100,
        steps=4,
        warmup=1,
        runs=1,
        reference='f32',
        backend_options={'threads': 2},
    )


@pytest.fixture(scope='module')
def accuracy_of(settings) -> Callable[..., Accuracy]:
    def accuracy_of(recipe: str, **changes) -> Accuracy:
        changed = replace(settings, recipe=recipe, **changes)
        accuracy = bench(changed).accuracy
        assert accuracy is not None
        console = Console(width=100)
        console.print(f'\n{recipe}, outliers {changed.random_outliers}, {changed.estimator}')
        console.print(accuracy_table(accuracy))
        return accuracy

    return accuracy_of


def cosines(accuracy: Accuracy) -> list[float]:
    differences = [*accuracy.values.values(), *accuracy.steps.values(), accuracy.chunk]
    return [difference.cosine for difference in differences]


def of_last_keys(accuracy: Accuracy) -> list[Difference]:
    """Keys and values of the last layer, which hold the errors of all before."""
    return [difference for name, difference in accuracy.values.items() if name.startswith('cache.2.')]


# E4m3 rounds both factors of a product, each by 2.7 % in the root mean square. A few layers make 10 % of it,
# which is a cosine of 0.995; the bound allows an error of 14 %.
BOUND = 0.99


def test_fp8_stays_within_the_bound_without_outliers(accuracy_of):
    accuracy = accuracy_of('fp8', calibrate=4, random_outliers=1)
    assert min(cosines(accuracy)) > BOUND


@pytest.mark.parametrize('estimator', ['min_max', 'percentile', 'entropy', 'mse'])
def test_fp8_does_not_with_outliers_whatever_their_scale(accuracy_of, estimator):
    """Three channels make up most of every sum, and their rounding is as large as what the others add.

    A smaller scale, which cuts them off, does not round them less.
    """
    accuracy = accuracy_of('fp8', calibrate=4, estimator=estimator)
    assert all(difference.cosine < BOUND for difference in of_last_keys(accuracy))


def test_bfloat16_stays_within_the_bound_with_outliers(accuracy_of):
    assert min(cosines(accuracy_of('bf16'))) > 0.999


def test_the_recovering_recipe_holds_only_the_stages_with_outliers_in_bfloat16(accuracy_of):
    accuracy = accuracy_of(str(RECOVERING), calibrate=4)
    bfloat16 = accuracy_of('bf16')
    assert accuracy.values == bfloat16.values
    assert BOUND < min(cosines(accuracy)) < min(cosines(bfloat16))
