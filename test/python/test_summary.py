# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Costs from files of times, and the summary of results; all files are made by hand."""

import json

import pytest
from PIL import Image

from flashrt_core import cli
from flashrt_core.errors import Error
from flashrt_core.group_costs import MovedBytes, byte_costs, time_costs
from flashrt_core.summary import cells, markdown, summarise

RULES = [{'match': '*', 'weight': 'e4m3', 'activation': 'e4m3', 'weight_scale': 'channel'}]
IN_FLOAT = {'match': 'vision.*', 'weight': 'bf16', 'activation': 'bf16'}
LOW = {'match': 'prefix.*', 'weight': 'nvfp4', 'activation': 'nvfp4'}


def recipe(*more: dict) -> dict:
    return {
        'format': 'flashrt_recipe',
        'version': 1,
        'name': 'fp8',
        'values': 'bf16',
        'rules': [*RULES, *more],
    }


def errors(relative: float, joints=()) -> dict:
    return {
        'rms': relative / 2,
        'relative': relative,
        'cosine': 1 - relative,
        'worst': 4 * relative,
        'rms_interval': None,
        'relative_interval': [relative * 0.9, relative * 1.1],
        'cosine_interval': None,
        'squared_errors': [1.0],
        'steps': [],
        'joints': [{'name': name, 'rms': rms, 'worst': 2 * rms} for name, rms in joints],
    }


def variant(kept: list[str], relative: float, weight_bytes: int, *rules: dict, joints=()) -> dict:
    return {
        'kept': kept,
        'weight_bytes': weight_bytes,
        'recipe': recipe(*rules),
        'runs_on': 'cpu only, emulates nvfp4' if LOW in rules else 'cpu, cuda',
        'errors': errors(relative, joints),
    }


@pytest.fixture
def study(tmp_path):
    joints = (('elbow', 0.1), ('gripper', 0.3))
    path = tmp_path / 'study.json'
    content = {
        'format': 'flashrt_sensitivity',
        'version': 1,
        'complete': True,
        'command': 'flashrt sensitivity model',
        'model': 'pi05',
        'checkpoint': 'model',
        'weights_digest': 'd' * 16,
        'recipe_option': 'fp8',
        'recipe': recipe(),
        'kept': 'bf16',
        'reference': 'f32',
        'by': 'stage',
        'calibration': {'path': '/a/scales.json', 'sha256': 'c' * 64, 'origin': '8 samples', 'made': True},
        'same_samples': False,
        'source': {'checkpoint': 'model'},
        'observations': ['a', 'b'],
        'joints': ['elbow', 'gripper'],
        'intervals': {'note': 'two observations'},
        'groups': [
            {'name': 'vision.*', 'calls': ['vision.0.qkv'], 'moved_bytes': {'quantised': 1e6, 'float': 2e6}},
            {'name': 'prefix.*', 'calls': ['prefix.0.qkv'], 'moved_bytes': {'quantised': 3e6, 'float': 6e6}},
        ],
        'variants': [
            variant([], 0.2, 4_000_000, joints=joints),
            variant(['vision.*'], 0.05, 5_000_000, IN_FLOAT),
            variant(['prefix.*'], 0.19, 7_000_000, LOW),
            variant(['vision.*', 'prefix.*'], 0.001, 8_000_000, IN_FLOAT, IN_FLOAT),
        ],
        'ranking': [{'group': 'vision.*', 'gain': 0.1}, {'group': 'prefix.*', 'gain': 0.01}],
    }
    path.write_text(json.dumps(content))
    return path


