# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Statistics of any width and origin: the faulty joints are named, nothing is clipped (R-47 to R-49)."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flashrt_core import Error
from flashrt_core.normalise import OpenpiQuantile, OpenpiZScore, check_widths
from flashrt_core.prompt import state_bins
from flashrt_core.statistics import Statistics, checkpoint_statistics, read_norm_stats

MIN_WIDTH = 1e-3
KINDS = {
    'quantile': ('q01', 'q99'),
    'min_max': ('min', 'max'),
    'quantile10': ('q10', 'q90'),
    'zscore': ('mean', 'std'),
}
NUMBER = st.floats(-10, 10) | st.sampled_from([0.25, 0.2501, math.nan, math.inf, -math.inf, 1e300, -1e300])
few = settings(
    max_examples=100, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
many = settings(max_examples=300, deadline=None, derandomize=True)


@many
@given(
    st.sampled_from(sorted(KINDS)),
    st.lists(st.tuples(NUMBER, NUMBER), min_size=1, max_size=7),
    st.integers(0, 3),
    st.booleans(),
)
def test_exactly_the_faulty_joints_are_named(kind, columns, unused, is_allowed):
    names = tuple(f'joint_{n + 1}' for n in range(len(columns)))
    values = [*columns, *[(0.0, 0.0)] * unused]  # the file has more columns than the robot
    statistics = Statistics('state', dict(zip(KINDS[kind], np.transpose(values), strict=True)))
    widths = [2 * second if kind == 'zscore' else second - first for first, second in columns]
    broken = [
        name
        for name, pair, width in zip(names, columns, widths, strict=True)
        if not all(map(math.isfinite, pair)) or width < 0
    ]
    narrow = [
        name for name, width in zip(names, widths, strict=True) if name not in broken and width < MIN_WIDTH
    ]
    warnings, refusal = checked(kind, statistics, names, is_allowed)
    named = broken or narrow
    assert bool(refusal) == bool(broken or (narrow and not is_allowed))
    for text in [refusal] if refusal else warnings:
        assert [name for name in names if f'{name} (' in text] == named
        assert 'swapped or not finite' in text or not broken
    assert len(warnings) == bool(narrow and is_allowed and not broken)


def checked(kind: str, statistics: Statistics, names: tuple, is_allowed: bool) -> tuple[list[str], str]:
    """Warnings, and the refusal if there is one."""
    try:
        return check_widths(kind, statistics, names, MIN_WIDTH, is_allowed), ''
    except Error as error:
        return [], str(error)


@many
@given(st.sampled_from(sorted(KINDS)), st.integers(0, 9), st.integers(0, 9), st.integers(1, 7))
def test_statistics_of_too_few_columns_are_refused(kind, first, second, joints):
    """Lists of one file may have different lengths."""
    names = KINDS[kind]
    statistics = Statistics('state', {names[0]: np.zeros(first), names[1]: np.ones(second)})
    _, refusal = checked(kind, statistics, tuple(map(str, range(joints))), False)
    assert bool(refusal) == (min(first, second) < joints)
    short = [
        f'{name} has {have} columns, {joints} needed'
        for name, have in zip(names, (first, second), strict=True)
        if have < joints
    ]
    assert not short or short[0] in refusal


WIDTH = st.floats(MIN_WIDTH, 1e3)


@many
@given(st.floats(-1e3, 1e3), WIDTH, st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5))
def test_nothing_is_clipped_and_the_way_back_leads_back(low, width, values):
    """R-48: twice as far outside is twice as far outside."""
    x = np.array(values)[:, np.newaxis]
    for scaler in (
        OpenpiQuantile(np.array([low]), np.array([low + width])),
        OpenpiZScore(np.array([low]), np.array([width])),
    ):
        normalised = scaler.normalise(x)
        np.testing.assert_allclose(scaler.unnormalise(normalised), x, rtol=1e-9, atol=1e-6)
        middle = scaler.unnormalise(np.zeros((1, 1)))
        far = scaler.normalise(middle + 2 * (x - middle))
        np.testing.assert_allclose(far, 2 * normalised, rtol=1e-6, atol=1e-3)


@many
@given(st.lists(st.floats(width=64), min_size=1, max_size=8))
def test_bins_of_any_state_are_those_of_the_rule(values):
    """-1 below the range, 255 above it and in its last bin; the edges are exact."""
    edges = np.linspace(-1, 1, 257)[:-1]
    expected = np.digitize(np.array(values), edges) - 1
    np.testing.assert_array_equal(state_bins(np.array(values)), expected)


# Files


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
GROUP = JSON | st.dictionaries(st.sampled_from(['mean', 'std', 'q01', 'q99']), JSON, max_size=4)


@few
@given(
    JSON | st.fixed_dictionaries({'norm_stats': st.fixed_dictionaries({'state': GROUP, 'actions': GROUP})})
)
def test_any_json_is_statistics_or_refused_by_name(tmp_path, content):
    path = tmp_path / 'norm_stats.json'
    path.write_text(json.dumps(content))
    check(path)


@few
@given(st.data())
def test_file_that_is_cut_or_changed_is_statistics_or_refused_by_name(tmp_path, golden, data):
    content = bytearray((golden / 'preprocess' / 'norm_stats.json').read_bytes())
    changes = st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255))
    for at, value in data.draw(st.lists(changes, max_size=8), label='changes'):
        content[at] = value
    path = tmp_path / 'norm_stats.json'
    path.write_bytes(content[: data.draw(st.integers(0, len(content)), label='cut')])
    check(path)


def check(path: Path) -> None:
    refusal = ''
    try:
        file = read_norm_stats(path)
    except Error as error:
        refusal = str(error)
    if refusal:
        assert str(path) in refusal
        return
    for group in (file.state, file.actions):
        assert all(
            value.dtype == np.float64 and value.ndim == 1 and value.size for value in group.values.values()
        )


@few
@given(
    st.lists(
        st.sampled_from(['..', '.', 'a', 'robot', '', '~', 'a\\b', '\0']) | st.text(max_size=4), max_size=4
    )
)
def test_no_asset_leads_out_of_the_checkpoint(tmp_path, parts):
    asset = '/'.join(parts)
    try:
        path = checkpoint_statistics(tmp_path, asset, None)
    except Error as error:
        refusal = str(error)
    else:
        refusal = ''
        assert Path(str(path).replace('\0', '')).resolve().is_relative_to(tmp_path / 'assets')
    assert not refusal or 'must name a folder inside' in refusal


@pytest.mark.parametrize(('asset', 'words'), [('a\0b', 'does not exist'), ('x' * 5000, 'cannot be read')])
def test_asset_that_no_file_system_can_hold_is_refused(tmp_path, asset, words):
    with pytest.raises(Error, match=words):
        read_norm_stats(checkpoint_statistics(tmp_path, asset, None))


def test_number_beyond_what_a_float_holds_is_refused(tmp_path):
    group = {'q01': [0], 'q99': [10**400]}
    path = tmp_path / 'norm_stats.json'
    path.write_text(json.dumps({'norm_stats': {'state': group, 'actions': group}}))
    with pytest.raises(Error, match=r'norm_stats\.json is not'):
        read_norm_stats(path)
