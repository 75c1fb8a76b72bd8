# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What a policy of GR00T gives to its engine, refuses and repeats, around a stand-in engine."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fake_core import FakeConfig, FakeCore
from groot_files import HORIZON, GrootFiles
from hypothesis import given
from hypothesis import settings as how
from hypothesis import strategies as st

from flashrt_core import ActionPrefix, CameraFrame, Error, Observation
from flashrt_core.groot.parts import camera_name
from flashrt_core.groot.pictures import picture_steps
from flashrt_core.policy import FlashPolicy, GrootSettings, PolicySettings, load_policy
from flashrt_core.types import PastPicture

TOKENIZER = Path(__file__).parents[1] / 'golden' / 'groot_n16_tiny' / 'tokenizer'
UPRIGHT = np.r_[0.5, 0.5, 0.5, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0.5, 0, 0]
NOISE = np.zeros((10, 18), np.float32)
NOISE[:, 6:12] = 1, -1, -1, -1, 1, -1  # a rotation has two directions


def groot_core() -> FakeCore:
    """With the sizes that the invented robot's files name."""
    return FakeCore(
        FakeConfig(
            model_type='groot_n16',
            image_size=224,
            action_dim=18,
            horizon=10,
            state_dim=20,
            steps=4,
            vocab_size=151680,
            image_token=151669,
            embodiments=5,
        )
    )


def groot_settings(folder: Path) -> GrootSettings:
    """Puts the tokenizer beside the files of the checkpoint."""
    for name in ('vocab.json', 'merges.txt'):
        shutil.copy(TOKENIZER / f'mini_{name}', folder / name)
    shutil.copy(TOKENIZER / 'added_tokens.json', folder)
    return GrootSettings(
        checkpoint=folder,
        tokenizer=folder,
        actions='end_effector',
        embodiment_tag='robot',
        prompt_capacity=60,
    )


@pytest.fixture
def files() -> GrootFiles:
    return GrootFiles()


@pytest.fixture
def core() -> FakeCore:
    return groot_core()


@pytest.fixture
def settings(tmp_path) -> GrootSettings:
    return groot_settings(tmp_path)


@pytest.fixture
def policy(settings, core, files, tmp_path) -> FlashPolicy:
    files.write(tmp_path)
    policy = load_policy(settings, core)
    policy.set_prompt('Open the drawer.')
    return policy


def observe(policy: FlashPolicy, *, state=UPRIGHT, prompt_id=1, **images) -> Observation:
    pictures = {name: np.zeros((48, 64, 3), np.uint8) for name in policy.spec.cameras}
    return Observation(pictures | images, np.asarray(state, float), {'front': 17}, prompt_id)


def test_spec(policy):
    spec = policy.spec
    assert spec.cameras == ('front', 'wrist')
    assert (spec.state_dim, spec.action_dim, spec.horizon) == (15, 15, HORIZON)
    assert (spec.model_action_dim, spec.noise_shape, spec.image_size) == (18, (10, 18), 252)
    assert (spec.prompt_capacity, spec.actions, spec.max_hard_delay) == (60, 'end_effector', 0)
    assert spec.picture_sizes == {}


def test_the_engine_is_compiled_for_the_embodiment(policy):
    options = policy.engine.options
    assert options['cameras'] == 2
    assert options['image_sizes'] == ((252, 252), (252, 252))
    assert options['markup_rows'] == (7, 3)
    assert (options['embodiment_slot'], options['allow_untrained']) == (3, False)
    assert (options['horizon'], options['steps'], options['guided']) == (0, 4, False)
    assert not len(options['times'])


def test_what_the_engine_is_given(policy):
    policy.infer(observe(policy), noise=NOISE)
    call = policy.engine.calls[-1]
    assert call['images'].shape == (2, 252, 252, 3)
    assert call['images'].dtype == np.uint8
    # Header, three words, markup and <img>; the whole conversation goes to the engine.
    assert len(call['tokens']) == 14 + 3 + 88 * 2 + 2
    assert call['tokens'].dtype == np.int32
    assert (call['tokens'] == 151669).sum() == 2 * 81
    assert call['state'].dtype == np.float32
    np.testing.assert_allclose(call['state'][[0, 12, 13, 15, 17]], [0, 0, 0, 1, 0], atol=1e-7)
    assert call['guidance'] is None


