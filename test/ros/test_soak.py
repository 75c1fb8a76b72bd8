# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Two minutes of the soak run: every fault comes at least once, and no rule is broken."""

import json
import os
import subprocess
import sys
from pathlib import Path

from flashrt_ros.soak.configuration import soak_parameters, soak_values
from flashrt_ros.soak.faults import clock_faults, faults

MINUTES = 2
PATIENCE_S = 600  # a busy machine takes longer to start processes


def test_two_minutes_among_faults_break_no_rule(tmp_path: Path, domain_id: int):
    result = subprocess.run(
        [sys.executable, '-m', 'flashrt_ros.soak', '--minutes', str(MINUTES), '--out', str(tmp_path)],
        env=os.environ | {'ROS_DOMAIN_ID': str(domain_id), 'ROS_LOG_DIR': str(tmp_path), 'COLUMNS': '140'},
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    report = json.loads((tmp_path / 'soak.json').read_text())
    assert report['is_well']
    tried = {trial['fault']: trial for run in report['runs'] for trial in run['trials']}
    expected = [*faults(soak_parameters(soak_values())), *clock_faults()]
    assert tried.keys() == {fault.name for fault in expected}
    for fault in expected:
        trial = tried[fault.name]
        assert len(trial['reaction_s']) == (0 if fault.reaction_s is None else trial['count'])
    assert report['runs'][0]['figures']['commands to the arm'] > 1000
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
