# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Offline replay: the same bytes every time, every message accounted for, the budget as an exit code."""

import json
import shutil
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import typer
from fake_policy import CASES, FakePolicy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from rich.console import Console
from safetensors.numpy import load_file
from typer.testing import CliRunner

from flashrt_core.types import Observation
from flashrt_ros import replay, replay_offline
from flashrt_ros.bag import BagError
from flashrt_ros.bag_inputs import BagInputs
from flashrt_ros.load import LoadPolicy
from flashrt_ros.report import Report, StreamCounts

BAGS = CASES / 'bags'
PARAMS = CASES / 'params' / 'ok.yaml'
EVERY_PICTURE = 2 * 20 - 1  # chunks when each picture is used as it comes; the first waits for the second
COMPRESSED = {
    f'cameras.{slot}.{key}': value
    for slot in ('base', 'wrist')
    for key, value in (('topic', f'cam_{slot}/image_raw/compressed'), ('transport', 'compressed'))
}


def brightness(observation: Observation) -> NDArray:
    """A chunk that tells which pictures and joints it was made from."""
    seen = [picture.mean() for picture in observation.images.values()]
    return np.outer(np.arange(1, 11), observation.state) + seen[0] + 2 * seen[1]


def load(parameters):
    return FakePolicy(parameters, brightness)


def run(
    bag: str | Path, out: Path, inference_s: float = 0.05, load: LoadPolicy = load, **changes: object
) -> Report:
    overrides = COMPRESSED | {name.replace('__', '.'): value for name, value in changes.items()}
    return replay_offline.replay_offline(
        BAGS / bag, PARAMS, out, Console(quiet=True), inference_s=inference_s, overrides=overrides, load=load
    )


@pytest.fixture
def params(tmp_path: Path) -> Path:
    """The reference robot with compressed cameras, as a file."""
    text = PARAMS.read_text()
    for slot in ('base', 'wrist'):
        plain = f'topic: cam_{slot}/image_raw,'
        assert plain in text
        text = text.replace(plain, f'topic: cam_{slot}/image_raw/compressed, transport: compressed,')
    path = tmp_path / 'params.yaml'
    path.write_text(text)
    return path


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch):
    """`flashrt replay` with the fake policy."""
    monkeypatch.setattr(replay_offline.replay_offline, '__kwdefaults__', kwdefaults(load=load))
    app = typer.Typer()
    app.command()(replay.run)
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


def kwdefaults(**changes: object) -> dict:
    return dict(replay_offline.replay_offline.__kwdefaults__) | changes


@pytest.mark.parametrize('bag', ['plain_db3', 'out_of_order_stamps'])
def test_r29_two_runs_give_the_same_bytes_and_counts(tmp_path, bag):
    first, second = run(bag, tmp_path / 'first'), run(bag, tmp_path / 'second')
    content = (tmp_path / 'first' / 'chunks.safetensors').read_bytes()
    assert content == (tmp_path / 'second' / 'chunks.safetensors').read_bytes()
    assert first.digest == second.digest
    assert first.streams == second.streams
    assert first.play == second.play
    assert first.chunks == second.chunks
    assert len(first.chunks) > 10


def test_the_storage_makes_no_difference(tmp_path):
    assert run('plain_db3', tmp_path / 'a').digest == run('plain_mcap', tmp_path / 'b').digest


def test_other_settings_give_other_chunks(tmp_path):
    """The digest is not a constant."""
    usual = run('plain_db3', tmp_path)
    assert run('plain_db3', tmp_path, inference_s=0.3).digest != usual.digest
    swapped = {
        f'cameras__{slot}__topic': f'cam_{other}/image_raw/compressed'
        for slot, other in (('base', 'wrist'), ('wrist', 'base'))
    }
    assert run('plain_db3', tmp_path, **swapped).digest != usual.digest


def test_every_message_is_accounted_for(tmp_path):
    report = run('plain_db3', tmp_path)
    assert report.messages == 140
    assert {name: counts.recorded for name, counts in report.streams.items()} == {
        'base': 20,
        'wrist': 20,
        'joint_states': 100,
    }
    assert all(counts.unexplained == 0 for counts in report.streams.values())
    used = [counts.used for counts in report.streams.values()]
    assert used[0] == used[1] == 20


def test_a_slow_policy_supersedes_frames(tmp_path):
    report = run('plain_db3', tmp_path, inference_s=0.35)
    base = report.streams['base']
    assert base.superseded > 10
    assert base.unexplained == 0
    assert len(report.chunks) == base.used


