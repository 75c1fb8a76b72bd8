# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`flashrt evaluate` as a command: what it refuses, what it writes, and that workers change no result."""

import json
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import flashrt_core.cli
from flashrt_core.cli import main

ROOT = Path(__file__).parents[2]
PARAMETERS = ROOT / 'config' / 'pi05_tabletop.yaml'
EVALUATE = EntryPoint('evaluate', 'flashrt_ros.tabletop.evaluate:run', 'flashrt.commands')

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def evaluate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, tmp_path: Path) -> Command:
    """Arguments -> exit code, stdout, stderr; writes to tmp_path."""
    monkeypatch.setattr(flashrt_core.cli, 'entry_points', lambda group: [EVALUATE])

    def run(*arguments: object, output: Path = tmp_path) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(['evaluate', str(PARAMETERS), '-o', str(output), *map(str, arguments)])
        captured = capsys.readouterr()
        return stop.value.code or 0, captured.out, captured.err

    return run


@pytest.mark.parametrize(
    ('arguments', 'fault'),
    [
        (['--task', 'lift,push'], "--task holds 'push', known are touch, lift, place, stack"),
        (['--mode', 'fast'], "--mode holds 'fast', known are naive, block"),
        (['--control', 'dark,'], "--control holds ''"),
        (['--delay-ms', '0,0'], "--delay-ms holds '0' 2 times"),
        (['--delay-ms', 'soon'], "--delay-ms is 'soon', needed numbers"),
        (['--steps=-1'], "--steps is '-1', needed numbers from 0 on"),
        (['--estimator', 'best'], "--estimator holds 'best'"),
        (['--wording', '2'], 'no wording 2'),
        (['--first', '999999'], 'those of evaluation are 0 to 999999'),
        (['--set', 'seed'], "--set 'seed', needed NAME=VALUE"),
        (['--set', 'seed=['], 'is no YAML'),
        (['--set', 'seed=1', '--set', 'seed=2'], '--set gives seed twice'),
        (['--recipe', 'bf16', '--set', 'model.recipe=fp8'], 'both --recipe and --set give model.recipe'),
        (['--steps', '3', '--set', 'model.denoise_steps=5'], 'both --steps and --set'),
        (['--mode', 'skip', '--set', 'chunk.mode=rtc'], 'both --mode and --set give chunk.mode'),
        (['--backend', 'cpu', '--set', 'model.backend=cuda'], 'both --backend and --set'),
        (['--device', '0', '--set', 'model.device=1'], 'both --device and --set'),
        (['--threads', '4', '--set', 'model.threads=2'], 'both --threads and --set'),
        (['--set', 'control_rate_hz=fast'], 'control_rate_hz'),
        (['--set', 'chunk.mod=rtc'], 'chunk.mod is not a parameter of this node (nearest: chunk.mode)'),
        (
            ['--set', 'cameras.base_0_rgb.topic=top'],
            'cameras.base_0_rgb.topic is top, the tabletop has front',
        ),
        (['--delay-ms', '40,40.0'], "--delay-ms is '40,40.0', needed each number once"),
        (['--delay-ms', '33'], 'the delay is 0.033 s; the simulation needs multiples of 0.01 s'),
        (['--steps', '100000'], 'model.denoise_steps is 100000'),
        (['--recipe', 'no_such.json'], 'no_such.json'),
        (['--recipe', 'a/fp8.json,b/fp8.json'], "two recipes are called 'fp8'"),
        (['--set', 'model.checkpoint=nowhere'], 'nowhere'),
    ],
)
def test_what_cannot_be_played_is_refused_before_the_work(evaluate: Command, arguments: list, fault: str):
    code, _, err = evaluate(*arguments)
    assert code == 2
    assert fault in err
    assert 'Traceback' not in err


def test_an_output_that_is_no_folder_is_refused(evaluate: Command, tmp_path: Path):
    (tmp_path / 'file').write_text('')
    code, _, err = evaluate(output=tmp_path / 'file' / 'evaluate')
    assert (code, 'is no folder' in err) == (2, True)


def test_an_output_that_cannot_be_written_is_refused_before_the_work(evaluate: Command):
    """Also for root, who may write wherever there are files."""
    code, _, err = evaluate(output=Path('/proc'))
    assert (code, '/proc is no folder to write to' in err) == (2, True)


def test_workers_change_no_result(evaluate: Command, tmp_path: Path):
    arguments = ('-n', 2, '--task', 'touch', '--delay-ms', '0,200', '--at-least', 0.5)
    for workers in (1, 2):
        code, out, err = evaluate(*arguments, '--workers', workers, output=tmp_path / str(workers))
        assert code == 0, err
        assert '2/2' in out
    one, two = (json.loads((tmp_path / str(workers) / 'evaluation.json').read_text()) for workers in (1, 2))
    assert one['complete']
    assert one['renderer']
    assert [condition['delay_s'] for condition in one['conditions']] == [0.0, 0.2]
    episodes = [[condition['episodes'] for condition in result['conditions']] for result in (one, two)]
    assert episodes[0] == episodes[1]
    assert [episode['scene'] for episode in episodes[0][0]] == [0, 1]
    assert '| 0 ms | touch | 2/2' in (tmp_path / '1' / 'evaluation.md').read_text()
    assert (tmp_path / '1' / 'evaluation.png').stat().st_size > 1000


def test_too_few_successes_are_an_answer(evaluate: Command):
    code, out, _ = evaluate(
        *('-n', 1, '--task', 'touch', '--control', 'views_black', '--at-least', 0.9, '--workers', 1)
    )
    assert code == 1
    assert 'succeeds in 0.0%, asked for were 90.0%' in out
