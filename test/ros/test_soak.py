# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Two minutes of the soak run: every fault comes at least once, and no rule is broken."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rclpy.node import Node
from rich.console import Console
from ros_spinner import Spinner

from flashrt_core.errors import Error
from flashrt_ros.soak.__main__ import Run, carry_out
from flashrt_ros.soak.configuration import soak_parameters, soak_values
from flashrt_ros.soak.faults import clock_faults, faults
from flashrt_ros.soak.seclusion import refuse_company

MINUTES = 2
PATIENCE_S = 600  # a busy machine takes longer to start processes
TRIES = 3
# Rules that a machine breaks which gives the node no processor for longer than their bounds.
OF_TIME = {
    'age of data',
    'commanding ends',
    'commanding goes on',
    'motion comes back',
    'old data',
    'reaction',
}
ON_SIMULATED_TIME = {'rate limit'}  # it reaches the node late, and several ticks of it at once


def test_two_minutes_among_faults_break_no_rule(tmp_path: Path, domain_id: int):
    """Once in three times where only rules of time were broken: a fault of the node breaks them each time."""
    for _ in range(TRIES):
        result = subprocess.run(
            [
                *(sys.executable, '-m', 'flashrt_ros.soak', '--minutes', str(MINUTES)),
                *('--out', str(tmp_path), '--domain', str(domain_id)),
            ],
            env=os.environ | {'ROS_LOG_DIR': str(tmp_path), 'COLUMNS': '140'},
            cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S,
        )  # fmt: skip
        assert (tmp_path / 'soak.json').exists(), result.stdout + result.stderr
        report = json.loads((tmp_path / 'soak.json').read_text())
        first, simulated = ({finding['rule'] for finding in run['findings']} for run in report['runs'])
        if report['is_well'] or not (first <= OF_TIME and simulated <= OF_TIME | ON_SIMULATED_TIME):
            break
    assert result.returncode == 0, result.stdout + result.stderr
    assert report['is_well']
    tried = {trial['fault']: trial for run in report['runs'] for trial in run['trials']}
    expected = [*faults(soak_parameters(soak_values())), *clock_faults()]
    assert tried.keys() == {fault.name for fault in expected}
    for fault in expected:
        trial = tried[fault.name]
        assert len(trial['reaction_s']) == (0 if fault.reaction_s is None else trial['count'])
    assert report['runs'][0]['figures']['commands to the arm'] > 1000
    assert not left_over(tmp_path)


def test_company_on_the_domain_is_refused_by_name(ros: Spinner, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr('flashrt_ros.soak.seclusion._LEASE_S', 1.0)
    here = ros.add(Node('here', context=ros.context))
    ros.add(Node('controller_manager', context=ros.context))
    with pytest.raises(Error, match=f'ROS domain {ros.domain_id}: .*controller_manager.*; choose another'):
        refuse_company(here)


def test_a_node_that_ends_is_a_finding_and_leaves_no_process_behind(
    tmp_path: Path, domain_id: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv('ROS_DOMAIN_ID', str(domain_id))
    monkeypatch.setenv('ROS_LOG_DIR', str(tmp_path))
    monkeypatch.setattr('flashrt_ros.soak.rig._NODE', 'no_such_module')
    run = Run('without a node', clock_faults(), 1.0, simulated_time=False)
    verdict = carry_out(run, tmp_path, Console(quiet=True))
    texts = {finding.rule: finding.text for finding in verdict.findings}
    assert 'the node /policy ended with code 1' in texts['the node lives']
    assert 'No module named no_such_module' in texts['the node lives']
    assert not verdict.is_well
    assert not left_over(tmp_path)


def left_over(folder: Path) -> list[str]:
    """Processes that name the folder in their arguments."""
    found = []
    for path in Path('/proc').glob('[0-9]*/cmdline'):
        try:
            arguments = path.read_bytes().decode(errors='replace')
        except OSError:  # it has ended meanwhile
            continue
        if str(folder) in arguments:
            found.append(arguments)
    return found