def test_r29_frames_that_come_late_are_refused_and_counted(tmp_path):
    base = run('out_of_order_stamps', tmp_path).streams['base']
    assert base.dropped == {'out_of_order': 10}
    assert base.unexplained == 0
    stamps = load_file(tmp_path / 'chunks.safetensors')['stamp_ns']
    assert (np.diff(stamps) >= 0).all()


def test_r19_zero_stamps_are_refused_unless_the_time_of_receipt_was_chosen(tmp_path):
    refused = run('stamp_zero', tmp_path)
    assert refused.streams['base'].dropped == {'zero_stamp': 20}
    assert not refused.chunks
    [warning] = [text for text in refused.warnings if 'stamp is zero' in text]
    assert 'cameras.base.stamp: receive' in warning
    assert run('stamp_zero', tmp_path, cameras__base__stamp='receive').streams['base'].used == 20


def test_r18_clock_that_jumps_back_begins_afresh(tmp_path):
    report = run('clock_jumps_back', tmp_path)
    jumps = [warning for warning in report.warnings if 'clock jumped' in warning]
    assert jumps == ['the clock jumped by -1.980 s; starting afresh']
    # The first frame of the second lap comes just before the clock that it belongs to.
    assert {name: counts.dropped for name, counts in report.streams.items()} == {
        'base': {'out_of_order': 1},
        'wrist': {},
        'joint_states': {},
    }
    stamps = [chunk.stamp_ns for chunk in report.chunks]
    second_lap = next(n for n in range(1, len(stamps)) if stamps[n] < stamps[n - 1])
    assert stamps[second_lap:][:second_lap] == stamps[:second_lap]
    assert 35 < second_lap < 40
    assert all(chunk.start_ns >= chunk.stamp_ns for chunk in report.chunks)


def test_r13_joints_of_two_publishers_form_one_state(tmp_path):
    report = run('arm_and_gripper_apart', tmp_path)
    assert len(report.chunks) > 10
    assert report.streams['joint_states'].unexplained == 0


def test_r27_the_report_says_how_many_messages_it_is_based_on(tmp_path):
    report = run('truncated_mcap', tmp_path)
    assert report.messages == 81
    assert any('81 messages are whole' in warning for warning in report.warnings)
    assert json.loads(report.to_json())['messages'] == 81


def test_r28_the_other_topics_are_replayed(tmp_path):
    report = run('unknown_type', tmp_path)
    assert report.digest == run('plain_db3', tmp_path).digest
    assert sum('/gripper_force' in warning for warning in report.warnings) == 1


def test_r28_a_topic_that_the_parameters_need_is_refused(tmp_path):
    with pytest.raises(BagError, match=r'/gripper_force \(acme_interfaces/msg/GripperForce\)'):
        run('unknown_type', tmp_path, joints__topics=['joint_states', 'gripper_force'])


def test_damaged_messages_are_refused_and_counted(tmp_path):
    """Every third message of the recording loses its end or is noise."""
    folder = tmp_path / 'bag'
    shutil.copytree(BAGS / 'plain_db3', folder)
    rng = np.random.default_rng(3)
    with closing(sqlite3.connect(folder / 'plain_db3.db3')) as database, database:
        rows = database.execute('SELECT id, data FROM messages ORDER BY id').fetchall()
        for number, data in rows[::3]:
            kept = rng.integers(0, len(data))
            damaged = data[:kept] if number % 2 else data[:4] + rng.bytes(len(data) - 4)
            database.execute('UPDATE messages SET data = ? WHERE id = ?', (damaged, number))
    report = run(folder, tmp_path / 'out')
    refused = Counter()
    for counts in report.streams.values():
        assert counts.unexplained == 0
        refused.update(counts.dropped)
    assert refused.total() >= len(rows[::3]) * 0.9  # noise may leave a message that can be read
    assert refused['damaged_message'] > 20
    assert report.chunks


def stay(parameters):
    """A policy whose rows all limits let pass, each of them another one."""
    return FakePolicy(parameters, lambda seen: seen.state + np.outer(1e-4 * np.arange(10), np.eye(7)[0]))


def test_commands_are_rows_of_the_chunks(tmp_path):
    """With an inference of one control period, the row that is due is the second one."""
    upper = [2.0] * 6 + [1.0]  # the gripper of the recording opens beyond that of the cases
    run('plain_db3', tmp_path, inference_s=0.049, load=stay, joints__upper=upper)
    tensors = load_file(tmp_path / 'chunks.safetensors')
    rows = tensors['actions'].reshape(-1, 7)
    assert len(tensors['commands']) > 20
    for command in tensors['commands']:
        assert (rows == command).all(axis=1).any()
    assert (np.diff(tensors['command_ns']) == 50_000_000).all()


