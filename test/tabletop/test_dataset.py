# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""A small data set, made as a user makes it, and read as a trainer reads it."""

import json
from pathlib import Path

import numpy as np
import pytest

from flashrt_core.errors import Error
from flashrt_core.statistics import read_norm_stats
from flashrt_ros.tabletop.arm import JOINTS
from flashrt_ros.tabletop.dataset import draw_task, main
from flashrt_ros.tabletop.dataset_format import (
    Episode,
    column_statistics,
    episode_path,
    read_dataset,
    read_episode,
    read_summary,
)
from flashrt_ros.tabletop.tasks import TASKS, read_task

SEED, EPISODES = 3, 4


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp('tabletop') / 'dataset'
    arguments = ['--episodes', str(EPISODES), '--seed', str(SEED), '--workers', '1', '-o', str(folder)]
    assert main(arguments) == 0
    return folder


@pytest.fixture(scope='module')
def episodes(folder: Path) -> list[Episode]:
    return list(read_dataset(folder))


def test_kept_episodes_are_of_the_million_of_the_seed(folder: Path, episodes: list[Episode]):
    summary = read_summary(folder)
    assert summary['tried'] == EPISODES
    assert summary['kept'] == len(episodes) == len(list((folder / 'episodes').iterdir()))
    assert summary['observations'] == sum(len(item.state) for item in episodes)
    assert [item.scene for item in episodes] == summary['scenes']
    assert all(SEED * 1_000_000 <= item.scene < SEED * 1_000_000 + EPISODES for item in episodes)
    assert sum(kind['tried'] for kind in summary['by_kind'].values()) == EPISODES


def test_an_episode_is_what_the_format_says(episodes: list[Episode]):
    for item in episodes:
        n = len(item.state)
        assert (item.images.shape, item.images.dtype) == ((n, 2, 112, 112, 3), np.uint8)
        assert (item.state.shape, item.state.dtype) == ((n, 7), np.float32)
        assert (item.actions.shape, item.actions.dtype) == ((n, 10, 7), np.float32)
        assert (item.cubes.shape, item.cubes.dtype) == ((n, 3, 3), np.float32)
        assert read_task(item.prompt) == item.task
        assert (item.task, item.prompt) == draw_task(item.scene)
        assert item.images.std() > 10  # pictures, not blanks


def test_statistics_are_read_by_the_policy(folder: Path, episodes: list[Episode]):
    file = read_norm_stats(folder / 'norm_stats.json')
    states = np.concatenate([item.state for item in episodes]).astype(np.float64)
    assert file.state.get('mean', 'the test') == pytest.approx(states.mean(axis=0), abs=1e-5)
    assert file.actions.columns == len(JOINTS)
    for group in (file.state, file.actions):
        assert (group.get('q99', 'the test') - group.get('q01', 'the test') > 0.039).all()


def test_statistics_by_hand():
    """1001 rows from 0 to 1000: a quantile of 0.001 is 1. The last columns are too narrow, and widened."""
    rows = np.zeros((1001, 7))
    rows[:, 0] = np.arange(1001)
    rows[:, 6] = 0.02
    values = column_statistics(rows)
    assert (values['q01'][0], values['q99'][0]) == pytest.approx((1, 999))
    assert (values['mean'][0], values['min'][0], values['max'][0]) == (500, 0, 1000)
    assert (values['q01'][1], values['q99'][1]) == pytest.approx((-0.1, 0.1))
    assert (values['q01'][6], values['q99'][6]) == pytest.approx((0.0, 0.04))


def test_tasks_of_training_scenes_are_all_shown():
    drawn = [draw_task(1_000_000 + scene) for scene in range(400)]
    assert {task for task, _ in drawn} == set(TASKS)
    assert len({prompt for _, prompt in drawn}) == 2 * len(TASKS)


@pytest.mark.parametrize(
    ('arguments', 'why'),
    [(['--seed', '0'], 'it must be 1 to'), (['--episodes', '0'], '0 episodes'), ([], 'is not empty')],
)
def test_refusals(folder: Path, capsys: pytest.CaptureFixture, arguments: list[str], why: str):
    usual = ['--episodes', '1', '--seed', '1', '-o', str(folder)]
    assert main([*usual, *arguments]) == 1
    assert why in ' '.join(capsys.readouterr().err.split())


def test_what_is_not_complete_or_damaged_is_refused_by_name(folder: Path, tmp_path: Path):
    with pytest.raises(Error, match=r'dataset\.json .*not complete'):
        read_summary(tmp_path)
    (tmp_path / 'dataset.json').write_text(json.dumps({'format_version': 99}))
    with pytest.raises(Error, match='format version 99'):
        read_summary(tmp_path)
    whole = episode_path(folder, read_summary(folder)['scenes'][0]).read_bytes()
    cut = tmp_path / 'cut.safetensors'
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Error, match=r'cut\.safetensors is no episode'):
        read_episode(cut)
