# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The engine as Python sees it: determinism, options that must not change bits, and errors with values."""

import json
import re
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from flashrt_core import Error, _core
from flashrt_core.errors import ModelNotSupportedError
from flashrt_core.rtc import denoise_times

CAMERAS, CAPACITY, STEPS = 2, 24, 4


@pytest.fixture(scope='module')
def model_input():
    rng = np.random.default_rng(5)
    return {
        'images': rng.integers(0, 256, (CAMERAS, 56, 56, 3), dtype=np.uint8),
        'tokens': rng.integers(3, 512, 11, dtype=np.int32),
        'noise': rng.standard_normal((10, 32), dtype=np.float32),
    }


def make_engine(golden, model='pi05_tiny', **options):
    sizes = {'cameras': CAMERAS, 'prompt_capacity': CAPACITY, 'steps': STEPS, 'threads': 2}
    return _core.Engine(golden / model, **(sizes | options))


@pytest.fixture(scope='module')
def actions(golden, model_input):
    return make_engine(golden).infer(**model_input)


@pytest.mark.parametrize(
    'options', [{'keep_values': True}, {'guided': True}, {'prompt_capacity': 200}, {'threads': 1}]
)
def test_options_that_change_no_bit(golden, model_input, actions, options):
    np.testing.assert_array_equal(make_engine(golden, **options).infer(**model_input), actions)


def test_same_input_same_bits_whatever_ran_before(golden, model_input, actions):
    engine = make_engine(golden)
    other = {name: value[::-1].copy() for name, value in model_input.items()}
    other['tokens'] = np.arange(3, 3 + CAPACITY, dtype=np.int32)
    assert not np.array_equal(engine.infer(**other), actions)
    for _ in range(3):
        np.testing.assert_array_equal(engine.infer(**model_input), actions)


def test_float_pictures_equal_bytes(golden, model_input, actions):
    floats = model_input['images'].astype(np.float32) / np.float32(255) * np.float32(2) - np.float32(1)
    engine = make_engine(golden, float_images=True)
    np.testing.assert_array_equal(engine.infer(**(model_input | {'images': floats})), actions)
    with pytest.raises(Error, match='this engine takes 2 cameras x 56 x 56 x 3 floats'):
        engine.infer(**model_input)


@pytest.mark.parametrize('steps', [1, 3, 10, 100])
def test_own_times_are_those_of_openpi(golden, steps):
    np.testing.assert_array_equal(make_engine(golden, steps=steps).times, denoise_times('openpi', steps))


def test_recompiled_program_shares_weights_and_results(golden, model_input, actions):
    first = make_engine(golden, steps=7, cameras=1)
    second = first.recompile(cameras=CAMERAS, prompt_capacity=CAPACITY, steps=STEPS)
    np.testing.assert_array_equal(second.infer(**model_input), actions)
    assert second.weights_digest == first.weights_digest
    assert (first.cameras, second.cameras) == (1, CAMERAS)


@pytest.mark.parametrize('model', ['pi05_tiny', 'pi0_tiny'])
def test_horizon_steps_and_cameras_are_free(golden, model_input, model):
    for cameras, horizon, steps in ((1, 1, 1), (3, 13, 3)):
        engine = make_engine(golden, model, cameras=cameras, horizon=horizon, steps=steps)
        images = np.zeros((cameras, 56, 56, 3), np.uint8)
        noise = np.zeros((horizon, 32), np.float32)
        state = np.zeros(32, np.float32) if model == 'pi0_tiny' else None
        chunk = engine.infer(images, model_input['tokens'][:1], noise, state)
        assert chunk.shape == (horizon, 32)
        assert np.isfinite(chunk).all()


def test_committed_rows_are_kept(golden, model_input, actions):
    engine = make_engine(golden, guided=True)
    previous = np.random.default_rng(6).standard_normal((10, 32), dtype=np.float32)
    nothing = np.zeros(10, np.float32), np.zeros(STEPS, np.float32)
    chunk = engine.infer(**model_input, guidance=_core.Guidance(previous, *nothing, committed_rows=3))
    np.testing.assert_array_equal(chunk[:3], previous[:3])
    assert np.abs(chunk[3:] - actions[3:]).max() > 1e-3
    np.testing.assert_array_equal(engine.infer(**model_input), actions)


@pytest.mark.parametrize('guided', [False, True])
def test_a_described_plan_is_the_compiled_one(golden, guided):
    engine = make_engine(golden, guided=guided)
    sizes = {'cameras': CAMERAS, 'prompt_capacity': CAPACITY, 'steps': STEPS, 'threads': 2}
    described = _core.describe_plan(engine.config, guided=guided, **sizes)
    assert described.pop('text') == engine.plan_text()
    stats = engine.plan_stats()
    assert described == {name: stats[name] for name in described}
    assert stats['arena_bytes'] < stats['unplanned_bytes']
    assert stats['quantize_calls'] == 0


