# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The table of parameters: all faults at once, YAML's traps, files without ROS (R-30 to R-33)."""

import pickle
import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest
from fake_policy import ARM, CASES, GROOT_MODEL, NODE, VELOCITY, groot_values, parameters, values
from rclpy.validate_topic_name import validate_topic_name

from flashrt_core.groot.settings import GrootSettings
from flashrt_ros.load import policy_settings
from flashrt_ros.parameter_file import read_parameter_file
from flashrt_ros.parameter_table import REQUIRED, Key, ParameterFaults, keys_of
from flashrt_ros.parameters import (
    FAMILIES,
    CameraParameters,
    OutputParameters,
    Parameters,
    load_parameters_file,
    parameters_table,
    read_parameters,
    static_keys,
)

ROOT = Path(__file__).resolve().parents[2]


def faults(flat: dict[str, object]) -> str:
    with pytest.raises(ParameterFaults) as raised:
        read_parameters(flat, NODE)
    return '\n'.join(raised.value.faults)


def case(name: str, node: str = NODE) -> Parameters:
    return load_parameters_file(CASES / 'params' / name, node)[0]


def case_faults(name: str, node: str = NODE) -> str:
    with pytest.raises(ParameterFaults) as raised:
        case(name, node)
    return str(raised.value)


# Cases


def test_good_file():
    good, warnings = load_parameters_file(CASES / 'params' / 'ok.yaml', NODE)
    assert warnings == []
    assert good.camera_names == ('base', 'wrist')
    assert good.cameras[1].topic == 'cam_wrist/image_raw'
    assert good.joint_upper[6] == 0.08
    assert good.control_rate_hz == 20.0
    assert good.dry_run
    with pytest.raises(FrozenInstanceError):
        good.dry_run = False


def test_whole_numbers_are_accepted_where_numbers_are_wanted():
    rate = case('integer_for_float.yaml').control_rate_hz
    assert (rate, type(rate)) == (20.0, float)
    assert case('integers_in_limits.yaml').joint_lower == (-2.0,) * 6 + (0.0,)


def test_mixed_list_is_refused_with_line_and_key():
    text = case_faults('mixed_limits.yaml')
    assert re.search(r"mixed_limits.yaml.*\n.*line \d+: 'upper' mixes whole numbers and decimals", text)


@pytest.mark.parametrize(
    ('name', 'shown'),
    [
        ('prompt_off.yaml', "prompt: 'off'"),
        ('prompt_yes.yaml', "prompt: 'on'"),
        ('prompt_number.yaml', "prompt: '42'"),
        ('prompt_missing_value.yaml', "prompt: 'text'"),
        ('prompt_blank.yaml', 'prompt is blank'),
    ],
)
def test_word_that_yaml_turns_into_something_else(name: str, shown: str):
    assert shown in case_faults(name)


@pytest.mark.parametrize(
    ('name', 'node'), [('wrong_node_name.yaml', NODE), ('wrong_namespace.yaml', '/robot_a/policy')]
)
def test_file_for_another_node_lists_what_is_missing_and_where_it_was_looked_for(name: str, node: str):
    text = case_faults(name, node)
    assert f'parameters of {node}' in text
    assert f'is the parameter file written for a node {node}?' in text
    for key in ('model.checkpoint', 'cameras.names', 'joints.names', 'joints.lower', 'prompt'):
        assert f'{key} is missing' in text


def test_file_of_a_namespace_applies_there():
    assert case('wrong_namespace.yaml', '/robot_b/policy').prompt == 'pick up the red block'


def test_faults_come_from_one_process_to_another_as_they_are():
    """As a pool of processes hands on what its workers raise."""
    raised = ParameterFaults('parameters of /policy', ['one', 'two'])
    received = pickle.loads(pickle.dumps(raised))
    assert type(received) is ParameterFaults
    assert (str(received), received.faults) == (str(raised), ('one', 'two'))


def test_misspelled_key_is_named_with_the_nearest():
    text = case_faults('misspelled_key.yaml')
    assert 'control_rate_hz is missing' in text
    assert 'control_rate_hertz is not a parameter of this node (nearest: control_rate_hz)' in text
    _, warnings = read_parameters(values(camera__max_age_s=1.0), NODE)
    assert warnings == ['camera.max_age_s is not a parameter of this node (nearest: cameras.max_age_s)']


