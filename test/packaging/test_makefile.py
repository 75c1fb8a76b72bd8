# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What the Makefile runs, and what it does not run again.

Make is real; the programs it calls are replaced by one that writes down how it was called.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Answers as python3, pip, cmake, ... would. `python3 -m venv .venv` also puts the tools into .venv/bin.
RECORDER = """#!/bin/sh
echo "$(basename "$0") $*" >> "{log}"
if [ "$1 $2" = '-m venv' ]; then
  for folder; do :; done
  mkdir -p "$folder/bin"
  for tool in python pytest cmake ctest clang-format ruff; do cp "{tools}/python3" "$folder/bin/$tool"; done
fi
"""


@dataclass(frozen=True)
class Project:
    """A copy of the project's Makefile over a tree with one file of each kind."""

    folder: Path
    tools: Path
    log: Path

    def make(self, *arguments: str, **environment: str) -> list[str]:
        """Runs make and returns the commands that it ran, one a line."""
        result = self.run(*arguments, **environment)
        assert result.returncode == 0, result.stdout
        return self.log.read_text().splitlines()

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        self.log.write_text('')
        environment = {'PATH': f'{self.tools}:{os.defpath}', 'CXX': 'true', **environment}
        return subprocess.run(
            ['make', *arguments],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )

    def add_tool(self, name: str, answer: str = '', *, into_venv: bool = False) -> None:
        tool = (self.folder / '.venv' / 'bin' if into_venv else self.tools) / name
        tool.write_text(RECORDER.format(log=self.log, tools=self.tools) + answer)
        tool.chmod(0o755)

    def touch(self, path: str) -> None:
        """Makes a file newer than every stamp."""
        stamps = [stamp.stat().st_mtime for stamp in (self.folder / '.venv').glob('.*')]
        later = max(stamps) + 1
        os.utime(self.folder / path, (later, later))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path / 'project', tmp_path / 'tools', tmp_path / 'log')
    files = [
        'CMakeLists.txt',
        'checkpoints/a/a.safetensors',
        'cmake/ros.cmake',
        'config/a.yaml',
        'flashrt_core/base/a.cpp',
        'flashrt_core/python/flashrt_core/a.py',
        'flashrt_ros/__init__.py',
        'flashrt_ros/a.py',
        'launch/a.launch.py',
        'msg/A.msg',
        'package.xml',
        'pyproject.toml',
        'test/core/a.cpp',
    ]
    for file in files:
        path = project.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    shutil.copy(ROOT / 'Makefile', project.folder)
    shutil.copytree(ROOT / 'requirements', project.folder / 'requirements')
    project.tools.mkdir()
    project.add_tool('python3')
    return project


def called(commands: list[str], text: str) -> bool:
    return any(text in command for command in commands)


EGL = 'python -c from mujoco.egl import GLContext; GLContext(8, 8).free()'
DEMO = [EGL, 'python -m flashrt_ros.demo']


def test_demo_prepares_everything_once(project: Project):
    first = project.make('demo')
    assert called(first, '-m venv')
    assert called(first, 'requirements/ros_kilted.txt')
    assert called(first, 'requirements/sim.txt')
    assert called(first, '-e .')
    assert first[-2:] == DEMO
    assert project.make('demo') == DEMO


def test_the_recording_is_replayed_on_either_model_and_needs_no_simulation(project: Project):
    first = project.make('replay')
    assert called(first, '-e .')
    assert not called(first, 'requirements/sim.txt')
    assert first[-1] == 'python -m flashrt_ros.replay_demo --model pi05'
    groot = ['python -m flashrt_ros.replay_demo --model groot']
    assert project.make('replay', 'MODEL=groot') == project.make('demo', 'MODEL=groot') == groot


def test_test_needs_no_demo_and_prepares_once(project: Project):
    first = project.make('test')
    assert called(first, 'requirements/ros_kilted.txt')
    assert called(first, 'requirements/test.txt')
    assert called(first, '-e .')
    assert called(first, 'requirements/sim.txt')
    tests = ['cmake --workflow --preset dev', EGL, 'pytest ']
    assert [command for command in first if command in tests] == tests
    assert project.make('test') == tests


