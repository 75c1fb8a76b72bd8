# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`flashrt bench`: what it measures, what it compares with, and what its report says of how it was made."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from flashrt_core import bench as bench_module
from flashrt_core.bench import BenchSettings, Percentiles, bench, random_samples, write_json
from flashrt_core.ceilings import Ceilings, work_of
from flashrt_core.engine import native_core
from flashrt_core.errors import Error

CEILINGS = Ceilings(bytes_per_s=1e9, flops_per_s={'e4m3': 4e12, 'bf16': 2e12})


def call(**fields):
    return SimpleNamespace(
        **(
            {
                'flops': 0.0,
                'product': 'f32',
                'weight_bytes': 0.0,
                'read_bytes': 0.0,
                'written_bytes': 0.0,
                'repeat': 1,
            }
            | fields
        )
    )


def test_the_floor_of_a_call_is_the_larger_of_its_products_and_its_bytes():
    linear = call(flops=8e9, product='e4m3', weight_bytes=1e6, read_bytes=2e5, written_bytes=3e5, repeat=2)
    work = work_of(linear, [])
    assert (work.flops, work.weight_bytes, work.activation_bytes) == ({'e4m3': 16e9}, 2e6, 1e6)
    assert work.floor_ms(CEILINGS) == pytest.approx(4.0)  # of products; 3 ms of bytes
    assert work_of(call(flops=1.0, product='f32'), []).floor_ms(CEILINGS) is None
    assert work.floor_ms(None) is None


def test_what_a_kernel_keeps_to_itself_is_no_traffic():
    linear = call(flops=4e9, product='bf16', weight_bytes=10, read_bytes=100, written_bytes=50)
    glu = call(read_bytes=50, written_bytes=25)
    assert work_of(linear, [glu]).bytes_moved == 10 + 100 + 25


def test_percentiles():
    times = Percentiles.of(range(101))
    assert (times.median, times.p90, times.p99, times.max, times.count) == (50, 90, 99, 100, 101)


@pytest.fixture(scope='module')
def settings(golden):
    return BenchSettings(
        checkpoint=str(golden / 'pi05_tiny'),
        random_seed=3,
        recipe='fp8',
        calibrate=2,
        steps=3,
        prompt_length=7,
        prompt_capacity=12,
        warmup=1,
        runs=4,
        operation_runs=2,
        reference='f32',
        backend_options={'threads': 2},
    )


@pytest.fixture(scope='module')
def report(settings):
    return bench(settings)


def test_a_report_says_how_it_was_made(report):
    assert report.weights_digest.startswith('random pi05 seed 3 ')
    assert report.calibration_origin.startswith('2 samples (random observation 0, random observation 1)')
    assert report.model == 'pi05'
    assert report.before == report.after


def test_a_report_has_every_part(report):
    assert report.inference.count == report.replay.count == report.prompt.count == 4
    assert [row.name for row in report.stages] == ['vision', 'prefix', 'denoise']
    velocity = next(row for row in report.calls if row.name == 'denoise.velocity')
    assert (velocity.calls, velocity.kernels) == (3, {'cpu linear': 3})
    assert velocity.flops == 3 * 2 * 10 * 32 * 32
    linears = next(row for row in report.operations if row.name == 'denoise: linear')
    in_calls = [
        row for row in report.calls if row.name.startswith('denoise.') and 'cpu linear' in row.kernels
    ]
    assert linears.calls == sum(row.calls for row in in_calls)
    assert linears.median_ms == pytest.approx(sum(row.median_ms for row in in_calls))
    assert 0 < report.load_s < report.first_action_s
    assert report.memory_bytes['together'] == report.memory_bytes['weights'] + report.memory_bytes['arena']


def test_errors_are_those_of_what_stages_hand_on_of_every_step_and_of_the_chunk(report):
    accuracy = report.accuracy
    rows = '[10:54]'  # of the cache: 10 of the chunk, then 2 x 16 image tokens and 12 of the prompt
    caches = [f'cache.{layer}.{part}{rows}' for layer in (0, 1, 2) for part in 'kv']
    assert list(accuracy.values) == ['vision.projector', *caches]
    assert list(accuracy.steps) == [f'{step} of 3' for step in (1, 2, 3)]
    for difference in (accuracy.chunk, *accuracy.steps.values(), *accuracy.values.values()):
        assert 0.97 < difference.cosine < 1


