# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Normalisation of both origins: numbers by hand, reference arrays to the last bit, and refusals."""

import numpy as np
import pytest
from safetensors.numpy import load_file

from flashrt_core import Error
from flashrt_core.normalise import (
    Identity,
    LerobotRange,
    LerobotZScore,
    OpenpiQuantile,
    OpenpiZScore,
    check_widths,
    make_scaler,
)
from flashrt_core.statistics import Statistics

KINDS = {'zscore': 'mean_std', 'quantile': 'quantiles', 'min_max': 'min_max', 'quantile10': 'quantile10'}


def test_openpi_zscore_by_hand():
    scaler = OpenpiZScore(np.array([1.0]), np.array([2.0]))
    assert scaler.normalise(np.array([5.0])).tolist() == [4 / 2.000001]
    # The second column has no statistics: mean 0, std 1.
    assert scaler.unnormalise(np.array([[2.0, 3.0]])).tolist() == [[2 * 2.000001 + 1, 3 * 1.000001]]


def test_openpi_quantile_by_hand():
    scaler = OpenpiQuantile(np.array([-1.0]), np.array([3.0]))
    assert scaler.normalise(np.array([3.0])).tolist() == [4 / 4.000001 * 2 - 1]
    # The second column has no statistics: it passes through.
    assert scaler.unnormalise(np.array([[1.0, 7.0]])).tolist() == [[4.000001 - 1, 7.0]]


def test_lerobot_zscore_adds_eps_one_way_only():
    scaler = LerobotZScore(np.float32([1]), np.float32([0]), eps=0.5)
    assert scaler.normalise(np.array([2.0])).tolist() == [2]
    assert scaler.unnormalise(np.array([2.0])).tolist() == [1]


def test_lerobot_range_replaces_a_width_of_exactly_zero():
    scaler = LerobotRange(np.float32([2, 0]), np.float32([2, 4]), eps=0.25)
    assert scaler.normalise(np.array([2.25, 4])).tolist() == [1, 1]
    assert scaler.unnormalise(np.array([1.0, 0])).tolist() == [2.25, 2]


def test_nothing_is_clipped():
    scaler = OpenpiQuantile(np.array([-1.5]), np.array([1.5]))
    assert scaler.normalise(np.array([3.0]))[0] == pytest.approx(2, abs=1e-5)
    assert scaler.normalise(np.array([-3.0]))[0] == pytest.approx(-2, abs=1e-5)


@pytest.mark.parametrize('kind', ['zscore', 'quantile'])
def test_openpi_reference(golden, kind):
    d = load_file(golden / 'preprocess' / 'normalise_openpi.safetensors')
    scaler = make_scaler(
        'openpi', kind, Statistics('state', {k: d[k] for k in ('mean', 'std', 'q01', 'q99')})
    )
    for name, got in {
        'state_normalised': scaler.normalise(d['state']),
        'state_normalised_first5': scaler.normalise(d['state'][:, :5]),
        'actions_unnormalised': scaler.unnormalise(d['model_actions']),
        'actions_unnormalised_8': scaler.unnormalise(d['model_actions'][..., :8]),
    }.items():
        np.testing.assert_array_equal(got, d[f'{kind}.{name}'], err_msg=name)


@pytest.mark.parametrize('kind', KINDS)
def test_lerobot_reference(golden, kind):
    d = load_file(golden / 'preprocess' / 'normalise_lerobot.safetensors')
    values = {key.removeprefix('stats.'): value for key, value in d.items() if key.startswith('stats.')}
    scaler = make_scaler('lerobot', kind, Statistics('state', values))
    normalised, unnormalised = scaler.normalise(d['state']), scaler.unnormalise(d['model_actions'])
    assert normalised.dtype == unnormalised.dtype == np.float32
    np.testing.assert_array_equal(normalised, d[f'{KINDS[kind]}.state_normalised'])
    np.testing.assert_array_equal(unnormalised, d[f'{KINDS[kind]}.actions_unnormalised'])


def test_identity():
    scaler = make_scaler('openpi', 'identity', Statistics('state', {}))
    assert scaler == Identity()
    x = np.array([1.0, np.inf])
    assert scaler.normalise(x) is x
    assert scaler.unnormalise(x) is x


def test_missing_statistic_is_not_replaced():
    with pytest.raises(Error, match=r"state: 'q01' is missing.*'quantile'.*mean.*std"):
        make_scaler('openpi', 'quantile', Statistics('state', {'mean': np.zeros(1), 'std': np.ones(1)}))


def test_openpi_does_not_know_min_max():
    with pytest.raises(Error, match='min_max'):
        make_scaler('openpi', 'min_max', Statistics('state', {'min': np.zeros(1), 'max': np.ones(1)}))


def test_more_columns_than_statistics():
    with pytest.raises(Error, match='3 columns, but statistics for 2'):
        OpenpiZScore(np.zeros(2), np.ones(2)).normalise(np.zeros(3))


def quantiles(low, high):
    return Statistics('state', {'q01': np.array(low), 'q99': np.array(high)})


def test_degenerate_columns_are_listed_and_refused():
    statistics = quantiles([0.25, -1, 0.1], [0.25, 1, 0.1001])
    with pytest.raises(Error, match=r'joint_1 \(q01 0.25, q99 0.25\), joint_3 .*allow_degenerate_statistics'):
        check_widths('quantile', statistics, ('joint_1', 'joint_2', 'joint_3'), 1e-3, False)
    (warning,) = check_widths('quantile', statistics, ('joint_1', 'joint_2', 'joint_3'), 1e-3, True)
    assert 'joint_1' in warning
    assert 'joint_2' not in warning
    # The limit is a setting.
    assert len(check_widths('quantile', statistics, ('a', 'b', 'c'), 0.0, False)) == 0


@pytest.mark.parametrize(('low', 'high'), [(1.0, -1.0), (np.nan, 1.0), (0.0, np.inf)])
def test_swapped_or_not_finite_is_refused_even_if_degenerate_is_allowed(low, high):
    with pytest.raises(Error, match='swapped or not finite: elbow'):
        check_widths('quantile', quantiles([low], [high]), ('elbow',), 1e-3, True)


def test_narrow_deviation_is_refused():
    statistics = Statistics('state', {'mean': np.zeros(2), 'std': np.array([0.0, 1.0])})
    with pytest.raises(Error, match='elbow'):
        check_widths('zscore', statistics, ('elbow', 'wrist'), 1e-3, False)
    with pytest.raises(Error, match='mean has 2 columns, 3 needed'):
        check_widths('zscore', statistics, ('a', 'b', 'c'), 1e-3, True)


def test_columns_beyond_the_robot_are_not_checked():
    assert check_widths('quantile', quantiles([-1, 0], [1, 0]), ('elbow',), 1e-3, False) == []
