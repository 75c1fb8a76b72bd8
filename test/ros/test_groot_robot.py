# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""A robot on a checkpoint of GR00T: what fits, what is refused by name, and what check and show-input say."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import typer
from PIL import Image
from rich.console import Console
from safetensors.numpy import load_file, save_file
from tiny_checkpoint import write_params
from typer.testing import CliRunner

from flashrt_core.cli import calibrate
from flashrt_core.errors import Error
from flashrt_core.policy import FlashPolicy
from flashrt_core.types import ActionChunk, Observation
from flashrt_ros import check, show_input
from flashrt_ros.bag import Bag
from flashrt_ros.bag_inputs import observations
from flashrt_ros.check_inputs import check_joint_names
from flashrt_ros.conversions import JointSample
from flashrt_ros.groot_demo_checkpoint import COLUMNS, EMBODIMENT, VIEWS, write_groot_demo_checkpoint
from flashrt_ros.input_picture import view_corner
from flashrt_ros.inputs import Moment
from flashrt_ros.load import check_fit, load_policy, prepare
from flashrt_ros.observations import ObservationBuffer
from flashrt_ros.parameter_file import read_parameter_file
from flashrt_ros.parameter_table import ParameterFaults
from flashrt_ros.parameters import Parameters, read_parameters
from flashrt_ros.replay_demo import LARGEST_DIFFERENCE, MODELS, find_data, read_pictures
from flashrt_ros.replay_offline import replay_offline
from flashrt_ros.without_weights import policy_without_weights

NODE = '/policy'
DATA = find_data(MODELS['groot'])
SIDE = 252
JOINTS = read_parameter_file(DATA.params, NODE)['joints.names']


