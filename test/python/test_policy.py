# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What a policy takes, refuses and repeats, around a stand-in engine."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from fake_core import FakeConfig, FakeCore
from hypothesis import given
from hypothesis import strategies as st

from flashrt_core import ActionPrefix, CameraFrame, Error, Observation
from flashrt_core.policy import GuidanceSettings, PolicySettings, load_policy

JOINTS = ('joint_1', 'joint_2', 'joint_3', 'joint_4', 'joint_5', 'joint_6', 'gripper')
LONG_PROMPT = 'put the cup next to the plate' + ' and then next to the plate' * 40


@pytest.fixture
def settings(golden, write_stats) -> PolicySettings:
    return PolicySettings(
        checkpoint='unused',
        tokenizer=golden / 'pi_tokenizer' / 'tiny_spm.model',
        origin='openpi',
        platform='none',
        cameras=('left_wrist_0_rgb', 'base_0_rgb'),
        resize='openpi',
        fit='letterbox',
        state_in_prompt=True,
        actions='joint_position',
        statistics=write_stats(7, 7, low=-1.5, high=1.5),
        normalisation='quantile',
        delta_mask=(),
        state_dim=7,
        action_dim=7,
        state_names=JOINTS,
        prompt_capacity=120,
    )


@pytest.fixture
def policy(settings, fake_core):
    policy = load_policy(settings, fake_core)
    policy.set_prompt('pick up the red block')
    return policy


def observe(policy, *, state=None, prompt_id=1, **images):
    pictures = {name: np.zeros((48, 64, 3), np.uint8) for name in policy.spec.cameras}
    state = np.zeros(7) if state is None else np.asarray(state)
    return Observation(pictures | images, state, {'base': 17}, prompt_id)


def test_spec(policy):
    assert policy.spec.cameras == ('base_0_rgb', 'left_wrist_0_rgb')  # the model's order
    assert (policy.spec.state_dim, policy.spec.action_dim, policy.spec.horizon) == (7, 7, 10)
    assert (policy.spec.image_size, policy.spec.model_action_dim, policy.spec.prompt_capacity) == (
        56,
        32,
        120,
    )


# slots are filled by name, whatever the order of names or arrival.
def test_slots_are_filled_by_name(policy):
    red = np.zeros((56, 56, 3), np.uint8)
    red[..., 0] = 255
    blue = red[..., ::-1]
    for images in (
        {'left_wrist_0_rgb': blue, 'base_0_rgb': red},
        {'base_0_rgb': red, 'left_wrist_0_rgb': blue},
    ):
        policy.infer(Observation(images, np.zeros(7), {}, 1), seed=0)
        first, second = policy.engine.calls[-1]['images']
        assert (first == red).all()
        assert (second == blue).all()


def test_rotation_is_per_camera(settings, fake_core):
    policy = load_policy(replace(settings, rotation={'base_0_rgb': 180}), fake_core)
    policy.set_prompt('go')
    corner = np.zeros((56, 56, 3), np.uint8)
    corner[0, 0] = 200
    policy.infer(observe(policy, base_0_rgb=corner, left_wrist_0_rgb=corner), seed=0)
    base, wrist = policy.engine.calls[-1]['images']
    assert base[55, 55, 0] == wrist[0, 0, 0] == 200


def test_takes_camera_frames_with_padded_rows(policy):
    image = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)
    rows = np.full((48, 200), 0xEE, np.uint8)
    rows[:, :192] = image.reshape(48, 192)
    frame = CameraFrame(rows.tobytes(), 'rgb8', 48, 64, 200)
    policy.infer(observe(policy, base_0_rgb=frame), seed=0)
    policy.infer(observe(policy, base_0_rgb=image), seed=0)
    np.testing.assert_array_equal(policy.engine.calls[0]['images'], policy.engine.calls[1]['images'])


def test_chunk_carries_its_origin(policy):
    chunk = policy.infer(observe(policy), seed=5)
    assert (dict(chunk.stamps_ns), chunk.prompt_id, chunk.seed) == ({'base': 17}, 1, 5)
    assert set(chunk.timings) == {'preprocess', 'engine', 'postprocess'}
    assert all(value >= 0 for value in chunk.timings.values())
    assert chunk.actions.dtype == np.float64
    assert chunk.actions.shape == (10, 7)  # exactly the robot's columns leave
    assert chunk.model_actions.shape == (10, 32)
    assert chunk.out_of_range == ()


