# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What is compared, on which scenes, and what the numbers of an evaluation are made of."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flashrt_core.errors import Error
from flashrt_ros.tabletop.evaluation import (
    Assignment,
    Condition,
    Episode,
    assignments,
    crossed,
    varied,
)
from flashrt_ros.tabletop.evaluation_picture import write_picture
from flashrt_ros.tabletop.evaluation_report import (
    Origin,
    confusion_table,
    markdown,
    table,
    write_evaluation,
)
from flashrt_ros.tabletop.evaluation_summary import summarise
from flashrt_ros.tabletop.tasks import KINDS, TASKS, Task

SKIP = Condition('f32', '', 0, 'skip', 0.0, 'none')
LATE = replace(SKIP, mode='naive', delay_s=0.2)
RED, GREEN = Task('lift', 'red'), Task('lift', 'green')


def episode(task: Task, acted_on: str, time_s: float = 3.0, scene: int = 0, **others: object) -> Episode:
    is_success = acted_on == task.block
    return Episode(Assignment(scene, task, scene % 2), is_success, 'done', acted_on, time_s, **others)


def test_conditions_are_every_combination_and_say_in_what_they_differ():
    conditions = crossed([('f32', ''), ('fp8', 'mse')], [0], ['skip', 'rtc'], [0.0, 0.2], ['none'])
    assert len(set(conditions)) == 8
    assert varied(conditions) == ['recipe', 'estimator', 'mode', 'delay']
    assert varied(conditions[:1]) == []
    assert Condition('a/b/int8.json', 'mse', 3, 'skip', 0.02, 'dark').words() == {
        'recipe': 'int8.json',
        'estimator': 'mse',
        'steps': '3',
        'mode': 'skip',
        'delay': '20 ms',
        'control': 'dark',
    }


def test_every_task_comes_equally_often_in_each_wording():
    assigned = assignments(KINDS, 24)
    counts = Counter((one.task, one.wording) for one in assigned)
    assert set(counts) == {(task, wording) for task in TASKS for wording in (0, 1)}
    assert {count for (task, _), count in counts.items() if task.kind != 'stack'} == {4}
    assert {count for (task, _), count in counts.items() if task.kind == 'stack'} == {2}
    assert [one.scene for one in assigned if one.task.kind == 'lift'] == list(range(24))


def test_assignments_follow_from_scene_and_kind_alone():
    few, more = assignments(['lift'], 3, first=6), assignments(['touch', 'lift'], 12)
    assert set(few) <= set(more)


@pytest.mark.parametrize(
    ('arguments', 'fault'),
    [
        ((['push'], 3), "'push' is no kind"),
        ((['lift'], 3, 999_999), 'those of evaluation are 0 to 999999'),
        ((['lift'], 3, 0, [2]), 'no wording 2'),
    ],
    ids=['kind', 'scenes of training', 'wording'],
)
def test_what_nobody_could_play_is_refused(arguments: tuple, fault: str):
    with pytest.raises(Error, match=fault):
        assignments(*arguments)


def test_a_summary_counts_times_jumps_and_cubes():
    episodes = [
        episode(RED, 'red', 2.0, jumps=(0.1, 0.3), inference_ms=(10.0,)),
        episode(RED, 'green', 4.0, scene=1, jumps=(0.2,), inference_ms=(20.0, 90.0)),
        episode(GREEN, 'green', 3.0, scene=2, underruns=2),
        episode(GREEN, '', 7.0, scene=3, underruns=1),
    ]
    (one,) = summarise({SKIP: episodes})
    assert (one.success.successes, one.success.tried) == (2, 4)
    assert one.median_s == 2.5  # of the successes
    assert (one.jump_max, one.jump_95) == (0.3, pytest.approx(np.percentile([0.1, 0.2, 0.3], 95)))
    assert (one.inference_ms, one.underruns) == (20.0, 3)
    assert one.confusion.tolist() == [[1, 1, 0, 0], [0, 1, 0, 1], [0, 0, 0, 0]]
    assert one.is_another_cube == 1
    assert {wording: (share.successes, share.tried) for wording, share in one.by_wording.items()} == {
        0: (2, 2),
        1: (0, 2),
    }


def test_a_table_names_what_differs_and_shows_what_is_not_known_as_such():
    results = {SKIP: [episode(RED, 'red', jumps=(0.25,))], LATE: [episode(RED, '', 7.0)]}
    headings, rows = table(summarise(results), list(results))
    assert headings[:3] == ['mode', 'delay', 'task']
    assert rows[0][:5] == ['skip', '0 ms', 'lift', '1/1 (20.7% to 100.0%)', '3.00']
    assert rows[1][:7] == ['naive', '200 ms', 'lift', '0/1 (0.0% to 79.3%)', '-', '-', '-']
    headings, rows = confusion_table(summarise(results), list(results))
    assert headings == ['mode', 'delay', 'asked for', 'red', 'green', 'blue', 'none']
    assert rows[0] == ['skip', '0 ms', 'red', '1', '0', '0', '0']
    assert rows[3] == ['naive', '200 ms', 'red', '0', '0', '0', '1']
    assert markdown(['a', 'b'], [['1', '2']]) == '| a | b |\n| --- | --- |\n| 1 | 2 |\n'


def test_the_file_holds_every_episode_and_how_it_came_to_be(tmp_path: Path):
    results = {SKIP: [episode(GREEN, 'blue', 2.5, scene=7, chunks=20)], LATE: []}
    origin = Origin('flashrt evaluate P', 'P', {'seed': 3}, {'weights_digest': 'abc'}, {}, 'Mesa', 2)
    write_evaluation(tmp_path / 'evaluation.json', results, origin, is_complete=False)
    content = json.loads((tmp_path / 'evaluation.json').read_text())
    assert (content['format'], content['version']) == ('flashrt_evaluation', 1)
    assert not content['complete']
    assert content['command'] == 'flashrt evaluate P'
    assert content['renderer'] == 'Mesa'
    assert content['policy'] == {'weights_digest': 'abc'}
    assert set(content['versions']) == {'flashrt_ros', 'mujoco', 'numpy', 'python'}
    first, second = content['conditions']
    assert (first['mode'], first['delay_s']) == ('skip', 0.0)
    assert first['episodes'] == [
        {
            'scene': 7,
            'kind': 'lift',
            'block': 'green',
            'base': '',
            'wording': 1,
            'prompt': 'pick up the green cube',
            'success': False,
            'why': 'done',
            'acted_on': 'blue',
            'time_s': 2.5,
            'chunks': 20,
            'underruns': 0,
            'refused': 0,
            'largest_jump': 0.0,
        }
    ]
    (summary,) = first['summaries']
    assert summary['confusion']['green'] == {'red': 0, 'green': 0, 'blue': 1, 'none': 0}
    assert second['episodes'] == second['summaries'] == []


def test_the_picture_takes_conditions_of_which_nothing_is_known(tmp_path: Path):
    results = {SKIP: [episode(RED, 'red', jumps=(0.1,))], LATE: [episode(RED, '')]}
    write_picture(summarise(results), list(results), tmp_path / 'evaluation.png')
    assert (tmp_path / 'evaluation.png').read_bytes().startswith(b'\x89PNG')
