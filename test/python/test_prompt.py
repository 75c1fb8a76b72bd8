# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Prompt text: state bins at every edge, formats of both origins, refused instructions."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

from flashrt_core import Error
from flashrt_core.prompt import (
    LerobotPlainPrompt,
    PlainPrompt,
    StatePrompt,
    check_prompt,
    clean,
    clean_fast,
    state_bins,
)

NO_BINS = np.empty(0, np.int64)


def test_clean():
    assert clean('  Pick_up  the\ncup \u3000') == 'Pick up  the cup'
    assert clean_fast(' Pick_up\nthe Cup ') == 'pick up\nthe cup'


@pytest.mark.parametrize(
    ('value', 'bin_'),
    [
        (-1.0, 0),
        (-1.0000001, -1),
        (0.0, 128),
        (-1e-9, 127),
        (127 / 128, 255),
        (np.nextafter(127 / 128, 0), 254),
        (1.5, 255),
        (-7.0, -1),
        (math.nan, 255),
        (math.inf, 255),
        (-math.inf, -1),
    ],
)
def test_bins_by_hand(value, bin_):
    assert state_bins(np.array([value])).tolist() == [bin_]


@given(st.floats(-3, 3, width=64) | st.floats(-3, 3, width=32))
def test_bins_follow_the_exact_rule(value):
    exact = math.floor(Fraction(value) * 128) + 128
    assert state_bins(np.array([value])).tolist() == [min(255, max(-1, exact))]


@pytest.mark.parametrize('width', ['f32', 'f64'])
def test_bins_of_reference(golden, width):
    d = load_file(golden / 'preprocess' / 'state_bins.safetensors')
    np.testing.assert_array_equal(state_bins(d[f'value_{width}']), d[f'bin_{width}'])


def test_formats_by_hand():
    bins = np.array([-1, 7, 255])
    assert StatePrompt().pieces(' a_b ', bins) == ('Task: a b, State: -1 7 255;\nAction: ',)
    assert StatePrompt('', clean_fast).pieces('A', bins) == ('Task: a, State: -1 7 255;\n',)
    assert PlainPrompt().pieces(' a_b\n', NO_BINS) == ('a b', '\n')
    assert LerobotPlainPrompt().pieces(' a_b', NO_BINS) == (' a_b\n',)
    assert LerobotPlainPrompt().pieces('a\n', NO_BINS) == ('a\n',)


def test_old_lerobot_wrote_padding_zeros():
    (text,) = StatePrompt(width=5).pieces('a', np.array([3, 4]))
    assert text == 'Task: a, State: 3 4 128 128 128;\nAction: '


def test_lerobot_reference(golden):
    for case in json.loads((golden / 'preprocess' / 'prompt_text_lerobot.json').read_text()):
        assert StatePrompt().pieces(case['task'], state_bins(case['state'])) == (case['prompt'],)


@pytest.mark.parametrize('text', ['pick up', 'pak de blauwe beker \u2013 na\u00efef \u2615', 'a\tb\nc'])
def test_accepted(text):
    assert check_prompt(text) == text


#
@pytest.mark.parametrize(
    ('text', 'reason'),
    [
        ('', 'blank'),
        ('  \n\t ', 'blank'),
        ('_\n_', 'blank'),
        ('stop\x00now', r'U\+0000 at position 4'),
        ('a\rb', r'U\+000D'),
        ('a\x85', r'U\+0085'),
        ('\ud800', r'U\+D800'),
        (False, "False is a bool.*quotes: 'False'"),
        (None, 'NoneType'),
        (12, 'int'),
    ],
)
def test_refused(text, reason):
    with pytest.raises(Error, match=reason):
        check_prompt(text)