def test_trace_has_a_block_per_step(golden, model_input, actions):
    engine = make_engine(golden, keep_values=True)
    traced = engine.trace(['denoise.velocity', 'prefix.embeds', 'actions'], **model_input)
    assert traced['denoise.velocity'].shape == (STEPS, 10, 32)
    assert traced['prefix.embeds'].shape == (CAMERAS * 16 + 11, 64)
    np.testing.assert_array_equal(traced['actions'][-1], actions)
    with pytest.raises(Error, match=r"no value 'denoise.velocitty'.*denoise.velocity"):
        engine.trace(['denoise.velocitty'], **model_input)


@pytest.mark.parametrize(
    ('change', 'text'),
    [
        ({'images': np.zeros((1, 56, 56, 3), np.uint8)}, 'this engine takes 2 cameras x 56 x 56 x 3 bytes'),
        ({'tokens': np.zeros(25, np.int32)}, '25 tokens, expected 1 to 24'),
        ({'tokens': np.zeros(0, np.int32)}, '0 tokens, expected 1 to 24'),
        ({'tokens': np.array([3, 512], np.int32)}, 'token 1 is 512, the vocabulary has 512'),
        ({'tokens': np.array([-1], np.int32)}, 'token 0 is -1'),
        ({'noise': np.zeros((9, 32), np.float32)}, '288 values, expected 10 x 32'),
        ({'state': np.zeros(32, np.float32)}, 'state: 32 values, expected 1 x 0'),
        (
            {'images': np.zeros((2, 3, 56, 56), np.uint8)},
            r'images: shape \[2, 3, 56, 56\], expected \[2, 56, 56, 3\]',
        ),
        ({'noise': np.zeros((32, 10), np.float32)}, r'noise: shape \[32, 10\], expected \[10, 32\]'),
        ({'tokens': np.zeros((1, 4), np.int32)}, r'tokens: shape \[1, 4\], expected \[4\]'),
    ],
)
def test_refuses_inputs_with_the_values_that_disagree(golden, model_input, change, text):
    with pytest.raises(Error, match=text):
        make_engine(golden).infer(**(model_input | change))


def test_never_converts_an_array_unseen(golden, model_input):
    with pytest.raises(TypeError):
        make_engine(golden).infer(**(model_input | {'noise': model_input['noise'].astype(np.float64)}))


@pytest.mark.parametrize(
    ('options', 'text'),
    [
        ({'cameras': 0}, 'cameras: 0'),
        ({'backend': 'abacus'}, "backend 'abacus' is unknown; expected cpu or cuda"),
        ({'device': -1}, 'device: -1, expected 0 or more'),
        ({'recipe': 'fp9'}, 'fp9'),
        ({'recipe': 'fp8'}, 'no calibration was given'),
        ({'random_outliers': 100.0}, r'outliers of 100 are for random weights; those of .* are its own'),
        ({'times': [1.0]}, '1 values for 4 steps'),
        ({'times': [1.0, 0.75, float('nan'), 0.25]}, 'times: nan at step 2'),
        ({'threads': -1}, 'threads: -1'),
        ({'threads': 100_000}, 'threads: 100000, expected at most 1024'),
        ({'steps': -3}, 'number of denoise steps: -3'),
        ({'horizon': -1}, 'horizon: -1'),
        ({'prompt_capacity': -8}, 'prompt capacity: -8'),
        ({'recipe': 'x' * 300}, 'File name too long'),
    ],
)
def test_refuses_options(golden, options, text):
    with pytest.raises(Error, match=text):
        make_engine(golden, **options)


def test_two_threads_never_share_a_run(golden, model_input, actions):
    engine = make_engine(golden)
    other = {name: value[::-1].copy() for name, value in model_input.items()}
    expected = engine.infer(**other)
    start = threading.Barrier(2)

    def run(inputs, wanted):
        start.wait()
        done = 0
        for _ in range(20):
            try:
                chunk = engine.infer(**inputs)
            except Error as fault:
                assert 'a second call while one runs' in str(fault)  # noqa: PT017
                continue
            np.testing.assert_array_equal(chunk, wanted)
            done += 1
        return done

    with ThreadPoolExecutor(2) as pool:
        runs = pool.submit(run, model_input, actions), pool.submit(run, other, expected)
    assert sum(item.result() for item in runs) >= 1
    np.testing.assert_array_equal(engine.infer(**model_input), actions)