@pytest.mark.parametrize(
    ('normalisation', 'low', 'high'),
    [('quantile', -1.0, 2.0), ('zscore', 0.5 - 2 * 1.5, 0.5 + 2 * 1.5)],  # write_stats: std is half the width
)
def test_action_range_is_what_the_statistics_tell(settings, fake_core, write_stats, normalisation, low, high):
    statistics = write_stats(7, 7, low=-1.0, high=2.0)
    changed = replace(settings, statistics=statistics, normalisation=normalisation, delta_mask=(6, -1))
    found = load_policy(changed, fake_core).action_range()
    assert found.dtype == np.float64
    assert found.shape == (2, 7)
    assert np.isnan(found[:, :6]).all()  # they count from the state
    np.testing.assert_allclose(found[:, 6], [low, high], atol=1e-5)


def test_no_action_range_without_normalisation(settings, fake_core):
    policy = load_policy(replace(settings, normalisation='identity'), fake_core)
    assert policy.action_range() is None


# Noise.
def test_noise_is_a_function_of_seed_and_tick(policy):
    def noises(count):
        for _ in range(count):
            policy.infer(observe(policy), seed=3)
        return [call['noise'] for call in policy.engine.calls[-count:]]

    first = noises(3)
    expected = np.random.Generator(np.random.Philox(key=np.array([3, 1], np.uint64)))
    np.testing.assert_array_equal(first[1], expected.standard_normal((10, 32), np.float32))
    assert not np.array_equal(first[0], first[1])
    policy.reset()
    np.testing.assert_array_equal(first, noises(3))


def test_given_noise_is_used_as_it_is(policy):
    noise = np.full((10, 32), 0.5, np.float32)
    chunk = policy.infer(observe(policy), noise=noise)
    assert chunk.seed is None
    np.testing.assert_array_equal(policy.engine.calls[0]['noise'], noise)


def test_seed_of_the_settings_is_the_default(settings, fake_core):
    policy = load_policy(replace(settings, seed=9), fake_core)
    policy.set_prompt('go')
    assert policy.infer(observe(policy)).seed == 9


def test_warm_up_does_not_count(policy):
    policy.warm_up()
    assert [len(call['tokens']) for call in policy.engine.calls] == [1, 120]
    policy.infer(observe(policy), seed=3)
    first = np.random.Generator(np.random.Philox(key=np.array([3, 0], np.uint64)))
    np.testing.assert_array_equal(
        policy.engine.calls[-1]['noise'], first.standard_normal((10, 32), np.float32)
    )


# a model that answers in another shape is refused before the first motion.
@pytest.mark.parametrize('shape', [(10, 6), (0, 32)])
def test_warm_up_checks_the_shape(policy, shape):
    policy.engine.answer = lambda noise: np.zeros(shape, np.float32)
    with pytest.raises(Error, match=f'{shape[0]}, {shape[1]}'):
        policy.warm_up()


@pytest.mark.parametrize(
    ('arguments', 'reason'),
    [
        ({'noise': np.zeros((10, 32), np.float32), 'seed': 1}, 'noise and seed 1'),
        ({'noise': np.zeros((10, 7), np.float32)}, r'\(10, 7\), needed \(10, 32\)'),
        ({'noise': np.full((10, 32), np.nan, np.float32)}, 'noise is nan in row 0, column 0'),
        ({'noise': np.full((10, 32), 1e300)}, 'noise is inf in row 0, column 0'),
        ({'seed': -1}, 'seed is -1'),
        ({'seed': 2**64}, 'seed is'),
        ({'seed': 1.5}, 'seed is 1.5, needed a whole number'),
        ({'prefix': ActionPrefix(np.zeros((3, 32)), 1)}, 'real_time_chunking'),
    ],
)
def test_refused_arguments(policy, arguments, reason):
    with pytest.raises(Error, match=reason):
        policy.infer(observe(policy), **arguments)
    assert policy.engine.calls == []


@pytest.mark.parametrize(
    ('changes', 'reason'),
    [
        ({'state': np.zeros(6)}, r'\(6,\), needed \(7,\)'),
        ({'state': [0, np.nan, 0, 0, 0, np.inf, 0]}, 'joint_2 = nan, joint_6 = inf'),
        ({'state': ['a'] * 7}, 'the state is .*, needed numbers'),
        ({'top': np.zeros((4, 4, 3), np.uint8)}, r"not known: \['top'\]"),
        ({'base_0_rgb': None}, "'base_0_rgb' is a NoneType, needed an array"),
        ({'base_0_rgb': np.zeros((4, 4), np.uint8)}, "'base_0_rgb' is uint8"),
        ({'base_0_rgb': np.zeros((4, 4, 4), np.uint8)}, r'\(4, 4, 4\)'),
        ({'base_0_rgb': np.zeros((0, 4, 3), np.uint8)}, r'\(0, 4, 3\)'),
        ({'base_0_rgb': np.zeros((4, 4, 3), np.float32)}, 'float32'),
        ({'base_0_rgb': CameraFrame(b'\0' * 48, 'yuv444', 4, 4, 12)}, "'yuv444'"),
        ({'prompt_id': 2}, 'prompt_id 2, the prompt in use has 1'),
    ],
)
def test_refused_observations(policy, changes, reason):
    with pytest.raises(Error, match=reason):
        policy.infer(observe(policy, **changes), seed=0)
    assert policy.engine.calls == []


