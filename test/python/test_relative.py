# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Relative actions: masks in both notations, numbers by hand, reference arrays."""

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

from flashrt_core.relative import RelativeActions, expand_mask, mask_by_name


def test_mask_notation():
    assert expand_mask((2, -1)) == (True, True, False)
    assert expand_mask((-1, 2)) == (False, True, True)
    assert expand_mask(()) == ()
    assert expand_mask((6, -1, 6, -1)) == ((True,) * 6 + (False,)) * 2


@given(st.lists(st.integers(-9, 9)))
def test_mask_length(spec):
    mask = expand_mask(spec)
    assert len(mask) == sum(map(abs, spec))
    assert sum(mask) == sum(count for count in spec if count > 0)


def test_names_are_excluded_by_part_and_whatever_the_case():
    names = ['shoulder', 'Left_Gripper.pos', 'wrist']
    assert mask_by_name(3, names, ['gripper']) == (True, False, True)
    assert mask_by_name(4, names, ['gripper', '']) == (True, False, True, True)
    assert mask_by_name(2, None, ['gripper']) == (True, True)
    assert mask_by_name(3, names, []) == (True, True, True)


def test_same_state_for_all_rows_and_columns_beyond_the_mask_stay():
    actions = np.array([[1.0, 2, 3, 4], [5, 6, 7, 8]])
    state = np.array([10.0, 20, 30, 40])
    relative = RelativeActions((True, False, True))
    assert relative.to_absolute(actions, state).tolist() == [[11, 2, 33, 4], [15, 6, 37, 8]]
    assert relative.to_relative(actions, state).tolist() == [[-9, 2, -27, 4], [-5, 6, -23, 8]]
    assert actions[0, 0] == 1  # the input is left alone


def test_openpi_reference(golden):
    d = load_file(golden / 'preprocess' / 'delta_absolute.safetensors')
    for name, case in json.loads((golden / 'preprocess' / 'delta_absolute.json').read_text()).items():
        mask = expand_mask(case['mask_spec'])
        assert list(mask) == case['mask']
        relative, actions, state = RelativeActions(mask), d[f'{name}.actions'], d[f'{name}.state']
        np.testing.assert_array_equal(relative.to_relative(actions, state), d[f'{name}.delta'])
        np.testing.assert_array_equal(relative.to_absolute(actions, state), d[f'{name}.absolute'])


def test_lerobot_reference(golden):
    d = load_file(golden / 'preprocess' / 'relative_lerobot.safetensors')
    for name, case in json.loads((golden / 'preprocess' / 'relative_lerobot.json').read_text()).items():
        mask = mask_by_name(6, case['action_names'], case['exclude_joints'])
        assert list(mask) == case['mask']
        relative = RelativeActions(mask)
        np.testing.assert_array_equal(relative.to_relative(d['actions'], d['state']), d[f'{name}.relative'])
        np.testing.assert_array_equal(relative.to_absolute(d['actions'], d['state']), d[f'{name}.absolute'])
