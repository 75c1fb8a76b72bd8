# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`flashrt check` on parameters, files and device: every fault is one line, and the exit code counts them."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from fake_policy import CASES
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from tiny_checkpoint import JOINTS, tiny_values, write_params, write_statistics, write_tiny_checkpoint
from typer.testing import CliRunner

from flashrt_core.errors import Error
from flashrt_ros import check, check_environment
from flashrt_ros.check_findings import Finding, guarded, ok
from flashrt_ros.demo_checkpoint import TOKENIZER

PARAMS = CASES / 'params'
WHAT_HAPPENS = json.loads((PARAMS / 'index.json').read_text())
GOOD_CASES = {'ok.yaml', 'integer_for_float.yaml', 'integers_in_limits.yaml'}  # those that configure
BAD_CASES = sorted(name for name in WHAT_HAPPENS if name.endswith('.yaml') and name not in GOOD_CASES)


@pytest.fixture(scope='module')
def tiny(tmp_path_factory) -> Path:
    return write_tiny_checkpoint(tmp_path_factory.mktemp('tiny') / 'checkpoint')


@pytest.fixture
def checkpoint(tiny: Path, tmp_path: Path) -> Path:
    """A copy, to be damaged."""
    return shutil.copytree(tiny, tmp_path / 'checkpoint')


@pytest.fixture
def flashrt_check():
    app = typer.Typer()
    app.command()(check.run)

    def run(params: Path, *arguments: object, graph: bool = False):
        given = ['--params', params, *arguments, *([] if graph else ['--no-graph'])]
        return CliRunner().invoke(app, [str(argument) for argument in given])

    return run


@pytest.fixture
def lines(flashrt_check, checkpoint, tmp_path):
    """Level and text of each line for a tiny checkpoint with changed parameters."""

    def run(**changes: object) -> list[tuple[str, str]]:
        result = flashrt_check(write_params(tmp_path / 'params.yaml', tiny_values(checkpoint, **changes)))
        assert isinstance(result.exception, SystemExit | None), result.exception
        found = read_lines(result.output)
        assert result.exit_code == int('FAIL' in [level for level, _ in found])
        return found

    return run


def read_lines(output: str) -> list[tuple[str, str]]:
    *found, summary = output.splitlines()
    assert summary.endswith(' SKIP')
    return [(line[:5].strip(), line[5:]) for line in found]


def texts(lines: list[tuple[str, str]], level: str) -> list[str]:
    return [text for found, text in lines if found == level]


def test_a_good_checkpoint_and_file_pass(lines):
    found = lines()
    subjects = [text.split(':')[0] for text in texts(found, 'OK')]
    assert subjects == [
        *('environment', 'ROS', 'parameters', 'checkpoint', 'weights', 'statistics', 'tokenizer'),
        *('view slots', 'normalisation', 'token budget', 'device', 'computer'),
    ]
    assert not texts(found, 'FAIL')
    assert all(text.endswith('--no-graph') for text in texts(found, 'SKIP'))


def test_lines_hold_what_was_found(lines, checkpoint):
    found = dict(text.split(': ', 1) for text in texts(lines(), 'OK'))
    assert 'base_0_rgb, left_wrist_0_rgb' in found['view slots']
    assert f'state {JOINTS} columns, actions {JOINTS}' in found['statistics']
    assert 'of 200 tokens, with the longest state text' in found['token budget']
    assert 'a tiny Pi model ran on it' in found['device']
    tensors = len(load_file(checkpoint / 'model.safetensors'))
    assert tensors - 10 <= int(found['weights'].split()[0]) <= tensors  # some are of no use


@pytest.mark.parametrize('name', BAD_CASES)
def test_each_faulty_parameter_file_fails_with_a_line_per_fault(flashrt_check, name):
    result = flashrt_check(PARAMS / name)
    found = read_lines(result.output)
    assert result.exit_code == check.FAULTS
    assert all(text.startswith('parameters: ') for text in texts(found, 'FAIL'))
    assert texts(found, 'FAIL')
    assert texts(found, 'SKIP')[0] == 'checkpoint: not checked: the parameters have faults'


@pytest.mark.parametrize('name', sorted(GOOD_CASES))
def test_the_other_parameter_files_are_read(flashrt_check, name):
    found = read_lines(flashrt_check(PARAMS / name).output)
    assert not [text for text in texts(found, 'FAIL') if text.startswith('parameters')]


def test_an_unknown_key_is_a_warning(lines):
    [text] = [text for text in texts(lines(joints__naems=['a']), 'WARN') if text.startswith('parameters')]
    assert 'joints.naems is not a parameter of this node (nearest: joints.names)' in text


