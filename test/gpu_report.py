# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What `make test-gpu` ran: commit, device, driver, how many tests, and which kernels in how many cases.

python test/gpu_report.py RESULTS

RESULTS is a folder of JUnit files. The exit code is 1 if a test failed or was skipped, or if none ran.
"""

import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

VARIANTS = ('specialised', 'portable')  # properties in which test_cuda_ops records the kernels of a case


@dataclass(frozen=True)
class Counts:
    """Of one file of results."""

    name: str
    passed: int
    failed: int
    skipped: int

    def __str__(self) -> str:
        return f'{self.name}: {self.passed} passed, {self.failed} failed, {self.skipped} skipped'


def counts(path: Path) -> Counts:
    """Counts the cases of a file of GoogleTest or pytest; GoogleTest writes one <skipped> per reason."""
    passed = failed = skipped = 0
    for case in ElementTree.parse(path).iter('testcase'):
        if case.find('failure') is not None or case.find('error') is not None:
            failed += 1
        elif case.find('skipped') is not None or case.get('status') == 'notrun':
            skipped += 1
        else:
            passed += 1
    return Counts(path.stem, passed, failed, skipped)


def kernels(path: Path) -> Counter[str]:
    """Kernel -> in how many cases it ran."""
    return Counter(
        prop.get('value', '')
        for prop in ElementTree.parse(path).iter('property')
        if prop.get('name') in VARIANTS
    )


def output(*command: str) -> str:
    """The first line of what a program prints, or that it is not there."""
    if not shutil.which(command[0]):
        return f'{command[0]} not found'
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return (result.stdout.strip() or result.stderr.strip() or 'no answer').splitlines()[0]


def main(results: str) -> int:
    files = sorted(Path(results).glob('*.xml'))
    tests = [counts(file) for file in files]
    print(f'commit {output("git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")}')
    query = '--query-gpu=name,driver_version,compute_cap,clocks.sm,memory.total'
    print(f'device {output("nvidia-smi", query, "--format=csv,noheader")}')
    for kernel, cases in sorted(sum((kernels(file) for file in files), Counter()).items()):
        print(f'kernel {kernel}: {cases} cases')
    print(*tests, sep='\n')
    total = Counts(
        'total',
        sum(test.passed for test in tests),
        sum(test.failed for test in tests),
        sum(test.skipped for test in tests),
    )
    print(total)
    return int(total.passed == 0 or total.failed > 0 or total.skipped > 0)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
