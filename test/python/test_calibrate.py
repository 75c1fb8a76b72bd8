# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Calibration from samples: every quantised activation gets the scale that its values call for."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from flashrt_core._core import Calibration, Engine
from flashrt_core.calibrate import CalibrationSettings, calibrate, calibrate_policy, load_to_calibrate
from flashrt_core.equalising import equalise
from flashrt_core.errors import Error
from flashrt_core.policy import FlashPolicy
from flashrt_core.programs import ProgramKey, Programs
from flashrt_core.samples import Sample, read_samples
from flashrt_core.settings import PolicySettings
from flashrt_core.types import CameraFrame, Observation

MODEL = Path(__file__).parents[1] / 'golden' / 'pi05_tiny'
E4M3_MAX = 448


def samples(*cases: str):
    return [sample for case in cases for sample in read_samples(MODEL / f'{case}.safetensors')]


def test_scales_put_the_largest_value_on_the_largest_code():
    """Against the values themselves, read from the same program."""
    named = samples('case_01', 'case_05')
    calibration = calibrate(MODEL, named)
    programs = Programs(MODEL, recipe='fp8', float_activations=True)
    for site in ('vision.0.attn_norm', 'prefix.1.glu', 'denoise.2.mlp_norm'):
        largest = 0.0
        for _, sample in named:
            engine = programs.get(ProgramKey.of(sample).keeping_values())
            largest = max(largest, float(np.abs(engine.trace([site], *sample.inputs)[site]).max()))
        assert calibration.scales(site) == [pytest.approx(largest / E4M3_MAX, rel=1e-6)]


def test_one_scale_per_step():
    calibration = calibrate(MODEL, samples('case_01'), CalibrationSettings(per_step=True))
    whole = calibrate(MODEL, samples('case_01'))
    scales = calibration.scales('denoise.0.attn_norm')
    assert len(scales) == 10
    assert len(set(scales)) > 1
    assert whole.scales('denoise.0.attn_norm') == [max(scales)]
    assert len(calibration.scales('vision.0.attn_norm')) == 1


def test_one_scale_per_step_needs_one_number_of_steps():
    settings = CalibrationSettings(per_step=True)
    with pytest.raises(Error, match=r'case_02\[0\] has 1 denoise steps, the samples before it 10'):
        calibrate(MODEL, samples('case_01', 'case_02'), settings)


def test_a_percentile_cuts_outliers_off():
    named = samples('case_01')
    whole = calibrate(MODEL, named)
    cut = calibrate(MODEL, named, CalibrationSettings(estimator='percentile', fraction=0.9))
    assert whole.sites == cut.sites
    assert all(cut.scales(site)[0] < whole.scales(site)[0] for site in whole.sites)
    assert 'percentile 0.9' in cut.origin


@pytest.mark.parametrize('fraction', [0.5, 0.99, 0.9999])
def test_a_percentile_is_that_of_the_values(fraction):
    """To the width of a bin, above; values read from the same program."""
    ((name, sample),) = samples('case_01')
    calibration = calibrate(
        MODEL, [(name, sample)], CalibrationSettings(estimator='percentile', fraction=fraction)
    )
    programs = Programs(MODEL, recipe='fp8', float_activations=True)
    engine = programs.get(ProgramKey.of(sample).keeping_values())
    for site in ('vision.0.attn_norm', 'prefix.1.glu', 'denoise.2.mlp_norm'):
        values = np.abs(engine.trace([site], *sample.inputs)[site]).ravel()
        exact = np.quantile(values, fraction, method='inverted_cdf')
        (scale,) = calibration.scales(site)
        assert exact * (1 - 1e-6) <= scale * E4M3_MAX <= exact * (1 + 1 / 128 + 1e-6)


def test_the_file_holds_what_was_measured(tmp_path):
    calibration = calibrate(MODEL, samples('case_01'))
    calibration.save(tmp_path / 'scales.json')
    loaded = Calibration.load(tmp_path / 'scales.json')
    assert loaded.sites == calibration.sites
    assert all(loaded.scales(site) == calibration.scales(site) for site in loaded.sites)
    assert (loaded.origin, loaded.weights_digest) == (calibration.origin, calibration.weights_digest)


def test_scales_of_another_checkpoint_are_refused(tmp_path):
    other = MODEL.parent / 'pi0_tiny'
    calibrate(MODEL, samples('case_01')).save(tmp_path / 'scales.json')
    with pytest.raises(Error, match='was measured on weights'):
        Engine(other, cameras=1, recipe='fp8', calibration=tmp_path / 'scales.json')


def test_faults_are_named():
    with pytest.raises(Error, match='no sample was given'):
        calibrate(MODEL, [])
    with pytest.raises(Error, match='or the recipe quantises no activation'):
        calibrate(MODEL, samples('case_01'), CalibrationSettings(recipe='bf16'))
    with pytest.raises(Error, match="estimator is 'median', known are min_max, percentile, entropy, mse"):
        CalibrationSettings(estimator='median')
    with pytest.raises(Error, match=r'fraction is 1\.5'):
        CalibrationSettings(fraction=1.5)


