# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What CMake says to people whose machine lacks something: what is missing, and how to get it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from environments import OURS, ROOT

# Nothing of the system is found.
NO_SYSTEM = (
    '-DCMAKE_FIND_ROOT_PATH=/no/such/folder',
    '-DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY',
    '-DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY',
    '-DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=ONLY',
)


@pytest.fixture(scope='module')
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter without any package."""
    folder = tmp_path_factory.mktemp('bare')
    base = Path(sys.base_prefix) / 'bin' / f'python{sys.version_info.major}.{sys.version_info.minor}'
    subprocess.run([base, '-m', 'venv', '--without-pip', folder], check=True, timeout=60)
    return folder / 'bin' / 'python'


def configure(
    build: Path, python: Path | str, *options: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in OURS}
    tools = f'{sys.prefix}/bin:{os.environ["PATH"]}'
    cmake = shutil.which('cmake', path=tools)
    assert cmake, f'no cmake in {tools}'
    return subprocess.run(
        [cmake, '-S', ROOT, '-B', build, f'-DPython3_EXECUTABLE={python}', *options],
        env={**environment, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )


def complaint(build: Path, python: Path | str, *options: str, **variables: str) -> str:
    """Configures the project, which must fail, and returns the words of CMake as one line."""
    result = configure(build, python, *options, **variables)
    assert result.returncode != 0, result.stdout
    return ' '.join(result.stdout.split())


def configured(build: Path, python: Path | str, *options: str, **variables: str) -> str:
    """Configures the project, which must work, and returns the words of CMake as one line."""
    result = configure(build, python, *options, **variables)
    assert result.returncode == 0, result.stdout
    return ' '.join(result.stdout.split())


def test_no_blas_names_both_ways_to_get_one(tmp_path: Path, bare_python: Path):
    text = complaint(tmp_path, bare_python, *NO_SYSTEM)
    assert 'No BLAS found (FLASHRT_BLAS=AUTO)' in text
    assert f'{bare_python} -m pip install scipy-openblas32' in text
    assert 'apt install libopenblas-dev' in text


def test_a_wheel_does_not_fall_back_to_the_blas_of_the_system(tmp_path: Path, bare_python: Path):
    text = complaint(tmp_path, bare_python, '-DSKBUILD=2', '-DFLASHRT_ROS=OFF')
    assert 'No BLAS found' in text
    assert '-C cmake.define.FLASHRT_BLAS=SYSTEM' in text


@pytest.mark.parametrize('option', ['FLASHRT_BLAS', 'FLASHRT_CUDA', 'FLASHRT_ROS'])
def test_an_unknown_choice_is_refused(tmp_path: Path, option: str):
    text = complaint(tmp_path, sys.executable, f'-D{option}=MAYBE')
    assert f"{option} is 'MAYBE', expected AUTO, " in text


def test_ros_without_its_generators_names_the_way_out(tmp_path: Path, bare_python: Path):
    ament = tmp_path / 'ros' / 'share' / 'ament_cmake' / 'cmake' / 'ament_cmakeConfig.cmake'
    ament.parent.mkdir(parents=True)
    ament.touch()
    packages = next(Path(sys.prefix).glob('lib/python3*/site-packages'))
    (libraries := tmp_path / 'libraries').mkdir()
    for name in ('nlohmann_json', 'scipy_openblas32'):
        (libraries / name).symlink_to(packages / name)
    text = complaint(
        tmp_path / 'build',
        bare_python,
        AMENT_PREFIX_PATH=str(tmp_path / 'ros'),
        PYTHONPATH=str(libraries),
    )
    assert "No module named 'ament_package'" in text
    assert 'pip install --no-build-isolation .' in text
    assert '-DFLASHRT_ROS=OFF' in text


# ---- CUDA: a compiler that says which one it is stands for all others


def nvcc(folder: Path, answer: str) -> str:
    """A program that answers as nvcc would, and compiles nothing."""
    program = folder / 'nvcc'
    program.write_text(f'#!/bin/sh\necho "{answer}"\n')
    program.chmod(0o755)
    return str(program)


def test_cuda_that_is_too_old_is_refused_if_it_was_asked_for(tmp_path: Path):
    compiler = nvcc(tmp_path, 'Cuda compilation tools, release 12.4, V12.4.131')
    text = complaint(tmp_path / 'build', sys.executable, '-DFLASHRT_CUDA=ON', CUDACXX=compiler)
    assert f'FLASHRT_CUDA is ON, but {compiler} is of CUDA 12.4, and 13.0 or newer is needed' in text


def test_cuda_that_is_no_compiler_is_refused_if_it_was_asked_for(tmp_path: Path):
    compiler = nvcc(tmp_path, 'hello')
    text = complaint(tmp_path / 'build', sys.executable, '-DFLASHRT_CUDA=ON', CUDACXX=compiler)
    assert f'FLASHRT_CUDA is ON, but `{compiler} --version` names no release' in text


def test_without_cuda_everything_else_is_built_and_the_reason_is_given(tmp_path: Path):
    compiler = nvcc(tmp_path, 'Cuda compilation tools, release 12.4, V12.4.131')
    build = tmp_path / 'build'
    options = ('-DFLASHRT_ROS=OFF', '-DFLASHRT_BINDING=OFF')
    text = configured(build, sys.executable, *options, CUDACXX=compiler)
    assert f'CUDA backend OFF: {compiler} is of CUDA 12.4' in text
    assert 'CUDA backend OFF, as FLASHRT_CUDA says' in configured(
        build, sys.executable, *options, '-DFLASHRT_CUDA=OFF'
    )