@pytest.fixture(scope='module')
def tiny(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp('groot') / 'checkpoint'
    swing = np.sin(np.arange(100)[:, np.newaxis] / 10 + np.arange(14))
    write_groot_demo_checkpoint(folder, 0.4 + 0.3 * swing)
    return folder


@pytest.fixture
def checkpoint(tiny: Path, tmp_path: Path) -> Path:
    """A copy, to be changed."""
    return shutil.copytree(tiny, tmp_path / 'checkpoint')


def groot_values(checkpoint: Path, **changes: object) -> dict[str, object]:
    """Flat parameters of the demo on this checkpoint; changes use '__' for the dots of a name."""
    given = {'model.checkpoint': str(checkpoint), 'model.tokenizer': str(checkpoint)}
    changed = {name.replace('__', '.'): value for name, value in changes.items()}
    return read_parameter_file(DATA.params, NODE) | given | changed


def parameters(checkpoint: Path, **changes: object) -> Parameters:
    return read_parameters(groot_values(checkpoint, **changes), NODE)[0]


def commanding(joints: list[str]) -> dict[str, object]:
    """Parameters that command these joints, each as the demo commands it, through one output."""
    demo = parameters(Path())
    columns = [demo.joint_names.index(joint) for joint in joints]
    limits = {
        f'joints__{name}': [getattr(demo, f'joint_{name}')[column] for column in columns]
        for name in ('lower', 'upper', 'max_velocity')
    }
    output = {'topic': 'all/joint_trajectory', 'joints': joints, 'quantity': 'position'}
    outputs = {f'outputs__all__{name}': value for name, value in output.items()}
    return {'actions__joints': joints, 'outputs__names': ['all'], **limits, **outputs}


def edit(checkpoint: Path, change: Callable[[dict], None]) -> None:
    """Changes the modalities of the embodiment."""
    path = checkpoint / 'processor_config.json'
    document = json.loads(path.read_text())
    change(document['processor_kwargs']['modality_configs'][EMBODIMENT])
    path.write_text(json.dumps(document))


def fit_faults(given: Parameters) -> str:
    with pytest.raises(ParameterFaults) as raised:
        check_fit(policy_without_weights(given), given)
    return '\n'.join(raised.value.faults)


# What fits


def test_the_demo_fits_and_is_prepared(tiny):
    given = parameters(tiny)
    policy = load_policy(given)
    assert prepare(policy, given) == 1
    assert policy.info()['model'] == 'groot_n16'
    assert policy.spec.state_columns == policy.spec.action_columns
    assert len(policy.spec.state_columns) == sum(COLUMNS.values()) == len(given.joint_names)


def test_without_letterbox_the_trial_has_the_shape_of_the_cameras(tiny):
    sizes = {
        f'cameras__{view}__{side}': value for view in VIEWS for side, value in (('height', 48), ('width', 64))
    }
    turned = {'cameras__cam_high__rotation': 90}
    given = parameters(tiny, model__letterbox='off', **sizes, **turned)
    policy = load_policy(given)
    assert policy.spec.picture_sizes == dict.fromkeys(VIEWS, (48, 64))
    prepare(policy, given)


# What is refused


def test_other_cameras_are_named_with_those_of_the_checkpoint(tiny):
    names = [*VIEWS[:2], 'front']
    camera = {'cameras__front__topic': 'front', 'cameras__front__rotation': 90}
    with pytest.raises(Error, match=r"rotation names .'front'.; the views of embodiment 'aloha_sim' are"):
        policy_without_weights(parameters(tiny, cameras__names=names, **camera))
    text = fit_faults(parameters(tiny, cameras__names=names, **(camera | {'cameras__front__rotation': 0})))
    assert f'cameras.names is {names}, the policy wants {list(VIEWS)}' in text


def right_arm_first(robot: dict) -> None:
    for name in ('modality_keys', 'action_configs'):
        entries = robot['action'][name]
        entries[:2], entries[2:] = entries[2:], entries[:2]


def test_joints_in_another_order_than_the_state_have_to_be_named(checkpoint):
    edit(checkpoint, right_arm_first)
    text = fit_faults(parameters(checkpoint))
    assert 'actions of the policy move right_arm[0], right_arm[1]' in text
    assert 'its state is left_arm[0], left_arm[1]' in text
    assert text.endswith('name the joints of the actions in this order in actions.joints')
    given = parameters(checkpoint, actions__joints=[*JOINTS[7:], *JOINTS[:7]])
    check_fit(policy_without_weights(given), given)


@pytest.mark.parametrize('is_right', [True, False], ids=['as named', 'in another order'])
def test_commands_are_compared_with_the_joints_that_they_are_for(checkpoint, tmp_path, is_right):
    """Each chunk says where the robot stands; in another order of joints that is far from where it stands."""
    edit(checkpoint, right_arm_first)
    order = [*range(7, 14), *range(7)]
    named = [JOINTS[column] for column in order]
    values = groot_values(checkpoint, actions__joints=named, safety__first_command='refuse')
    # Limits are in the order of the commanded joints.
    for name in ('lower', 'upper', 'max_velocity'):
        values[f'joints.{name}'] = [values[f'joints.{name}'][column] for column in order]
    params = write_params(tmp_path / 'params.yaml', values)

    def load(given: Parameters) -> FlashPolicy:
        policy = policy_without_weights(given)
        columns = order if is_right else np.roll(order, 1)
        policy.infer = lambda observation, *, prefix=None: _standing(policy, observation, columns)
        policy.warm_up = lambda: None
        return policy

    replay_offline(DATA.bag, params, tmp_path / 'out', Console(quiet=True), load=load)
    saved = load_file(tmp_path / 'out' / 'chunks.safetensors')
    assert saved['actions'].shape[2] == 14
    if not is_right:
        assert not saved['commands'].size
        return
    assert len(saved['commands']) > 100
    # As far from the chunks as the robot goes until the next one.
    near = np.abs(saved['commands'][:, np.newaxis] - saved['actions'][:, 0]).max(axis=2).min(axis=1)
    assert near.max() < 0.1


def test_a_relative_action_that_is_given_to_another_joint_is_refused(checkpoint):
    """Its left arm would be told to go where the right one is."""
    edit(checkpoint, right_arm_first)
    text = fit_faults(
        parameters(
            checkpoint, actions__joints=[*JOINTS[7:9], JOINTS[0], *JOINTS[10:], *JOINTS[1:7], JOINTS[9]]
        )
    )
    assert f"column right_arm[2] is '{JOINTS[9]}' in joints.names and '{JOINTS[0]}' in actions.joints" in text
    assert f"column left_arm[0] is '{JOINTS[0]}' in joints.names and '{JOINTS[1]}'" in text


def test_an_action_is_known_by_the_state_that_it_counts_from(checkpoint):
    """Keys of actions may have names of their own."""

    def rename(robot: dict) -> None:
        robot['action']['modality_keys'][0] = 'left_motion'
        robot['action']['action_configs'][0]['state_key'] = 'left_arm'

    edit(checkpoint, rename)
    path = checkpoint / 'statistics.json'
    statistics = json.loads(path.read_text())
    for kind in ('action', 'relative_action'):
        statistics[EMBODIMENT][kind]['left_motion'] = statistics[EMBODIMENT][kind].pop('left_arm')
    path.write_text(json.dumps(statistics))
    given = parameters(checkpoint)
    check_fit(policy_without_weights(given), given)


def without_right_gripper(robot: dict) -> None:
    del robot['action']['modality_keys'][-1]
    del robot['action']['action_configs'][-1]


def test_joints_that_are_read_and_not_moved(checkpoint):
    edit(checkpoint, without_right_gripper)
    text = fit_faults(parameters(checkpoint))
    assert (
        'joints.names has 14 names, the actions of the policy have 13 columns; actions.joints is to name'
        in text
    )
    given = parameters(checkpoint, **commanding(JOINTS[:-1]))
    policy = load_policy(given)
    assert prepare(policy, given) == 1
    assert (policy.spec.state_dim, policy.spec.action_dim) == (14, 13)
    short = commanding(JOINTS[:-1]) | {'actions__joints': JOINTS[:-2]}
    with pytest.raises(ParameterFaults) as raised:
        parameters(checkpoint, **short)
    assert 'joints.lower has 13 values, actions.joints has 12' in raised.value.faults


def test_joints_that_are_moved_and_not_read(checkpoint):
    """As a base that no statistics of the state know; to command it the node reads it all the same."""
    edit(checkpoint, lambda robot: robot['state']['modality_keys'].pop())
    read = JOINTS[:-1]
    given = parameters(checkpoint, joints__names=read, **commanding(JOINTS))
    policy = load_policy(given)
    assert prepare(policy, given) == 1
    assert (policy.spec.state_dim, policy.spec.action_dim) == (13, 14)
    assert given.known_joints == tuple(JOINTS)
    buffer = ObservationBuffer(given, lambda *_: None)
    now = Moment(10**9, 10**9)
    arrived = dict.fromkeys(read, 0.25)
    for topic in given.joint_topics:
        buffer.add_joints(topic, JointSample(arrived), now.ros_ns, now)
    assert buffer.positions(now) is None  # no gate opens while it is not known where a joint is
    buffer.add_joints(given.joint_topics[0], JointSample({JOINTS[-1]: 0.75}), now.ros_ns, now)
    np.testing.assert_array_equal(buffer.positions(now), [0.25] * 13 + [0.75])


def test_the_past_is_kept_as_the_checkpoint_wants_it(checkpoint):
    edit(checkpoint, looks_back)
    given = parameters(checkpoint)
    policy = load_policy(given)
    assert prepare(policy, given) == 1
    assert policy.spec.cameras == (*(f'{view}@-5' for view in VIEWS), *VIEWS)
    assert (policy.spec.past_states, policy.spec.look_back) == ((10, 2), 10)


def looks_back(robot: dict) -> None:
    robot['video'].update(delta_indices=[-5, 0])
    robot['state'].update(delta_indices=[-10, -2, 0])


def test_a_past_that_is_longer_than_the_patience_of_the_node_is_refused(checkpoint):
    edit(checkpoint, looks_back)
    text = fit_faults(parameters(checkpoint, actions__starvation_limit_s=0.2))
    assert text == (
        'the policy looks back 0.2 s (10 rows), and so long no chunk follows a new prompt; '
        'actions.starvation_limit_s is 0.2, make it longer'
    )


def test_offline_replay_gives_the_policy_what_the_recording_showed_before(checkpoint, tmp_path):
    """Pictures and joint values are those of the recording, as long before the present as the steps say."""
    edit(checkpoint, looks_back)
    # Its cameras have 15 pictures a second.
    values = groot_values(checkpoint, history__tolerance_s=0.04)
    params = write_params(tmp_path / 'params.yaml', values)
    given = read_parameters(values, NODE)[0]
    with Bag(DATA.bag, lambda _: None) as bag:
        shown = [item.observation for item in observations(bag, given, 0)]
    pictures = {slot: {o.stamps_ns[slot]: o.images[slot] for o in shown} for slot in VIEWS}
    seen: list[Observation] = []

    def load(given: Parameters):
        policy = policy_without_weights(given)
        policy.infer = lambda observation, *, prefix=None: watched(policy, observation)
        policy.warm_up = lambda: None
        return policy

    def watched(policy: FlashPolicy, observation: Observation) -> ActionChunk:
        seen.append(observation)
        if len(seen) < 3:  # it takes long to scale so many pictures
            given = policy.model_input(observation, noise=np.zeros(policy.spec.noise_shape, np.float32))
            assert given.model_state.shape == (3, 32)
            assert len(given.images) == 6
        return _standing(policy, observation, range(14))

    replay_offline(DATA.bag, params, tmp_path / 'out', Console(quiet=True), load=load)
    replayed = [o for o in seen if not o.is_trial]
    assert len(replayed) > 50
    first_ns = min(pictures[VIEWS[0]])
    row_ns = round(given.row_period_s * 1e9)
    for observation in replayed:
        for view in VIEWS:
            wanted_ns = observation.stamps_ns[view] - 5 * row_ns
            assert wanted_ns >= first_ns - 2 * row_ns
            near = [stamp for stamp in pictures[view] if abs(stamp - wanted_ns) <= 2 * row_ns]
            past = observation.images[f'{view}@-5']
            assert any(np.array_equal(past, pictures[view][stamp]) for stamp in near)
        assert observation.past_states.shape == (2, 14)
    before = {round(o.stamps_ns[VIEWS[0]] / row_ns): o.state for o in shown}
    gaps = [
        np.abs(o.past_states[0] - before[place - 10]).max()
        for o in replayed
        if (place := round(o.stamps_ns[VIEWS[0]] / row_ns)) - 10 in before
    ]
    moves = [np.abs(o.past_states[0] - o.state).max() for o in replayed]
    assert len(gaps) > 10
    assert np.median(gaps) < 0.3 * np.median(moves)


def _standing(policy: FlashPolicy, observation: Observation, columns: Sequence[int]) -> ActionChunk:
    """A chunk that stays where the robot is; columns: of the state, for those of the actions."""
    actions = np.tile(observation.state[list(columns)], (policy.spec.horizon, 1))
    model = np.zeros(policy.spec.noise_shape, np.float32)
    times = {'preprocess': 0.0, 'engine': 0.0, 'postprocess': 0.0}
    return ActionChunk(actions, model, observation.stamps_ns, observation.prompt_id, 0, times)


def test_poses_are_refused_where_joints_are_commanded(checkpoint):
    edit(checkpoint, lambda robot: robot['action']['action_configs'][1].update(type='EEF'))
    with pytest.raises(Error, match=r"\['left_gripper'\] of embodiment 'aloha_sim' are poses"):
        policy_without_weights(parameters(checkpoint))


def test_another_embodiment_is_refused_with_those_that_there_are(tiny):
    with pytest.raises(Error, match=r"'gr1' is not in .*; available are \['aloha_sim'\]"):
        policy_without_weights(parameters(tiny, model__embodiment_tag='gr1'))


def test_an_embodiment_that_was_never_trained_is_refused_unless_allowed(checkpoint):
    tensors = load_file(checkpoint / 'model.safetensors')
    weight = tensors['action_head.action_encoder.W1.W']
    weight[:] = np.random.default_rng(0).normal(0, 0.02, weight.shape)
    save_file(tensors, checkpoint / 'model.safetensors')
    with pytest.raises(Error, match='looks as if it was never trained'):
        load_policy(parameters(checkpoint))
    load_policy(parameters(checkpoint, model__allow_untrained=True))


# Commands


@pytest.fixture
def lines(tmp_path):
    """Level and text of each line of `flashrt check`."""
    app = typer.Typer()
    app.command()(check.run)

    def run(checkpoint: Path, **changes: object) -> list[tuple[str, str]]:
        params = write_params(tmp_path / 'params.yaml', groot_values(checkpoint, **changes))
        result = CliRunner().invoke(app, ['--params', str(params), '--no-graph'])
        assert isinstance(result.exception, SystemExit | None), result.exception
        found = [(line[:5].strip(), line[5:]) for line in result.output.splitlines()[:-1]]
        assert result.exit_code == int('FAIL' in [level for level, _ in found])
        return found

    return run


def test_check_passes_and_says_which_joint_is_which(lines, tiny):
    found = lines(tiny)
    assert not [text for level, text in found if level in ('FAIL', 'WARN')]
    said = dict(text.split(': ', 1) for level, text in found if level == 'OK')
    assert 'left_arm 6, left_gripper 1' in said['statistics']
    assert 'chunks of 40 rows' in said['statistics']
    assert said['joints'].startswith('left_arm[0] is left_waist, left_arm[1] is left_shoulder')
    assert (said['letterbox'], said['normalisation']) == ('on', 'by min and max')
    assert '262 pieces' in said['tokenizer']
    assert 'of 160 tokens' in said['token budget']
    assert 'a tiny GR00T model ran on it' in said['device']


def test_check_says_which_joint_an_action_moves(lines, checkpoint):
    edit(checkpoint, right_arm_first)
    found = lines(checkpoint, actions__joints=[*JOINTS[7:], *JOINTS[:7]])
    said = dict(text.split(': ', 1) for level, text in found if level == 'OK')
    assert said['joints'].startswith(f'left_arm[0] is {JOINTS[0]}, ')
    assert said['commanded joints'].startswith(f'right_arm[0] moves {JOINTS[7]}, ')


def test_check_misses_a_joint_that_is_commanded_and_not_measured(checkpoint):
    edit(checkpoint, lambda robot: robot['state']['modality_keys'].pop())
    given = parameters(checkpoint, joints__names=JOINTS[:-1], **commanding(JOINTS))
    message = SimpleNamespace(name=JOINTS[:-1], position=[0.1] * 13)
    [finding] = check_joint_names([SimpleNamespace(recent=[message])], given)
    assert finding.level == 'FAIL'
    assert f'no value of {JOINTS[-1]}; names that came' in finding.text


def fewer_joints(checkpoint: Path) -> None:
    edit(checkpoint, lambda robot: robot['state']['modality_keys'].pop())
    edit(checkpoint, lambda robot: robot['action']['modality_keys'].pop())
    edit(checkpoint, lambda robot: robot['action']['action_configs'].pop())


@pytest.mark.parametrize(
    ('damage', 'changes', 'words'),
    [
        (fewer_joints, {}, 'statistics: .*right_arm 6; actions.*the state has 13 columns, joints.names 14'),
        (lambda folder: (folder / 'vocab.json').unlink(), {}, 'tokenizer: .*vocab.json does not exist'),
        (lambda folder: (folder / 'statistics.json').unlink(), {}, 'statistics: .*statistics.json'),
        (lambda folder: (folder / 'model.safetensors').unlink(), {}, 'weights: '),
        (lambda _: None, {'model__embodiment_tag': 'gr1'}, "statistics: .*'gr1' is not in"),
        (lambda _: None, {'model__prompt_capacity': 50}, 'token budget: .*the capacity is 50'),
        (lambda _: None, {'chunk__mode': 'rtc'}, 'parameters: .*chunk.mode is rtc'),
        (lambda _: None, {'model__origin': 'openpi'}, 'parameters: .*model.origin is for Pi models'),
        (lambda _: None, {'cameras__max_image_bytes': 9}, 'parameters: .*max_image_bytes is for Pi models'),
    ],
)
def test_check_names_what_is_wrong(lines, checkpoint, damage, changes, words):
    damage(checkpoint)
    start, *parts = words.split('.*')
    found = [text for level, text in lines(checkpoint, **changes) if level == 'FAIL']
    assert any(text.startswith(start) and all(part in text for part in parts) for text in found), found


@pytest.mark.parametrize('change', [lambda _: None, looks_back])
def test_a_recording_calibrates_it(checkpoint, tmp_path, change):
    edit(checkpoint, change)
    scales = tmp_path / 'scales.json'
    fp8 = {'model__recipe': 'fp8', 'model__calibration': str(scales), 'history__tolerance_s': 0.04}
    params = write_params(tmp_path / 'params.yaml', groot_values(checkpoint, **fp8))
    app = typer.Typer()
    app.command()(calibrate.run)
    arguments = [DATA.bag, '--params', params, '--observations', 2]
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    assert '2 samples (aloha_sim at ' in result.output
    given = parameters(checkpoint, **fp8)
    assert prepare(load_policy(given), given) == 1


def test_show_input_shows_what_the_model_gets(tiny, tmp_path):
    app = typer.Typer()
    app.command()(show_input.run)
    params = write_params(tmp_path / 'params.yaml', groot_values(tiny))
    out = tmp_path / 'input.png'
    given = [DATA.bag, '--params', params, '--out', out, '--at', 7.98]
    result = CliRunner().invoke(app, [str(argument) for argument in given], env={'COLUMNS': '200'})
    assert result.exit_code == 0, result.output
    assert 'hand the red cube to the other arm<image 1><image 2><image 3>' in result.output
    picture = np.asarray(Image.open(out)).astype(int)
    # The last pictures of the recording, as OpenCV and Pillow scale them.
    for index, expected in enumerate(read_pictures(DATA.model_input, VIEWS).values()):
        top, left = view_corner(index, SIDE)
        view = picture[top : top + SIDE, left : left + SIDE]
        assert np.abs(view - expected).max() <= LARGEST_DIFFERENCE
