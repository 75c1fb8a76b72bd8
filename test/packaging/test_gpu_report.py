# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The report at the end of `make test-gpu`: it counts what ran and fails on whatever did not."""

import subprocess
import sys
from pathlib import Path

import pytest

REPORT = Path(__file__).parents[1] / 'gpu_report.py'

PASSED = """<testcase name="a" status="run" result="completed"><properties>
  <property name="specialised" value="linear_wgmma"/><property name="portable" value="linear_generic"/>
</properties></testcase>"""
FAILED = '<testcase name="b" status="run" result="completed"><failure message="x"/></testcase>'
SKIPPED = '<testcase name="c" status="run" result="skipped"><skipped message="no GPU"/></testcase>'
NOT_RUN = '<testcase name="d" status="notrun" result="suppressed"/>'
PYTHON_ERROR = '<testcase name="e"><error message="x"/></testcase>'


def report(folder: Path, **files: str) -> tuple[int, str]:
    for name, cases in files.items():
        text = f'<testsuites><testsuite>{cases}</testsuite></testsuites>'
        (folder / f'{name}.xml').write_text(text)
    result = subprocess.run(
        [sys.executable, REPORT, folder], capture_output=True, text=True, check=False, timeout=60
    )
    return result.returncode, result.stdout


def test_counts_and_kernels_of_all_files(tmp_path: Path):
    code, text = report(tmp_path, python='<testcase name="e"/>', test_cuda_ops=PASSED * 3)
    assert code == 0
    assert 'kernel linear_generic: 3 cases\nkernel linear_wgmma: 3 cases\n' in text
    assert 'python: 1 passed, 0 failed, 0 skipped\ntest_cuda_ops: 3 passed, 0 failed, 0 skipped\n' in text
    assert text.endswith('total: 4 passed, 0 failed, 0 skipped\n')
    assert text.startswith('commit ')
    assert '\ndevice ' in text


@pytest.mark.parametrize(
    ('case', 'counts'),
    [
        (FAILED, '1 passed, 1 failed, 0 skipped'),
        (PYTHON_ERROR, '1 passed, 1 failed, 0 skipped'),
        (SKIPPED, '1 passed, 0 failed, 1 skipped'),
        (NOT_RUN, '1 passed, 0 failed, 1 skipped'),
    ],
    ids=['failed', 'error', 'skipped', 'not run'],
)
def test_one_that_did_not_pass_is_enough_to_fail(tmp_path: Path, case: str, counts: str):
    code, text = report(tmp_path, test_cuda_ops=PASSED + case)
    assert code == 1
    assert f'total: {counts}' in text


def test_nothing_that_ran_is_a_failure(tmp_path: Path):
    assert report(tmp_path)[0] == 1