def test_values_that_contradict_each_other():
    assert 'control_rate_hz is 0.0, allowed: 0.1 to 1000.0' in case_faults('rate_zero.yaml')
    assert 'joints.upper has 6 values, joints.names has 7' in case_faults('limits_one_short.yaml')
    text = case_faults('limits_swapped.yaml')
    for joint in ('joint_1', 'gripper'):
        assert re.search(rf'joints.lower is .* for {joint}: lower must be below upper', text)


def test_an_engine_resizes_pictures_up_to_a_limit():
    assert read_parameters(values(cameras__max_image_bytes=921600), NODE)[0].camera_max_image_bytes == 921600
    text = faults(values(cameras__max_image_bytes=1, cameras__max_side_px=5000))
    assert 'cameras.max_side_px is 5000' in text
    assert '4096 pixels' in text
    assert read_parameters(values(cameras__max_side_px=5000), NODE)[0].camera_max_side_px == 5000


def test_tab_is_named_with_file_and_line():
    text = case_faults('tab_indent.yaml')
    assert 'tab_indent.yaml' in text
    lines = (CASES / 'params' / 'tab_indent.yaml').read_text().splitlines()
    assert f'line {next(i for i, line in enumerate(lines, 1) if chr(9) in line)}: ' in text
    assert 'indent with spaces' in text


@pytest.mark.parametrize(
    ('changes', 'text'),
    [
        (
            {'cameras__wrist__topic': 'cam_base/image_raw'},
            "cameras.base.topic and cameras.wrist.topic are the same topic '/cam_base/image_raw'",
        ),
        (
            VELOCITY | {'outputs__hand__topic': values()['outputs.arm.topic']},
            'outputs.arm.topic and outputs.hand.topic are the same topic',
        ),
        (
            {'joints__topics': ['joint_states', '/joint_states']},
            "joints.topics[0] and joints.topics[1] are the same topic '/joint_states'",
        ),
        (
            {'outputs__arm__topic': '/joint_states'},
            "joints.topics[0] and outputs.arm.topic are the same topic '/joint_states'",
        ),
    ],
)
def test_topic_that_was_copied_is_refused(changes: dict, text: str):
    assert text in faults(values(**changes))


def test_names_are_compared_as_the_node_resolves_them():
    flat = values(joints__topics=['joint_states', '/joint_states'])
    assert len(read_parameters(flat, '/robot_a/policy')[0].joint_topics) == 2
    flat = values(joints__topics=['states', '/robot_a/states', '~/states', '/robot_a/policy/states'])
    with pytest.raises(ParameterFaults) as raised:
        read_parameters(flat, '/robot_a/policy')
    assert raised.value.faults == (
        "joints.topics[0] and joints.topics[1] are the same topic '/robot_a/states'",
        "joints.topics[2] and joints.topics[3] are the same topic '/robot_a/policy/states'",
    )


@pytest.mark.parametrize(
    'topic', ['not a topic', '', '/', 'a//b', 'a/', '1a', 'a/2b', '~a', 'a/~/b', 'a-b', '{node}']
)
@pytest.mark.parametrize('name', ['joints.topics', 'cameras.wrist.topic', 'outputs.arm.topic'])
def test_what_is_no_topic_name_is_refused(name: str, topic: str):
    flat = values()
    flat[name] = [topic] if name == 'joints.topics' else topic
    assert name in faults(flat)


def test_what_is_a_topic_name_by_the_rule_of_ros_is_accepted():
    for topic in ('a', '/a', '~/a', 'a/b_2', '/_a/B', '__a'):
        assert parameters(cameras__wrist__topic=topic).cameras[1].topic == topic
        validate_topic_name(topic)


