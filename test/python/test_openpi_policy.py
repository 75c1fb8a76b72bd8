# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Whole openpi policies around a stand-in engine, against recorded ones; and settings that are refused."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fake_core import FakeConfig, FakeCore
from safetensors.numpy import load_file

from flashrt_core import ActionPrefix, Error, Observation
from flashrt_core.policy import GuidanceSettings, PolicySettings, load_policy
from flashrt_core.tokenizer import pad_tokens

CASES = [
    'aloha_pi05',
    'aloha_pi0_one_camera',
    'libero_pi05',
    'libero_pi0',
    'droid_pi05',
    'droid_pi05_jointpos',
]
ACTIONS = {'aloha': 'joint_position', 'libero': 'end_effector', 'droid': 'joint_velocity'}


def recorded(golden, name):
    return (
        json.loads((golden / 'pi_e2e' / 'cases.json').read_text())[name],
        load_file(golden / 'pi_e2e' / f'{name}.safetensors'),
    )


def images_of(data):
    """Camera name on the platform -> [height, width, 3]."""
    images = {}
    for key, image in data.items():
        if key.startswith('in.image.'):
            name = key.removeprefix('in.image.').removeprefix('observation.')
            images[name] = image.transpose(1, 2, 0) if image.shape[0] == 3 else image
    return images


def settings_of(golden, name, case, data):
    return PolicySettings(
        checkpoint='unused',
        tokenizer=golden / case['tokenizer'],
        origin='openpi',
        platform=case['platform'],
        cameras=tuple(reversed(images_of(data))),  # the order of names must not matter
        resize='openpi',
        fit='letterbox',
        state_in_prompt=case['discrete_state_input'],
        actions=ACTIONS[case['platform']],
        statistics=golden / 'pi_e2e' / f'{name}.norm_stats.json',
        normalisation='quantile' if case['use_quantile_norm'] else 'zscore',
        delta_mask=tuple(case['delta_mask'] or ()),
        adapt_to_pi=case['adapt_to_pi'],
        prompt_capacity=case['max_token_len'],
    )


def core_of(case):
    family = case['model'].removesuffix('_tiny')
    return FakeCore(FakeConfig(family, state_dim=32 if family == 'pi0' else 0))


@pytest.mark.parametrize('name', CASES)
def test_recorded_policy(golden, name):
    case, data = recorded(golden, name)
    policy = load_policy(settings_of(golden, name, case, data), core_of(case))
    policy.engine.answer = lambda noise: data['out.model_actions']
    prompt_id = policy.set_prompt(case['prompt'])
    observation = Observation(images_of(data), data['in.state'], {}, prompt_id)
    chunk = policy.infer(observation, noise=data['in.noise'])
    (call,) = policy.engine.calls

    state = policy.pipeline.state_forms(data['in.state'])
    np.testing.assert_allclose(state.decoded, data['out.state_decoded'], rtol=0, atol=1e-12)
    np.testing.assert_allclose(state.normalised, data['out.state_normalised'], rtol=0, atol=1e-9)
    if case['model'] == 'pi0_tiny':
        np.testing.assert_allclose(call['state'], data['out.state_model'], rtol=0, atol=1e-6)
    else:
        assert call['state'] is None

    ids, mask = pad_tokens(call['tokens'], case['max_token_len'])
    np.testing.assert_array_equal(ids, data['out.token_ids'])
    np.testing.assert_array_equal(mask, data['out.token_mask'])

    present = [key.rpartition('.')[2] for key in data if key.startswith('out.image_mask.') and data[key][0]]
    order = [slot for slot in ('base_0_rgb', 'left_wrist_0_rgb', 'right_wrist_0_rgb') if slot in present]
    assert [camera.slot for camera in policy.pipeline.cameras] == order
    assert len(call['images']) == len(order)
    for image, slot in zip(call['images'], order, strict=True):
        np.testing.assert_array_equal(image, data[f'out.image.{slot}'])

    unnormalised = policy.pipeline.after[0](data['out.model_actions'], state)
    np.testing.assert_allclose(unnormalised, data['out.actions_unnormalised'], rtol=0, atol=1e-6)
    assert chunk.actions.shape == data['out.actions'].shape
    np.testing.assert_allclose(chunk.actions, data['out.actions'], rtol=0, atol=1e-6)
    np.testing.assert_array_equal(chunk.model_actions, data['out.model_actions'])


