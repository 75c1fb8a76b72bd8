# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Sensitivity studies on tiny models: numbers are those of recipes, which are proposed from them."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from flashrt_core import cli
from flashrt_core.accuracy import measure
from flashrt_core.bench import ACCURACY_SEED, BenchSettings, random_samples
from flashrt_core.calibrate import CalibrationSettings, calibrate
from flashrt_core.errors import Error
from flashrt_core.programs import ProgramKey, Programs
from flashrt_core.proposal import Limit, propose
from flashrt_core.recipes import Recipe
from flashrt_core.samples import Sample, read_samples
from flashrt_core.sensitivity import SensitivitySettings, inferences, open_bench, study
from flashrt_core.sensitivity_file import StoredStudy
from flashrt_core.trials import Source

TINY = Path(__file__).parents[1] / 'golden' / 'pi05_tiny'
HOW = ('--steps', '2', '--horizon', '5', '--cameras', '1', '--prompt-length', '4', '--threads', '2')


def flashrt(*arguments: object) -> None:
    assert exit_code(*arguments) == 0


def exit_code(*arguments: object) -> int:
    with pytest.raises(SystemExit) as exit:
        cli.main([str(argument) for argument in arguments])
    return exit.value.code


def refused(capsys, *arguments: object) -> str:
    """What the command says, in one line, when it refuses."""
    assert exit_code(*arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith('error: ')
    assert said.count('\n') == 1
    return said


@pytest.fixture(scope='module')
def studied(tmp_path_factory) -> Path:
    """A study of four stages and blocks, by random observations."""
    path = tmp_path_factory.mktemp('study') / 'blocks.json'
    flashrt('sensitivity', TINY, '-o', path, *HOW, '--by', 'block', '--observations', 3, '--curve', 2)
    return path


def variants(path: Path) -> dict[frozenset[str], dict]:
    return {frozenset(v['kept']): v for v in json.loads(path.read_text())['variants']}


def test_every_variant_is_there_once(studied):
    content = json.loads(studied.read_text())
    names = {group['name'] for group in content['groups']}
    assert {'vision.0.*', 'prefix.0.*', 'denoise.0.*'} <= names
    found = variants(studied)
    assert len(found) == len(content['variants'])
    assert frozenset() in found
    assert max(found, key=len) == names
    assert all({frozenset([name]), frozenset(names - {name})} <= set(found) for name in names)
    top = [one['group'] for one in content['ranking']]
    assert frozenset(top[:2]) in found
    assert content['complete']
    gains = [one['gain'] for one in content['ranking']]
    assert gains == sorted(gains, reverse=True)


def test_numbers_are_those_of_the_recipe(studied, tmp_path):
    """One variant against the comparison of `flashrt compare`, with its recipe from the file."""
    content = json.loads(studied.read_text())
    name = content['ranking'][0]['group']
    variant = variants(studied)[frozenset([name])]
    recipe = tmp_path / 'kept.json'
    recipe.write_text(json.dumps(variant['recipe']))
    programs = Programs(TINY, recipe=str(recipe), calibration=content['calibration']['path'], threads=2)
    settings = BenchSettings(str(TINY), cameras=1, horizon=5, steps=2, prompt_length=4, new_prompts=True)
    samples = random_samples(programs.config, settings, ACCURACY_SEED, 3)
    accuracy = measure(Programs(TINY, threads=2), programs, samples)
    errors = variant['errors']
    assert errors['relative'] == pytest.approx(accuracy.chunk.relative, rel=1e-9)
    assert errors['cosine'] == pytest.approx(accuracy.chunk.cosine, rel=1e-9)
    assert [step['rms'] for step in errors['steps']] == pytest.approx(
        [difference.rms for difference in accuracy.steps.values()], rel=1e-9
    )
    stats = programs.get(ProgramKey.of(samples[0])).plan_stats()
    assert variant['weight_bytes'] == stats['stored_weight_bytes']


def test_with_all_groups_kept_nothing_is_quantised(studied):
    """The end of the curve is the recipe in float: here bf16, which the built-in recipe of that name is."""
    names = frozenset(group['name'] for group in json.loads(studied.read_text())['groups'])
    settings = BenchSettings(str(TINY), cameras=1, horizon=5, steps=2, prompt_length=4, new_prompts=True)
    programs = Programs(TINY, recipe='bf16', threads=2)
    samples = random_samples(programs.config, settings, ACCURACY_SEED, 3)
    accuracy = measure(Programs(TINY, threads=2), programs, samples)
    kept = variants(studied)[names]['errors']
    assert kept['rms'] == accuracy.chunk.rms
    assert kept['worst'] == accuracy.chunk.worst


def test_in_float32_the_end_of_the_curve_has_no_error(tmp_path):
    fp8 = Recipe.read('fp8').content() | {'name': 'fp8 over f32', 'values': 'f32'}
    recipe, path = tmp_path / 'recipe.json', tmp_path / 'result.json'
    recipe.write_text(json.dumps(fp8).replace('bf16', 'f32'))
    how = (*HOW, '--observations', 2, '--recipe', recipe, '--curve', 1)
    flashrt('sensitivity', TINY, '-o', path, *how)
    found = variants(path)
    everything = max(found, key=len)
    assert found[everything]['errors']['rms'] == 0
    assert found[frozenset()]['errors']['relative'] > 1e-3


def test_observations_are_split_and_never_both_calibrated_on_and_judged(tmp_path, capsys):
    path = tmp_path / 'result.json'
    how = ('-o', path, '--curve', 0, '--by', 'vision.*', '--threads', 2)
    flashrt('sensitivity', TINY, TINY, *how)
    content = json.loads(path.read_text())
    origin = content['calibration']['origin']
    assert origin.startswith('4 samples')
    assert len(content['observations']) == 4
    assert not [name for name in content['observations'] if name in origin]

    case = TINY / 'case_01.safetensors'
    said = refused(capsys, 'sensitivity', TINY, case, *how)
    assert '1 observations cannot be split into 1 to calibrate on and others that are judged' in said
    twins = tmp_path / 'twins'
    twins.mkdir()
    for name in ('case_01', 'case_02'):
        shutil.copy(case, twins / f'{name}.safetensors')
    assert 'case_02[0] is calibrated on and is the same as case_01[0]' in refused(
        capsys, 'sensitivity', TINY, twins, *how
    )
    scales = content['calibration']['path']
    calibrate(TINY, _samples('case_01'), CalibrationSettings(), threads=2).save(scales)
    said = refused(capsys, 'sensitivity', TINY, case, *how, '--calibration', scales)
    assert 'was calibrated on case_01[0], which is judged' in said
    foreign = tmp_path / 'foreign.json'
    foreign.write_text(json.dumps(json.loads(Path(scales).read_text()) | {'weights_digest': '0' * 16}))
    said = refused(capsys, 'sensitivity', TINY, case, *how, '--calibration', foreign)
    assert f'{foreign} was measured on weights 0000000000000000, these are' in said
    other = TINY / 'case_02.safetensors'
    flashrt('sensitivity', TINY, other, *how, '--calibration', scales)
    assert 'names its first observations only' in capsys.readouterr().out
    flashrt('sensitivity', TINY, case, *how, '--calibration', scales, '--same-samples')
    content = json.loads(path.read_text())
    assert content['same_samples']
    assert content['observations'] == ['case_01[0]']
    assert content['variants'][0]['errors']['rms_interval'] is None
    assert 'one observation: no interval' in content['intervals']['note']


def _samples(case: str) -> list[tuple[str, Sample]]:
    return list(read_samples(TINY / f'{case}.safetensors'))


def test_what_is_measured_so_far_stays_when_it_is_interrupted(tmp_path, monkeypatch, capsys):
    path = tmp_path / 'result.json'
    run, left = sys.modules['flashrt_core.sensitivity'].run, [2 * 2 + 3]

    def interrupted(*arguments):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return run(*arguments)

    monkeypatch.setattr('flashrt_core.sensitivity.run', interrupted)
    assert exit_code('sensitivity', TINY, '-o', path, *HOW, '--observations', 2) == 130
    assert f'interrupted: {path} holds 2 variants' in capsys.readouterr().out
    content = json.loads(path.read_text())
    assert not content['complete']
    assert len(content['variants']) == 2
    assert 'interrupted, run it again' in refused(
        capsys, 'recipe', path, '-o', tmp_path / 'r.json', '--max-error', '1'
    )


@pytest.mark.parametrize(
    ('by', 'curve'),
    [('vision.*', 3), ('stage', 0), ('stage', 9), ('vision.0.*,vision.1.*', 9), ('denoise.0.qkv,*.down', 1)],
)
def test_the_number_of_inferences_is_known_before(tmp_path, by, curve):
    source = Source(
        str(TINY),
        cameras=1,
        horizon=5,
        steps=1,
        prompt_length=4,
        observations=1,
        backend_options={'threads': 2},
    )
    settings = SensitivitySettings(source, by=by, curve=curve)
    bench = open_bench(settings, tmp_path, tmp_path / 'scales.json')
    done = []
    bench.tick = lambda: done.append(1)
    study(settings, bench, lambda content: None)
    assert len(done) == inferences(settings, len(bench.groups), 1)


def test_recipes_over_shared_weights_are_those_that_are_loaded_alone(tmp_path):
    """Whatever the order in which engines of several recipes are made from one another."""
    named = _samples('case_01') + _samples('case_03')
    scales = tmp_path / 'scales.json'
    calibrate(TINY, named, threads=2).save(scales)
    first = Programs(TINY, recipe='fp8', calibration=scales, threads=2)
    for _, sample in named:
        first.get(ProgramKey.of(sample))
    programs = first
    for recipe in ('fp8_mixed', 'f32', 'fp8_f16', 'fp8'):
        programs = programs.with_recipe(recipe, str(scales))
        alone = Programs(TINY, recipe=recipe, calibration=scales, threads=2)
        for _, sample in named:
            key = ProgramKey.of(sample)
            shared, expected = (each.get(key).infer(*sample.inputs) for each in (programs, alone))
            np.testing.assert_array_equal(shared, expected)


def test_another_recipe_needs_its_calibration_and_the_same_files(tmp_path):
    model = tmp_path / 'model'
    shutil.copytree(TINY, model)
    key = ProgramKey.of(_samples('case_01')[0][1])
    engine = Programs(model, threads=2).get(key)
    with pytest.raises(Error, match='but no calibration was given'):
        engine.with_recipe('fp8')
    other = Programs(model, threads=2).get(key)
    weights = bytearray((model / 'model.safetensors').read_bytes())
    weights[-1] ^= 1
    (model / 'model.safetensors').write_bytes(weights)
    with pytest.raises(Error, match=r'were \w{16} when they were loaded and are \w{16} now'):
        other.with_recipe('bf16')


def test_parts_of_a_value_whose_readers_differ_are_calibrated(tmp_path):
    """In GR00T one value has image and text rows: with one reader in float, the other's rows go alone."""
    model, path = TINY.parent / 'groot_n16_tiny', tmp_path / 'result.json'
    how = ('--embodiment-slot', 0, '--same-samples', '--curve', 2, '--threads', 2)
    flashrt('sensitivity', model, model, '-o', path, '--by', 'backbone.image_kv,*.text_kv', *how)
    content = json.loads(path.read_text())
    calls = {group['name']: len(group['calls']) for group in content['groups']}
    assert calls == {'*.text_kv': 2, 'backbone.image_kv': 1}
    found = variants(path)
    everything = max(found, key=len)
    assert found[everything]['errors']['rms'] < found[frozenset()]['errors']['rms']


# ---- recipes from a study


def test_a_recipe_is_proposed_measured_and_runs(studied, tmp_path, capsys):
    found = variants(studied)
    everything = found[max(found, key=len)]['errors']['relative']
    most = found[frozenset()]['errors']['relative']
    limit = (everything + most) / 2
    output = tmp_path / 'kept.json'
    flashrt('recipe', studied, '-o', output, '--max-error', limit)
    report = json.loads((tmp_path / 'kept.report.json').read_text())
    assert report['errors']['relative'] <= limit
    assert 0 < len(report['kept']) < len(json.loads(studied.read_text())['groups'])
    assert report['runs_on'] == 'cpu, cuda'
    assert json.loads(output.read_text()) == report['recipe']
    assert f'at most {limit:g}' in capsys.readouterr().out.replace('\n', ' ')
    calibration = report['calibration']['path']
    programs = Programs(TINY, recipe=str(output), calibration=calibration, threads=2)
    settings = BenchSettings(str(TINY), cameras=1, horizon=5, steps=2, prompt_length=4, new_prompts=True)
    samples = random_samples(programs.config, settings, ACCURACY_SEED, 3)
    accuracy = measure(Programs(TINY, threads=2), programs, samples)
    assert report['errors']['rms'] == accuracy.chunk.rms


def test_under_a_cost_the_bytes_of_a_group_count(studied):
    stored = StoredStudy.read(studied)
    moved = {name: (one.kept - one.quantised) / 1e6 for name, one in stored.moved.items()}
    assert all(more > 0 for more in moved.values())
    nothing = propose(stored, Limit(max_cost=0.0), (), lambda text: None)
    assert nothing.kept == ()
    assert nothing.cost == 0
    some = propose(stored, Limit(max_cost=max(moved.values())), (), lambda text: None)
    assert some.kept
    assert some.cost <= max(moved.values())
    assert some.costs.unit == 'MB'
    assert some.errors['relative'] < nothing.errors['relative']


def test_refusals_name_what_does_not_fit(studied, tmp_path, capsys):
    output = tmp_path / 'r.json'

    def told(*options, file=studied):
        return refused(capsys, 'recipe', file, '-o', output, *options)

    assert 'give either --max-error or --max-cost' in told()
    assert 'which is above 1e-09' in told('--max-error', '1e-9')
    assert "measure 'mse', known are relative, rms, joint" in told('--max-error', 1, '--measure', 'mse')
    assert 'joints are known only of a recording' in told('--max-error', 1, '--measure', 'joint')
    content = json.loads(studied.read_text())
    changed = tmp_path / 'changed.json'

    def with_change(**change):
        changed.write_text(json.dumps(content | change))
        return changed

    assert 'version 2, this program reads version 1' in told('--max-error', 1, file=with_change(version=2))
    assert "'format' is 'x'" in told('--max-error', 1, file=with_change(format='x'))
    other = with_change(weights_digest='0' * 16)
    assert 'was measured on weights 0000000000000000' in told('--max-error', 0.001, file=other)
    other = with_change(calibration=content['calibration'] | {'sha256': '0'})
    assert 'has changed since' in told('--max-error', 0.001, file=other)
    assert not output.exists()


def test_sensitivity_refuses_by_name(tmp_path, capsys):
    output = tmp_path / 'r.json'

    def told(*options):
        return refused(capsys, 'sensitivity', *options)

    assert '--output is needed' in told(TINY)
    assert 'give a checkpoint, --random-weights, or a recording' in told('-o', output)
    assert 'folder' in told(TINY, '-o', tmp_path / 'none' / 'r.json')
    assert "'wings.*' is neither stage, block, projection nor a pattern" in told(
        TINY, '-o', output, *HOW, '--by', 'wings.*', '--observations', 1
    )
    assert 'the recipe quantises no linear' in told(TINY, '-o', output, *HOW, '--recipe', 'bf16')
    assert "recipe 'fp9' is neither" in told(TINY, '-o', output, *HOW, '--recipe', 'fp9')
    assert '--seed 3 is for --random-weights' in told(TINY, '-o', output, '--seed', 3)