def test_what_comes_out(policy):
    chunk = policy.infer(observe(policy), noise=NOISE)
    assert chunk.actions.shape == (HORIZON, 15)
    assert chunk.actions.dtype == np.float64
    assert chunk.model_actions.shape == (10, 18)
    assert (chunk.prompt_id, chunk.seed, dict(chunk.stamps_ns)) == (1, None, {'front': 17})
    assert set(chunk.timings) == {'preprocess', 'engine', 'postprocess'}
    np.testing.assert_allclose(chunk.actions[:, 0], 0.5 + 0.5 + 0.1 * np.arange(HORIZON))
    # The state that the observation was formed with is what relative actions count from.
    moved = policy.infer(observe(policy, state=UPRIGHT + np.r_[1, np.zeros(14)]), noise=NOISE)
    np.testing.assert_allclose(moved.actions - chunk.actions, np.eye(15)[[0] * HORIZON], atol=1e-12)


@given(st.permutations(['front', 'wrist']), st.integers(1, 300), st.integers(1, 300))
@how(max_examples=15, deadline=None)
def test_views_are_filled_by_name_whatever_their_order_and_size(shared_policy, order, rows, columns):
    seen = np.full((rows, columns, 3), 200, np.uint8)
    images = {name: seen if name == 'wrist' else seen // 4 for name in order}
    shared_policy.infer(Observation(images, UPRIGHT, {}, 1), noise=NOISE)
    front, wrist = shared_policy.engine.calls[-1]['images']
    expected = seen
    for step in picture_steps(True, 256, 0.95):
        expected = step(expected)
    np.testing.assert_array_equal(wrist, expected)
    assert front.max() < 100  # 50, and what the interpolation overshoots by


@pytest.fixture(scope='module')
def shared_policy(tmp_path_factory) -> FlashPolicy:
    folder = tmp_path_factory.mktemp('checkpoint')
    GrootFiles().write(folder)
    policy = load_policy(groot_settings(folder), groot_core())
    policy.set_prompt('go')
    return policy


def test_camera_frames_and_arrays_are_the_same(policy):
    image = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)
    frame = CameraFrame(image[..., ::-1].tobytes(), 'bgr8', 48, 64, 192)
    for picture in (frame, image):
        policy.infer(observe(policy, front=picture), noise=NOISE)
    first, second = (call['images'] for call in policy.engine.calls[-2:])
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(policy.model_images(observe(policy, front=image)), second)


def test_noise_is_a_function_of_seed_and_tick(policy):
    def noises() -> list[np.ndarray]:
        policy.reset()
        for _ in range(3):
            policy.infer(observe(policy), seed=3)
        return [call['noise'] for call in policy.engine.calls[-3:]]

    first = noises()
    generator = np.random.Generator(np.random.Philox(key=np.array([3, 1], np.uint64)))
    np.testing.assert_array_equal(first[1], generator.standard_normal((10, 18), np.float32))
    np.testing.assert_array_equal(first, noises())


def test_warm_up_takes_the_shortest_and_the_longest_prompt(policy):
    policy.warm_up()
    shortest, longest = (call['tokens'] for call in policy.engine.calls)
    assert [policy.prompt.counted(tokens) for tokens in (shortest, longest)] == [1, 60]
    np.testing.assert_array_equal(shortest[1:], longest[60:])


def test_the_capacity_is_that_of_the_rows_before_the_first_picture(settings, core, files, tmp_path):
    files.write(tmp_path)
    policy = load_policy(replace(settings, prompt_capacity=14 + 3 + 6), core)
    assert policy.set_prompt('Open the drawer.') == 1
    with pytest.raises(Error, match='prompt: needs 26 tokens, the capacity is 23; shorten it'):
        policy.set_prompt('Open the drawer now.')
    policy.infer(observe(policy), noise=NOISE)  # the first one is still in use