@pytest.mark.parametrize(
    ('slot', 'text'),
    [
        ('joint_states', "'joint_states' is in cameras.names and in joints.topics"),
        ('play', "cameras.names: 'play' cannot be the name of a stream"),
        ('policy', "cameras.names: 'policy' cannot be the name of a stream"),
        ('out_of_range', "cameras.names: 'out_of_range' cannot be"),
    ],
)
def test_slot_that_the_status_could_not_tell_apart_is_refused(slot: str, text: str):
    flat = values(cameras__names=['base', slot])
    flat |= {f'cameras.{slot}.{key}': flat[f'cameras.wrist.{key}'] for key in ('topic', 'rotation')}
    assert text in faults(flat)


def test_backslash_in_a_slot_is_no_pattern():
    assert r'cameras.a\1b\g.topic is missing' in faults(values(cameras__names=['base', r'a\1b\g']))


@pytest.mark.parametrize('text', ['? [a, b]\n: 1\n', '{x: 2020-13-45}', '[' * 5000])
def test_what_yaml_stumbles_over_is_refused_with_the_file(tmp_path, text: str):
    (tmp_path / 'odd.yaml').write_text(text)
    with pytest.raises(ParameterFaults, match=r'odd\.yaml.*\n.*is not YAML'):
        read_parameter_file(tmp_path / 'odd.yaml', NODE)


# Rules


def test_all_faults_are_listed_at_once():
    text = faults(
        values(prompt=False, control_rate_hz='fast', model__fit='zoom', joints__upper=[1.0], model__seed=-1)
    )
    for expected in (
        'prompt is a boolean',
        "control_rate_hz is 'fast'",
        "model.fit is 'zoom'",
        'joints.upper has 1',
        'model.seed is -1',
    ):
        assert expected in text


ALL_KEYS = [row for table in (Parameters, CameraParameters, OutputParameters) for _, row, _ in keys_of(table)]


@pytest.mark.parametrize('robot', [values, groot_values])
@pytest.mark.parametrize(
    'row', [row for row in ALL_KEYS if row.default is REQUIRED], ids=lambda row: row.name
)
def test_each_required_key_is_named_when_it_is_missing(row: Key, robot: Callable[[], dict]):
    name = row.name.replace('<slot>', 'wrist').replace('<output>', 'arm')
    flat = robot()
    if row.family and row.family != FAMILIES[flat['model.config']]:
        assert name not in flat
        return
    del flat[name]
    assert f'{name} is missing' in faults(flat)


# A value that is not the default of each key of one family.
OF_PI = {
    'model.statistics': 's.json', 'model.asset_id': 'a', 'model.origin': 'openpi', 'model.platform': 'aloha',
    'model.adapt_to_pi': True, 'model.resize': 'openpi', 'model.fit': 'stretch', 'model.horizon': 10,
    'model.normalisation': 'quantile', 'model.state_in_prompt': False, 'model.state_text_width': 32,
    'model.allow_degenerate_statistics': True, 'model.min_statistics_width': 0.01, 'chunk.rtc': 'hard',
    'cameras.max_image_bytes': 921600, 'actions.delta_mask': [7], 'chunk.rtc_schedule': 'linear',
    'chunk.rtc_execution_horizon': 5, 'chunk.rtc_max_weight': 2.0,
}  # fmt: skip
OF_GROOT = {
    'model.embodiment_tag': 'robot', 'model.letterbox': 'on', 'model.allow_untrained': True,
    'cameras.wrist.height': 480, 'cameras.wrist.width': 640, 'actions.joints': ['a'],
    'history.tolerance_s': 0.1,
}  # fmt: skip


def test_keys_that_do_nothing_for_the_model_are_refused_by_name():
    given = {name.replace('wrist', '<slot>') for name in (*OF_PI, *OF_GROOT)}
    assert given == {row.name for row in ALL_KEYS if row.family}
    for robot, foreign, family in ((groot_values, OF_PI, 'Pi'), (values, OF_GROOT, 'GR00T')):
        text = faults(robot() | foreign)
        for name in foreign:
            assert f'{name} is for {family} models and does nothing' in text


def test_defaults_of_keys_that_do_nothing_are_no_fault():
    """A node declares every key, whatever the model."""
    for robot in (groot_values, values):
        flat = robot()
        declared = {row.name: row.default for row in static_keys() if row.default not in (REQUIRED, None)}
        assert read_parameters(declared | flat, NODE) == read_parameters(flat, NODE)


