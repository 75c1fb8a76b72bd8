# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""lerobot checkpoints: settings read from their files, numbers by hand, files that are refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
from fake_core import FakeConfig, FakeCore
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from flashrt_core import ActionPrefix, Error, Observation
from flashrt_core.policy import PolicySettings, load_policy


class Checkpoint:
    """A folder as save_pretrained writes it, for two joints and a gripper; tests change it first."""

    def __init__(self, folder):
        self.folder = folder
        features = {
            'observation.images.top': {'type': 'VISUAL', 'shape': [3, 48, 64]},
            'observation.images.empty_camera_0': {'type': 'VISUAL', 'shape': [3, 56, 56]},
            'observation.images.hand': {'type': 'VISUAL', 'shape': [3, 48, 64]},
            'observation.state': {'type': 'STATE', 'shape': [3]},
        }
        self.config = {
            'type': 'pi05',
            'input_features': features,
            'output_features': {'action': {'type': 'ACTION', 'shape': [3]}},
        }
        norm = {
            'eps': 1e-8,
            'norm_map': {'VISUAL': 'IDENTITY', 'STATE': 'QUANTILES', 'ACTION': 'MEAN_STD'},
        }
        self.relative = {
            'enabled': True,
            'exclude_joints': ['gripper'],
            'action_names': ['j1', 'j2', 'Gripper.pos'],
        }
        self.before = [
            {'registry_name': 'rename_observations_processor', 'config': {'rename_map': {}}},
            {'registry_name': 'to_batch_processor', 'config': {}},
            {'registry_name': 'relative_actions_processor', 'config': self.relative},
            {'registry_name': 'normalizer_processor', 'config': norm, 'state_file': 'before.safetensors'},
            {'registry_name': 'pi05_prepare_state_tokenizer_processor_step', 'config': {}},
            {'registry_name': 'tokenizer_processor', 'config': {}},
            {'registry_name': 'device_processor', 'config': {}},
        ]
        self.after = [
            {'registry_name': 'unnormalizer_processor', 'config': norm, 'state_file': 'after.safetensors'},
            {'registry_name': 'absolute_actions_processor', 'config': {'enabled': True}},
            {'registry_name': 'device_processor', 'config': {}},
        ]
        self.stats = {
            'observation.state.q01': np.float32([-1, -1, 0]),
            'observation.state.q99': np.float32([1, 1, 1]),
            'action.mean': np.float32([0.5, 0, 0]),
            'action.std': np.float32([2, 1, 1]),
        }

    def become_pi0(self):
        """The steps of Pi0, whose prompt does not hold the state, in their order."""
        rename, batch, relative, normalise, _, tokenise, device = self.before
        newline = {'registry_name': 'pi0_new_line_processor', 'config': {}}
        self.before = [rename, batch, newline, tokenise, device, relative, normalise]
        self.config['type'] = 'pi0'

    def write(self):
        files = {
            'config.json': self.config,
            'policy_preprocessor.json': {'name': 'before', 'steps': self.before},
            'policy_postprocessor.json': {'name': 'after', 'steps': self.after},
        }
        for name, document in files.items():
            (self.folder / name).write_text(json.dumps(document))
        for name in ('before', 'after'):
            save_file(self.stats, self.folder / f'{name}.safetensors')
        return self.folder


@pytest.fixture
def checkpoint(tmp_path) -> Checkpoint:
    folder = tmp_path / 'checkpoint'
    folder.mkdir()
    return Checkpoint(folder)


@pytest.fixture
def load(checkpoint, golden):
    """Writes the checkpoint and loads a policy from it."""

    def load_with(core=None, **changes):
        return load_policy(settings_of(checkpoint, golden, **changes), core or FakeCore())

    return load_with


def settings_of(checkpoint, golden, **changes):
    """Writes the checkpoint."""
    settings = {
        'checkpoint': checkpoint.write(),
        'tokenizer': golden / 'pi_tokenizer' / 'tiny_spm.model',
        'origin': 'lerobot',
        'platform': 'none',
        'cameras': ('hand', 'top'),
        'resize': 'lerobot',
        'fit': 'letterbox',
        'state_in_prompt': True,
        'actions': 'joint_position',
        'prompt_capacity': 100,
    }
    return PolicySettings(**(settings | changes))