def test_slow_policy_starves_the_play(tmp_path):
    """A chunk of 0.5 s is over before the next one, of 0.7 s, is there."""
    report = run('plain_db3', tmp_path, inference_s=0.7, load=stay, actions__starvation_limit_s=0.04)
    assert report.deadline_misses == 1
    assert any('no action to play' in warning for warning in report.warnings)


def test_stale_joints_leave_nothing_to_play(tmp_path):
    """Joints come every 20 ms: at a limit of 11 ms they are too old within every inference."""
    report = run('plain_db3', tmp_path, load=stay, joints__max_age_s=0.011)
    assert report.play['chunks_of_old_run'] > 0
    assert report.play['commands'] == 0


def test_end_effector_actions_run_without_a_player(tmp_path):
    report = run('plain_db3', tmp_path, actions__representation='end_effector')
    assert len(report.chunks) == EVERY_PICTURE
    assert report.play == {}
    assert load_file(tmp_path / 'chunks.safetensors')['commands'].shape == (0, 0)


def test_command_writes_report_and_picture(command, params, tmp_path):
    result = command(BAGS / 'plain_db3', '--params', params, '--offline', '--out', tmp_path / 'out')
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / 'out' / 'report.json').read_text())
    assert report['format'] == 'flashrt_ros.replay_report'
    assert report['version'] == 1
    assert report['mode'] == 'offline'
    assert len(report['chunks']) == EVERY_PICTURE
    assert report['stages']['stamp_to_chunk']['p99_ms'] > 0
    assert report['streams']['base']['unexplained'] == 0
    assert (tmp_path / 'out' / 'report.png').read_bytes().startswith(b'\x89PNG')
    assert 'stamp to chunk' in result.output


@pytest.mark.parametrize(('budget_ms', 'code'), [(1e6, 0), (1e-3, 1)])
def test_budget_decides_the_exit_code(command, params, tmp_path, budget_ms, code):
    result = command(
        BAGS / 'plain_db3', '--params', params, '--offline', '--out', tmp_path, '--budget-ms', budget_ms
    )
    assert result.exit_code == code, result.output
    assert json.loads((tmp_path / 'report.json').read_text())['is_within_budget'] == (code == 0)


@pytest.mark.parametrize('budget', [[], ['--budget-ms', 1e-3]])
def test_messages_missing_without_a_reason_are_exit_code_2(command, params, tmp_path, monkeypatch, budget):
    counts = BagInputs.counts

    def without_two(self: BagInputs, now_ns: int) -> dict[str, StreamCounts]:
        whole = counts(self, now_ns)
        return whole | {'base': replace(whole['base'], received=18, used=whole['base'].used - 2)}

    monkeypatch.setattr(BagInputs, 'counts', without_two)
    result = command(BAGS / 'plain_db3', '--params', params, '--offline', '--out', tmp_path, *budget)
    assert result.exit_code == 2, result.output
    assert 'base: 2 of 20 messages are missing without a reason' in result.output
    assert 'wrist: ' not in result.output
    assert (tmp_path / 'report.json').exists()


def test_no_chunk_is_in_no_budget(command, params, tmp_path):
    result = command(
        BAGS / 'stamp_zero', '--params', params, '--offline', '--out', tmp_path, '--budget-ms', 1e6
    )
    assert result.exit_code == 1, result.output


def test_a_file_where_the_report_should_go_is_refused_before_the_work(command, params, tmp_path):
    (tmp_path / 'file').write_text('')
    result = command('gone', '--params', params, '--offline', '--out', tmp_path / 'file' / 'folder')
    assert result.exit_code == 2
    assert f'{tmp_path}/file is not a folder' in result.output


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        (['gone', '--offline'], 'does not exist'),
        ([BAGS / 'unknown_type', '--offline', '--clock'], 'leave out --clock'),
        ([BAGS / 'unknown_type', '--inference-ms', 50], '--inference-ms is for --offline'),
    ],
)
def test_faults_are_one_sentence_and_exit_code_2(command, params, tmp_path, arguments, words):
    result = command(*arguments, '--params', params, '--out', tmp_path)
    assert result.exit_code == 2
    assert words in result.output
    assert 'Traceback' not in result.output


def test_live_replay_without_ros_says_what_to_install(command, params, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, 'flashrt_ros.replay_live', raising=False)
    for module in {'rclpy', *(name for name in sys.modules if name.startswith('rclpy.'))}:
        monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    result = command(BAGS / 'plain_db3', '--params', params, '--out', tmp_path)
    assert result.exit_code == 2
    assert 'ros-<distro>-rclpy' in result.output
    assert '--offline' in result.output


