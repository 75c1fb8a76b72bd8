# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The tiny GR00T of the demo: laid out as the reference checkpoint, the same every time, and well behaved."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from flashrt_core.groot.action_codec import action_codec
from flashrt_core.groot.embodiment import read_embodiment
from flashrt_core.groot.state_codec import state_codec
from flashrt_core.groot.tokenizer import QwenTokenizer
from flashrt_core.policy import FlashPolicy, GrootSettings, load_policy
from flashrt_core.types import Observation
from flashrt_ros.groot_demo_checkpoint import COLUMNS, EMBODIMENT, VIEWS, write_groot_demo_checkpoint

GOLDEN = Path(__file__).resolve().parent.parent / 'golden' / 'groot_n16_tiny'


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory, swinging_arms) -> Path:
    folder = tmp_path_factory.mktemp('demo') / 'checkpoint'
    write_groot_demo_checkpoint(folder, swinging_arms)
    return folder


@pytest.fixture(scope='module')
def policy(checkpoint) -> FlashPolicy:
    policy = load_policy(
        GrootSettings(
            checkpoint=checkpoint,
            tokenizer=checkpoint,
            actions='joint_position',
            embodiment_tag=EMBODIMENT,
            prompt_capacity=160,
            threads=1,
        )
    )
    policy.set_prompt('fold the towel')
    return policy


def without_numbers(names: set[str]) -> set[str]:
    return {re.sub(r'\.\d+\.', '.{}.', name) for name in names}


def test_tensors_are_those_of_the_reference_checkpoint_that_are_used(checkpoint):
    made = without_numbers(load_file(checkpoint / 'model.safetensors').keys())
    reference = without_numbers(load_file(GOLDEN / 'model.safetensors').keys())
    assert made <= reference
    assert all('.vision_model.head.' in name for name in reference - made)  # pools what nothing reads


def test_documents_have_the_keys_of_the_reference(checkpoint):
    def keys(document: object, path: str = '') -> set[str]:
        if not isinstance(document, dict):
            return {path}
        return set().union(*(keys(value, f'{path}/{name}') for name, value in document.items()))

    made = json.loads((checkpoint / 'config.json').read_text())
    assert keys(made) == keys(json.loads((GOLDEN / 'config.json').read_text()))


def test_two_writes_give_the_same_bytes(checkpoint, swinging_arms, tmp_path):
    write_groot_demo_checkpoint(tmp_path / 'again', swinging_arms)
    names = sorted(path.name for path in checkpoint.iterdir())
    assert names == sorted(path.name for path in (tmp_path / 'again').iterdir())
    for name in names:
        assert (tmp_path / 'again' / name).read_bytes() == (checkpoint / name).read_bytes(), name


def test_weights_are_finite_and_of_order_one(checkpoint):
    for name, tensor in load_file(checkpoint / 'model.safetensors').items():
        assert tensor.dtype == np.float32
        assert np.isfinite(tensor).all(), name
        assert np.abs(tensor).max() < 10, name


def test_the_robot_is_that_of_the_recording(checkpoint, swinging_arms):
    embodiment = read_embodiment(checkpoint, EMBODIMENT)
    assert embodiment.modalities.video.keys == VIEWS
    state = state_codec(embodiment)
    actions = action_codec(embodiment, state)
    assert state.columns == actions.columns
    assert [columns.stop - columns.start for columns in state.columns.values()] == list(COLUMNS.values())
    # Wherever the robot was lies within the range of its statistics, and so does what came next.
    assert np.abs(state.unclipped(swinging_arms)).max() <= 1 + 1e-9
    ends = np.stack([np.full((50, 32), end) for end in (-1.0, 1.0)])
    for start in (0, 57, 150):
        low, high = (actions.decode(model, swinging_arms[start]) for model in ends)
        following = swinging_arms[start + 1 : start + 1 + embodiment.horizon]
        assert (low - 1e-9 <= following).all()
        assert (following <= high + 1e-9).all()


def test_the_tokenizer_writes_any_text(checkpoint):
    tokenizer = QwenTokenizer(checkpoint)
    text = 'Hand the red cube over - \u00e4 \u0416 \u65e5 \U0001f916!'
    ids = tokenizer.encode(text)
    assert bytes(ids.tolist()).decode() == text
    config = json.loads((checkpoint / 'config.json').read_text())
    assert tokenizer.vocab_size == config['backbone']['text_config']['vocab_size']


def test_the_flow_forgets_its_noise_and_stays_bounded(policy, swinging_arms):
    rng = np.random.default_rng(3)
    images = {view: rng.integers(0, 255, (48, 64, 3), np.uint8) for view in VIEWS}
    observation = Observation(images, swinging_arms[100], prompt_id=1)
    chunks = [policy.infer(observation, seed=seed).model_actions for seed in range(4)]
    assert np.std(chunks, axis=0).max() < 0.3  # of noise with deviation 1
    assert np.abs(chunks).max() < 4
    assert chunks[0].std() > 0.1, 'there is something left'
