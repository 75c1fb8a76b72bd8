# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`make demo` as a newcomer runs it, and what it says where something is wrong."""

import json
import os
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from flashrt_core.errors import Error
from flashrt_ros.demo import FIRST, THEN, Attempt, choose_pace, disturbances, faults_of, main
from flashrt_ros.live_tabletop import Ended, Speed
from flashrt_ros.tabletop.film import Take, write_animation, write_strip

DONE = Ended(FIRST, True, 'done', 5.0)
MISSED = Ended(THEN, False, 'not done within 10 s', 10.0)
PATIENCE_S = 600.0


def run(folder: Path, *options: str, domain: int = 0) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {'ROS_DOMAIN_ID': str(domain), 'ROS_LOG_DIR': str(folder / 'log')}
    return subprocess.run(
        [sys.executable, '-m', 'flashrt_ros.demo', '--out', 'out', *options],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip


def test_both_tasks_are_done_and_shown(tmp_path: Path, domain_id: int):
    """At whatever pace this machine allows."""
    done = run(tmp_path, domain=domain_id)
    said = ' '.join(done.stdout.split())
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ''
    for words in (f'“{FIRST}”: done in', f'“{THEN}”: done in', 'an inference takes', 'stamp to command',
                  'out/report.json, out/report.png', 'out/film.png, out/film.gif', 'try next: '):  # fmt: skip
        assert words in said
    report = json.loads((tmp_path / 'out' / 'report.json').read_text())
    assert (report['mode'], report['policy']['model']) == ('closed loop', 'pi05')
    assert len(report['chunks']) > 50
    assert all(stream['received'] and not stream['unexplained'] for stream in report['streams'].values())
    with Image.open(tmp_path / 'out' / 'film.gif') as film:
        assert film.n_frames > 20
    assert (tmp_path / 'out' / 'film.png').stat().st_size > 10_000


def test_a_task_that_was_not_done_fails_and_is_shown(tmp_path: Path, domain_id: int):
    """Under the red block there is no lifting the blue one alone."""
    done = run(tmp_path, '--then', 'lift the blue block', '--pace', 'lockstep', domain=domain_id)
    assert f'“{FIRST}”: done in' in ' '.join(done.stdout.split())
    assert 'FAILED: “lift the blue block”: not done: ' in ' '.join(done.stderr.split())
    assert done.returncode == 1
    assert (tmp_path / 'out' / 'film.png').exists()


@pytest.mark.parametrize(
    ('options', 'words'),
    [
        (('--first', 'fly'), "FAILED: 'fly' is no task of the tabletop"),
        (('--then', 'fly'), "FAILED: 'fly' is no task of the tabletop"),
        (('--scene', '1000000'), 'FAILED: scenes 1000000 to 1000000: those of evaluation are 0 to 999999'),
    ],
)
def test_what_it_cannot_do_is_said_before_anything_starts(
    tmp_path: Path, options: tuple[str, ...], words: str
):
    done = run(tmp_path, *options)
    assert done.returncode == 1
    assert words in ' '.join(done.stderr.split())
    assert not (tmp_path / 'out').exists()


def test_a_folder_that_cannot_be_written_is_said_before_anything_starts(tmp_path: Path):
    done = run(tmp_path, '--out', '/proc')  # not even by root
    assert done.returncode == 1
    assert 'FAILED: /proc is no folder to write to' in ' '.join(done.stderr.split())
    assert 'Traceback' not in done.stderr


@pytest.mark.parametrize(
    ('wanted', 'speed', 'pace'),
    [
        ('auto', Speed(100.0, 0.95), 'real_time'),
        ('auto', Speed(101.0, 1.0), 'lockstep'),
        ('auto', Speed(20.0, 0.94), 'lockstep'),
        ('real_time', Speed(500.0, 0.2), 'real_time'),
        ('lockstep', Speed(20.0, 1.0), 'lockstep'),
    ],
)
def test_real_time_is_for_machines_that_keep_up(wanted: str, speed: Speed, pace: str):
    chosen, why = choose_pace(wanted, speed)
    assert chosen == pace
    assert f'{speed.inference_ms:.0f} ms' in why
    assert f'{speed.simulation:.2f} s' in why


def test_the_fault_is_the_condition_of_the_task():
    assert list(faults_of(Attempt('lockstep', [DONE, DONE], []))) == []
    assert list(faults_of(Attempt('lockstep', [DONE, MISSED], []))) == [
        f'“{THEN}”: not done: not done within 10 s'
    ]


def test_a_busy_machine_is_told_from_a_policy_that_fails():
    assert list(disturbances(0.3, {'given_up': '0'})) == []
    gap, silence = disturbances(0.72, {'given_up': '2'})
    assert 'between two chunks 0.72 s passed' in gap
    assert '2 times the robot waited in vain' in silence
    _, fault = faults_of(Attempt('real_time', [MISSED], [gap]))
    assert fault == f'the machine may be to blame, not the policy: {gap}'
    assert list(faults_of(Attempt('real_time', [DONE, DONE], [gap]))) == []  # done is done


@pytest.mark.parametrize(('what_happened', 'code'), [((), 1), (('it paused',), 2)])
def test_the_exit_code_tells_a_slow_machine_from_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, what_happened: tuple[str, ...], code: int
):
    attempt = Attempt('real_time', [DONE, MISSED], what_happened)
    monkeypatch.setattr('flashrt_ros.demo.run_demo', lambda *_: attempt)
    assert main([]) == code
    said = ' '.join(capsys.readouterr().err.split())
    assert f'FAILED: “{THEN}”: not done' in said
    assert ('the machine may be to blame' in said) == bool(what_happened)


def film(*states: str) -> list[Take]:
    """A picture each 100 ms, which grow brighter; the second half is of another prompt."""
    takes = []
    for index, state in enumerate(states):
        picture = np.full((48, 48, 3), 20 * index, np.uint8)
        jpeg = cv2.imencode('.jpg', picture)[1].tobytes()
        takes.append(Take(0.1 * index, jpeg, FIRST if index < len(states) / 2 else THEN, state))
    return takes


def test_a_strip_has_a_row_per_task(tmp_path: Path):
    takes = film(*['running'] * 5, 'succeeded', *['running'] * 5, 'failed')
    for name, part in (('one', takes[:6]), ('two', takes)):
        write_strip(part, tmp_path / f'{name}.png')
    one, two = (cv2.imread(str(tmp_path / f'{name}.png')) for name in ('one', 'two'))
    assert two.shape == (2 * one.shape[0], one.shape[1], 3)


def test_an_animation_takes_as_long_as_what_it_shows(tmp_path: Path):
    takes = film(*['running'] * 10, 'succeeded')
    write_animation(takes, tmp_path / 'film.gif')
    durations = []
    with Image.open(tmp_path / 'film.gif') as animation:
        for index in range(animation.n_frames):
            animation.seek(index)
            durations.append(animation.info['duration'])
    assert sum(durations[:-1]) == pytest.approx(1000, abs=20)


def test_no_picture_and_a_damaged_one_are_said(tmp_path: Path):
    with pytest.raises(Error, match='there is no picture'):
        write_strip([], tmp_path / 'film.png')
    with pytest.raises(Error, match=r'the picture at 0.30 s cannot be decoded'):
        _ = Take(0.3, b'no jpeg', FIRST, 'running').picture