def test_missing_camera_is_named(policy):
    images = {'base_0_rgb': np.zeros((4, 4, 3), np.uint8)}
    with pytest.raises(Error, match=r"missing: \['left_wrist_0_rgb'\]"):
        policy.infer(Observation(images, np.zeros(7), {}, 1), seed=0)


def test_needs_a_prompt(settings, fake_core):
    policy = load_policy(settings, fake_core)
    with pytest.raises(Error, match='call set_prompt first'):
        policy.infer(observe(policy, prompt_id=0), seed=0)


def test_not_finite_actions_are_refused(policy):
    def answer(noise):
        actions = noise.copy()
        actions[4, 2] = np.nan
        return actions

    policy.engine.answer = answer
    with pytest.raises(Error, match='nan in row 4, column 2'):
        policy.infer(observe(policy), seed=0)


# 3.0 in [-1.5, 1.5] is 2.0 normalised; reported, not clipped, refused over the limit.
def test_state_beyond_the_training_data(settings, fake_core):
    policy = load_policy(settings, fake_core)
    policy.set_prompt('go')
    state = [3.0, -0.2, 0.3, -0.4, 0.5, -0.6, 0.04]
    (reported,) = policy.infer(observe(policy, state=state), seed=0).out_of_range
    assert (reported.index, reported.name) == (0, 'joint_1')
    assert reported.normalised == pytest.approx(2, abs=1e-5)
    assert 'State: 255 ' in text_of(policy)

    limited = load_policy(replace(settings, state_limit=1.5), fake_core)
    limited.set_prompt('go')
    assert limited.infer(observe(limited, state=[2.0] + [0] * 6), seed=0).out_of_range
    with pytest.raises(Error, match=r'state_limit 1\.5: joint_1 = 2'):
        limited.infer(observe(limited, state=state), seed=0)


def test_trial_is_made_whatever_the_limit_of_the_state(settings, fake_core):
    """Joints at zero may be far from the training data."""
    policy = load_policy(replace(settings, state_limit=0.1), fake_core)
    policy.set_prompt('go')
    measured = observe(policy, state=[1.0] * 7)
    with pytest.raises(Error, match='state_limit'):
        policy.infer(measured, seed=0)
    assert policy.infer(replace(measured, is_trial=True), seed=0).actions.shape == (10, 7)


def text_of(policy):
    processor = policy.prompt.tokenizer._processor
    return processor.decode(policy.engine.calls[-1]['tokens'].tolist())


# Prompts.
def test_each_prompt_has_its_id(policy):
    assert policy.set_prompt('open the drawer') == 2
    with pytest.raises(Error, match='prompt_id 1'):
        policy.infer(observe(policy, prompt_id=1), seed=0)
    policy.infer(observe(policy, prompt_id=2), seed=0)
    assert 'open the drawer' in text_of(policy)


def test_the_cleaned_text_is_shown(policy):
    policy.set_prompt('pick_up_the\nred block ')
    assert policy.info()['prompt'] == 'pick up the red block'


#
def test_long_prompt_is_refused_with_both_counts(policy):
    with pytest.raises(
        Error, match=r'needs \d+ tokens, the capacity is 120 \(\d+ for the text, \d+ for the long'
    ):
        policy.set_prompt(LONG_PROMPT)
    policy.infer(observe(policy), seed=0)
    assert 'red block' in text_of(policy)


@pytest.mark.parametrize('text', ['', '  \n\t ', 'stop\0now'])
def test_refused_prompt_leaves_the_one_in_use(policy, text):
    with pytest.raises(Error):
        policy.set_prompt(text)
    policy.infer(observe(policy), seed=0)
    assert 'red block' in text_of(policy)


def test_words_that_look_like_state_do_not_replace_it(policy):
    prompt_id = policy.set_prompt('Task: x, State: 1 2 3;\nAction: ')
    policy.infer(observe(policy, prompt_id=prompt_id), seed=0)
    # 127: with openpi's 1e-6 in the width, the middle of the range lies just below 0.
    assert text_of(policy).endswith('State: 127 127 127 127 127 127 127;\nAction: ')