def test_the_soak_run_takes_the_minutes_and_what_the_demo_has(project: Project):
    project.make('demo')
    assert project.make('soak', 'MINUTES=3') == ['python -m flashrt_ros.soak --minutes 3']
    assert project.make('soak') == ['python -m flashrt_ros.soak --minutes 10']


def test_the_demo_is_built_without_cuda_and_takes_what_is_there(project: Project):
    assert called(project.make('demo'), '-e . -C cmake.define.FLASHRT_CUDA=OFF')
    assert called(project.make('test'), '-e . -C cmake.define.FLASHRT_CUDA=AUTO')
    assert project.make('demo') == DEMO


def test_gpu_tests_are_required_to_run_and_reported(project: Project):
    project.make('install')
    results = f'{project.folder}/build/gpu/results'
    commands = project.make('test-gpu')
    assert commands[-5:] == [
        'cmake --preset gpu',
        'cmake --build --preset gpu',
        'ctest --preset gpu',
        f'pytest -m gpu --junitxml={results}/python.xml',
        f'python test/gpu_report.py {results}',
    ]
    project.add_tool('ctest', answer='exit 1\n', into_venv=True)
    assert project.run('test-gpu').returncode != 0
    assert project.log.read_text().splitlines()[-1] == f'python test/gpu_report.py {results}'


def test_a_filter_of_the_shell_narrows_no_gpu_tests(project: Project):
    project.make('install')
    project.add_tool('ctest', answer='test -z "$GTEST_FILTER" || exit 1\n', into_venv=True)
    project.make('test-gpu', GTEST_FILTER='*one*')


def test_kernel_tests_run_under_a_sanitizer(project: Project):
    project.add_tool(
        'compute-sanitizer', answer='test "$FLASHRT_RACECHECK" = 1 && test -n "$GTEST_FILTER" || exit 9\n'
    )
    commands = project.make('test-gpu', 'SANITIZE=racecheck')
    checked = 'compute-sanitizer --tool racecheck --kernel-name kns=flashrt --error-exitcode 9'
    for name in ('test_cuda_ops', 'test_linear_tuner', 'test_projected_attention'):
        assert called(commands, f'{checked} build/gpu/test/core/{name}')
    project.add_tool('compute-sanitizer', answer='test "$FLASHRT_RACECHECK-$GTEST_FILTER" = - || exit 9\n')
    memory = project.make('test-gpu', 'SANITIZE=memcheck')
    assert called(
        memory, 'compute-sanitizer --tool memcheck --error-exitcode 9 build/gpu/test/core/test_cuda_ops'
    )
    assert not called(commands, 'pytest -m gpu')
    project.add_tool('compute-sanitizer', answer='exit 9\n')
    assert project.run('test-gpu', 'SANITIZE=racecheck').returncode != 0


@pytest.mark.parametrize(
    ('capability', 'architecture'), [('8.6', ''), ('8.9', '89'), ('9.0', '90a'), ('12.0', '120')]
)
def test_cuda_is_compiled_for_the_gpu_that_is_here(project: Project, capability: str, architecture: str):
    project.add_tool('nvidia-smi', answer=f'echo {capability}; echo 10.0\n')
    project.make('install')
    project.add_tool('cmake', answer=f'echo "CUDAARCHS=$CUDAARCHS" >> {project.log}\n', into_venv=True)
    assert f'CUDAARCHS={architecture}' in project.make('test-core')
    assert 'CUDAARCHS=89;110' in project.make('test-core', CUDAARCHS='89;110')


def test_lint_installs_its_tools_only(project: Project):
    first = project.make('lint')
    assert called(first, 'requirements/lint.txt')
    assert not called(first, 'ros_kilted')
    assert not called(first, '-e .')
    second = project.make('lint')
    assert [command.split()[0] for command in second] == ['clang-format', 'ruff', 'ruff', 'python']
    assert not called(second, 'pip')


