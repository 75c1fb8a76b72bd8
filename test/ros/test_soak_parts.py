# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The parts of the soak run: the robot that follows, processes that are told what to do, the report."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from flashrt_core.errors import Error
from flashrt_ros.parameters import load_parameters_file
from flashrt_ros.soak.child import Child
from flashrt_ros.soak.configuration import soak_parameters, soak_values, write_parameter_file
from flashrt_ros.soak.faults import clock_faults, faults
from flashrt_ros.soak.trajectory_follower import TrajectoryFollower
from flashrt_ros.soak.verdict import FORMAT, Finding, Trials, Verdict, show, write_json

HERE = Path(__file__).resolve().parent


def test_a_robot_is_on_each_point_at_its_time_and_between_them_on_the_way():
    follower = TrajectoryFollower([0.0, 1.0])
    follower.follow([0.1, 0.3], [[1.0, 1.0], [2.0, 3.0]], now_s=5.0)
    at = {4.0: [0, 1], 5.05: [0.5, 1], 5.1: [1, 1], 5.2: [1.5, 2], 5.3: [2, 3], 9.0: [2, 3]}
    for now_s, position in at.items():
        np.testing.assert_allclose(follower.position(now_s), position)


def test_a_new_trajectory_overrides_the_one_before_from_where_the_robot_is():
    follower = TrajectoryFollower([0.0])
    follower.follow([1.0], [[1.0]], now_s=0.0)
    follower.follow([0.5], [[0.4]], now_s=0.4)
    np.testing.assert_allclose([follower.position(t)[0] for t in (0.4, 0.9, 5.0)], 0.4)


@given(
    st.lists(st.floats(-2, 2), min_size=1, max_size=5),
    st.lists(st.floats(0, 3), min_size=1, max_size=5),
)
def test_a_robot_never_leaves_the_range_of_its_points(points: list[float], at_s: list[float]):
    follower = TrajectoryFollower([0.0])
    follower.follow(0.2 * np.arange(1, len(points) + 1), [[point] for point in points], now_s=1.0)
    for now_s in at_s:
        assert min(0, *points) <= follower.position(now_s)[0] <= max(0, *points)


@pytest.fixture
def echo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv('PYTHONPATH', str(HERE))
    with Child('echo_child', [], tmp_path / 'echo.log') as child:
        assert child.ready() == {'is_ready': True}
        yield child


def test_a_child_answers_and_a_refusal_is_an_error(echo: Child):
    assert echo.ask('one two') == {'words': ['one', 'two']}
    with pytest.raises(Error, match='refuse this: not understood'):
        echo.ask('refuse this')
    assert echo.ask('again') == {'words': ['again']}


def test_a_child_that_ended_is_reported_with_code_and_log(echo: Child, tmp_path: Path):
    echo.signal(signal.SIGKILL)
    with pytest.raises(Error, match=rf'ended with code -9.*{tmp_path}'):
        echo.ask('anything')


def test_a_child_that_was_stopped_is_ended_all_the_same(echo: Child):
    echo.signal(signal.SIGSTOP)
    assert echo.close() == 0


def test_the_parameters_of_the_robot_are_read_as_the_node_reads_them(tmp_path: Path):
    values = soak_values(chunk__mode='blend')
    write_parameter_file(values, tmp_path / 'params.yaml')
    parameters, warnings = load_parameters_file(tmp_path / 'params.yaml')
    assert parameters == soak_parameters(values)
    assert parameters.chunk_mode == 'blend'
    assert not warnings


def test_faults_have_names_of_their_own_and_last_long_enough_to_be_noticed():
    parameters = soak_parameters(soak_values())
    every = [*faults(parameters), *clock_faults()]
    assert len({fault.name for fault in every}) == len(every)
    for fault in every:
        lasts_s = fault.reaction_s if fault.streams else 0.0
        assert fault.seconds > lasts_s
        if fault.streams and not fault.is_stopping:
            # Shorter than what ends commanding, with half a second for a busy machine.
            assert fault.seconds + 0.5 < fault.reaction_s + parameters.starvation_limit_s


def test_a_report_shows_what_was_broken_and_reads_back(tmp_path: Path):
    trials = (Trials('camera stall', 2, [0.3, 0.31], 0.32, 0.5, [0.1, 0.2]), Trials('storm', 1))
    fine = Verdict('among faults', 12.0, (), trials, {'commands': 3})
    bad = Verdict('on simulated time', 1.0, (Finding('limits', 'joint_1 [x] is 3'),) * 25, trials, {})
    console = Console(record=True, width=140)
    for verdict in (fine, bad):
        show(verdict, console)
    text = console.export_text()
    assert 'BROKEN: limits: joint_1 [x] is 3' in text
    assert 'and 5 more' in text
    assert '305 ms' in text
    write_json([fine, bad], tmp_path / 'soak.json')
    content = json.loads((tmp_path / 'soak.json').read_text())
    assert content['format'] == FORMAT
    assert not content['is_well']
    assert content['runs'][0]['trials'][0]['reaction_s'] == [0.3, 0.31]
