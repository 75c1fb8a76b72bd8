# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The tiny Pi0.5 of the demo: laid out as the reference checkpoint, and the same every time."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from flashrt_core.platforms import AlohaActions, AlohaState
from flashrt_core.tokenizer import Tokenizer
from flashrt_ros.demo_checkpoint import ASSET_ID, TOKENIZER, Sizes, write_demo_checkpoint

GOLDEN = Path(__file__).resolve().parent.parent / 'golden' / 'pi05_tiny'


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory, swinging_arms) -> Path:
    folder = tmp_path_factory.mktemp('demo') / 'checkpoint'
    write_demo_checkpoint(folder, swinging_arms)
    return folder


def tensor_names(folder: Path) -> set[str]:
    with safe_open(folder / 'model.safetensors', 'numpy') as file:
        return set(file.keys())


def without_numbers(names: set[str]) -> set[str]:
    return {re.sub(r'\.\d+\.', '.{}.', name) for name in names}


def test_tensors_are_named_as_in_the_reference_checkpoint(checkpoint):
    assert without_numbers(tensor_names(checkpoint)) == without_numbers(tensor_names(GOLDEN))


def test_config_has_the_keys_of_the_reference(checkpoint):
    made = json.loads((checkpoint / 'config.json').read_text())
    reference = json.loads((GOLDEN / 'config.json').read_text())
    assert made.keys() - {'note'} == reference.keys()
    for name, value in reference.items():
        if isinstance(value, dict):
            assert made[name].keys() == value.keys(), name


def test_two_writes_give_the_same_bytes(checkpoint, swinging_arms, tmp_path):
    write_demo_checkpoint(tmp_path / 'again', swinging_arms)
    for file in sorted(checkpoint.rglob('*')):
        if file.is_file():
            again = tmp_path / 'again' / file.relative_to(checkpoint)
            assert again.read_bytes() == file.read_bytes(), file.name


def test_writing_replaces_what_was_there(swinging_arms, tmp_path):
    folder = tmp_path / 'checkpoint'
    folder.mkdir()
    (folder / 'stale.safetensors').write_bytes(b'old')
    write_demo_checkpoint(folder, swinging_arms, Sizes(vision_layers=1))
    assert not (folder / 'stale.safetensors').exists()
    assert [path.name for path in tmp_path.iterdir()] == ['checkpoint']


def test_weights_are_finite_and_of_order_one(checkpoint):
    for name, tensor in load_file(checkpoint / 'model.safetensors').items():
        assert tensor.dtype == np.float32
        assert np.isfinite(tensor).all(), name
        assert np.abs(tensor).max() < 10, name


def test_action_head_reads_the_directions_it_writes(checkpoint):
    """The stored bytes hold the matrices, not their transposes in memory."""
    tensors = load_file(checkpoint / 'model.safetensors')
    product = tensors['action_out_proj.weight'] @ tensors['action_in_proj.weight']
    np.testing.assert_allclose(product, 6.0 * np.eye(32), atol=1e-5)


def test_statistics_are_those_of_the_states(checkpoint, swinging_arms):
    content = json.loads((checkpoint / 'assets' / ASSET_ID / 'norm_stats.json').read_text())['norm_stats']
    state = AlohaState()(swinging_arms)
    np.testing.assert_allclose(content['state']['mean'], state.mean(axis=0))
    low, high = np.array(content['state']['q01']), np.array(content['state']['q99'])
    np.testing.assert_allclose((low + high)[2] / 2, -0.5)  # turned round for the base model
    assert (high - low >= 0.2 - 1e-12).all()
    assert (np.quantile(state, 0.5, axis=0) >= low).all()


def test_statistics_of_actions_lead_back_to_the_states(checkpoint, swinging_arms):
    """Their mean is a pose the arms were in, once joints count from the state and grippers do not."""
    content = json.loads((checkpoint / 'assets' / ASSET_ID / 'norm_stats.json').read_text())['norm_stats']
    robot = AlohaActions()(np.array([content['actions']['mean']]))[0]
    grippers = [6, 13]
    joints = [column for column in range(14) if column not in grippers]
    assert np.abs(robot[joints]).max() < 0.2  # a second of motion, on average
    np.testing.assert_allclose(robot[grippers], swinging_arms[:, grippers].mean(axis=0), atol=0.1)


def test_tokenizer_fits_the_vocabulary(checkpoint):
    tokens = Tokenizer(checkpoint / TOKENIZER).encode('hand the red cube to the other arm, State: 0 127 255;')
    assert max(tokens) < Sizes().vocabulary