def test_samples_of_npz_and_of_folders(tmp_path):
    tensors = load_file(MODEL / 'case_04.safetensors')
    np.savez(
        tmp_path / 'inputs.npz', **{name: value for name, value in tensors.items() if name.startswith('in.')}
    )
    from_npz, from_file = list(read_samples(tmp_path / 'inputs.npz')), samples('case_04')
    assert [name for name, _ in from_npz] == ['inputs[0]', 'inputs[1]']
    for (_, first), (_, second) in zip(from_npz, from_file, strict=True):
        assert first.images.shape == (2, 56, 56, 3)  # each item lacks one of three cameras
        for a, b in zip(first.inputs[:3], second.inputs[:3], strict=True):
            assert np.array_equal(a, b)
    assert [len(sample.tokens) for _, sample in from_npz] == [9, 22]
    assert len(list(read_samples(MODEL))) == 8


def test_the_artefact_says_how_it_was_made():
    named = samples('case_01', 'case_03')
    settings = CalibrationSettings(estimator='percentile', fraction=0.999)
    calibration = calibrate(MODEL, named, settings)
    assert calibration.samples == len(named)
    assert calibration.method == 'percentile 0.999'
    assert len(calibration.plan_digest) == len(calibration.weights_digest) == 16


def test_it_serves_other_sizes_but_no_other_weights_or_plans(tmp_path):
    path = tmp_path / 'scales.json'
    calibrate(MODEL, samples('case_01')).save(path)
    how = {'recipe': 'fp8', 'calibration': path, 'prompt_capacity': 9, 'threads': 2}
    for sizes in ({'cameras': 1, 'horizon': 4, 'steps': 2}, {'cameras': 3, 'guided': True, 'steps': 1}):
        Engine(MODEL, **how, **sizes)
    with pytest.raises(Error, match=r'was measured on weights \w{16}, these are random pi05 seed 1'):
        Engine(MODEL, **how, cameras=1, steps=1, random_seed=1)
    stored = json.loads(path.read_text())
    path.write_text(json.dumps(stored | {'plan_digest': '0' * 16}))
    with pytest.raises(Error, match=r'was measured on plan 0{16}, this is \w{16}: .* calibrate again'):
        Engine(MODEL, **how, cameras=1, steps=1)


def test_scales_for_another_number_format_are_refused(tmp_path):
    rule = {'match': '*', 'weight': 'int8', 'activation': 'int8', 'weight_scale': 'channel'}
    recipe, path = tmp_path / 'int8.json', tmp_path / 'scales.json'
    recipe.write_text(
        json.dumps({'format': 'flashrt_recipe', 'version': 1, 'name': 'i8', 'values': 'f32', 'rules': [rule]})
    )
    how = {'calibration': path, 'cameras': 1, 'steps': 1, 'prompt_capacity': 9, 'threads': 1}
    calibrate(MODEL, samples('case_01'), CalibrationSettings(recipe=str(recipe))).save(path)
    Engine(MODEL, recipe=str(recipe), **how)
    with pytest.raises(Error, match=r'site \S+ has scales for int8, the recipe holds it in e4m3; calibrate'):
        Engine(MODEL, recipe='fp8', **how)


def test_inputs_that_show_nothing_are_refused():
    ((name, sample),) = samples('case_01')[:1]
    black = replace(sample, images=np.stack([sample.images[0], np.zeros_like(sample.images[0])]))
    with pytest.raises(Error, match=f'{re.escape(name)} shows nothing: every pixel of camera 1 is 0'):
        calibrate(MODEL, [(name, black)])
    silent = replace(sample, noise=np.zeros_like(sample.noise))
    with pytest.raises(Error, match='is all zeros'):
        calibrate(MODEL, [(name, silent)])


def test_a_recipe_that_quantises_nothing_is_refused_after_one_sample():
    taken = []

    def counted():
        for name, sample in samples('case_01', 'case_03'):
            taken.append(name)
            yield name, sample

    with pytest.raises(Error, match='the recipe quantises no activation'):
        calibrate(MODEL, counted(), CalibrationSettings(recipe='bf16'))
    assert taken == ['case_01[0]']


@pytest.fixture
def settings(write_stats) -> PolicySettings:
    return PolicySettings(
        checkpoint=MODEL,
        tokenizer=MODEL.parent / 'pi_tokenizer' / 'tiny_spm.model',
        origin='openpi',
        platform='none',
        cameras=('base_0_rgb', 'left_wrist_0_rgb'),
        resize='openpi',
        fit='letterbox',
        state_in_prompt=True,
        actions='joint_position',
        statistics=write_stats(7, 7),
        normalisation='quantile',
        delta_mask=(),
        state_dim=7,
        action_dim=7,
        prompt_capacity=60,
        steps=2,
        recipe='fp8',
        calibration='not_made_yet.json',
        threads=2,
    )


