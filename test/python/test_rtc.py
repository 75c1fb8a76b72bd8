# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Real-time chunking: times, weights and guidance by hand and against reference vectors."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

from flashrt_core.rtc import denoise_times, guidance_scale, prefix_weights

SCHEDULES = ['linear', 'exp', 'ones', 'zeros']


@pytest.mark.parametrize('folder', ['pi05_tiny', 'pi05_heads', 'pi0_tiny'])
def test_times_of_openpi(golden, folder):
    cases = sorted((golden / folder).glob('case_*.safetensors'))
    assert cases
    for path in cases:
        d = load_file(path)
        np.testing.assert_array_equal(denoise_times('openpi', int(d['in.num_steps'][0])), d['out.time'])


def test_times_differ_in_the_last_bit():
    openpi, lerobot = denoise_times('openpi', 10), denoise_times('lerobot', 10)
    assert openpi.dtype == lerobot.dtype == np.float32
    assert not np.array_equal(openpi, lerobot)
    np.testing.assert_allclose(openpi, lerobot, atol=1e-6)


def test_weights_by_hand():
    """Two rows committed, two rows falling over three steps, then none."""
    np.testing.assert_allclose(prefix_weights('linear', 2, 4, 9, 6), [1, 1, 2 / 3, 1 / 3, 0, 0])
    third = (np.exp(1 / 3) - 1) / (np.e - 1) / 3
    np.testing.assert_allclose(prefix_weights('exp', 2, 4, 9, 6)[3], third, rtol=1e-6)
    assert prefix_weights('ones', 2, 4, 9, 6).tolist() == [1, 1, 1, 1, 0, 0]
    assert prefix_weights('zeros', 2, 4, 9, 6).tolist() == [1, 1, 0, 0, 0, 0]
    # Fewer rows left than the delay: all of them count fully.
    assert prefix_weights('linear', 5, 8, 3, 6).tolist() == [1, 1, 1, 0, 0, 0]


def test_weights_of_reference(golden):
    vectors = load_file(golden / 'rtc' / 'prefix_weights.safetensors')
    cases = json.loads((golden / 'rtc' / 'prefix_weights.json').read_text())
    assert len(cases) == len(vectors)
    for case in cases:
        chunk = case['chunk']
        schedule = case['schedule'].lower()
        got = prefix_weights(schedule, case['inference_delay'], case['execution_horizon'], chunk, chunk)
        np.testing.assert_allclose(got, vectors[case['tensor']], rtol=0, atol=3e-7, err_msg=case['tensor'])


def test_guidance_of_reference(golden):
    cases = json.loads((golden / 'rtc' / 'cases.json').read_text())
    checked = 0
    for name, case in cases.items():
        if case['mode'] != 'guided' or case['prev_shape'] is None:
            continue
        d = load_file(golden / 'rtc' / f'{name}.safetensors')
        times = denoise_times('lerobot', case['num_steps'])
        np.testing.assert_array_equal(times, d['out.time'])
        scale = guidance_scale(times, case['max_guidance_weight'])
        np.testing.assert_allclose(scale, d['out.guidance_weight'], rtol=1e-6)
        rows, horizon = case['prev_shape'][-2], len(d['out.weights'])
        schedule, delay = case['schedule'].lower(), case['inference_delay']
        weights = prefix_weights(schedule, delay, case['execution_horizon'], rows, horizon)
        np.testing.assert_allclose(weights, d['out.weights'], rtol=0, atol=3e-7)
        checked += 1
    assert checked == 6


def test_guidance_by_hand():
    scale = guidance_scale(np.float32([1, 0.5]), 10)
    assert scale.tolist() == [10, 2]  # at t = 1 the formula divides by zero


@given(st.sampled_from(SCHEDULES), *[st.integers(0, 60)] * 3, st.integers(1, 50))
def test_weights_fall_from_one_to_zero(schedule, delay, execution_horizon, rows, horizon):
    weights = prefix_weights(schedule, delay, execution_horizon, rows, horizon)
    assert weights.shape == (horizon,)
    assert (np.diff(weights) <= 0).all()
    assert ((weights >= 0) & (weights <= 1)).all()
    end = min(execution_horizon, rows, horizon)
    assert (weights[: min(delay, end)] == 1).all()
    assert (weights[end:] == 0).all()
