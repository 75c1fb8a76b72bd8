# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What each number format costs a whole model, with the recipes of config/recipes.

Weights and inputs are random, so this says nothing about trained checkpoints. `pytest -s` prints the errors.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from flashrt_core import Error
from flashrt_core._core import NUMBER_FORMATS, describe_plan, pack_weights, read_model_config
from flashrt_core.calibrate import CalibrationSettings, calibrate
from flashrt_core.programs import ProgramKey, Programs
from flashrt_core.samples import read_samples

RECIPES = Path(__file__).parents[2] / 'config/recipes'


def recipe_of(format: str, sides: str) -> str:
    if (format, sides) == ('e4m3', 'both'):
        return 'fp8'
    return str(RECIPES / (f'{format}_weights.json' if sides == 'weights' else f'{format}.json'))


@pytest.fixture(scope='module')
def errors(golden, tmp_path_factory):
    """(format, weights | both) -> error of actions - noise relative to float32, and the weight bytes."""
    folder = tmp_path_factory.mktemp('formats')
    model = golden / 'pi05_tiny'
    samples = [
        sample for name in ('case_00', 'case_01') for sample in read_samples(model / f'{name}.safetensors')
    ]

    def changes(recipe: str, calibration: Path | None = None):
        programs = Programs(model, recipe=recipe, calibration=calibration)
        engines = [programs.get(ProgramKey.of(sample)) for _, sample in samples]
        found = [
            engine.infer(*sample.inputs) - sample.noise
            for engine, (_, sample) in zip(engines, samples, strict=True)
        ]
        return np.concatenate(found), engines[0].plan_stats()

    exact, stats = changes('f32')
    result = {('f32', 'both'): (0.0, stats)}
    for format in NUMBER_FORMATS:
        for sides in ('weights', 'both'):
            recipe, calibration = recipe_of(format, sides), None
            if sides == 'both' and format != 'mxfp4':  # whose scales follow from each block
                calibration = folder / f'{format}.json'
                calibrate(model, samples, CalibrationSettings(recipe)).save(calibration)
            actions, stats = changes(recipe, calibration)
            error = float(np.linalg.norm(actions - exact) / np.linalg.norm(exact))
            print(f'{format:6} {sides:8} {error:.4f} {stats["stored_weight_bytes"]:.0f} bytes')
            result[format, sides] = error, stats
    return result


def test_errors_are_ordered_as_the_formats_are(errors):
    for sides in ('weights', 'both'):
        ordered = [errors[format, sides][0] for format in ('int8', 'e4m3', 'e5m2', 'nvfp4', 'mxfp4')]
        assert ordered == sorted(ordered)
        assert 1e-3 < ordered[0] < 0.05, 'rounded, and not more than that'
        assert ordered[-1] < 0.6


def test_activations_add_to_the_error_of_weights(errors):
    """In one format both errors may cancel by some percent; which, depends on how a processor adds up."""
    weights, both = ([errors[format, sides][0] for format in NUMBER_FORMATS] for sides in ('weights', 'both'))
    assert sum(both) > 1.02 * sum(weights)
    assert all(b > 0.95 * w for w, b in zip(weights, both, strict=True))


def test_weight_bytes_are_those_of_the_format_and_not_of_the_emulation(errors):
    stored = {key: stats['stored_weight_bytes'] for key, (_, stats) in errors.items()}
    held = {key: stats['weight_bytes'] for key, (_, stats) in errors.items()}
    for format in NUMBER_FORMATS:
        assert stored[format, 'weights'] == stored[format, 'both']
    assert stored['int8', 'both'] == stored['e4m3', 'both'] == stored['e5m2', 'both']
    assert stored['mxfp4', 'both'] < stored['nvfp4', 'both'] < stored['int8', 'both'] < stored['f32', 'both']
    assert held['nvfp4', 'both'] == held['f32', 'both'], 'the CPU computes in float32'


def test_quantize_calls_are_those_of_emulated_activations(errors):
    for format in NUMBER_FORMATS:
        assert errors[format, 'weights'][1]['quantize_calls'] == 0
        assert (errors[format, 'both'][1]['quantize_calls'] > 0) == (format != 'e4m3')


def load(model: Path, recipe: str, **options):
    _, sample = next(iter(read_samples(model / 'case_00.safetensors')))
    return Programs(model, recipe=recipe, **options).get(ProgramKey.of(sample))


def test_scales_are_needed_and_those_of_another_format_refused(golden, tmp_path):
    model = golden / 'pi05_tiny'
    with pytest.raises(Error, match=r'recipe int8 quantises .*, but no calibration was given'):
        load(model, recipe_of('int8', 'both'))
    samples = list(read_samples(model / 'case_00.safetensors'))
    calibrate(model, samples, CalibrationSettings(recipe_of('int8', 'both'))).save(tmp_path / 'int8.json')
    with pytest.raises(Error, match=r'site \S+ has scales for int8, the recipe holds it in e5m2'):
        load(model, recipe_of('e5m2', 'both'), calibration=tmp_path / 'int8.json')


def test_a_rule_that_matches_nothing_is_refused(golden, tmp_path):
    content = json.loads(Path(recipe_of('int8', 'weights')).read_text())
    content['rules'].append({'match': 'denoise.*.gateup', 'weight': 'f32', 'activation': 'f32'})
    (tmp_path / 'recipe.json').write_text(json.dumps(content))
    refusal = r"rule 10: 'denoise.\*.gateup' matches no linear of .*; nearest: 'denoise"
    with pytest.raises(Error, match=f'recipe int8_weights: {refusal}'):
        load(golden / 'pi05_tiny', str(tmp_path / 'recipe.json'))


@pytest.mark.parametrize('model', ['pi05_tiny', 'pi0_tiny', 'groot_n16_tiny'])
def test_every_recipe_fits_every_model(golden, model):
    config = read_model_config(golden / model)
    for recipe in sorted(RECIPES.glob('*.json')):
        plan = describe_plan(config, cameras=1, recipe=str(recipe), prompt_capacity=8, horizon=4, steps=2)
        assert plan['stored_weight_bytes'] > 0


def test_packed_files_refuse_them(golden, tmp_path):
    packed, recipe = tmp_path / 'packed.safetensors', recipe_of('nvfp4', 'weights')
    with pytest.raises(Error, match=r'call .* reads its weight in nvfp4; packed files do not hold it'):
        pack_weights(golden / 'pi05_tiny', packed, recipe=recipe)
    assert not packed.exists()
