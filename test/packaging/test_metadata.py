# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What several files say about the package, they say alike."""

import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']


def requirements(*names: str) -> dict[str, str]:
    """Package -> version from requirements files; every line must pin one."""
    pins = {}
    for name in names:
        for line in (ROOT / 'requirements' / f'{name}.txt').read_text().splitlines():
            if requirement := line.split('#')[0].strip():
                package, version = requirement.split('==')
                pins[package.lower()] = version
    return pins


def test_the_version_is_the_same_everywhere():
    cmake = re.search(r'project\(flashrt_ros VERSION (\S+)', (ROOT / 'CMakeLists.txt').read_text())[1]
    package = ElementTree.parse(ROOT / 'package.xml').findtext('version')
    assert cmake == package == PYPROJECT['version']


def test_what_is_imported_is_pinned():
    needed = {re.split('[<>=]', requirement)[0].lower() for requirement in PYPROJECT['dependencies']}
    pinned = requirements('run', 'apt').keys() | {'scipy-openblas32'}
    assert needed == pinned


@pytest.mark.parametrize('name', ['lint', 'ros_jazzy', 'ros_kilted', 'test'])
def test_other_requirements_are_pinned(name: str):
    assert requirements(name)


def test_what_builds_the_wheel_is_pinned():
    system = tomllib.loads((ROOT / 'pyproject.toml').read_text())['build-system']
    needed = {re.split('[<>=]', requirement)[0] for requirement in system['requires']}
    assert needed <= requirements('build').keys()


def test_nothing_depends_on_a_ros_wheel():
    assert not [requirement for requirement in PYPROJECT['dependencies'] if requirement.startswith('ros-')]