def test_faulty_parameters_are_exit_code_2(command, tmp_path):
    params = CASES / 'params' / 'rate_zero.yaml'
    result = command(BAGS / 'plain_db3', '--params', params, '--offline', '--out', tmp_path)
    assert result.exit_code == 2
    assert 'control_rate_hz' in result.output


# Without a model


def test_stub_needs_no_checkpoint_and_the_report_says_that_it_ran(command, params, tmp_path):
    digests = set()
    for latency_ms, out in ((60, 'a'), (60, 'b'), (250, 'c')):
        result = command(
            BAGS / 'plain_db3', '--params', params, '--offline', '--stub-latency-ms', latency_ms,
            '--out', tmp_path / out,
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        assert f'a stub of {latency_ms} ms ran, not the model' in ' '.join(result.output.split())
        report = json.loads((tmp_path / out / 'report.json').read_text())
        assert f'a stub of {latency_ms} ms ran, not the model' in report['warnings'][0]
        assert report['policy']['backend'] == 'stub'
        took = {chunk['end_ns'] - chunk['start_ns'] for chunk in report['chunks']}
        assert took == {latency_ms * 1_000_000}
        digests.add(report['digest'])
    assert len(digests) == 2


def test_live_the_node_runs_on_the_stub(command, params, tmp_path, monkeypatch):
    asked = {}

    def live(*arguments, **options):
        asked.update(options)
        raise BagError('far enough')

    monkeypatch.setattr(replay, 'live_replay', lambda: live)
    command(BAGS / 'plain_db3', '--params', params, '--stub-latency-ms', 60, '--out', tmp_path)
    assert asked['command'][:3] == (sys.executable, '-m', 'flashrt_ros.stub_node')
    assert {'--latency-ms=60.0', '--jitter-ms=0.0'} <= set(asked['command'])


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        (['--inference-ms', 50], 'leave out --inference-ms'),
        (['--budget-ms', 50], 'leave out --offline'),
    ],
)
def test_options_that_a_stub_contradicts_are_refused(command, params, tmp_path, arguments, words):
    given_options = ('--params', params, '--out', tmp_path, '--offline', '--stub-latency-ms', 60)
    result = command(BAGS / 'plain_db3', *given_options, *arguments)
    assert result.exit_code == 2
    assert words in result.output


# Damaged recordings


@pytest.mark.parametrize('name', sorted(json.loads((BAGS / 'index.json').read_text())))
def test_every_case_gives_the_same_bytes_and_a_count_twice(tmp_path, name):
    first, second = run(name, tmp_path / 'first'), run(name, tmp_path / 'second')
    assert first.digest == second.digest
    assert (first.messages, first.streams, first.warnings) == (
        second.messages,
        second.streams,
        second.warnings,
    )
    assert sum(counts.recorded for counts in first.streams.values()) == first.messages > 0
    assert not first.missing


def outcome(bag: Path, out: Path) -> tuple:
    """What a replay says, of a result as of a refusal; a refusal names the file, a result its messages."""
    try:
        report = run(bag, out)
    except BagError as error:
        return ('refused', str(error), bag.name in str(error))
    assert sum(counts.recorded for counts in report.streams.values()) == report.messages
    assert not report.missing
    return report.digest, report.messages, report.streams, report.warnings


@settings(
    max_examples=25, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(name=st.sampled_from(['plain_db3', 'plain_mcap']), data=st.data())
def test_damaged_recording_gives_the_same_result_or_refusal_twice(tmp_path, name, data):
    [source] = [file for file in (BAGS / name).iterdir() if file.suffix in ('.db3', '.mcap')]
    content = bytearray(source.read_bytes())
    changes = st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255))
    for at, value in data.draw(st.lists(changes, max_size=60), label='changes'):
        content[at] = value
    if data.draw(st.booleans(), label='is_cut'):
        content = content[: data.draw(st.integers(0, len(content)), label='cut')]
    file = tmp_path / source.name
    file.write_bytes(content)
    first = outcome(file, tmp_path / 'out')
    assert first == outcome(file, tmp_path / 'out')
    assert first[0] != 'refused' or first[2]


@pytest.mark.parametrize('size', [0, 40, 50_000, -1])
def test_recording_that_is_cut_is_one_sentence_and_exit_code_2(command, params, tmp_path, size):
    file = tmp_path / 'cut.db3'
    file.write_bytes((BAGS / 'plain_db3' / 'plain_db3.db3').read_bytes()[:size])
    result = command(file, '--params', params, '--offline', '--out', tmp_path / 'out')
    assert result.exit_code == 2
    assert 'cut.db3' in result.output
    assert 'Traceback' not in result.output