@pytest.mark.parametrize('name', CASES)
def test_prefix_is_the_same_motion_from_another_state(golden, name):
    case, data = recorded(golden, name)
    settings = replace(
        settings_of(golden, name, case, data),
        real_time_chunking=True,
        guidance=GuidanceSettings('ones', execution_horizon=5, max_weight=10),
    )
    policy = load_policy(settings, core_of(case))
    moved = data['in.state'] + np.linspace(0.01, 0.03, len(data['in.state']))
    observation = Observation(images_of(data), moved, {}, policy.set_prompt(case['prompt']))
    rows = data['out.model_actions']
    policy.infer(observation, seed=0, prefix=ActionPrefix(rows, 2, state=data['in.state']))
    held = policy.engine.calls[0]['guidance'].previous
    assert (held[:, policy.spec.action_dim :] == 0).all()
    robot = policy.pipeline.robot_actions(held, policy.pipeline.state_forms(moved))
    np.testing.assert_allclose(robot, data['out.actions'], rtol=0, atol=2e-6)
    is_relative = any(count > 0 for count in case['delta_mask'] or ())
    assert is_relative != np.array_equal(held[:, : policy.spec.action_dim], rows[:, : policy.spec.action_dim])


def test_action_range_is_in_the_conventions_of_the_robot(golden):
    case, data = recorded(golden, 'aloha_pi05')
    settings = replace(settings_of(golden, 'aloha_pi05', case, data), delta_mask=())
    found = load_policy(settings, core_of(case)).action_range()
    statistics = json.loads(Path(settings.statistics).read_text())['norm_stats']['actions']
    q01, q99 = (np.array(statistics[name][:14]) for name in ('q01', 'q99'))
    assert (found[0] < found[1]).all()
    np.testing.assert_allclose(found[:, 0], [q01[0], q99[0]], atol=1e-5)
    np.testing.assert_allclose(found[:, 1], [-q99[1], -q01[1]], atol=1e-5)  # turns the other way round
    # The gripper's angle, from radians of the model to those of the robot.
    motor = (np.array([q01[13], q99[13]]) + 0.5476 + 0.6213) / (1.4910 + 0.6213)
    np.testing.assert_allclose(found[:, 13], motor, atol=1e-5)


def test_loads_the_engine_with_its_settings(golden, tmp_path):
    case, data = recorded(golden, 'aloha_pi05')
    calibration, packed = tmp_path / 'c.json', tmp_path / 'p.safetensors'
    settings = replace(
        settings_of(golden, 'aloha_pi05', case, data),
        horizon=7,
        threads=2,
        recipe='bf16',
        calibration=calibration,
        packed=packed,
        backend='cuda',
        device=1,
        tuning=Path('t.json'),
    )
    with pytest.raises(Error, match=r'calibration .*c\.json does not exist; `flashrt calibrate` writes it'):
        load_policy(settings, core_of(case))
    calibration.write_text('{}')
    with pytest.raises(Error, match=r'packed weights .*p\.safetensors does not exist; `flashrt pack`'):
        load_policy(settings, core_of(case))
    packed.write_text('')
    policy = load_policy(settings, core_of(case))
    times = policy.engine.options.pop('times')
    assert policy.engine.options == {
        'cameras': 3,
        'prompt_capacity': 120,
        'steps': 10,
        'horizon': 7,
        'recipe': 'bf16',
        'calibration': str(calibration),
        'float_images': False,
        'max_image_bytes': 0,
        'frame_options': (),
        'guided': False,
        'float_activations': False,
        'packed': str(packed),
        'backend': 'cuda',
        'threads': 2,
        'device': 1,
        'tuning': 't.json',
    }
    assert times == data_times()
    assert policy.spec.horizon == 7
    assert policy.spec.cameras == ('cam_high', 'cam_left_wrist', 'cam_right_wrist')
    info = policy.info()
    assert info['weights_digest'] == 'digest-of-weights'
    assert info['device'] == 'abacus, beads 7'
    assert info['calibration'] == str(calibration)
    assert info['statistics'].endswith('aloha_pi05.norm_stats.json')
    assert info['statistics_columns'] == 'state 14, actions 14'
    assert len(info['statistics_sha256']) == len(info['tokenizer_sha256']) == 64