def test_the_file_holds_the_report(report, tmp_path):
    write_json(report, tmp_path / 'report.json')
    stored = json.loads((tmp_path / 'report.json').read_text())
    assert (stored['format'], stored['version']) == ('flashrt_bench', 1)
    assert stored['replay']['median'] == report.replay.median
    assert stored['stages'][0]['share'] is None
    assert stored['settings']['random_seed'] == 3
    with pytest.raises(Error, match='cannot be written'):
        write_json(report, tmp_path / 'none' / 'report.json')


def test_shares_are_taken_where_the_rates_of_the_device_are_known(golden, monkeypatch):
    settings = BenchSettings(checkpoint=str(golden / 'pi05_tiny'), steps=2, warmup=1, runs=2)
    name = bench(settings).device
    rates = Ceilings(bytes_per_s=1e12, flops_per_s={'f32': 1e15})
    monkeypatch.setattr(bench_module, 'CEILINGS', {name: rates})
    row = bench(settings).stages[0]
    assert row.floor_ms == pytest.approx(row.bytes / 1e9, rel=1e-2)
    assert row.share == row.floor_ms / row.median_ms


def test_frames_of_cameras_are_resized_by_the_engine(golden):
    settings = BenchSettings(
        checkpoint=str(golden / 'pi05_tiny'), frames=(64, 48), steps=1, warmup=1, runs=2, operation_runs=1
    )
    report = bench(settings)
    assert 'resize' in {row.name.split(': ')[1] for row in report.operations}


def test_observations_follow_from_their_seed(settings):
    config = SimpleNamespace(model_type='pi05', image_size=28, action_dim=5, state_dim=4, vocab_size=50)
    first, again = (random_samples(config, settings, 1, 2) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        for a, b in zip(one.inputs, other.inputs, strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(first[0].tokens, first[1].tokens)
    assert not np.array_equal(first[0].images, first[1].images)
    assert first[0].images.shape == (2, 28, 28, 3)
    assert (first[0].noise.shape, first[0].state.shape, len(first[0].tokens)) == ((10, 5), (4,), 7)
    assert len(first[0].token_mask) == 12
    other_seed = random_samples(config, settings, 2, 1)[0]
    assert not np.array_equal(other_seed.noise, first[0].noise)


def test_prompts_change_where_that_is_asked_for(golden):
    config = SimpleNamespace(model_type='pi05', image_size=28, action_dim=5, state_dim=0, vocab_size=50)
    samples = random_samples(config, BenchSettings(checkpoint='', new_prompts=True), 1, 2)
    assert not np.array_equal(samples[0].tokens, samples[1].tokens)


def test_a_conversation_of_groot_has_its_images(golden):
    checkpoint = golden / 'groot_n16_tiny'
    config = native_core().read_model_config(str(checkpoint))
    settings = BenchSettings(checkpoint=str(checkpoint), cameras=2, prompt_length=7, new_prompts=True)
    first, second = random_samples(config, settings, 1, 2)
    is_image = first.tokens == config.image_token
    assert is_image.tolist() == [False] * 7 + [True] * 4 + [False] * 7 + [True] * 4 + [False] * 3
    assert not np.array_equal(first.tokens, second.tokens)


def test_groot_is_measured_with_its_stages(golden):
    settings = BenchSettings(
        checkpoint=str(golden / 'groot_n16_tiny'),
        embodiment_slot=2,
        recipe='fp8',
        calibrate=1,
        reference='f32',
        reference_samples=1,
        horizon=10,
        steps=4,
        warmup=1,
        runs=2,
    )
    report = bench(settings)
    assert report.model == 'groot_n16'
    assert [row.name for row in report.stages] == ['vision', 'backbone', 'state', 'denoise']
    assert report.accuracy is not None
    assert 0 < report.accuracy.chunk.relative < 0.2
    assert {'backbone.0.connector_out', 'backbone.context_norm'} <= set(report.accuracy.values)


@pytest.mark.parametrize(
    ('fields', 'fault'),
    [
        ({'frames': (640, 0)}, 'frames of 640 x 0 pixels'),
        ({'calibration': 'a.json', 'calibrate': 2}, 'both a calibration file and 2 observations'),
        ({'estimator': 'percentile'}, 'estimator percentile is of calibrate'),
        ({'prompt_length': 5, 'prompt_capacity': 4}, 'a prompt of 5 tokens, needed 1 to the capacity 4'),
    ],
)
def test_settings_that_disagree_are_refused(fields, fault):
    with pytest.raises(Error, match=fault):
        BenchSettings(checkpoint='', **fields)
