# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Which statistics file is read, and what is refused in it."""

import hashlib
import json

import numpy as np
import pytest

from flashrt_core import Error
from flashrt_core.statistics import checkpoint_statistics, read_norm_stats


def test_reads_the_reference_file(golden):
    path = golden / 'preprocess' / 'norm_stats.json'
    file = read_norm_stats(path)
    assert file.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (file.state.columns, file.actions.columns) == (8, 8)
    assert file.state.values['std'][3] == 0
    assert file.state.values['q01'].dtype == np.float64


def test_null_quantiles_are_absent(tmp_path):
    group = {'mean': [0.0], 'std': [1.0], 'q01': None, 'q99': None}
    path = tmp_path / 'norm_stats.json'
    path.write_text(json.dumps({'norm_stats': {'state': group, 'actions': group}}))
    file = read_norm_stats(path)
    with pytest.raises(Error, match=r"'q99' is missing, the model needs it; the file has \['mean', 'std'\]"):
        file.state.get('q99', 'the model')


@pytest.mark.parametrize(
    'text',
    [
        '',
        '[]',
        '{"norm_stats": {}}',
        '{"norm_stats": {"state": [1], "actions": [1]}}',
        pytest.param('[' * 200_000, id='deeply nested'),
        '{"norm_stats": {"state": {"mean": 3}, "actions": {"mean": [1]}}}',
        '{"norm_stats": {"state": {"mean": []}, "actions": {"mean": [1]}}}',
        '{"norm_stats": {"state": {"mean": ["x"]}, "actions": {"mean": [1]}}}',
        '{"norm_stats": {"state": {"mean": [[1]]}, "actions": {"mean": [1]}}}',
    ],
)
def test_other_files_are_refused_by_name(tmp_path, text):
    path = tmp_path / 'norm_stats.json'
    path.write_text(text)
    with pytest.raises(Error, match=r'norm_stats\.json is not'):
        read_norm_stats(path)


def test_only_the_checkpoints_own_folder(tmp_path):
    assert checkpoint_statistics(tmp_path, 'trossen', None) == tmp_path / 'assets/trossen/norm_stats.json'
    assert checkpoint_statistics(tmp_path, 'org/name', None) == tmp_path / 'assets/org/name/norm_stats.json'
    assert checkpoint_statistics(tmp_path, None, tmp_path / 'mine.json') == tmp_path / 'mine.json'
    with pytest.raises(Error, match=r"'statistics'.*'asset_id'"):
        checkpoint_statistics(tmp_path, None, None)


@pytest.mark.parametrize('asset_id', ['../other', '/etc', 'a/../../b', ''])
def test_asset_id_stays_inside(tmp_path, asset_id):
    with pytest.raises(Error, match='inside'):
        checkpoint_statistics(tmp_path, asset_id, None)


# a neighbour's statistics are never found.
def test_a_neighbour_is_not_searched(tmp_path, write_stats):
    neighbour = write_stats(7, 7).rename(tmp_path / 'norm_stats.json')
    checkpoint = tmp_path / 'my_checkpoint'
    checkpoint.mkdir()
    assert neighbour.is_file()
    with pytest.raises(Error, match=r'my_checkpoint.*does not exist; no other place'):
        read_norm_stats(checkpoint_statistics(checkpoint, 'my_robot', None))
