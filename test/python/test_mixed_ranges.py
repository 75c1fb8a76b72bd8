# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""One scale for rows of two ranges in whole models: a norm keeps them apart, and nothing does behind one.

`pytest -s` prints the tables.
"""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from flashrt_core.bench import CALIBRATION_SEED, BenchSettings, random_samples
from flashrt_core.calibrate import CalibrationSettings, calibrate_programs
from flashrt_core.programs import Programs

BENCHMARK = Path(__file__).parents[1] / 'benchmark'


@pytest.fixture(scope='module')
def benchmark() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARK))
        import mixed_ranges

        yield mixed_ranges


@pytest.fixture(scope='module')
def sites(benchmark, tmp_path_factory) -> dict[str, dict]:
    """Model -> site -> what was measured there."""
    measured = {}
    for model in benchmark.MODELS:
        found = benchmark.measure(model, tmp_path_factory.mktemp('planted'))
        Console(width=120).print(benchmark.table_of(found))
        measured[model.name] = {site.site: site for site in found}
    return measured


def test_pictures_and_words_differ_by_hundreds_where_they_are_placed_together(benchmark, tmp_path):
    site = benchmark.residual_of_prefix(tmp_path)
    assert site.largest['words'] > 100 * site.largest['pictures']
    assert site.errors['int8']['pictures'] > 0.9, 'nothing is left of them'
    assert site.errors['e4m3']['pictures'] < 0.03, 'a format with an exponent keeps them'


def test_the_norms_behind_bring_them_to_one_range_before_anything_is_rounded(sites):
    behind = sites['pi05_heads, words x 300']
    assert {'prefix.0.attn_norm', 'prefix.0.mlp_norm', 'prefix.0.glu', 'prefix.1.attn_norm'} <= behind.keys()
    for site in behind.values():
        pictures, words = site.largest['pictures'], site.largest['words']
        assert max(pictures, words) < 3 * min(pictures, words), site.site
        for format, errors in site.errors.items():
            assert errors['pictures'] == pytest.approx(errors['words'], rel=0.25), (site.site, format)


@pytest.mark.parametrize(
    ('model', 'site', 'others'),
    [
        ('pi05_heads, first token x 300', 'prefix.0.glu', ('pictures', 'other words')),
        ('groot_n16_tiny, first token x 300', 'prompt.0.glu', ('other tokens',)),
    ],
)
def test_a_first_token_that_is_large_behind_the_norm_costs_all_other_rows(sites, model, site, others):
    found = sites[model][site]
    for rows in others:
        assert found.largest['first token'] > 10 * found.largest[rows]
        assert found.errors['int8'][rows] > 0.4
        assert found.errors['e4m3'][rows] < 0.03
        assert found.errors['e5m2'][rows] < 0.06
    before = sites[model][site.replace('glu', 'mlp_norm')]
    assert max(before.errors['int8'].values()) < 0.02, 'before it nothing is lost'


def test_the_recipes_of_the_package_round_no_row_of_a_prompt_that_is_computed_apart(golden):
    """GR00T's prompt runs once, in bfloat16: its first token shares a scale with nobody."""
    programs = Programs(golden / 'groot_n16_tiny', recipe='fp8', float_activations=True, embodiment_slot=0)
    settings = BenchSettings(checkpoint='groot_n16_tiny', cameras=1, prompt_length=12, steps=1)
    (sample,) = random_samples(programs.config, settings, CALIBRATION_SEED, 1)
    calibration = calibrate_programs(programs, [('sample', sample)], CalibrationSettings())
    assert any(site.startswith('backbone.') for site in calibration.sites)
    assert not any(site.startswith('prompt.') for site in calibration.sites)