def test_model_that_is_not_known_misses_no_key_of_one_family():
    text = faults(values(model__config='groot_n17') | {'model.fit': 'zoom'})
    assert "model.config is 'groot_n17', allowed: pi05, pi0, groot_n16" in text
    assert "model.fit is 'zoom'" in text
    assert 'is missing' not in text


@pytest.mark.parametrize(
    ('changes', 'text'),
    [
        ({'chunk__mode': 'rtc'}, 'chunk.mode is rtc, but groot_n16 was not trained to continue a chunk'),
        ({'model__letterbox': False}, "model.letterbox is a boolean: YAML reads the bare words off"),
        ({'model__letterbox': 'off'}, 'cameras.base.height is missing: it is needed with'),
        ({'cameras__wrist__width': 640}, 'cameras.wrist.width is 640, which means nothing with'),
        ({'actions__joints': [*ARM, 'lift', 'lift']}, "actions.joints names 'lift' 2 times"),
        ({'actions__joints': [*ARM, 'lift']}, "outputs name 'gripper', which is not in actions.joints"),
        ({'actions__joints': [*ARM, 'lift']}, "no output names 'lift'"),
        ({'actions__joints': ARM}, 'joints.upper has 7 values, actions.joints has 6'),
        ({'actions__joints': ARM, 'safety__max_first_gap': [0.1] * 7}, 'safety.max_first_gap has 7 values'),
        ({'actions__joints': ARM, 'grippers__names': ['hand']},
         "grippers.names: 'hand' is not in joints.names or actions.joints"),
        ({'grippers__names': ['hand']}, "grippers.names: 'hand' is not in joints.names"),
    ],
)  # fmt: skip
def test_rule_of_groot(changes: dict[str, object], text: str):
    assert text in faults(groot_values(**changes))


@pytest.mark.parametrize(
    ('changes', 'text'),
    [
        ({'model__statistics': ''}, 'model.statistics or model.asset_id is missing'),
        ({'model__asset_id': 'x'}, 'give one'),
        ({'model__platform': 'aloha'}, 'model.adapt_to_pi is missing'),
        ({'model__normalisation': ''}, 'model.normalisation is missing'),
        ({'model__recipe': 'fp8'}, 'model.calibration is missing: recipe fp8 needs'),
        ({'model__recipe': 'fp8_f16'}, '`flashrt calibrate RECORDING --params THIS_FILE` is to write'),
        ({'model__backend': 'gpu'}, "model.backend is 'gpu', allowed: cpu, cuda"),
        ({'model__device': -1}, 'model.device is -1, allowed: 0 to 63'),
        ({'actions__delta_mask': [6, -2]}, 'covers 8 columns, joints.names has 7'),
        ({'cameras__names': ['base', 'base']}, "cameras.names names 'base' 2 times"),
        ({'cameras__names': []}, 'cameras.names is empty'),
        ({'joints__names': 'joint_1'}, 'wanted a list'),
        ({'grippers__names': ['hand']}, "'hand' is not in joints.names"),
        ({'grippers__closed': [0.08]}, 'both 0.08 for gripper'),
        ({'grippers__model_one': []}, 'grippers.model_one has 0 values, grippers.names has 1'),
        ({'grippers__model_one': ['shut']}, "grippers.model_one[0] is 'shut', allowed: open, closed"),
        ({'joints__topics': []}, 'joints.topics is empty'),
        (
            {'outputs__names': ['arm', 'hand'], 'outputs__hand__topic': 'hand', 'outputs__hand__joints': [],
             'outputs__hand__quantity': 'position'},
            'outputs.hand.joints is empty',
        ),
        ({'outputs__arm__joints': ['joint_1']}, "no output names 'gripper'"),
        ({'outputs__arm__joints': [*ARM, 'gripper', 'gripper']}, "'gripper' 2 times"),
        ({'outputs__arm__quantity': 'velocity'}, "the actions of 'joint_1' are position values"),
        ({'actions__representation': 'joint_velocity'}, "the actions of 'joint_1' are velocity values"),
        ({'cameras__wrist__rotation': 45}, 'allowed: 0, 90, 180, 270'),
        ({'joints__lower': [float('nan')] * 7}, 'wanted a finite number'),
        ({'joints__max_velocity': []}, 'joints.max_velocity is missing: one value per joint'),
        ({'joints__max_velocity': [1.5]}, 'joints.max_velocity has 1 values, joints.names has 7'),
        ({'joints__max_velocity': [0.0] * 7}, 'joints.max_velocity[0] is 0.0, allowed'),
        ({'joints__limits': 'robot_description'}, 'joints.upper and joints.limits'),
        ({'safety__max_first_gap': [0.1, 0.1]}, 'safety.max_first_gap has 2 values, wanted 1 for all'),
        ({'safety__reaction': 'zero_velocity'}, 'but positions are commanded'),
        ({**VELOCITY, 'safety__reaction': 'hold'}, 'a velocity that is held moves the arm on'),
        ({'chunk__rtc_schedule': 'linear'}, 'belong together'),
        ({'estop__topic': 'joint_states', 'joints__topics': ['joint_states']}, 'are the same topic'),
    ],
)  # fmt: skip
def test_rule(changes: dict[str, object], text: str):
    assert text in faults(values(**changes))