def test_a_file_that_is_not_there_is_a_line(flashrt_check):
    result = flashrt_check(PARAMS / 'missing.yaml')
    assert 'FAIL parameters: cannot be read: ' in result.output
    assert result.exit_code == check.FAULTS


def test_the_node_name_selects_the_parameters(flashrt_check):
    params = PARAMS / 'wrong_namespace.yaml'
    result = flashrt_check(params, '--node-name', '/robot_b/policy')
    assert not [text for text in texts(read_lines(result.output), 'FAIL') if text.startswith('parameters')]


def drop_tensor(checkpoint: Path) -> None:
    tensors = load_file(checkpoint / 'model.safetensors')
    del tensors['action_out_proj.bias']
    save_file(tensors, checkpoint / 'model.safetensors')


def cut(checkpoint: Path) -> None:
    path = checkpoint / 'model.safetensors'
    path.write_bytes(path.read_bytes()[:-1])


def lfs_pointer(checkpoint: Path) -> None:
    shutil.copy(CASES / 'checkpoints' / 'git_lfs_pointer.safetensors', checkpoint / 'model.safetensors')


def small_vocabulary(checkpoint: Path) -> None:
    config = json.loads((checkpoint / 'config.json').read_text())
    config['language']['vocab_size'] = 100
    (checkpoint / 'config.json').write_text(json.dumps(config))


def statistics(columns: int, low: float = -2.0, high: float = 2.0) -> Callable[[Path], None]:
    def write(checkpoint: Path) -> None:
        group = {'mean': [0.0], 'std': [1.0], 'q01': [low], 'q99': [high]}
        group = {kind: value * columns for kind, value in group.items()}
        write_statistics(checkpoint, {'state': group, 'actions': group})

    return write


@pytest.mark.parametrize(
    ('damage', 'words'),
    [
        (drop_tensor, 'weights: .*missing tensors: action_out_proj.bias'),
        (cut, 'weights: .*1 bytes past the end of the file'),
        (lfs_pointer, 'weights: .*is a Git LFS pointer'),
        (lambda folder: (folder / 'model.safetensors').unlink(), 'weights: .*has neither model.safetensors'),
        (lambda folder: (folder / 'config.json').unlink(), 'checkpoint: .*config.json'),
        (lambda folder: (folder / 'config.json').write_text('{'), 'checkpoint: .*config.json'),
        (lambda folder: (folder / TOKENIZER).unlink(), 'tokenizer: .*does not exist'),
        (lambda folder: (folder / TOKENIZER).write_bytes(b'x'), 'tokenizer: .*no SentencePiece model'),
        (small_vocabulary, 'tokenizer: .*712 pieces, the model knows 100 tokens'),
        (statistics(6), 'statistics: .*state 6 columns.*joints.names has 7'),
        (statistics(7, high=-2.0), 'policy: .*narrower than 0.001'),
        (statistics(7, low=3.0), 'policy: .*swapped or not finite'),
        (statistics(7, low=5.0, high=9.0), 'training range: .*nothing in common'),
        (lambda folder: shutil.rmtree(folder / 'assets'), 'statistics: .*does not exist'),
    ],
)
def test_a_damaged_checkpoint_fails_by_the_name_of_its_part(lines, checkpoint, damage, words):
    damage(checkpoint)
    found = texts(lines(), 'FAIL')
    assert any(matches(words, text) for text in found), found


def matches(words: str, text: str) -> bool:
    start, *parts = words.split('.*')
    return text.startswith(start) and all(part in text for part in parts)


@pytest.mark.parametrize(
    ('changes', 'words'),
    [
        ({'model__config': 'pi0'}, 'checkpoint: .*holds a pi05, model.config says pi0'),
        ({'model__checkpoint': '/missing'}, 'checkpoint: .*/missing'),
        ({'prompt': 'word ' * 300}, 'token budget: .*the capacity is 200'),
        ({'model__prompt_capacity': 30}, 'token budget: .*the capacity is 30'),
        (
            {'model__recipe': 'fp8', 'model__calibration': '/no'},
            'weights: model.calibration /no does not exist',
        ),
        ({'model__packed': '/no'}, 'weights: model.packed /no does not exist'),
        ({'model__backend': 'cuda', 'model__device': 63}, 'device: '),
        ({'computer__affinity': [9999]}, 'computer: computer.affinity names the cores 9999'),
        ({'model__state_text_width': 32}, 'policy: .*state_text_width'),
        ({'actions__representation': 'end_effector'}, 'policy: end_effector actions are no joint commands'),
        ({'chunk__mode': 'rtc'}, 'policy: .*set chunk.rtc_schedule'),
        ({'chunk__mode': 'rtc', 'chunk__rtc': 'hard'}, 'policy: .*set chunk.rtc: guided'),
    ],
)
def test_parameters_that_do_not_fit_the_checkpoint_fail(lines, changes, words):
    found = texts(lines(**changes), 'FAIL')
    assert any(matches(words, text) for text in found), found