def observation(policy, state=(0.5, -0.5, 1.0), value=0):
    images = {name: np.full((56, 56, 3), value, np.uint8) for name in policy.spec.cameras}
    return Observation(images, np.array(state), {}, policy.set_prompt('go'))


def set_member(*path_and_value):
    """Changes one member of a Checkpoint: attribute, then keys, then the new value."""
    attribute, *keys, last, value = path_and_value

    def change(checkpoint):
        target = getattr(checkpoint, attribute)
        for key in keys:
            target = target[key]
        target[last] = value

    return change


@pytest.mark.parametrize(
    ('change', 'text'),
    [
        (lambda c: c.before.append(c.before[3]), "step 'normalizer_processor' occurs twice"),
        (
            lambda c: c.before.insert(3, {'registry_name': 'delta_actions_processor'}),
            'both make actions relative',
        ),
        (set_member('relative', 'exclude_joints', 'gripper'), "exclude_joints is 'gripper', needed list"),
        (set_member('relative', 'action_names', 5), 'action_names is 5, needed list'),
        (set_member('relative', 'action_names', [1, 2, 3]), r'action_names is \[1, 2, 3\], needed texts'),
        (set_member('before', 3, 'config', 'eps', 'small'), "eps is 'small', needed int"),
        (set_member('before', 3, 'config', 'eps', 0), 'eps is 0.0, needed a number > 0'),
        (set_member('before', 3, 'config', 'norm_map', 'STATE', ['x']), 'is not known'),
        (set_member('before', 3, 'state_file', 3), 'state_file is 3, needed str'),
        (set_member('before', 0, 'config', 'rename_map', ['x']), 'rename_map is .*, needed dict'),
        (set_member('config', 'input_features', ['x']), 'input_features is .*, needed dict'),
        (
            set_member('config', 'input_features', 'observation.state', 'x'),
            "observation.state is 'x', needed dict",
        ),
        (
            set_member('config', 'input_features', 'observation.state', 'shape', [3.7]),
            'needed one whole number',
        ),
        (
            set_member('config', 'input_features', 'observation.state', 'shape', [3, 2]),
            'needed one whole number',
        ),
        (set_member('config', 'rtc_training_max_delay', 'x'), "rtc_training_max_delay is 'x', needed int"),
    ],
)
def test_members_of_another_type_are_refused_by_name(checkpoint, load, change, text):
    change(checkpoint)
    with pytest.raises(Error, match=text):
        load()


def moved(attribute, old, new):
    """The step at one place of a processor file at another one."""

    def change(checkpoint):
        steps = getattr(checkpoint, attribute)
        steps.insert(new, steps.pop(old))

    return change


@pytest.mark.parametrize(
    ('change', 'text'),
    [
        (moved('before', 3, 0), "step 'rename_observations_processor' comes after 'normalizer_processor'"),
        (moved('before', 2, 3), "step 'relative_actions_processor' comes after 'normalizer_processor'"),
        (moved('before', 4, 3), "step 'normalizer_processor' comes after 'pi05_prepare_state_tokenizer"),
        (moved('after', 1, 0), "step 'unnormalizer_processor' comes after 'absolute_actions_processor'"),
    ],
)
def test_steps_in_another_order_are_refused(checkpoint, load, change, text):
    change(checkpoint)
    with pytest.raises(Error, match=rf'policy_\w+\.json: {text}.*only this order is supported: \w+, \w+, '):
        load()


def test_the_order_of_the_steps_is_that_of_the_model(checkpoint, load):
    checkpoint.become_pi0()
    core = FakeCore(FakeConfig(model_type='pi0', state_dim=32))
    assert load(core, state_in_prompt=False).spec.state_dim == 3
    with pytest.raises(Error, match=r"step 'pi0_new_line_processor' is not known"):
        load()