def data_times():
    times = [np.float32(1)]
    while len(times) < 10:
        times.append(np.float32(times[-1] + np.float32(-0.1)))
    return [float(t) for t in times]


@pytest.mark.parametrize(
    ('change', 'reason'),
    [
        ({'normalisation': None}, "'normalisation' is needed"),
        ({'delta_mask': None}, "'delta_mask' is needed"),
        ({'adapt_to_pi': None}, 'adapt_to_pi is None'),
        ({'statistics': None}, "'statistics'"),
        ({'prompt_capacity': 0}, "'prompt_capacity' is needed"),
        ({'actions': 'end_effector'}, "'end_effector', platform 'aloha' has joint_position"),
        ({'state_dim': 7}, "state_dim is 7, platform 'aloha' has 14"),
        ({'cameras': ('cam_left_wrist',)}, "'base_0_rgb'"),
        ({'cameras': ('cam_high', 'base_0_rgb')}, "both slot 'base_0_rgb'"),
        ({'cameras': ('cam_high', 'zed')}, "'zed' is no slot.*base_0_rgb.*cam_high"),
        ({'platform': 'none', 'adapt_to_pi': None}, "'state_dim' and 'action_dim' are needed"),
        ({'delta_mask': (14, -1)}, 'names 15 columns'),
        ({'delta_mask': (10**15,)}, f'names {10**15} columns'),
        ({'state_text_width': 32}, 'lerobot'),
        ({'state_names': ('a', 'b')}, '2 names for 14 columns'),
        (
            {
                'platform': 'none',
                'cameras': ('base_0_rgb',),
                'adapt_to_pi': None,
                'state_dim': 14,
                'action_dim': 40,
            },
            'has 14 columns, 40 needed',
        ),
    ],
)
def test_refused_settings(golden, change, reason):
    case, data = recorded(golden, 'aloha_pi05')
    settings = replace(settings_of(golden, 'aloha_pi05', case, data), **change)
    with pytest.raises(Error, match=reason):
        load_policy(settings, core_of(case))


def test_pi0_has_no_state_in_the_prompt(golden):
    case, data = recorded(golden, 'libero_pi0')
    settings = replace(settings_of(golden, 'libero_pi0', case, data), state_in_prompt=True)
    with pytest.raises(Error, match='state_in_prompt'):
        load_policy(settings, core_of(case))


def test_more_columns_than_the_model_gives(golden, write_stats):
    case, data = recorded(golden, 'libero_pi05')
    settings = replace(
        settings_of(golden, 'libero_pi05', case, data),
        platform='none',
        cameras=('base_0_rgb',),
        statistics=write_stats(8, 40),
        state_dim=8,
        action_dim=40,
    )
    with pytest.raises(Error, match='40 action columns, the model gives 32'):
        load_policy(settings, core_of(case))


def test_steps_must_come_from_somewhere(golden):
    case, data = recorded(golden, 'libero_pi05')
    core = core_of(case)
    core.config.steps = 0
    settings = settings_of(golden, 'libero_pi05', case, data)
    with pytest.raises(Error, match="'steps' is needed"):
        load_policy(settings, core)
    assert load_policy(replace(settings, steps=4), core).engine.steps == 4


#
def test_degenerate_statistics(golden, write_stats):
    case, data = recorded(golden, 'libero_pi05')
    low, high = [-1.0] * 8, [1.0] * 8
    low[3] = high[3] = 0.25
    settings = replace(
        settings_of(golden, 'libero_pi05', case, data),
        statistics=write_stats(8, 7, q01=low, q99=high),
        state_names=tuple(f'joint_{i + 1}' for i in range(8)),
    )
    with pytest.raises(Error, match='joint_4'):
        load_policy(settings, core_of(case))
    policy = load_policy(replace(settings, allow_degenerate_statistics=True), core_of(case))
    assert 'joint_4' in policy.info()['warnings']
    # The formula is kept: (x - q01) / 1e-6 * 2 - 1.
    state = np.array([0.0, 0, 0, 0.25 + 1e-6, 0, 0, 0, 0])
    assert policy.pipeline.state_forms(state).normalised[3] == pytest.approx(1, abs=1e-6)
