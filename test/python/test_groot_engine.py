# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""A miniature of GR00T from camera pictures to robot actions, through the engine that robots run."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from groot_files import HORIZON, GrootFiles, write_byte_tokenizer

from flashrt_core import Error, Observation
from flashrt_core.calibrate import CalibrationSettings, calibrate_policy, load_to_calibrate
from flashrt_core.policy import FlashPolicy, GrootSettings, load_policy

MODEL = Path(__file__).parents[1] / 'golden' / 'groot_n16_tiny'
# As config.json of the miniature has them.
TOKENS = {'<|im_start|>': 299, '<|im_end|>': 300, '<IMG_CONTEXT>': 301, '<img>': 302, '</img>': 303}
UPRIGHT = np.r_[0.5, 0.4, 0.3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0.5, 0.1, 0.2]
PICTURES = {
    name: np.random.default_rng(seed).integers(0, 256, (120, 160, 3), np.uint8)
    for seed, name in enumerate(('front', 'wrist'))
}


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp('checkpoint')
    for name in ('config.json', 'model.safetensors'):
        shutil.copy(MODEL / name, folder)
    GrootFiles().write(folder)
    return write_byte_tokenizer(folder, TOKENS)


def groot_settings(checkpoint: Path, **changes: object) -> GrootSettings:
    settings = {
        'checkpoint': checkpoint,
        'tokenizer': checkpoint,
        'actions': 'end_effector',
        'embodiment_tag': 'robot',
        'prompt_capacity': 160,
        'threads': 1,
    }
    return GrootSettings(**settings | changes)


def load(checkpoint: Path, **changes: object) -> FlashPolicy:
    return load_policy(groot_settings(checkpoint, **changes))


@pytest.fixture(scope='module')
def policy(checkpoint) -> FlashPolicy:
    policy = load(checkpoint)
    policy.warm_up()
    return policy


def observe(prompt_id: int, state: np.ndarray = UPRIGHT, **pictures: np.ndarray) -> Observation:
    return Observation(PICTURES | pictures, state, {}, prompt_id)


def test_a_chunk(policy):
    prompt_id = policy.set_prompt('put the cube into the box')
    policy.reset()
    first = policy.infer(observe(prompt_id), seed=4)
    assert first.actions.shape == (HORIZON, 15)
    assert first.model_actions.shape == (10, 18)
    assert np.isfinite(first.actions).all()
    policy.reset()
    np.testing.assert_array_equal(policy.infer(observe(prompt_id), seed=4).actions, first.actions)


# One pixel of any camera, one joint or another instruction: all of it reaches the model.
@pytest.mark.parametrize('changed', ['front', 'wrist', 'both exchanged', 'state', 'prompt'])
def test_everything_that_is_seen_and_said_changes_the_chunk(policy, changed):
    noise = np.random.default_rng(7).standard_normal((10, 18), np.float32)
    prompt_id = policy.set_prompt('put the cube into the box')
    before = policy.infer(observe(prompt_id), noise=noise).model_actions
    pictures, state = {}, UPRIGHT.copy()
    if changed in PICTURES:
        pictures = {changed: PICTURES[changed].copy()}
        pictures[changed][50:70, 60:90] ^= 255
    elif changed == 'state':
        state[0] += 0.05
    elif changed == 'prompt':
        prompt_id = policy.set_prompt('put the cube into the bag')
    else:
        pictures = {'front': PICTURES['wrist'], 'wrist': PICTURES['front']}
    after = policy.infer(observe(prompt_id, state, **pictures), noise=noise).model_actions
    assert np.abs(after - before).max() > 1e-4


def test_an_engine_takes_pictures_of_several_sizes(checkpoint):
    sizes = {'front': (120, 160), 'wrist': (120, 120)}
    policy = load(checkpoint, letterbox='off', picture_sizes=sizes)
    prompt_id = policy.set_prompt('go')
    pictures = {name: np.zeros((*size, 3), np.uint8) for name, size in sizes.items()}
    chunk = policy.infer(observe(prompt_id, **pictures), seed=0)
    assert np.isfinite(chunk.actions).all()


def test_scales_are_measured_on_what_the_policy_gives_to_its_engine(checkpoint, tmp_path):
    fp8 = {'recipe': 'fp8', 'calibration': tmp_path / 'scales.json'}
    watched = load_to_calibrate(groot_settings(checkpoint, **fp8))
    prompt_id = watched.set_prompt('put the cube into the box')
    observations = [(f'moment {i}', observe(prompt_id, UPRIGHT + 0.1 * i)) for i in range(2)]
    calibrate_policy(watched, observations, CalibrationSettings()).save(tmp_path / 'scales.json')
    chunks = []
    for settings in (fp8, {}):
        policy = load(checkpoint, **settings)
        prompt_id = policy.set_prompt('put the cube into the box')
        chunks.append(policy.infer(observe(prompt_id), seed=1).model_actions)
    quantised, exact = chunks
    assert 1e-4 < np.abs(quantised - exact).max() < 0.5


def test_a_prompt_beyond_the_vocabulary_is_refused(checkpoint, tmp_path):
    write_byte_tokenizer(tmp_path, TOKENS | {'<|im_end|>': 400})
    with pytest.raises(Error, match=r'token 400 is beyond the 320 tokens of the model'):
        load(checkpoint, tokenizer=tmp_path).set_prompt('go')