def test_settings_come_from_the_files(load):
    policy = load()
    assert policy.spec.cameras == ('top', 'hand')
    assert (policy.spec.state_dim, policy.spec.action_dim) == (3, 3)
    assert policy.info()['normalisation'] == 'state: quantile, actions: zscore'
    assert policy.engine.options['times'] == [float(np.float32(1 - k / 10)) for k in range(10)]


def test_numbers_by_hand(load):
    policy = load()
    policy.engine.answer = lambda noise: np.ones_like(noise)
    chunk = policy.infer(observation(policy), noise=np.zeros((10, 32), np.float32))
    # (1 * std + mean) in float32, then the robot's state where the name holds no 'gripper'.
    assert chunk.actions[0].tolist() == [2.5 + 0.5, 1 - 0.5, 1]
    tokens = policy.engine.calls[0]['tokens'].tolist()
    text = 'Task: go, State: 192 64 255;\nAction: '
    assert tokens == policy.prompt.tokenizer.prompt((text,)).tolist()


def test_action_range_by_hand(checkpoint, load):
    checkpoint.stats['action.mean'][2] = 0.25
    found = load().action_range()  # the arm is relative, the gripper a z-score: 0.25 -+ 2 * 1
    np.testing.assert_array_equal(found, [[np.nan, np.nan, -1.75], [np.nan, np.nan, 2.25]])


def test_old_state_text(load):
    policy = load(state_text_width=5)
    policy.infer(observation(policy), seed=0)
    text = 'Task: go, State: 192 64 255 128 128;\nAction: '
    assert policy.engine.calls[0]['tokens'].tolist() == policy.prompt.tokenizer.prompt((text,)).tolist()


def test_without_relative_actions(checkpoint, load):
    checkpoint.relative['enabled'] = checkpoint.after[1]['config']['enabled'] = False
    policy = load()
    policy.engine.answer = lambda noise: np.ones_like(noise)
    assert policy.infer(observation(policy), seed=0).actions[0].tolist() == [2.5, 1, 1]


def test_rename_map_gives_slots_the_robots_names(checkpoint, load):
    checkpoint.before[0]['config']['rename_map'] = {'observation.images.front': 'observation.images.top'}
    policy = load(cameras=('hand', 'front'))
    assert policy.spec.cameras == ('front', 'hand')
    assert [camera.slot for camera in policy.pipeline.cameras] == ['top', 'hand']


def test_pi0_pads_the_state_after_normalisation(checkpoint, load):
    checkpoint.become_pi0()
    policy = load(core=FakeCore(FakeConfig('pi0', state_dim=32)), state_in_prompt=False)
    policy.infer(observation(policy), seed=0)
    assert policy.engine.calls[0]['state'][:5].tolist() == [0.5, -0.5, 1, 0, 0]
    assert policy.engine.calls[0]['tokens'].tolist() == policy.prompt.tokenizer.prompt(('go\n',)).tolist()


@pytest.mark.parametrize(('variant', 'bars'), [('lerobot', -1), ('lerobot_0_4', -3)])
def test_pictures_stay_floats(load, variant, bars):
    """28 pixels enlarged to 56 in floats, never rounded to bytes; the bars of a wide picture by version."""
    policy = load(resize=variant)
    assert policy.engine.options['float_images'] is True
    policy_observation = observation(policy)
    gradient = np.repeat(np.arange(28, dtype=np.uint8)[None, :, None], 28, axis=0).repeat(3, axis=2)
    images = {'top': gradient, 'hand': gradient}
    policy.infer(Observation(images, policy_observation.state, {}, policy_observation.prompt_id), seed=0)
    row = policy.engine.calls[0]['images'][0, 20, :6, 0]
    np.testing.assert_allclose((row + 1) * 127.5, [0, 0.25, 0.75, 1.25, 1.75, 2.25], atol=1e-4)
    wide = {name: image[:14] for name, image in images.items()}
    policy.infer(Observation(wide, policy_observation.state, {}, policy_observation.prompt_id), seed=0)
    assert policy.engine.calls[1]['images'][0, 0, 0].tolist() == [bars] * 3
    shown = policy.model_images(Observation(wide, policy_observation.state, {}, policy_observation.prompt_id))
    assert shown.dtype == np.uint8
    assert shown[0, 0, 0].tolist() == [0, 0, 0]


