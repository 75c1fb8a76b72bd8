# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Parameters of any type, spelling and length: used as written, or refused by name (R-30 to R-33)."""

import math
import re
from functools import cache
from pathlib import Path

import pytest
import yaml
from fake_policy import CASES, NODE, values
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from flashrt_ros.parameter_file import read_parameter_file
from flashrt_ros.parameter_table import REQUIRED, Key, ParameterFaults, keys_of
from flashrt_ros.parameters import (
    PI,
    CameraParameters,
    OutputParameters,
    Parameters,
    load_parameters_file,
    read_parameters,
)

many = settings(max_examples=300, deadline=None, derandomize=True)
few = settings(
    max_examples=80, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip


def all_keys() -> dict[str, tuple[Key, object]]:
    """Name in the parameters of the reference robot -> its row and type."""
    return {
        row.name.replace('<slot>', 'wrist').replace('<output>', 'arm'): (row, kind)
        for table in (Parameters, CameraParameters, OutputParameters)
        for _, row, kind in keys_of(table)
    }


KEYS = all_keys()
good = cache(values)


def faults_of(flat: dict[str, object]) -> tuple[str, ...]:
    """Of a configuration; nothing but ParameterFaults may be raised."""
    try:
        read_parameters(flat, NODE)
    except ParameterFaults as error:
        return error.faults
    return ()


# Values


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=9)
    | st.binary(max_size=4) | st.dates()
)  # fmt: skip
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=8)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
        | st.frozensets(SCALARS.filter(lambda value: value == value), max_size=3)
    ),
    max_leaves=8,
)


@many
@given(st.sampled_from(sorted(KEYS)), ANYTHING)
def test_any_value_is_used_or_refused_by_name(name, value):
    found = faults_of(good() | {name: value})
    assert not found or any(name.rsplit('.', 1)[0] in fault for fault in found), found


# The robot of `good` has a Pi model.
NUMBERS = sorted(name for name, (row, kind) in KEYS.items() if kind is float and row.family in ('', PI))


@many
@given(st.sampled_from(NUMBERS), st.integers(-2000, 2000) | st.floats() | st.just(10**400))
def test_numbers_are_inside_their_range_or_refused_with_it(name, value):
    row, _ = KEYS[name]
    found = [fault for fault in faults_of(good() | {name: value}) if fault.startswith(f'{name} is ')]
    is_inside = (
        math.isfinite(min(value, 1e308))
        and (row.low is None or value >= row.low)
        and (row.high is None or value <= row.high)
    )
    assert bool(found) == (not is_inside), found


@many
@given(st.sampled_from(NUMBERS), st.integers(-1000, 1000))
def test_whole_numbers_are_numbers(name, value):
    """As 20 and 20.0: the same faults, or the same configuration."""
    whole, point = good() | {name: value}, good() | {name: float(value)}
    assert [f.replace('.0', '') for f in faults_of(whole)] == [f.replace('.0', '') for f in faults_of(point)]
    if not faults_of(whole):
        assert read_parameters(whole, NODE)[0] == read_parameters(point, NODE)[0]


# All faults at once


WRONG = st.sampled_from([{'a': 1}, b'bytes', {1, 2}])  # no parameter has such a value


@many
@given(st.dictionaries(st.sampled_from(sorted(KEYS)), WRONG, min_size=1, max_size=12))
def test_all_wrong_values_are_named_at_once(wrong):
    # The lists of names decide which other keys there are.
    assume(not wrong.keys() & {'cameras.names', 'outputs.names', 'grippers.names'})
    found = faults_of(good() | wrong)
    for name in wrong:
        assert any(fault.startswith(name) for fault in found), (name, found)


# Of the reference robot, which runs a Pi model.
REQUIRED_KEYS = sorted(
    name for name, (row, _) in KEYS.items() if row.default is REQUIRED and row.family in ('', PI)
)


@many
@given(st.sets(st.sampled_from(REQUIRED_KEYS), min_size=1))
def test_all_missing_keys_are_named_at_once(missing):
    assume(not missing & {'cameras.names', 'outputs.names'})
    found = faults_of({name: value for name, value in good().items() if name not in missing})
    for name in missing:
        # Without model.config nobody can tell which model's keys are missing.
        is_expected = 'model.config' not in missing or not KEYS[name][0].family
        assert is_expected == any(fault.startswith(f'{name} is missing') for fault in found), (name, found)


PER_JOINT = ['joints.lower', 'joints.upper', 'joints.max_velocity']


@many
@given(st.lists(st.integers(0, 9), min_size=len(PER_JOINT), max_size=len(PER_JOINT)))
def test_all_lists_of_another_length_are_named_at_once(lengths):
    wrong = {name: (list(good()[name]) * 2)[:length] for name, length in zip(PER_JOINT, lengths, strict=True)}
    found = faults_of(good() | wrong)
    told = tuple(f'{name} {word}' for name in PER_JOINT for word in ('has', 'is missing'))
    named = {fault.split()[0] for fault in found if fault.startswith(told)}
    assert named == {name for name, length in zip(PER_JOINT, lengths, strict=True) if length != 7}


@many
@given(st.sets(st.integers(0, 6), min_size=1), st.booleans())
def test_all_swapped_limits_are_named_at_once(joints, is_equal):
    lower, upper = list(good()['joints.lower']), list(good()['joints.upper'])
    for joint in joints:
        lower[joint], upper[joint] = upper[joint], (upper if is_equal else lower)[joint]
    found = '\n'.join(faults_of(good() | {'joints.lower': lower, 'joints.upper': upper}))
    named = {n for n, joint in enumerate(good()['joints.names']) if f' for {joint}: lower must be' in found}
    assert named == joints


