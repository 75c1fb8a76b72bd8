# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Pi0.5 and Pi0 reproduce the saved results of the original implementations, and of an independent one."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from reference_pi import (
    EMBEDDING,
    PROJECTOR,
    Case,
    Sizes,
    linear,
    pi0_velocity,
    prefix,
    siglip,
    velocity,
    write_folder,
)
from safetensors.numpy import load_file

from flashrt_core.errors import Error
from flashrt_core.golden import Report, RunOptions, check_folder

GOLDEN = Path(__file__).parents[1] / 'golden'

# A correct float32 program is well inside the bounds of the table; these catch an eps of 1e-5 (4e-5) as well.
ACTIONS, INTERMEDIATE = 1e-5, 1e-5

BOTH = {
    'out.siglip', 'out.image_tokens', 'out.text_embeds', 'out.prefix_embeds', 'out.prefix_mask',
    'out.prefix_position_ids', 'out.prefix_k.first', 'out.prefix_k.last', 'out.prefix_v.first',
    'out.prefix_v.last', 'out.suffix_position_ids', 'out.time', 'out.time_sincos', 'out.suffix_embeds',
    'out.layer0_out', 'out.suffix_hidden', 'out.x_t', 'out.v_t', 'out.actions',
}  # fmt: skip
ONLY_PI05 = {'out.time_cond', 'out.mod_first_attn', 'out.mod_last_mlp', 'out.mod_final'}
NOT_IN_HEADS = {
    'out.siglip', 'out.prefix_embeds', 'out.prefix_k.first', 'out.prefix_v.first', 'out.suffix_embeds',
    'out.suffix_hidden',
}  # fmt: skip


def assert_close(report: Report) -> None:
    assert report.passed()
    for item in report.comparisons:
        assert item.error <= (ACTIONS if item.tensor in ('out.actions', 'out.x_t') else INTERMEDIATE), item


@pytest.mark.parametrize(
    ('folder', 'tensors', 'cases'),
    [
        ('pi05_tiny', BOTH | ONLY_PI05, 8),  # one case is a batch of two
        ('pi0_tiny', BOTH, 6),
        ('pi05_heads', (BOTH | ONLY_PI05) - NOT_IN_HEADS, 1),
        ('pi05_trainer', (BOTH | ONLY_PI05) - {'out.layer0_out'}, 2),
    ],
)
def test_the_original_is_reproduced(folder, tensors, cases):
    report = check_folder(GOLDEN / folder)
    assert_close(report)
    extra = {'in.images', 'actions with memory reused'}
    assert {item.tensor for item in report.comparisons} - extra == tensors
    assert sum(item.tensor == 'out.actions' for item in report.comparisons) == cases


def test_reuse_of_memory_is_compared_bit_for_bit():
    report = check_folder(GOLDEN / 'pi05_tiny')
    reused = [item for item in report.comparisons if item.tensor == 'actions with memory reused']
    assert len(reused) == 8
    assert all(item.bound == 0 and item.error == 0 for item in reused)


def test_slots_that_are_not_there_are_counted():
    """case_01: 2 of 3 cameras with 16 tokens each, 5 of 24 prompt tokens; width 64."""
    report = check_folder(GOLDEN / 'pi05_tiny')
    (embeds,) = (
        item for item in report.comparisons if (item.case, item.tensor) == ('case_01', 'out.prefix_embeds')
    )
    assert (embeds.compared, embeds.excluded) == ((32 + 5) * 64, (16 + 19) * 64)


SIZES = {
    'two kv heads, odd horizon, two layers': (
        Sizes(horizon=7, layers=2, heads=4, kv_heads=2, head_dim=8),
        [
            Case(cameras=(True,), prompt=5, capacity=9, steps=10, seed=1),
            Case(cameras=(True, False, True), prompt=3, capacity=3, steps=1, seed=2),
            Case(cameras=(False, True), prompt=1, capacity=20, steps=3, seed=3),
        ],
    ),
    'one layer, one action, as many kv heads as heads': (
        Sizes(horizon=1, layers=1, vision_layers=1, heads=3, kv_heads=3, head_dim=6, image=42, action_dim=32),
        [Case(cameras=(True,), prompt=4, capacity=6, steps=4, seed=4)],
    ),
    'four layers, one kv head': (
        Sizes(
            horizon=12, layers=4, heads=5, kv_heads=1, head_dim=10, width=24, expert_width=20, action_dim=3
        ),
        [Case(cameras=(True, True), prompt=7, capacity=7, steps=2, seed=5)],
    ),
    'Pi0, two kv heads, odd horizon, one layer': (
        Sizes(horizon=5, layers=1, heads=4, kv_heads=2, head_dim=8, state_dim=9),
        [
            Case(cameras=(True,), prompt=5, capacity=9, steps=10, seed=6),
            Case(cameras=(False, True, True), prompt=2, capacity=2, steps=1, seed=7),
        ],
    ),
    'Pi0, as many kv heads as heads, one action, three layers': (
        Sizes(
            horizon=1, layers=3, heads=3, kv_heads=3, head_dim=6, expert_width=20, action_dim=3, state_dim=1
        ),
        [Case(cameras=(True, False), prompt=1, capacity=4, steps=3, seed=8)],
    ),
}


