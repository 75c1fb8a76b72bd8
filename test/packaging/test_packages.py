# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The package builds and works in each of the ways people install it."""

import importlib.util
import platform
from pathlib import Path

import pytest
from environments import REQUIREMENTS, ROOT, Environment, bare_environment, sourced_environment

CHECK = Path(__file__).with_name('installed_package.py')

pytestmark = pytest.mark.slow
needs_ros = pytest.mark.skipif(
    importlib.util.find_spec('rclpy') is None,
    reason='this Python has no rclpy: run `make test`, or source ROS 2',
)


@pytest.fixture(autouse=True)
def private_ros(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
    monkeypatch.setenv('ROS_DOMAIN_ID', '93')
    monkeypatch.setenv('ROS_LOG_DIR', str(tmp_path / 'log'))


def colcon_build(environment: Environment, workspace: Path) -> Path:
    """Builds the package in an empty workspace and returns the folder it was installed in."""
    workspace.mkdir()
    environment.run(
        *('python', '-m', 'colcon', 'build', '--base-paths', ROOT, '--event-handlers', 'console_direct+'),
        *('--cmake-args', '-G', 'Ninja', '-DBUILD_TESTING=OFF'),
        cwd=workspace,
    )
    return workspace / 'install' / 'flashrt_ros'


def check_colcon(environment: Environment, workspace: Path) -> None:
    prefix = colcon_build(environment, workspace)

    def sourced(command: str) -> str:
        return environment.run('sh', '-c', f'. install/local_setup.sh && exec {command}', cwd=workspace)

    sourced(f'python {CHECK} {prefix} --ros')
    assert 'golden' in sourced(f'{prefix}/lib/flashrt_ros/flashrt --help')


@needs_ros
def test_colcon_with_the_ros_of_these_tests(tmp_path: Path):
    check_colcon(sourced_environment(tmp_path / 'python'), tmp_path / 'workspace')


@pytest.mark.skipif(platform.machine() != 'x86_64', reason='the wheels of ROS 2 Jazzy are for x86-64 only')
def test_colcon_with_jazzy(tmp_path: Path):
    environment = bare_environment(tmp_path / 'python')
    environment.pip_install('-r', REQUIREMENTS / 'ros_jazzy.txt', '-r', REQUIREMENTS / 'build.txt')
    environment.pip_install('-r', REQUIREMENTS / 'run.txt', '-r', REQUIREMENTS / 'apt.txt')
    check_colcon(environment, tmp_path / 'workspace')


@needs_ros
def test_pip_with_ros(tmp_path: Path):
    environment = sourced_environment(tmp_path / 'python')
    options = ('--no-build-isolation', '--no-deps', '-C', f'build-dir={tmp_path}/build')
    environment.pip_install(*options, ROOT)
    # The other dependencies are found through PYTHONPATH; this one is looked for beside the package.
    environment.pip_install('--ignore-installed', '--no-deps', 'scipy-openblas32')
    environment.variables['LD_LIBRARY_PATH'] = (
        f'{environment.prefix}/lib:{environment.variables["LD_LIBRARY_PATH"]}'
    )
    environment.run('python', CHECK, environment.prefix, '--ros')
    assert 'golden' in environment.run('flashrt', '--help')

    environment.run('python', '-m', 'pip', '--quiet', 'uninstall', '--yes', 'flashrt_ros')
    assert not [path for path in environment.prefix.rglob('*flashrt_ros*') if path.is_file()]


def test_pip_without_ros(tmp_path: Path):
    environment = bare_environment(tmp_path / 'python')
    environment.pip_install('-C', f'build-dir={tmp_path}/build', ROOT)
    environment.run('python', CHECK, environment.prefix)
    assert 'golden' in environment.run('flashrt', '--help')