# Spelling


@many
@given(st.sampled_from(sorted(good())), st.data())
def test_misspelled_key_is_named_with_the_key_that_was_meant(name, data):
    at = data.draw(st.integers(0, len(name) - 2), label='at')
    wrong = data.draw(st.sampled_from([
        name[:at] + name[at + 1 :],  # a letter is missing
        name[:at] + name[at] + name[at:],  # twice
        name[:at] + name[at + 1] + name[at] + name[at + 2 :],  # swapped
    ]))  # fmt: skip
    assume(wrong not in KEYS and wrong != name)
    flat = dict(good())
    flat[wrong] = flat.pop(name)
    try:
        _, warnings = read_parameters(flat, NODE)
    except ParameterFaults as error:
        warnings = error.faults
    [told] = [text for text in warnings if text.startswith(f'{wrong} is not a parameter of this node')]
    assert f'(nearest: {name})' in told


# Files


WORDS = st.sampled_from([
    'on', 'Off', 'yes', 'NO', 'true', 'False', 'y', 'n', '~', 'null', 'Null', '1e3', '1.5e3', '0x10', '0o17',
    '017', '1_000', '12', '-3', '+7', '.5', '12:30', '12:30:45', '2020-01-01', '2020-01-01 10:00:00', '.inf',
    '-.INF', '.nan', '=', '<<', '<', '!', '!!str', '!!null x', '&a', '*a', '[a]', '{a: b}', '"x"', "'x'", '|',
    '>', '@a', '`a', '%a', '#a', 'a #b', 'a: b', 'a:b', '- a', '-', '---', '...', '?', '? a', ', a', 'None',
])  # fmt: skip
GOOD_FILE = (CASES / 'params' / 'ok.yaml').read_text()
PROMPT_LINE = '      prompt: pick up the red block\n'


def refusal_of(path: Path) -> str:
    """Nothing but ParameterFaults may be raised; empty: the file is good."""
    try:
        load_parameters_file(path, NODE)
    except ParameterFaults as error:
        return str(error)
    return ''


@few
@given(WORDS | st.text(st.characters(codec='utf-8', exclude_characters='\0'), min_size=1, max_size=12))
def test_bare_words_are_the_prompt_as_they_are_written_or_refused(tmp_path, word):
    path = tmp_path / 'robot.yaml'
    assert PROMPT_LINE in GOOD_FILE
    path.write_text(GOOD_FILE.replace(PROMPT_LINE, f'      prompt: {word}\n'), encoding='utf-8')
    if refusal := refusal_of(path):
        assert str(path) in refusal or 'prompt' in refusal
        return
    prompt = load_parameters_file(path, NODE)[0].prompt
    assert prompt == yaml.load(f'prompt: {word}', Loader=yaml.BaseLoader)['prompt']  # every scalar is a text
    assert prompt not in ('True', 'False')
    assert prompt.strip()


@pytest.mark.parametrize(
    'word',
    ['on', 'Off', 'yes', 'NO', 'True', '~', 'null', '0x10', '12', '1.5', '12:30', '2020-01-01', '.nan'],
)
def test_words_that_are_no_text_to_yaml_are_refused_with_the_quoted_form(tmp_path, word):
    path = tmp_path / 'robot.yaml'
    path.write_text(GOOD_FILE.replace(PROMPT_LINE, f'      prompt: {word}\n'))
    assert re.search("prompt: '.+'", refusal_of(path))
    path.write_text(GOOD_FILE.replace(PROMPT_LINE, f"      prompt: '{word}'\n"))
    assert load_parameters_file(path, NODE)[0].prompt == word


@few
@given(st.binary(max_size=80) | st.text(max_size=80).map(lambda text: text.encode('utf-8', 'surrogatepass')))
def test_any_file_is_refused_by_name(tmp_path, content):
    path = tmp_path / 'robot.yaml'
    path.write_bytes(content)
    assert str(path) in refusal_of(path)


@few
@given(st.data())
def test_file_that_is_cut_or_changed_is_read_or_refused(tmp_path, data):
    content = bytearray(GOOD_FILE.encode())
    changes = st.tuples(
        st.integers(0, len(content) - 1), st.sampled_from(b'\0\t\n #&*!|>{}[],:?-%@`\'"~a0\xff')
    )
    for at, byte in data.draw(st.lists(changes, max_size=8), label='changes'):
        content[at] = byte
    path = tmp_path / 'robot.yaml'
    path.write_bytes(content[: data.draw(st.integers(0, len(content)), label='cut')])
    refusal_of(path)


@pytest.mark.parametrize(
    'text',
    [
        'a: &a\n  b: *a\n',  # a section that holds itself
        '/policy:\n  ros__parameters: &a\n    b: *a\n',
        '/policy:\n  ros__parameters:\n    b: &b [1]\n    c: *b\n',
        '/policy:\n  ros__parameters:\n    a: &a {x: 1}\n' + ''.join(
            f'    a{n}: &a{n} {{x: *a{n - 1 if n else ""}, y: *a{n - 1 if n else ""}}}\n' for n in range(40)
        ),
    ],
)  # fmt: skip
def test_aliases_are_refused_as_ros_refuses_them(tmp_path, text):
    path = tmp_path / 'robot.yaml'
    path.write_text(text)
    with pytest.raises(ParameterFaults, match=r'line \d+: .*ROS takes no aliases'):
        read_parameter_file(path, NODE)
