# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What several files say about the package, they say alike."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
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


def names(needed: list[str]) -> set[str]:
    return {re.split('[<>=]', requirement)[0].lower() for requirement in needed}


def test_what_is_imported_is_pinned():
    assert names(PYPROJECT['dependencies']) == requirements('run', 'apt').keys() | {'scipy-openblas32'}
    assert names(PYPROJECT['optional-dependencies']['sim']) == requirements('sim').keys()


# Module -> rosdep key, of what Ubuntu 24.04 has from apt; a ROS package is its own key.
APT_KEYS = {
    'PIL': 'python3-pil',
    'cv2': 'python3-opencv',
    'hypothesis': 'python3-hypothesis',
    'matplotlib': 'python3-matplotlib',
    'msgpack': 'python3-msgpack',
    'numpy': 'python3-numpy',
    'pytest': 'python3-pytest',
    'yaml': 'python3-yaml',
}
# Package -> module, where they differ.
MODULES = {'pyopengl': 'OpenGL'}
# Needed by no import: the commands `ros2 launch` and of the messages.
OTHER_KEYS = {'libopenblas-dev', 'ros2launch', 'rosidl_default_runtime'}


def imported(*folders: str) -> Iterator[str]:
    """Modules of others that the sources import."""
    for path in (path for folder in folders for path in (ROOT / folder).rglob('*.py')):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from (alias.name.split('.')[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                yield node.module.split('.')[0]


def keys(*tags: str) -> set[str]:
    package = ElementTree.parse(ROOT / 'package.xml')
    return {element.text for tag in tags for element in package.findall(tag)}


def test_rosdep_keys_and_run_requirements_are_what_is_imported():
    modules = set(imported('flashrt_ros', 'flashrt_core/python', 'launch'))
    modules -= {*sys.stdlib_module_names, 'flashrt_core', 'flashrt_ros'}
    from_pypi = {MODULES.get(package, package) for package in requirements('run', 'sim')}
    assert from_pypi <= modules, 'required, and not imported'
    needed = {APT_KEYS.get(module, module) for module in modules - from_pypi}
    assert needed | OTHER_KEYS == keys('depend', 'exec_depend')


def test_rosdep_keys_of_the_tests_are_what_they_import():
    modules = set(imported('test/layers', 'test/python', 'test/ros', 'test/tabletop'))
    needed = {APT_KEYS[module] for module in modules & APT_KEYS.keys()}
    assert needed <= keys('depend', 'exec_depend', 'test_depend')


@pytest.mark.parametrize('name', ['lint', 'ros_jazzy', 'ros_kilted', 'test'])
def test_other_requirements_are_pinned(name: str):
    assert requirements(name)


def test_what_builds_the_wheel_is_pinned():
    system = tomllib.loads((ROOT / 'pyproject.toml').read_text())['build-system']
    needed = {re.split('[<>=]', requirement)[0] for requirement in system['requires']}
    assert needed <= requirements('build').keys()


def test_nothing_depends_on_a_ros_wheel():
    assert not [requirement for requirement in PYPROJECT['dependencies'] if requirement.startswith('ros-')]