@pytest.mark.parametrize('text', ['!?', ' . '])
def test_an_instruction_of_which_nothing_is_left_is_refused(policy, text):
    with pytest.raises(Error, match='nothing is left but white space; give an instruction in words'):
        policy.set_prompt(text)


def test_info_and_range(policy):
    info = policy.info()
    assert info['model'] == 'groot_n16'
    assert info['embodiment'] == 'robot, slot 3'
    assert (info['letterbox'], info['normalisation']) == ('on', 'by min and max')
    assert info['prompt'] == 'open the drawer'
    text = policy.prompt.text('Open the drawer.', UPRIGHT)
    assert text.endswith('user\nopen the drawer<image 1><image 2><|im_end|>\n')
    assert len(info['tokenizer_sha256']) == len(info['statistics_sha256']) == 64
    found = policy.action_range()
    assert found.shape == (2, 15)
    assert np.isnan(found[:, :12]).all()
    assert found[:, 14].tolist() == [-1.5, 2.5]


def test_columns_beyond_the_training_data_are_named(policy, settings, core):
    state = (
        UPRIGHT + np.r_[2.5, np.zeros(11), 9, 100, 0]
    )  # arm 3.0, gripper 9.5, and a wheel that turns for ever
    found = policy.infer(observe(policy, state=state), noise=NOISE).out_of_range
    assert [(item.name, item.normalised) for item in found] == [('arm[0]', 1.25), ('gripper[0]', 4.5)]
    limited = load_policy(replace(settings, state_limit=2.0), core)
    limited.set_prompt('go')
    with pytest.raises(Error, match=r'normalised state beyond state_limit 2: gripper\[0\] = 4.5'):
        limited.infer(observe(limited, state=state), noise=NOISE)


# ---- history


def test_history_is_a_camera_per_time_and_view_oldest_first(settings, core, files, tmp_path):
    files.modalities['video']['delta_indices'] = [-5, 0]
    files.write(tmp_path)
    policy = load_policy(settings, core)
    assert policy.spec.cameras == ('front@-5', 'wrist@-5', 'front', 'wrist')
    assert camera_name('front', 5) == 'front@-5'
    assert policy.spec.past_cameras == {f'{view}@-5': PastPicture(view, 5) for view in ('front', 'wrist')}
    assert (policy.spec.past_states, policy.spec.look_back) == ((), 5)
    policy.set_prompt('go')
    images = {
        name: np.full((32, 32, 3), shade, np.uint8)
        for name, shade in {'wrist': 40, 'front@-5': 10, 'front': 30, 'wrist@-5': 20}.items()
    }
    policy.infer(observe(policy, **images), noise=NOISE)
    assert policy.engine.calls[-1]['images'][:, 100, 100, 0].tolist() == [10, 20, 30, 40]
    assert policy.engine.options['markup_rows'] == (7, 7, 7, 3)


def test_states_of_the_past_come_first(settings, core, files, tmp_path):
    files.modalities['state'].update(delta_indices=[-9, -2, 0])
    files.write(tmp_path)
    policy = load_policy(settings, core)
    assert (policy.spec.past_states, policy.spec.look_back) == ((9, 2), 9)
    assert policy.engine.options['state_rows'] == 3
    policy.warm_up()
    assert policy.engine.calls[-1]['state'].shape == (3, 20)
    policy.set_prompt('go')
    states = [UPRIGHT + np.r_[step, np.zeros(14)] for step in (-1.0, 1.0, 0.0)]
    observation = replace(observe(policy, state=states[2]), past_states=np.array(states[:2]))
    chunk = policy.infer(observation, noise=NOISE)
    given = policy.engine.calls[-1]['state']
    alone = load_policy(settings_without_past(settings, files, tmp_path), core)
    alone.set_prompt('go')
    for row, state in zip(given, states, strict=True):
        alone.infer(observe(alone, state=state), noise=NOISE)
        np.testing.assert_array_equal(row, alone.engine.calls[-1]['state'])
    # Relative actions count from the present.
    np.testing.assert_allclose(chunk.actions[0, 0], states[2][0] + 0.5)


def settings_without_past(settings: GrootSettings, files: GrootFiles, folder: Path) -> GrootSettings:
    files.modalities['state'].update(delta_indices=[0])
    files.write(folder)
    return settings


