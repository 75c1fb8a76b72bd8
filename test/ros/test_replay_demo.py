# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`make replay` as a newcomer runs it, and that it notices each thing that can be wrong with it."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from fake_policy import FakePolicy, parameters
from rich.console import Console

from flashrt_core.types import Observation
from flashrt_ros.dependence import dependences
from flashrt_ros.replay_demo import MODELS, _ModelInput, find_data, read_pictures, traffic_faults
from flashrt_ros.report import ChunkTiming, Report, StreamCounts

SLOTS = ('cam_high', 'cam_left_wrist', 'cam_right_wrist')
QUIET = Console(quiet=True)


TRIES = 3
TOO_FEW = 'chunks were published, at least'  # so many come where the machine does nothing else


@pytest.mark.parametrize(('model', 'name'), [('pi05', 'pi05'), ('groot', 'groot_n16')])
def test_demo_passes_and_writes_its_report(domain_id, tmp_path, model: str, name: str):
    """Once in three times: a machine that pauses loses messages, as the demo says; a fault fails them all.

    How many chunks a busy machine makes is no fault, as long as the robot is followed.
    """
    environment = os.environ | {'ROS_DOMAIN_ID': str(domain_id), 'ROS_LOG_DIR': str(tmp_path / 'log')}
    for _ in range(TRIES):
        done = subprocess.run(
            [sys.executable, '-m', 'flashrt_ros.replay_demo', '--model', model, '--out', 'out'],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip
        if done.returncode == 0:
            break
    faults = ' '.join(done.stderr.split()).split('FAILED: ')[1:]
    assert [fault for fault in faults if TOO_FEW not in fault] == [], done.stdout + done.stderr
    assert done.returncode == (1 if faults else 0), done.stdout + done.stderr
    for words in ('stamp to command', 'out/report.json', 'out/report.png', '21 changes of one input'):
        assert words in done.stdout
    report = json.loads((tmp_path / 'out' / 'report.json').read_text())
    assert len(report['chunks']) >= MODELS[model].fewest_chunks // 5
    assert all(stream['unexplained'] == 0 for stream in report['streams'].values())
    assert report['policy']['model'] == name


def test_unknown_model_is_named():
    done = subprocess.run(
        [sys.executable, '-m', 'flashrt_ros.replay_demo', '--model', 'openvla'],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "model 'openvla' is not known; known: pi05, groot" in done.stderr


def report(chunks: int = 60, **streams: StreamCounts) -> Report:
    return Report(
        mode='live', clock='', bag='', parameters='', messages=0, duration_s=8.0, stages={},
        gated_stage='stamp_to_command', chunks=tuple(ChunkTiming(i, 0, 1, 2) for i in range(chunks)),
        streams=streams, play={},
    )  # fmt: skip


WHOLE = StreamCounts('/camera', 120, 120, {'damaged': 1}, used=90, superseded=28, waiting=1)


@pytest.mark.parametrize(
    ('replayed', 'words'),
    [
        (report(49), '49 chunks were published, at least 50'),
        (report(top=replace(WHOLE, received=118, used=88)), 'top: 2 of 120 messages are missing'),
        (report(top=replace(WHOLE, received=118)), 'top: 4 of 120 messages are missing'),
        (report(top=replace(WHOLE, used=89)), 'top: 1 of 120 messages are missing'),
        (report(top=replace(WHOLE, used=91)), 'top: 1 of 120 messages are missing'),
        (report(arm=StreamCounts('/joints', 400, 399, {})), 'arm: 1 of 400'),
    ],
)
def test_too_few_chunks_or_missing_messages_fail(replayed, words):
    [fault] = traffic_faults(replayed, fewest_chunks=50)
    assert words in fault


def test_a_whole_account_passes():
    assert not list(traffic_faults(report(50, top=WHOLE, arm=StreamCounts('/joints', 400, 400, {})), 50))


@pytest.fixture(scope='module', params=list(MODELS))
def pictures(request) -> dict[str, np.ndarray]:
    return read_pictures(find_data(MODELS[request.param]).model_input, SLOTS)


def seen(views: list[np.ndarray]) -> _ModelInput:
    side_by_side = np.ascontiguousarray(np.concatenate(views, axis=1))
    height, width, _ = side_by_side.shape
    model_input = _ModelInput()
    model_input._keep(
        SimpleNamespace(height=height, width=width, step=3 * width, data=side_by_side.tobytes())
    )
    return model_input


def test_the_stored_pictures_pass(pictures):
    assert not list(seen(list(pictures.values())).faults(pictures, QUIET))


def test_no_picture_fails(pictures):
    [fault] = _ModelInput().faults(pictures, QUIET)
    assert 'published nothing' in fault


@pytest.mark.parametrize(
    ('change', 'faulty'),
    [
        (lambda views: [views[0], views[2], views[1]], SLOTS[1:]),
        (lambda views: [views[0][:, :, ::-1], *views[1:]], SLOTS[:1]),  # blue for red
        (lambda views: [views[0], views[1], np.roll(views[2], 1, axis=0)], SLOTS[2:]),  # a row too low
        (lambda views: [views[0][::-1, ::-1], *views[1:]], SLOTS[:1]),  # turned round
    ],
)
def test_other_pictures_fail(pictures, change, faulty):
    faults = list(seen(change(list(pictures.values()))).faults(pictures, QUIET))
    assert len(faults) == len(faulty)
    for slot, fault in zip(faulty, faults, strict=True):
        assert slot in fault


class Careless(FakePolicy):
    """Depends on everything but what it is told to ignore; pictures count with a weight of their own."""

    def __init__(self, ignored: str) -> None:
        super().__init__(parameters())
        self._ignored = ignored
        self._words = 0
        self._calls = 0

    def set_prompt(self, text: str) -> int:
        self._words = len(text)
        return super().set_prompt(text)

    def infer(self, observation: Observation, **_: object):
        self._calls += 1
        total = 0.0 if self._ignored == 'prompt' else self._words
        for weight, (slot, picture) in enumerate(observation.images.items(), 1):
            total += 0.0 if self._ignored == slot else weight * picture.astype(float).mean()
        if self._ignored == 'order':
            total = sum(picture.astype(float).mean() for picture in observation.images.values())
        for weight, value in enumerate(observation.state, 1):
            total += 0.0 if self._ignored == f'joint {weight}' else weight * value
        total += self._calls if self._ignored == 'repetition' else 0
        chunk = super().infer(observation)
        return replace(chunk, model_actions=np.full((10, 32), total, np.float32))


def unmoved(ignored: str) -> list[str]:
    policy = Careless(ignored)
    rng = np.random.default_rng(5)
    images = {slot: rng.integers(0, 200, (48, 64, 3), np.uint8) for slot in policy.spec.cameras}
    images['wrist'] //= 2
    observation = Observation(images, rng.normal(size=7))
    names = [f'joint {number}' for number in range(1, 8)]
    found = dependences(policy, observation, names, 'pick it up', 'put it down again')
    assert len(found) == 1 + 2 + 1 + 7 + 1
    return [item.what for item in found if not item.is_fine]


@pytest.mark.parametrize(
    ('ignored', 'noticed'),
    [
        ('nothing at all', []),
        ('base', ['one patch of base']),
        ('wrist', ['one patch of wrist']),
        ('order', ['base and wrist swapped', 'the prompt']),
        ('joint 7', ['joint 7']),
        ('prompt', ['the prompt']),
        ('repetition', ['nothing']),
    ],
)
def test_an_input_that_is_ignored_is_noticed(ignored, noticed):
    assert unmoved(ignored) == noticed