def test_guidance_from_the_checkpoint(checkpoint, load):
    checkpoint.config['rtc_config'] = {
        'prefix_attention_schedule': 'LINEAR',
        'execution_horizon': 4,
        'max_guidance_weight': 5.0,
    }
    policy = load(real_time_chunking=True)
    assert policy.engine.options['guided'] is True
    seen = observation(policy)
    policy.infer(seen, seed=0, prefix=ActionPrefix(np.ones((6, 3)), delay=2, state=seen.state))
    guidance = policy.engine.calls[0]['guidance']
    np.testing.assert_allclose(guidance.weights, [1, 1, 2 / 3, 1 / 3, 0, 0, 0, 0, 0, 0], rtol=1e-6)
    assert guidance.guidance[0] == 5
    np.testing.assert_allclose(guidance.previous[5], [1, 1, 1] + [0] * 29, atol=1e-6)
    assert (guidance.previous[6:] == 0).all()
    assert guidance.committed_rows == 0


def test_prefix_of_relative_actions_by_hand(checkpoint, load):
    """Row [1, 1, 1] from the state (0.5, -0.5, 1) is [3, 0.5, 1] for the robot, whatever the state is now."""
    checkpoint.config['rtc_training_max_delay'] = 4
    policy = load(real_time_chunking=True)
    prefix = ActionPrefix(np.ones((6, 32), np.float32), 2, 'hard', np.array([0.5, -0.5, 1]))
    policy.infer(observation(policy, state=(1.0, 0.0, 0.0)), seed=0, prefix=prefix)
    # ((3 - 1) - 0.5) / 2 and (0.5 - 0) / 1; the gripper counts from nothing, padding is not held.
    previous = policy.engine.calls[0]['guidance'].previous
    np.testing.assert_allclose(previous[:6], [[0.75, 0.5, 1] + [0] * 29] * 6, atol=1e-6)
    missing, narrow = replace(prefix, state=None), replace(prefix, model_actions=np.ones((6, 2)))
    for text, faulty in (('no state', missing), ('2 columns', narrow)):
        with pytest.raises(Error, match=rf'the prefix has .*{text}.*needs all 3 columns and the state'):
            policy.infer(observation(policy), seed=0, prefix=faulty)
    with pytest.raises(Error, match='the state is not finite'):
        policy.infer(observation(policy), seed=0, prefix=replace(prefix, state=np.full(3, np.nan)))


@given(*[st.tuples(*[st.floats(-1, 1)] * 3)] * 2, st.integers(0, 99))
def test_prefix_of_relative_actions_is_the_same_motion(relative_policy, old, new, seed):
    """What the robot does by the prefix is what it would have done, whatever the new state is."""
    policy = relative_policy
    model_actions = np.random.default_rng(seed).normal(size=(6, 32)).astype(np.float32)
    policy.infer(
        observation(policy, new), seed=0, prefix=ActionPrefix(model_actions, 2, 'hard', np.array(old))
    )
    held = policy.engine.calls[-1]['guidance'].previous[:6]
    before, after = (policy.pipeline.state_forms(np.array(state)) for state in (old, new))
    np.testing.assert_allclose(
        policy.pipeline.robot_actions(held, after),
        policy.pipeline.robot_actions(model_actions, before),
        rtol=0,
        atol=2e-6,
    )


@pytest.fixture(scope='module')
def relative_policy(tmp_path_factory, golden):
    checkpoint = Checkpoint(tmp_path_factory.mktemp('relative'))
    checkpoint.config['rtc_training_max_delay'] = 4
    return load_policy(settings_of(checkpoint, golden, real_time_chunking=True), FakeCore())


