# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Environments to build and install the package in, apart from the one that runs the tests."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / 'requirements'

# What this process inherited from its environment, Python's or ROS's; another one must not be led back here.
OURS = (
    '_ROS_WHEELS_BOOTSTRAP_COMPLETE',
    'AMENT_PREFIX_PATH',
    'CMAKE_PREFIX_PATH',
    'COLCON_PREFIX_PATH',
    'LD_LIBRARY_PATH',
    'PYTHONHOME',
    'PYTHONPATH',
    'VIRTUAL_ENV',
)


@dataclass(frozen=True)
class Environment:
    """A virtual environment and the variables that its programs run with."""

    prefix: Path
    variables: dict[str, str]

    @property
    def site_packages(self) -> Path:
        return next(self.prefix.glob('lib/python3*/site-packages'))

    def run(self, *command: str | Path, cwd: Path | None = None, timeout_s: float = 600.0) -> str:
        """Runs a command to its end and returns what it printed; a failure carries all of it."""
        result = subprocess.run(
            [str(word) for word in command],
            cwd=cwd or self.prefix,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
        )
        assert result.returncode == 0, f'{command} ended with {result.returncode}:\n{result.stdout}'
        return result.stdout

    def pip_install(self, *arguments: str | Path) -> None:
        self.run('python', '-m', 'pip', '--quiet', 'install', *arguments)


def bare_environment(prefix: Path) -> Environment:
    """Python and pip, and nothing of the environment that runs the tests.

    Versions are those of the requirements files, so that a release elsewhere cannot break a test here, and
    one download serves all environments. Compiled objects are shared in the same way where there is ccache.
    """
    base = Path(sys.base_prefix) / 'bin' / f'python{sys.version_info.major}.{sys.version_info.minor}'
    variables = {name: value for name, value in os.environ.items() if name not in OURS}
    variables['PATH'] = f'{prefix}/bin:{os.environ["PATH"]}'
    variables['VIRTUAL_ENV'] = str(prefix)
    variables['PIP_CONSTRAINT'] = ' '.join(
        str(REQUIREMENTS / f'{name}.txt') for name in ('build', 'run', 'apt')
    )
    variables['PIP_DISABLE_PIP_VERSION_CHECK'] = variables['PIP_NO_COMPILE'] = '1'
    subprocess.run([base, '-m', 'venv', prefix], env=variables, check=True, timeout=120)
    if ccache := shutil.which('ccache', path=f'{sys.prefix}/bin:{os.defpath}'):
        variables |= {f'CMAKE_{language}_COMPILER_LAUNCHER': ccache for language in ('C', 'CXX', 'CUDA')}
        variables.setdefault('CCACHE_DIR', str(ROOT / 'build' / 'ccache'))
    return Environment(prefix, variables)


def sourced_environment(prefix: Path) -> Environment:
    """The ROS 2 that the tests run with, as a terminal sees it in which an installation was sourced.

    Its packages, and what the package is built with, are found through variables only: whatever is installed
    in this environment, or by colcon on top of it, comes first, as on a robot.
    """
    environment = bare_environment(prefix)
    ours = Path(sys.prefix)
    paths = {
        'AMENT_PREFIX_PATH': [ours] if (ours / 'share' / 'ament_cmake').exists() else [],
        'LD_LIBRARY_PATH': [ours / 'lib'],
        'PYTHONPATH': [environment.site_packages, *ours.glob('lib/python3*/site-packages')],
    }
    for name, folders in paths.items():
        environment.variables[name] = ':'.join([*map(str, folders), os.environ.get(name, '')]).rstrip(':')
    return environment