@pytest.mark.parametrize(
    ('deltas', 'past', 'message'),
    [
        ([-2, 0], None, 'the observation holds 0 states of the past, needed 1, those of 2 rows ago'),
        ([-2, 0], np.zeros((2, 15)), 'the observation holds 2 states of the past, needed 1'),
        ([-2, 0], np.zeros((1, 14)), r'the state has shape \(14,\), needed \(15,\)'),
        ([-2, 0], np.full((1, 15), np.nan), r'the state is not finite: arm\[0\] = nan'),
        ([0], np.zeros((1, 15)), 'the observation holds 1 states of the past, needed 0'),
    ],
)
def test_another_past_is_refused(settings, core, files, tmp_path, deltas, past, message):
    files.modalities['state'].update(delta_indices=deltas)
    files.write(tmp_path)
    policy = load_policy(settings, core)
    policy.set_prompt('go')
    with pytest.raises(Error, match=message):
        policy.infer(replace(observe(policy), past_states=past), noise=NOISE)


# ---- letterbox off


def test_without_letterbox_pictures_keep_their_shape(settings, core, files, tmp_path):
    files.write(tmp_path)
    sizes = {'front': (480, 640), 'wrist': (240, 240)}
    policy = load_policy(replace(settings, letterbox='off', picture_sizes=sizes), core)
    options = policy.engine.options
    assert options['image_sizes'] == ((252, 336), (252, 252))
    assert (policy.spec.picture_sizes, policy.spec.image_size) == (sizes, 336)
    assert policy.info()['letterbox'] == 'off'
    policy.set_prompt('go')
    images = {name: np.full((*size, 3), 90, np.uint8) for name, size in sizes.items()}
    policy.infer(observe(policy, **images), noise=NOISE)
    call = policy.engine.calls[-1]
    assert call['images'].shape == (3 * 252 * (336 + 252),)  # of several sizes one behind the other
    assert (call['images'] == 90).all()
    assert (call['tokens'] == 151669).sum() == 108 + 81
    shown = policy.model_images(observe(policy, **images))
    assert shown.shape == (2, 252, 336, 3)
    assert (shown[1, :, 252:] == 0).all()
    assert (shown[1, :, :252] == 90).all()
    with pytest.raises(
        Error, match=r"picture 'front' becomes 252x252 \(width x height\), the model was loaded for 336x252"
    ):
        policy.infer(observe(policy, **images | {'front': images['wrist']}), noise=NOISE)
    policy.warm_up()


def test_a_turned_camera_has_its_sides_exchanged(settings, core, files, tmp_path):
    files.write(tmp_path)
    sizes = {'front': (480, 640), 'wrist': (480, 640)}
    turned = replace(settings, letterbox='off', picture_sizes=sizes, rotation={'wrist': 90})
    policy = load_policy(turned, core)
    assert policy.engine.options['image_sizes'] == ((252, 336), (336, 252))
    policy.set_prompt('go')
    image = np.zeros((480, 640, 3), np.uint8)
    image[:, 600:] = 255  # turned a quarter counter-clockwise, what was right is on top
    policy.infer(observe(policy, front=image, wrist=image), noise=NOISE)
    wrist = policy.engine.calls[-1]['images'][-3 * 336 * 252 :].reshape(336, 252, 3)
    assert (wrist[0] == 255).all()
    assert (wrist[100:] == 0).all()