def test_hard_prefix_only_as_far_as_it_was_trained(checkpoint, load):
    checkpoint.config['rtc_training_max_delay'] = 4
    policy = load(real_time_chunking=True)
    assert policy.spec.max_hard_delay == 4
    seen = observation(policy)
    policy.infer(seen, seed=0, prefix=ActionPrefix(np.ones((6, 32)), 4, 'hard', seen.state))
    guidance = policy.engine.calls[0]['guidance']
    assert guidance.committed_rows == 4
    assert not guidance.weights.any()
    assert not guidance.guidance.any()
    for rows, delay in ((6, 5), (3, 4)):
        with pytest.raises(Error, match=f'delay {delay}; the checkpoint was trained for 4'):
            policy.infer(seen, seed=0, prefix=ActionPrefix(np.ones((rows, 32)), delay, 'hard', seen.state))


def change(document, value, *keys):
    """A test's way to say: in this document, put that value there."""

    def apply(checkpoint):
        target = getattr(checkpoint, document)
        for key in keys[:-1]:
            target = target[key]
        target[keys[-1]] = value

    return apply


@pytest.mark.parametrize(
    ('apply', 'reason'),
    [
        (change('before', 'my_own_processor', 1, 'registry_name'), "step 'my_own_processor' is not known"),
        (change('after', False, 1, 'config', 'enabled'), 'makes actions relative.*does not undo'),
        (change('before', 'absent.safetensors', 3, 'state_file'), 'no file beside it'),
        (change('before', None, 3, 'state_file'), 'needs statistics of observation.state'),
        (change('before', {'STATE': 'MAGIC'}, 3, 'config', 'norm_map'), "normalisation 'MAGIC'"),
        (
            change('before', {'VISUAL': 'MEAN_STD', 'STATE': 'IDENTITY'}, 3, 'config', 'norm_map'),
            'pictures are normalised',
        ),
        (change('stats', np.float32([1, 1, -5]), 'observation.state.q99'), r'swapped.*state\[2\]'),
        (change('config', True, 'use_visual_memory'), 'use_visual_memory'),
        (change('config', {'execution_horizon': 3}, 'rtc_config'), 'rtc_config is not complete'),
        (change('config', {}, 'output_features'), "'action_dim' is needed"),
    ],
)
def test_refused_files(checkpoint, load, apply, reason):
    apply(checkpoint)
    with pytest.raises(Error, match=reason):
        load()


@pytest.mark.parametrize(
    ('changes', 'reason'),
    [
        ({'platform': 'droid'}, "platform is 'droid'"),
        ({'delta_mask': (2, -1)}, "'delta_mask' is an openpi setting"),
        ({'asset_id': 'x'}, "'asset_id'"),
        ({'state_in_prompt': False}, 'always has it'),
        ({'cameras': ('empty_camera_0',)}, r"no slot of this checkpoint; it has \['top', 'hand'\]"),
        ({'state_dim': 4}, r'state_dim is 4, .*config\.json says 3'),
        ({'normalisation': 'zscore'}, "'zscore'.*says 'quantile'"),
    ],
)
def test_refused_settings(load, changes, reason):
    with pytest.raises(Error, match=reason):
        load(**changes)


def test_state_files_lie_beside_the_processor(checkpoint, load):
    load()
    (checkpoint.folder / 'before.safetensors').rename(checkpoint.folder.parent / 'outside.safetensors')
    checkpoint.before[3]['state_file'] = '../outside.safetensors'
    with pytest.raises(Error, match=r"'\.\./outside\.safetensors' is no file beside it"):
        load()


def test_missing_quantiles_are_not_replaced(checkpoint, load):
    del checkpoint.stats['observation.state.q01']
    checkpoint.stats['observation.state.mean'] = np.zeros(3, np.float32)
    with pytest.raises(Error, match="'q01' is missing"):
        load()


def test_missing_statistics_need_a_word_from_the_user(checkpoint, load):
    checkpoint.stats = {'other': np.zeros(1, np.float32)}
    with pytest.raises(Error, match="normalisation 'identity'"):
        load()
    policy = load(normalisation='identity')
    assert policy.info()['normalisation'] == 'state: identity, actions: identity'


def test_missing_files_are_named(checkpoint, load, tmp_path):
    elsewhere = tmp_path / 'elsewhere'
    elsewhere.mkdir()
    with pytest.raises(Error, match=r'elsewhere.policy_preprocessor\.json does not exist'):
        load(statistics=elsewhere)