@pytest.mark.parametrize('name', SIZES)
def test_the_formulas_in_float64_are_reproduced_at_other_sizes(name, tmp_path):
    sizes, cases = SIZES[name]
    write_folder(tmp_path, sizes, cases)
    report = check_folder(tmp_path)
    assert_close(report)
    tensors = BOTH if sizes.state_dim else BOTH | ONLY_PI05
    assert {item.tensor for item in report.comparisons} == tensors | {'actions with memory reused'}


TINY = Sizes(
    image=56, vision_width=48, vision_layers=3, vision_heads=4, vision_mlp=96, width=64, mlp=128,
    expert_width=32, expert_mlp=64, layers=3, heads=4, kv_heads=1, head_dim=16, vocabulary=512,
    action_dim=32, horizon=10,
)  # fmt: skip


@pytest.mark.parametrize(
    ('folder', 'sizes'),
    [('pi05_tiny', TINY), ('pi0_tiny', replace(TINY, expert_width=40, expert_mlp=72, state_dim=32))],
)
def test_the_formulas_in_float64_are_those_of_the_original(folder, sizes):
    """Closes the circle: the reference of these tests against the saved results, without the engine."""
    weights = load_file(GOLDEN / folder / 'model.safetensors')
    weights = {name: value.astype(np.float64) for name, value in weights.items()}
    case = load_file(GOLDEN / folder / 'case_01.safetensors')
    present, valid = case['in.image_masks'][:, 0] != 0, case['in.token_mask'][0] != 0
    images = [siglip(weights, sizes, image) for image in case['in.images_u8'][present, 0]]
    text = weights[EMBEDDING][case['in.token_ids'][0, valid]] * 8
    cache = prefix(weights, sizes, np.concatenate([*(linear(weights, PROJECTOR, x) for x in images), text]))
    x_t = case['in.noise'][0].astype(np.float64)
    for t in case['out.time']:
        if sizes.state_dim:
            state = case['in.state'][0].astype(np.float64)
            v, _ = pi0_velocity(weights, sizes, x_t, state, float(t), cache)
        else:
            v, _ = velocity(weights, sizes, x_t, float(t), cache)
        x_t = x_t - v / len(case['out.time'])
    assert np.abs(x_t - case['out.actions'][0]).max() < 3e-6


def test_cases_without_weights_run_on_the_model_that_is_given(tmp_path):
    shutil.copy(GOLDEN / 'pi05_tiny' / 'case_05.safetensors', tmp_path)
    with pytest.raises(Error, match=r'holds no config\.json; give the folder that does with --model'):
        check_folder(tmp_path)
    shutil.copy(GOLDEN / 'pi05_tiny' / 'config.json', tmp_path)
    with pytest.raises(Error, match=r'holds no model\.safetensors; give the folder that does with --model'):
        check_folder(tmp_path)
    assert check_folder(tmp_path, RunOptions(model=GOLDEN / 'pi05_tiny')).passed()


def test_bf16_is_bounded_as_a_whole():
    report = check_folder(GOLDEN / 'pi05_tiny', RunOptions(recipe='bf16'))
    assert report.passed()
    rms = [item for item in report.comparisons if item.measure == 'RMS / std']
    assert {item.tensor for item in rms} == {'out.actions - noise', 'out.v_t'}
    assert all(1e-4 < item.error <= 0.03 for item in rms)


def test_recipes_without_bounds_are_refused():
    with pytest.raises(Error, match="recipe is 'fp8'; these saved results have bounds for f32 and bf16"):
        check_folder(GOLDEN / 'pi05_tiny', RunOptions(recipe='fp8'))


@pytest.mark.parametrize(
    ('config', 'name'),
    [
        ({'model_type': 'pi0_fast'}, 'Pi0-FAST'),
        ({'model_type': 'Gr00tN1d7'}, 'GR00T'),
        ({'vision_config': {}, 'text_config': {}}, 'GR00T'),
    ],
)
def test_models_to_come_are_named(config, name, tmp_path):
    (tmp_path / 'config.json').write_text(json.dumps(config))
    with pytest.raises(Error, match=rf'{name}.*not supported yet'):
        check_folder(tmp_path)