# ---- refusals


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'embodiment_tag': ''}, "'embodiment_tag' is needed"),
        ({'letterbox': 'yes'}, "letterbox is 'yes', known: auto, on, off"),
        ({'letterbox': 'off'}, "letterbox is 'off' and picture_sizes {}; sizes are needed"),
        ({'picture_sizes': {'front': (480, 640)}}, "letterbox is 'auto' and picture_sizes .* mean nothing"),
        ({'letterbox': 'off', 'picture_sizes': {'front': (480,)}}, r"picture_sizes of 'front' is \(480,\)"),
        ({'rotation': {'front': 45}}, "rotation of 'front' is 45"),
        (
            {'real_time_chunking': True},
            'real_time_chunking is True; GR00T was not trained to continue a chunk',
        ),
        (
            {'max_image_bytes': 99},
            'max_image_bytes is 99; pictures of GR00T are not resized by the engine yet',
        ),
        ({'actions': 'torque'}, "actions is 'torque', known"),
        ({'allow_untrained': 'no'}, "allow_untrained is 'no', needed true or false"),
        ({'steps': -1}, 'steps is -1, needed a whole number'),
    ],
)
def test_refused_settings(settings, change, message):
    with pytest.raises(Error, match=message):
        replace(settings, **change)


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'embodiment_tag': 'gr1'}, r"embodiment_tag 'gr1' is not in .*; available are \['robot'\]"),
        ({'actions': 'joint_position'}, r"actions is 'joint_position', but \['tool'\] .* are poses"),
        (
            {'rotation': {'top': 90}},
            r"rotation names \['top'\]; the views of embodiment 'robot' are \['front'",
        ),
        ({'letterbox': 'off', 'picture_sizes': {'front': (48, 64)}}, "picture_sizes lacks 'wrist'"),
        ({'state_names': ('a', 'b')}, 'state_names: 2 names for 15 columns'),
        ({'prompt_capacity': 0}, "'prompt_capacity' is needed"),
    ],
)
def test_settings_that_do_not_fit_the_checkpoint(settings, core, files, tmp_path, change, message):
    files.write(tmp_path)
    with pytest.raises(Error, match=message):
        load_policy(replace(settings, **change), core)


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'state_dim': 128}, 'max_state_dim is 20, the model in config.json has 128'),
        ({'action_dim': 128}, 'max_action_dim is 18, the model in config.json has 128'),
        ({'horizon': 50}, 'max_action_horizon is 10, the model in config.json has 50'),
        ({'embodiments': 3}, "embodiment 'robot' has slot 3, the model has 3 slots"),
        ({'image_token': 301}, 'writes pictures as token 151669, the model reads them as 301'),
        ({'model_type': 'pi05'}, 'holds a pi05, and the settings are GrootSettings'),
    ],
)
def test_files_of_another_model_are_refused(settings, core, files, tmp_path, change, message):
    files.write(tmp_path)
    core.config = replace(core.config, **change)
    with pytest.raises(Error, match=message):
        load_policy(settings, core)


def test_settings_of_another_family_are_refused(core, tmp_path):
    settings = PolicySettings(
        checkpoint=tmp_path,
        tokenizer='unused',
        origin='openpi',
        platform='none',
        cameras=('base_0_rgb',),
        resize='openpi',
        fit='letterbox',
        state_in_prompt=True,
        actions='joint_position',
        prompt_capacity=60,
    )
    with pytest.raises(
        Error, match='holds a groot_n16, and the settings are PolicySettings; GR00T takes Groot'
    ):
        load_policy(settings, core)


def test_a_prefix_is_refused(policy):
    prefix = ActionPrefix(NOISE, 1, 'hard')
    with pytest.raises(
        Error, match='a prefix was given, but the policy was loaded without real_time_chunking'
    ):
        policy.infer(observe(policy), noise=NOISE, prefix=prefix)


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({'state': np.zeros(14)}, r'the state has shape \(14,\), needed \(15,\)'),
        ({'state': np.r_[np.zeros(14), np.nan]}, r'the state is not finite: wheel\[1\] = nan'),
        ({'top': np.zeros((9, 9, 3), np.uint8)}, r"cameras missing: \[\], not known: \['top'\]"),
        ({'front': np.zeros((9, 9), np.uint8)}, r"picture 'front' is uint8 \(9, 9\)"),
        ({'prompt_id': 7}, 'the observation has prompt_id 7, the prompt in use has 1'),
    ],
)
def test_refused_observations(policy, changes, message):
    with pytest.raises(Error, match=message):
        policy.infer(observe(policy, **changes), noise=NOISE)


def test_noise_of_another_shape_is_refused(policy):
    with pytest.raises(Error, match=r'noise has shape \(4, 18\), needed \(10, 18\)'):
        policy.infer(observe(policy), noise=NOISE[:HORIZON])