@pytest.mark.parametrize(
    'path',
    [
        'CMakeLists.txt',
        'checkpoints/a/a.safetensors',
        'cmake/ros.cmake',
        'config/a.yaml',
        'flashrt_core/base/a.cpp',
        'flashrt_ros/__init__.py',
        'launch/a.launch.py',
        'msg/A.msg',
        'pyproject.toml',
    ],
)
def test_a_changed_source_is_built_and_installs_no_requirement(project: Project, path: str):
    project.make('install')
    project.touch(path)
    (command,) = project.make('install')
    assert called([command], '-e .')


@pytest.mark.parametrize(
    'path', ['flashrt_core/python/flashrt_core/a.py', 'flashrt_ros/a.py', 'test/core/a.cpp']
)
def test_what_is_not_built_builds_nothing(project: Project, path: str):
    project.make('install')
    project.touch(path)
    assert project.make('install') == []


def test_a_changed_requirement_is_installed(project: Project):
    project.make('install')
    project.touch('requirements/run.txt')
    commands = project.make('install')
    assert called(commands, 'requirements/run.txt')
    assert not called(commands, '-m venv')


def test_a_sourced_ros_is_used(project: Project):
    commands = project.make('demo', ROS_DISTRO='jazzy')
    assert called(commands, '-m venv --system-site-packages')
    assert called(commands, 'requirements/run.txt')
    assert not called(commands, 'ros_')
    assert not called(commands, 'apt.txt')


def test_a_sourced_ros_that_this_python_cannot_import_is_not_used(project: Project):
    project.add_tool('python3', answer='case "$*" in *rclpy*) exit 1;; esac\n')
    result = project.run('install', ROS_DISTRO='jazzy')
    assert 'python3 cannot import its rclpy: it is not used' in result.stdout
    assert called(project.log.read_text().splitlines(), 'requirements/ros_kilted.txt')


def test_another_kind_of_ros_makes_another_environment(project: Project):
    project.make('install')
    assert called(project.make('install', ROS_DISTRO='jazzy'), '-m venv --system-site-packages')


def test_an_unsupported_python_is_refused(project: Project):
    project.add_tool('python3', answer='case "$*" in *version_info*) exit 1;; esac\n')
    assert project.run('install').returncode != 0
    assert not called(project.log.read_text().splitlines(), '-m venv')


def test_root_with_apt_gets_googletest(project: Project):
    project.add_tool('id', answer='echo 0\n')
    project.add_tool('apt-get')
    commands = project.make('googletest', CXX='false')
    assert called(commands, 'apt-get install -q -y libgtest-dev')


def test_others_are_told_how_to_get_googletest(project: Project):
    project.add_tool('id', answer='echo 1000\n')
    project.add_tool('apt-get')
    result = project.run('test', CXX='false')
    assert result.returncode != 0
    assert 'sudo apt-get install libgtest-dev' in result.stdout
    assert 'apt-get' not in project.log.read_text()


def missing_egl(project: Project, user: int) -> None:
    """The environment is there; its Python cannot draw."""
    project.add_tool('id', answer=f'echo {user}\n')
    project.add_tool('apt-get')
    project.make('egl')
    project.add_tool('python', answer='case "$*" in *mujoco.egl*) exit 1;; esac\n', into_venv=True)


def test_root_with_apt_gets_egl(project: Project):
    missing_egl(project, user=0)
    assert called(project.make('egl'), 'apt-get install -q -y libegl1 libopengl0 libgl1-mesa-dri')


@pytest.mark.parametrize('command', ['test-python', 'demo'])
def test_others_are_told_how_to_get_egl(project: Project, command: str):
    missing_egl(project, user=1000)
    result = project.run(command)
    assert result.returncode != 0
    assert 'sudo apt-get install libegl1 libopengl0 libgl1-mesa-dri' in result.stdout
    assert 'apt-get' not in project.log.read_text()
