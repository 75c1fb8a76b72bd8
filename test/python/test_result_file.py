# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Result files: whole or as they were, and readable for whom the user lets read."""

import os

import pytest

from flashrt_core.errors import Error
from flashrt_core.result_file import read_result, write_result


@pytest.mark.parametrize(('mask', 'mode'), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_the_mode_is_that_of_any_new_file(tmp_path, mask, mode):
    path = tmp_path / 'result.json'
    before = os.umask(mask)
    try:
        write_result(path, {'format': 'x', 'version': 1})
        assert path.stat().st_mode & 0o777 == mode
        assert os.umask(mask) == mask  # it is as it was
    finally:
        os.umask(before)


def test_what_cannot_be_written_leaves_the_old_file(tmp_path):
    path = tmp_path / 'result.json'
    write_result(path, {'format': 'x', 'version': 1, 'value': 1})
    with pytest.raises(ValueError, match='not JSON compliant'):
        write_result(path, {'format': 'x', 'version': 1, 'value': float('nan')})
    assert read_result(path, {'x': 1}).integer('value') == 1
    (tmp_path / 'folder').mkdir()
    with pytest.raises(Error, match='cannot be written'):
        write_result(tmp_path / 'folder', {})
    assert sorted(p.name for p in tmp_path.iterdir()) == ['folder', 'result.json']  # and no part of a new one
    with pytest.raises(Error, match='cannot be written'):
        write_result(tmp_path / 'missing' / 'result.json', {})