def bench(path, of: dict, median: float, *, calls=(), name='fp8', digest='d' * 16, accuracy=None):
    content = {
        'format': 'flashrt_bench',
        'version': 1,
        'command': 'flashrt bench',
        'settings': {'recipe': name, 'backend': 'cuda', 'checkpoint': 'model', 'reference_samples': 2},
        'device': 'NVIDIA H200',
        'model': 'pi05',
        'weights_digest': digest,
        'recipe': of,
        'runs_on': 'cpu, cuda',
        'stored_weight_bytes': 4_000_000,
        'calibration_origin': 'none',
        'accuracy': accuracy,
        'inference': {'median': median},
        'calls': [{'name': call, 'median_ms': ms} for call, ms in calls],
    }
    path.write_text(json.dumps(content))
    return path


# ---- costs

CALLS = {
    'vision.*': ('vision.0.qkv', 'vision.0.fc1'),
    'prefix.*': ('prefix.0.qkv',),
    'styles.*': ('styles.a',),
}
MOVED = {'vision.*': MovedBytes(1e6, 2e6), 'prefix.*': MovedBytes(3e6, 12e6), 'styles.*': MovedBytes(0, 0)}
FAST = (('vision.0.norm + vision.0.qkv + vision.0.fc1', 1.0), ('prefix.0.qkv', 2.0))
SLOW = (('vision.0.qkv', 1.5), ('vision.0.fc1', 0.75), ('prefix.0.qkv', 5.0))


def test_bytes_of_the_weights_are_the_cost_without_times():
    costs = byte_costs(MOVED)
    assert costs.of == {'vision.*': 1.0, 'prefix.*': 9.0, 'styles.*': 0.0}
    assert costs.unit == 'MB'


def test_times_of_both_recipes_are_subtracted(tmp_path):
    files = [
        bench(tmp_path / 'bf16.json', recipe(), 1, calls=SLOW, name='bf16'),
        bench(tmp_path / 'fp8.json', recipe(), 1, calls=FAST),
    ]
    costs = time_costs(CALLS, MOVED, files, 'fp8', 'pi05')
    assert costs.of == {'vision.*': 1.25, 'prefix.*': 3.0, 'styles.*': 0.0}
    assert costs.unit == 'ms'
    assert 'not measured' not in costs.how


def test_times_of_one_recipe_are_scaled_and_said_to_be(tmp_path):
    fast = bench(tmp_path / 'fp8.json', recipe(), 1, calls=FAST)
    costs = time_costs(CALLS, MOVED, [fast], 'fp8', 'pi05')
    assert costs.of == {'vision.*': 1.0, 'prefix.*': 6.0, 'styles.*': 0.0}
    assert 'not measured' in costs.how
    slow = bench(tmp_path / 'bf16.json', recipe(), 1, calls=SLOW, name='bf16')
    costs = time_costs(CALLS, MOVED, [slow], 'fp8', 'pi05')
    assert costs.of == {'vision.*': 1.125, 'prefix.*': 3.75, 'styles.*': 0.0}


def test_times_that_do_not_fit_are_refused(tmp_path):
    fast = bench(tmp_path / 'fp8.json', recipe(), 1, calls=FAST[:1])
    with pytest.raises(Error, match=r'fp8\.json has no time of prefix\.0\.qkv'):
        time_costs(CALLS, MOVED, [fast], 'fp8', 'pi05')
    with pytest.raises(Error, match=r'was measured with a pi05, the study is of a pi0$'):
        time_costs(CALLS, MOVED, [fast], 'fp8', 'pi0')
    with pytest.raises(Error, match='needed is one file of recipe fp8'):
        time_costs(CALLS, MOVED, [fast, fast], 'fp8', 'pi05')
    with pytest.raises(Error, match='no times of single calls; measure with `flashrt bench --operations`'):
        time_costs(CALLS, MOVED, [bench(tmp_path / 'none.json', recipe(), 1)], 'fp8', 'pi05')


# ---- the summary


def run(*arguments: object) -> int:
    """The exit code of `flashrt summary`."""
    with pytest.raises(SystemExit) as exit:
        cli.main(['summary', *map(str, arguments)])
    return exit.value.code