def test_velocity_arm_with_position_gripper():
    arm, hand = parameters(**VELOCITY).outputs
    assert (arm.type, hand.type) == ('joint_trajectory', 'float64_multi_array')


def test_output_type_is_the_default_of_every_output():
    assert parameters(output__type='joint_state').outputs[0].type == 'joint_state'


def test_robot_without_gripper():
    assert (
        parameters(
            grippers__names=None, grippers__model_one=[], grippers__open=[], grippers__closed=[]
        ).grippers
        == ()
    )


# Files


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / 'robot.yaml'
    path.write_text(text)
    return path


def test_patterns_of_node_names(tmp_path):
    text = ''.join(
        f'{pattern}:\n  ros__parameters: {{k{i}: {i}}}\n'
        for i, pattern in enumerate(
            ['/**', '/policy', 'policy', '/*/policy', '/**/policy', '/a/b/policy', '/other']
        )
    )
    path = write(tmp_path, text)
    assert read_parameter_file(path, '/policy') == {'k0': 0, 'k1': 1, 'k2': 2, 'k4': 4}
    assert read_parameter_file(path, '/a/policy') == {'k0': 0, 'k3': 3, 'k4': 4}
    assert read_parameter_file(path, '/a/b/policy') == {'k0': 0, 'k4': 4, 'k5': 5}


@pytest.mark.parametrize(
    ('text', 'fault'),
    [
        ('/**:\n  ros__parameters:\n    a: 1\n    a: 2\n', "line 4: key 'a' was already given in line 3"),
        (
            '/**:\n  ros__parameters:\n    a: !!python/object/apply:os.getcwd []\n',
            'could not determine a constructor',
        ),
        ('a: 1\n', 'section'),
        ('- a\n', 'section'),
        ('/**:\n  ros__parameters:\n    a: [1, x]\n', "'a' mixes int and str"),
        ('a: [1\n', 'line 2'),
    ],
)
def test_file_fault(tmp_path, text: str, fault: str):
    with pytest.raises(ParameterFaults, match=re.escape(fault)):
        read_parameter_file(write(tmp_path, text), NODE)


def test_file_that_does_not_exist(tmp_path):
    with pytest.raises(ParameterFaults, match=r'nowhere.yaml: 1 fault.*\n.*cannot be read'):
        load_parameters_file(tmp_path / 'nowhere.yaml')


@pytest.mark.parametrize('path', sorted((ROOT / 'config').glob('*.yaml')), ids=lambda path: path.stem)
def test_shipped_examples_have_no_fault(path: Path):
    _, warnings = load_parameters_file(path)
    assert warnings == []