@given(st.lists(st.floats(-4, 4), min_size=7, max_size=7))
def test_no_state_is_longer_than_what_was_checked(length_policy, state):
    """The capacity is exactly the longest prompt, so any longer state text would be cut or refused."""
    policy, longest = length_policy
    policy.infer(observe(policy, state=state), seed=0)
    assert len(policy.engine.calls[-1]['tokens']) <= longest


@pytest.fixture(scope='module')
def length_policy(golden, tmp_path_factory):
    group = {'q01': [-1.5] * 7, 'q99': [1.5] * 7}
    path = tmp_path_factory.mktemp('statistics') / 'norm_stats.json'
    path.write_text(json.dumps({'norm_stats': {'state': group, 'actions': group}}))
    settings = PolicySettings(
        checkpoint='unused',
        tokenizer=golden / 'pi_tokenizer' / 'tiny_spm.model',
        origin='openpi',
        platform='none',
        cameras=('base_0_rgb',),
        resize='openpi',
        fit='letterbox',
        state_in_prompt=True,
        actions='joint_position',
        statistics=path,
        normalisation='quantile',
        delta_mask=(),
        state_dim=7,
        action_dim=7,
        prompt_capacity=200,
    )
    policy = load_policy(settings, FakeCore())
    longest = len(policy.prompt.tokens('go', np.ones(7)))
    policy = load_policy(replace(settings, prompt_capacity=longest), FakeCore())
    policy.set_prompt('go')
    return policy, longest


def test_one_token_less_is_refused(length_policy):
    policy, longest = length_policy
    with pytest.raises(Error, match=f'capacity is {longest}'):
        policy.set_prompt('go!')


def test_fixed_prompt_is_tokenised_once(settings, fake_core):
    policy = load_policy(replace(settings, state_in_prompt=False), fake_core)
    policy.set_prompt('go')
    for state in (np.zeros(7), np.ones(7)):
        policy.infer(observe(policy, state=state), seed=0)
    first, second = (call['tokens'] for call in policy.engine.calls)
    assert first is second
    assert first.tolist() == policy.prompt.tokenizer.prompt(('go', '\n')).tolist()


def test_foreign_tokenizer_is_refused(settings):
    policy = load_policy(settings, FakeCore(FakeConfig(vocab_size=300)))
    with pytest.raises(Error, match=r'beyond the 300 tokens of the model'):
        policy.set_prompt('go')


# Prefixes.
def test_guided_prefix(settings, fake_core):
    guidance = GuidanceSettings('ones', execution_horizon=3, max_weight=10)
    policy = load_policy(replace(settings, real_time_chunking=True, guidance=guidance), fake_core)
    policy.set_prompt('go')
    policy.infer(observe(policy), seed=0, prefix=ActionPrefix(np.ones((5, 7)), 1))
    given_to_engine = policy.engine.calls[-1]['guidance']
    assert given_to_engine.weights.tolist() == [1, 1, 1, 0, 0, 0, 0, 0, 0, 0]
    assert given_to_engine.guidance[0] == 10
    assert given_to_engine.previous.sum() == 35
    policy.infer(observe(policy), seed=0, prefix=ActionPrefix(np.ones((0, 7)), 1))
    assert policy.engine.calls[-1]['guidance'] is None
    for array in (np.ones((11, 7)), np.ones((5, 33)), np.full((5, 7), np.nan)):
        with pytest.raises(Error, match=f'prefix of {array.shape[0]} rows and {array.shape[1]} columns'):
            policy.infer(observe(policy), seed=0, prefix=ActionPrefix(array, 1))
    with pytest.raises(Error, match='trained for 0 rows'):
        policy.infer(observe(policy), seed=0, prefix=ActionPrefix(np.ones((5, 7)), 1, 'hard'))


def test_guidance_has_no_default(settings, fake_core):
    policy = load_policy(replace(settings, real_time_chunking=True), fake_core)
    policy.set_prompt('go')
    with pytest.raises(Error, match="'guidance' is needed"):
        policy.infer(observe(policy), seed=0, prefix=ActionPrefix(np.ones((5, 7)), 1))


def test_absent_native_module_is_a_named_error(settings, monkeypatch):
    monkeypatch.setitem(sys.modules, 'flashrt_core._core', None)
    with pytest.raises(Error, match=r'flashrt_core\._core cannot be imported.*pip install'):
        load_policy(settings)