def test_rows_are_the_curve_and_carry_where_they_come_from(study):
    rows = summarise([study])
    assert [row.variant for row in rows] == ['fp8, all quantised', 'fp8, top 1 in bf16', 'fp8, all in bf16']
    assert [row.relative for row in rows] == [0.2, 0.05, 0.001]
    assert (rows[0].worst_joint, rows[0].worst_joint_error) == ('gripper', 0.3)
    for row in rows:
        assert row.weights_digest == 'd' * 16
        assert row.calibration == f'scales.json ({"c" * 12}): 8 samples'
        assert row.command == 'flashrt sensitivity model'
        assert row.recipe['rules'][0] == RULES[0]
        assert row.latency is None


def test_latency_goes_to_the_rows_of_the_same_weights_and_recipe(study, tmp_path):
    same = bench(tmp_path / 'a.json', recipe(), 12.5)
    kept = bench(tmp_path / 'b.json', recipe(IN_FLOAT), 14.0, name='kept.json')
    elsewhere = bench(tmp_path / 'c.json', recipe(), 99.0, digest='e' * 16)
    rows = summarise([same, study, kept, elsewhere])
    latencies = [None if row.latency is None else row.latency.median_ms for row in rows]
    assert latencies == [12.5, 14.0, None, 99.0]
    assert rows[0].latency.on == 'cuda, NVIDIA H200'
    assert rows[3].relative is None
    assert rows[3].weights_digest == 'e' * 16


def test_a_bench_with_errors_is_a_row_too(study, tmp_path):
    accuracy = {'chunk': {'rms': 0.1, 'reference_rms': 0.5, 'cosine': 0.9, 'worst': 1.0}}
    rows = summarise([study, bench(tmp_path / 'a.json', recipe(), 12.5, accuracy=accuracy)])
    assert rows[-1].relative == 0.2
    assert rows[-1].observations == 2
    assert rows[0].latency == rows[-1].latency


def test_what_cuda_cannot_run_is_said_in_the_table(study):
    content = json.loads(study.read_text())
    content['ranking'].reverse()
    study.write_text(json.dumps(content))
    rows = summarise([study])
    assert 'cpu only, emulates nvfp4' in cells(rows[1])
    assert 'cpu only, emulates nvfp4' in markdown(rows, 'a.png', 'flashrt summary')


def test_table_picture_and_file_are_written(study, tmp_path, capsys):
    out = tmp_path / 'summary'
    assert run(study, bench(tmp_path / 'a.json', recipe(), 12.5), '-o', out) == 0
    content = json.loads((out / 'summary.json').read_text())
    assert [row['latency'] is None for row in content['rows']] == [False, True, True]
    assert content['command'] == f'flashrt summary {study} {tmp_path}/a.json -o {out}'
    table = (out / 'summary.md').read_text()
    assert '| fp8, top 1 in bf16 | 5.00 | 5.000e-02 |' in table
    assert '`flashrt sensitivity model`' in table
    with Image.open(out / 'summary.png') as picture:
        assert picture.size == (1100, 660)
        assert len(picture.convert('RGB').getcolors(1 << 20)) > 10
    assert 'fp8, all quantised' in capsys.readouterr().out


def test_files_that_are_no_results_are_refused(study, tmp_path, capsys):
    def told(text: str) -> str:
        path = tmp_path / 'x.json'
        path.write_text(text)
        assert run(path, '-o', tmp_path / 'out') == 2
        said = capsys.readouterr().err
        assert said.startswith('error: ')
        assert said.count('\n') == 1
        return said

    content = json.loads(study.read_text())
    assert 'cannot be read' in told('{')
    assert "field 'format' is missing" in told('{}')
    assert "'format' is 'flashrt_recipe'" in told(json.dumps(recipe()))
    content['variants'][1]['kept'] = ['wings.*']
    assert "keeps group 'wings.*', which the file does not list" in told(json.dumps(content))
    content['variants'][1]['errors']['relative'] = None
    assert "'relative' is None, needed a finite number" in told(json.dumps(content))
