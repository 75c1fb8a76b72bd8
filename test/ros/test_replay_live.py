# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Live replay: the node as a process of its own, real DDS, and figures that agree with the recording."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from fake_policy import CASES, PATIENT
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from ros_spinner import eventually
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from flashrt_core.errors import Error
from flashrt_ros.bag import Bag, BagError, select_topics
from flashrt_ros.bag_player import BagPlayer, restamp
from flashrt_ros.node_process import NodeProcess
from flashrt_ros.replay_live import replay_live
from flashrt_ros.replay_setup import stub_command
from flashrt_ros.report import Report
from flashrt_ros.stub_policy import StubSettings
from flashrt_ros.witness import Witness

BAGS = CASES / 'bags'
RAW_FRAMES = 15
PARAMS = CASES / 'params' / 'ok.yaml'
NODE = (sys.executable, str(Path(__file__).parent / 'fake_node.py'))
COMPRESSED = {
    f'cameras.{slot}.{key}': value
    for slot in ('base', 'wrist')
    for key, value in (('topic', f'cam_{slot}/image_raw/compressed'), ('transport', 'compressed'))
}
TRIES = 3


@pytest.fixture(autouse=True)
def own_domain(domain_id: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('ROS_DOMAIN_ID', str(domain_id))


def run(bag: str | Path, out: Path, simulated_time: bool = False, **options: object) -> Report:
    patient = {name.replace('__', '.'): value for name, value in PATIENT.items()}
    overrides = COMPRESSED | patient | options.pop('overrides', {})
    return replay_live(
        BAGS / bag, PARAMS, out, Console(quiet=True),
        simulated_time=simulated_time, overrides=overrides, command=options.pop('command', NODE), **options,
    )  # fmt: skip


def run_whole(bag: str | Path, out: Path, *arguments: object, **options: object) -> Report:
    """The first replay in which all messages arrived, else the last one.

    Pictures and joint states are best effort: a process that gets no processor for a third of a second, as
    long as its queues last, loses some. A fault loses them in every replay.
    """
    for number in range(TRIES):
        report = run(bag, out / f'replay_{number}', *arguments, **options)
        if not report.missing and not any('did not reach' in warning for warning in report.warnings):
            break
    return report


def in_a_process(code: str, folder: Path) -> list[str]:
    """A command line: Fast DDS reads its profile once per process, and other tests started it without."""
    here = str(Path(__file__).parent)
    prelude = f'import pathlib, sys; sys.path.insert(0, {here!r}); import test_replay_live as tests'
    return [sys.executable, '-c', f'{prelude}; folder = pathlib.Path(sys.argv[1]); {code}', str(folder)]


def check(report: Report) -> None:
    assert {name: counts.recorded for name, counts in report.streams.items()} == {
        'base': 20,
        'wrist': 20,
        'joint_states': 100,
    }
    assert report.messages == 140
    assert {name: counts.unexplained for name, counts in report.streams.items()} == {
        'base': 0,
        'wrist': 0,
        'joint_states': 0,
    }
    assert all(not counts.dropped for counts in report.streams.values())
    assert [chunk.chunk_id for chunk in report.chunks] == list(range(1, len(report.chunks) + 1))
    assert report.streams['base'].used <= len(report.chunks) <= 39
    assert report.stages['inference'].count == len(report.chunks)
    assert report.stages['stamp_to_command'].count > 5
    assert report.policy['backend'] == 'fake'
    assert not report.warnings


def test_stamps_are_moved_to_now(tmp_path):
    before = time.time_ns()
    report = run_whole('plain_mcap', tmp_path)
    check(report)
    assert all(before < chunk.stamp_ns < chunk.start_ns < time.time_ns() for chunk in report.chunks)
    assert len({chunk.stamp_ns for chunk in report.chunks}) > 5
    values = json.loads(report.to_json())
    assert values['clock'] == 'stamps moved to now'
    assert values['gated_stage'] == 'stamp_to_command'
    assert {'processor', 'cores', 'python'} <= values['environment'].keys()


def test_simulated_time_keeps_the_stamps(tmp_path):
    report = run_whole('plain_db3', tmp_path, simulated_time=True)
    check(report)
    first = 1_700_000_000_000_000_000
    assert all(first <= chunk.stamp_ns <= first + 2_000_000_000 for chunk in report.chunks)
    assert len({chunk.stamp_ns for chunk in report.chunks}) > 5


def test_r18_recorded_clock_that_jumps_back_is_played_and_the_node_goes_on(tmp_path):
    report = run_whole('clock_jumps_back', tmp_path, simulated_time=True)
    assert {counts.unexplained for counts in report.streams.values()} == {0}
    stamps_s = [(chunk.stamp_ns - 1_700_000_000_000_000_000) / 1e9 for chunk in report.chunks]
    lap_2 = next(
        number for number, stamp_s in enumerate(stamps_s) if number and stamp_s < stamps_s[number - 1]
    )
    assert len(stamps_s[:lap_2]) > 5
    assert len(stamps_s[lap_2:]) > 5
    assert max(stamps_s) < 2
    assert not report.warnings


def test_r18_without_a_clock_the_recorded_one_is_named(tmp_path):
    report = run('clock_jumps_back', tmp_path)
    assert 'made on simulated time; replay it with --clock' in report.warnings[0]


def test_stub_of_a_given_latency_runs_in_place_of_the_model(tmp_path):
    command = stub_command(StubSettings(latency_ms=60.0, jitter_ms=0.0, horizon=10))
    report = run_whole('plain_mcap', tmp_path, command=command)
    assert report.policy['backend'] == 'stub'
    assert {counts.unexplained for counts in report.streams.values()} == {0}
    assert len(report.chunks) > 5
    assert all(chunk.end_ns - chunk.start_ns >= 60_000_000 for chunk in report.chunks)
    assert report.stages['inference'].p50_ms >= 60


def test_r28_only_what_is_missing_its_type_is_left_out(tmp_path):
    report = run('unknown_type', tmp_path)
    assert report.messages == 140
    [warning] = report.warnings
    assert '/gripper_force' in warning


def test_r28_needed_type_is_refused_before_the_node_starts(tmp_path):
    topics = ['joint_states', 'gripper_force']
    with pytest.raises(BagError, match='/gripper_force'):
        run('unknown_type', tmp_path, overrides={'joints.topics': topics})
    assert not (tmp_path / 'node.log').exists()


def test_raw_pictures_of_a_best_effort_camera_all_arrive(tmp_path):
    """A raw VGA picture is larger than the shared memory that Fast DDS takes unasked, and is then lost."""
    write_raw(tmp_path / 'raw')
    done = subprocess.run(
        in_a_process('print(tests.replay_raw(folder).to_json())', tmp_path),
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    streams = json.loads(done.stdout)['streams']
    assert {name: (counts['recorded'], counts['unexplained']) for name, counts in streams.items()} == {
        'base': (RAW_FRAMES, 0),
        'wrist': (RAW_FRAMES, 0),
        'joint_states': (5 * RAW_FRAMES, 0),
    }


def replay_raw(folder: Path) -> Report:
    topics = {f'cameras.{slot}.topic': f'cam_{slot}/image_raw' for slot in ('base', 'wrist')}
    raw = topics | {f'cameras.{slot}.transport': 'raw' for slot in ('base', 'wrist')}
    return run_whole(folder / 'raw', folder / 'out', overrides=raw)


def write_raw(folder: Path) -> None:
    store = get_typestore(Stores.ROS2_KILTED)
    image, joints = (store.types[f'sensor_msgs/msg/{name}'] for name in ('Image', 'JointState'))
    header, time_type = store.types['std_msgs/msg/Header'], store.types['builtin_interfaces/msg/Time']
    unset = QosTime(0, 0)
    best_effort = Qos(
        QosHistory.KEEP_LAST, 5, QosReliability.BEST_EFFORT, QosDurability.VOLATILE, unset, unset,
        QosLiveliness.AUTOMATIC, unset, False,
    )  # fmt: skip
    names = [f'joint_{number}' for number in range(1, 7)] + ['gripper']
    pixels = np.zeros(480 * 640 * 3, np.uint8)
    with Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        cameras = [
            writer.add_connection(
                f'/cam_{slot}/image_raw', image.__msgtype__, typestore=store,
                offered_qos_profiles=[best_effort],
            )
            for slot in ('base', 'wrist')
        ]  # fmt: skip
        states = writer.add_connection('/joint_states', joints.__msgtype__, typestore=store)
        for tick in range(5 * RAW_FRAMES):
            log_ns = 1_000_000_000 + tick * 20_000_000
            stamp = header(time_type(*divmod(log_ns, 1_000_000_000)), '')
            empty = np.zeros(0)
            state = joints(stamp, names, np.full(7, 0.05), empty, empty)
            writer.write(states, log_ns, store.serialize_cdr(state, joints.__msgtype__))
            if tick % 5 == 0:
                picture = image(stamp, 480, 640, 'rgb8', 0, 3 * 640, pixels)
                for camera in cameras:
                    writer.write(camera, log_ns, store.serialize_cdr(picture, image.__msgtype__))


def test_a_node_that_cannot_configure_is_reported_with_its_words(tmp_path):
    real = (sys.executable, '-m', 'flashrt_ros.policy_node')
    with pytest.raises(Error, match=r'refused to configure.*(?s:.)*/data/checkpoints/bench_arm'):
        run('plain_db3', tmp_path, command=real)


def test_a_node_that_dies_is_reported(tmp_path):
    with pytest.raises(Error, match=r'ended with code 3.*(?s:.)*out of luck'):
        run('plain_db3', tmp_path, command=(sys.executable, '-c', 'print("out of luck"); exit(3)'))


def test_a_running_node_is_not_disturbed(ros, tmp_path, monkeypatch):
    """The recording must not reach a robot that is at work on the same domain."""
    from rclpy.node import Node

    monkeypatch.setattr('flashrt_ros.program_process._LOOK_AROUND_S', 3.0)
    ros.add(Node('policy', context=ros.context))
    with pytest.raises(Error, match='runs on this ROS domain already'):
        run('plain_db3', tmp_path)
    assert not (tmp_path / 'node.log').exists()


@pytest.mark.parametrize(
    ('ids', 'gaps'),
    [
        ([1, 2, 3], []),
        ([1, 3, 4], ['1 of 4 chunks did not reach the replay']),
        ([1, 2, 3, 1, 2], []),  # a clock that jumps back begins a new run
        ([2, 3, 2], ['2 of 5 chunks did not reach the replay']),
    ],
)
def test_chunks_that_did_not_arrive_are_counted_run_by_run(ids: list[int], gaps: list[str]):
    witness = Witness.__new__(Witness)
    witness.chunks = [SimpleNamespace(chunk_id=number) for number in ids]
    assert witness.gaps() == gaps


def test_overrides_reach_the_node_with_their_types(ros, tmp_path):
    """As YAML reads them, 'a: b' is a mapping, '#' begins a comment, and 'off' is a boolean."""
    from rclpy.node import Node

    overrides = {
        'a_path': '/data/a: b #1/[x]', 'quotes': 'it\'s "so" \\ größer', 'word': 'off', 'number_text': '12',
        'flag': True, 'number': 10.0, 'small': 1e-05, 'count': 3, 'names': ['x y', 'on'],
        'numbers': [1.0, 2.5],
    }  # fmt: skip
    client = SimpleNamespace(create_client=lambda *_: None)
    process = NodeProcess(
        client, '/policy', PARAMS, tmp_path / 'log', simulated_time=False, overrides=overrides
    )
    arguments = process._command[process._command.index('--ros-args') :]
    node = Node(
        'policy',
        context=ros.context,
        cli_args=arguments,
        automatically_declare_parameters_from_overrides=True,
    )
    ros.add(node)
    assert {name: node.get_parameter(name).value for name in overrides} == overrides


def test_interrupt_ends_the_node(tmp_path):
    """Ctrl-C in the middle of a replay leaves no process behind."""
    # A shell starts what it runs in the background with interrupts ignored.
    heeds = 'import signal; signal.signal(signal.SIGINT, signal.default_int_handler)'
    process = subprocess.Popen(
        in_a_process(f'{heeds}; tests.run("plain_db3", folder)', tmp_path),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    pid_file = tmp_path / 'node.pid'
    eventually(lambda: pid_file.exists() and pid_file.read_text(), 'the node', 60.0)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert 'KeyboardInterrupt' in output
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


class Pausing:
    """Publishers on a clock of the test, of which one call takes two seconds."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.published: list[tuple[str, float, float]] = []  # topic, when, stamp

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def create_publisher(self, kind: type, topic: str, qos: object) -> SimpleNamespace:
        return SimpleNamespace(publish=lambda message: self._publish(topic, message))

    def get_clock(self) -> SimpleNamespace:
        return SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=round(self.now_s * 1e9)))

    def _publish(self, topic: str, message: bytes) -> None:
        seconds, nanoseconds = np.frombuffer(message, '<u4', 2, 4)
        self.published.append((topic, self.now_s, seconds + nanoseconds / 1e9))
        self.now_s += 2.0 if len(self.published) == 70 else 0.0


def test_after_a_pause_the_recording_goes_on_at_its_pace(monkeypatch):
    pausing = Pausing()
    monkeypatch.setattr('flashrt_ros.bag_player.time', pausing)
    with Bag(BAGS / 'plain_mcap', lambda warning: None) as bag:
        topics = select_topics(bag, dict(bag.topics), lambda _: True, lambda warning: None)
        BagPlayer(pausing, bag, topics, simulated_time=False).play(lambda log_ns: None)
        recorded_s = (bag.end_ns - bag.start_ns) / 1e9
    assert len(pausing.published) == 140
    for topic in topics:
        times_s = np.array([(now_s, stamp_s) for name, now_s, stamp_s in pausing.published if name == topic])
        gaps_s = np.diff(times_s, axis=0)
        usual_s = recorded_s / len(times_s)
        np.testing.assert_allclose(gaps_s.min(axis=0), usual_s, rtol=0.1)  # nothing is caught up on
        assert gaps_s.max() > 1.9
        assert np.ptp(times_s[:, 0] - times_s[:, 1]) < 0.01  # stamps are as new as before


@pytest.mark.parametrize('encapsulation', [b'\x00\x01\x00\x00', b'\x00\x00\x00\x00'])
def test_restamp_moves_only_the_stamp(encapsulation):
    order = 'little' if encapsulation[1] else 'big'

    def message(seconds: int, nanoseconds: int) -> bytes:
        return encapsulation + seconds.to_bytes(4, order) + nanoseconds.to_bytes(4, order) + b'the rest'

    assert restamp(message(5, 999_999_999), 2) == message(6, 1)
    assert restamp(message(5, 0), -1) == message(4, 999_999_999)
    assert restamp(message(0, 0), 7_000_000_000) == message(0, 0)
    assert restamp(message(5, 0)[:11], 1) == message(5, 0)[:11]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.binary(max_size=24), st.integers(-(2**62), 2**62))
def test_restamp_takes_any_bytes_and_moves_nothing_else(content, offset_ns):
    moved = restamp(content, offset_ns)
    assert len(moved) == len(content)
    assert moved[:4] + moved[12:] == content[:4] + content[12:]