def test_real_time_chunking_passes_with_its_settings(lines):
    guidance = {'chunk__rtc_schedule': 'exp', 'chunk__rtc_execution_horizon': 5, 'chunk__rtc_max_weight': 5.0}
    assert not texts(lines(chunk__mode='rtc', **guidance), 'FAIL')


def test_an_unknown_slot_is_told_with_those_of_the_model(lines):
    names = ['base_0_rgb', 'front']
    cameras = {'cameras__front__topic': 'front', 'cameras__front__rotation': 0}
    [found] = texts(lines(cameras__names=names, **cameras), 'FAIL')
    assert "'front' is no slot of this checkpoint" in found
    assert 'left_wrist_0_rgb' in found


def test_what_depends_on_a_fault_is_not_called_right(lines, checkpoint):
    (checkpoint / 'config.json').unlink()
    found = lines()
    assert [text.split(':')[0] for text in texts(found, 'FAIL')] == ['checkpoint']
    skipped = [text.split(':')[0] for text in texts(found, 'SKIP')]
    assert {'weights', 'view slots', 'token budget', 'training range'} <= set(skipped)


def test_an_unexpected_error_of_a_check_is_a_line(flashrt_check, tiny, tmp_path, monkeypatch):
    def broken(*arguments: object):
        yield ok('device', 'found')
        raise ZeroDivisionError('by\nzero')

    monkeypatch.setattr(check, 'check_device', broken)
    result = flashrt_check(write_params(tmp_path / 'params.yaml', tiny_values(tiny)))
    [text] = texts(read_lines(result.output), 'FAIL')
    assert text.startswith('device: this check ended in ZeroDivisionError: by zero')
    assert result.exit_code == check.FAULTS


def test_without_ros_the_rest_is_checked(flashrt_check, tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, 'flashrt_ros.graph_observer', None)
    monkeypatch.setattr(check_environment.importlib.util, 'find_spec', lambda name: None)
    params = write_params(tmp_path / 'params.yaml', tiny_values(tiny))
    result = flashrt_check(params, graph=True)
    found = read_lines(result.output)
    assert result.exit_code == 0
    skipped = [text.split(':')[0] for text in texts(found, 'SKIP')]
    assert skipped == ['ROS', 'graph', 'topics', 'controllers', 'limits']
    assert 'ROS 2 is not sourced' in texts(found, 'SKIP')[-1]


def test_json_holds_the_same_findings(flashrt_check, tiny, tmp_path):
    path = tmp_path / 'check.json'
    params = write_params(tmp_path / 'params.yaml', tiny_values(tiny, prompt='word ' * 300))
    result = flashrt_check(params, '--json', path)
    document = json.loads(path.read_text())
    assert (document['format'], document['version']) == (check.FORMAT, check.FORMAT_VERSION)
    assert (document['parameters'], document['node']) == (str(params), '/policy')
    written = [(item['level'], f'{item["subject"]}: {item["text"]}') for item in document['findings']]
    assert written == read_lines(result.output)
    assert document['counts']['FAIL'] == 1


@pytest.mark.parametrize(
    'arguments',
    [
        ['--node-name', 'policy'],
        ['--node-name', '/policy/'],
        ['--wait', '-1'],
        ['--json', '/no/such/folder/check.json'],
        ['--unknown'],
    ],
)
def test_wrong_arguments_are_told_apart_from_faults(flashrt_check, arguments):
    assert flashrt_check(PARAMS / 'ok.yaml', *arguments).exit_code == check.USAGE


@given(st.text())
def test_a_finding_is_one_printable_line(text):
    finding = ok(text, text)
    for part in (finding.subject, finding.text):
        assert len(part.splitlines()) <= 1
        assert all(c.isprintable() for c in part)


def test_what_was_found_before_an_error_stays():
    def findings():
        yield ok('part', 'one')
        raise Error('two\nthree')

    assert list(guarded('part', findings())) == [ok('part', 'one'), Finding('FAIL', 'part', 'two three')]