def test_example_of_thor_runs_fp8_on_the_gpu_and_needs_a_calibration():
    flat = read_parameter_file(ROOT / 'config' / 'pi05_thor.yaml', NODE)
    settings = policy_settings(read_parameters(flat, NODE)[0])
    assert (settings.backend, settings.device, settings.recipe) == ('cuda', 0, 'fp8_mixed')
    assert str(settings.calibration).endswith('.json')
    assert str(settings.tuning).endswith('.json')
    assert settings.max_image_bytes == 640 * 480 * 3
    del flat['model.calibration']
    assert 'model.calibration is missing' in faults(flat)


def test_groot_example_of_thor_differs_from_that_of_pi_in_the_model_alone():
    robots = []
    for name in ('pi05_thor.yaml', 'groot_thor.yaml'):
        flat = read_parameter_file(ROOT / 'config' / name, NODE)
        settings = policy_settings(read_parameters(flat, NODE)[0])
        assert (settings.backend, settings.calibration) != ('cpu', None)
        robots.append({key: value for key, value in flat.items() if not key.startswith('model.')})
    pi, groot = robots
    assert isinstance(settings, GrootSettings)
    assert pi.keys() - groot.keys() == {'cameras.max_image_bytes', 'actions.delta_mask'}
    assert {key for key in groot if groot[key] != pi[key]} == {'grippers.model_one'}


def test_what_concerns_the_backend_reaches_the_policy():
    settings = policy_settings(
        parameters(
            model__backend='cuda', model__device=2, model__recipe='fp8', model__calibration='c.json',
            model__packed='p.safetensors', model__tuning='t.json', model__threads=3,
        )
    )  # fmt: skip
    assert (settings.backend, settings.device, settings.recipe) == ('cuda', 2, 'fp8')
    assert (settings.calibration, settings.packed) == ('c.json', 'p.safetensors')
    assert (settings.tuning, settings.threads) == ('t.json', 3)
    usual = policy_settings(parameters())
    assert (usual.backend, usual.recipe, usual.device, usual.threads) == ('cpu', 'f32', 0, 0)
    assert usual.calibration is usual.packed is usual.tuning is None


def test_groot_gets_settings_of_its_own():
    given = groot_values(
        model__letterbox='off', model__allow_untrained=True, model__denoise_steps=8, model__state_limit=2.0,
        cameras__base__height=480, cameras__base__width=640, cameras__base__rotation=90,
        cameras__wrist__height=240, cameras__wrist__width=320,
    )  # fmt: skip
    settings = policy_settings(read_parameters(given, NODE)[0])
    assert isinstance(settings, GrootSettings)
    assert (settings.embodiment_tag, settings.letterbox, settings.allow_untrained) == ('bench', 'off', True)
    assert settings.picture_sizes == {'base': (480, 640), 'wrist': (240, 320)}
    assert (settings.rotation, settings.state_names) == ({'base': 90}, (*ARM, 'gripper'))
    assert (settings.prompt_capacity, settings.steps, settings.state_limit) == (64, 8, 2.0)
    assert (settings.checkpoint, settings.tokenizer) == tuple(
        GROOT_MODEL[name] for name in ('model.checkpoint', 'model.tokenizer')
    )
    usual = policy_settings(read_parameters(groot_values(), NODE)[0])
    assert (usual.letterbox, usual.picture_sizes, usual.allow_untrained) == ('auto', {}, False)


def test_limits_of_the_training_data_reach_the_policy():
    """R-47 and R-48."""
    usual = policy_settings(parameters())
    assert (usual.min_statistics_width, usual.state_limit) == (1e-3, None)
    settings = policy_settings(parameters(model__min_statistics_width=0.01, model__state_limit=1.5))
    assert (settings.min_statistics_width, settings.state_limit) == (0.01, 1.5)


# Documentation


def test_documented_table_is_the_table_of_the_code():
    text = (ROOT / 'docs' / 'parameters.md').read_text()
    assert parameters_table() in text, (
        'write the output of python -m flashrt_ros.parameters into docs/parameters.md'
    )


def test_every_field_is_in_the_table():
    for table, by_hand in ((Parameters, {'cameras', 'outputs', 'grippers'}), (CameraParameters, {'slot'}),
                           (OutputParameters, {'name'})):  # fmt: skip
        documented = {name for name, _, _ in keys_of(table)}
        assert {field.name for field in fields(table)} - documented == by_hand