def observed(policy: FlashPolicy, count: int = 2) -> list[tuple[str, Observation]]:
    rng = np.random.default_rng(1)
    prompt_id = policy.set_prompt('pick up the red block')
    return [
        (
            f'moment {i}',
            Observation(
                {name: rng.integers(0, 256, (48, 64, 3), np.uint8) for name in policy.spec.cameras},
                rng.uniform(-1, 1, 7),
                prompt_id=prompt_id,
            ),
        )
        for i in range(count)
    ]


def scales_of(calibration: Calibration) -> dict[str, list[float]]:
    return {site: calibration.scales(site) for site in calibration.sites}


def test_what_a_policy_saw_gives_the_scales_of_the_same_model_inputs(settings):
    policy = load_to_calibrate(settings)
    observations = observed(policy)
    calibration = calibrate_policy(policy, observations, CalibrationSettings(per_step=True))
    assert calibration.origin == '2 samples (moment 0, moment 1), 2 steps, recipe fp8, min_max, per step'
    assert len(calibration.scales('denoise.0.attn_norm')) == 2

    policy.reset()
    inputs = [(name, policy.model_input(observation)) for name, observation in observations]
    assert not np.array_equal(inputs[0][1].noise, inputs[1][1].noise)
    same = [
        (name, Sample(*given.inputs, camera_mask=np.ones(2, bool), token_mask=np.ones(60, bool), steps=2))
        for name, given in inputs
    ]
    expected = calibrate(MODEL, same, CalibrationSettings(per_step=True), threads=2)
    assert scales_of(calibration) == scales_of(expected)


def test_frames_that_the_engine_resizes_have_the_same_scales(settings):
    policy = load_to_calibrate(settings)
    resized = calibrate_policy(policy, observed(policy), CalibrationSettings())
    policy = load_to_calibrate(replace(settings, max_image_bytes=48 * 64 * 3))
    in_engine = calibrate_policy(policy, observed(policy), CalibrationSettings())
    assert scales_of(resized) == scales_of(in_engine)


def test_what_a_policy_saw_equalises_it(settings):
    """A plain policy sees it first, then the one that is calibrated, with the same noise."""
    how = CalibrationSettings(equalise=0.5)
    policy = load_to_calibrate(settings, how, observed)
    calibration = calibrate_policy(policy, observed(policy), how)
    assert calibration.origin.endswith('min_max, equalised with strength 0.5')
    plain = load_to_calibrate(settings)
    inputs = [
        (name, plain.engine, plain.model_input(observation).inputs) for name, observation in observed(plain)
    ]
    assert calibration.equalisation.octaves == equalise(inputs, 0.5).octaves
    assert scales_of(calibration) != scales_of(
        calibrate_policy(plain, observed(plain), CalibrationSettings())
    )
    with pytest.raises(Error, match='goes through the observations twice'):
        load_to_calibrate(settings, how)
    with pytest.raises(Error, match='packed without equalisation'):
        load_to_calibrate(replace(settings, packed='packed.safetensors'), how, observed)


@pytest.mark.parametrize('as_frame', [False, True])
def test_a_camera_that_shows_nothing_is_named(settings, as_frame):
    policy = load_to_calibrate(settings)
    ((name, observation),) = observed(policy, 1)
    grey = np.full((48, 64, 3), 16, np.uint8)  # between black bars the model sees two colours
    blank = CameraFrame(grey, 'rgb8', 48, 64, 192) if as_frame else grey
    observation = replace(observation, images=dict(observation.images) | {'left_wrist_0_rgb': blank})
    with pytest.raises(Error, match="moment 0 shows nothing: every pixel of camera 'left_wrist_0_rgb' is 16"):
        calibrate_policy(policy, [(name, observation)], CalibrationSettings())


def test_samples_that_do_not_fit_are_named(tmp_path):
    tensors = {
        name: value for name, value in load_file(MODEL / 'case_04.safetensors').items() if name[:3] == 'in.'
    }

    def fault(**changes) -> str:
        changed = {f'in.{name}': value for name, value in changes.items()}
        np.savez(tmp_path / 'inputs.npz', **(tensors | changed))
        with pytest.raises(Error) as caught:
            list(read_samples(tmp_path / 'inputs.npz'))
        return str(caught.value)

    assert "tensor 'in.noise' is float64, needed float32" in fault(noise=tensors['in.noise'].astype(float))
    assert 'in.token_ids holds a batch of 1, in.noise one of 2' in fault(
        token_ids=tensors['in.token_ids'][:1]
    )
    assert 'item 1 of the batch has no camera' in fault(
        image_masks=tensors['in.image_masks'] * np.array([1, 0], np.uint8)
    )
    assert "unknown kind of file '.csv'" in fault_of_path(tmp_path / 'a.csv')
    assert 'holds no case_*.safetensors' in fault_of_path(tmp_path)


def fault_of_path(path: Path) -> str:
    if not path.is_dir():
        path.write_text('')
    with pytest.raises(Error) as caught:
        list(read_samples(path))
    return str(caught.value)