def test_engines_of_the_same_weights_run_side_by_side(golden, model_input, actions):
    first = make_engine(golden)
    second = first.recompile(cameras=CAMERAS, prompt_capacity=CAPACITY, steps=STEPS)
    with ThreadPoolExecutor(2) as pool:
        runs = pool.map(lambda engine: [engine.infer(**model_input) for _ in range(10)], (first, second))
    for chunk in [chunk for chunks in runs for chunk in chunks]:
        np.testing.assert_array_equal(chunk, actions)


@pytest.mark.parametrize('content', [b'{"model_type": "\xff"}', b'{"model_type": ' + b'[' * 1_000_000])
def test_refuses_broken_configurations_by_name(tmp_path, content):
    (tmp_path / 'config.json').write_bytes(content)
    with pytest.raises(Error, match=r'config\.json'):
        _core.read_model_config(tmp_path)


def test_refuses_models_to_come(tmp_path):
    (tmp_path / 'config.json').write_text('{"model_type": "pi0_fast"}')
    with pytest.raises(ModelNotSupportedError, match='not supported yet'):
        _core.read_model_config(tmp_path)


def test_random_weights_need_no_checkpoint(golden, model_input, actions, tmp_path):
    shutil.copy(golden / 'pi05_tiny' / 'config.json', tmp_path)

    def act(seed):
        engine = _core.Engine(
            tmp_path, cameras=CAMERAS, prompt_capacity=CAPACITY, threads=2, random_seed=seed
        )
        assert engine.weights_digest.startswith(f'random pi05 seed {seed} ')
        return engine.infer(**model_input)

    first = act(1)
    assert np.isfinite(first).all()
    np.testing.assert_array_equal(first, act(1))
    assert not np.array_equal(first, act(2))
    assert not np.array_equal(first, actions)


def test_random_weights_keep_activations_in_range(golden, model_input):
    engine = make_engine(golden, random_seed=0, keep_values=True)
    values = [
        'vision.norm.residual',
        'prefix.1.mlp_norm.residual',
        'denoise.norm.residual',
        'denoise.velocity',
    ]
    for name, value in engine.trace(values, **model_input).items():
        assert 0.3 < np.sqrt(np.square(value).mean()) < 10, name


def test_measuring_times_every_part_and_leaves_the_engine_as_it_was(golden, model_input, actions):
    engine = make_engine(golden)
    calls = engine.report_calls(11)
    measured = engine.measure([(*model_input.values(), None)], warmup=1, runs=3, operation_runs=2)
    assert (
        len(measured.inference) == len(measured.replay) == len(measured.prompt) == len(measured.stages) == 3
    )
    assert all(time > 0 for time in measured.inference + measured.replay + measured.prompt)
    assert (np.array(measured.stages)[:, 2:] > 0).all()
    assert np.array(measured.calls).shape == (2, len(calls))
    for call, times in zip(calls, np.transpose(measured.calls), strict=True):
        assert (times > 0).all() == (call.when == 'infer'), call.name
    assert measured.before.captures == measured.after.captures
    np.testing.assert_array_equal(engine.infer(**model_input), actions)
    with pytest.raises(Error, match='no input was given'):
        engine.measure([], runs=1)


def test_calls_are_reported_with_their_costs(golden):
    calls = {call.name: call for call in make_engine(golden).report_calls(11)}
    velocity = calls['denoise.velocity']
    assert (velocity.stage, velocity.operation, velocity.repeat) == ('denoise', 'linear', STEPS)
    assert velocity.flops == 2 * 10 * 32 * velocity.read_bytes / 10 / 4
    assert (velocity.product, velocity.kernels) == ('f32', ['cpu linear'])


def test_a_model_that_does_not_fit_into_memory_is_refused_before_any_is_taken(golden, tmp_path):
    config = json.loads((golden / 'pi05_tiny' / 'config.json').read_text())
    config['language'] |= {'hidden_size': 2**17, 'intermediate_size': 2**17}
    config['vision']['projection_dim'] = 2**17
    del config['language']['embedding_scale']
    (tmp_path / 'config.json').write_text(json.dumps(config))
    with pytest.raises(Error) as refused:
        _core.Engine(tmp_path, cameras=CAMERAS, prompt_capacity=CAPACITY, steps=STEPS, random_seed=0)
    found = re.search(
        r'model pi05 needs (\d+) bytes of memory \(weights (\d+), values (\d+)\), '
        r'(\d+) of (\d+) are free on .+; end what else uses it',
        str(refused.value),
    )
    needed, weights, values, free, total = map(int, found.groups())
    assert needed == weights + values
    assert weights > 2 * 3 * 2**34 * 4  # three matrices in each layer but the last, whose output nobody reads
    assert 0 < free <= total < needed
