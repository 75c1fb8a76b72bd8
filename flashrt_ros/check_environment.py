# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Which Python, which libraries and which ROS the node would run on; told without ROS."""

import importlib.util
import os
import platform
from collections.abc import Iterator
from importlib import metadata

from flashrt_ros.check_findings import Finding, fail, ok, skip

_LIBRARIES = ('flashrt_ros', 'numpy', 'opencv-python-headless', 'sentencepiece', 'safetensors')
_MESSAGE = 'flashrt_ros.msg'


def check_environment() -> Iterator[Finding]:
    versions = {name: version for name in _LIBRARIES if (version := _version(name))}
    listed = ', '.join(f'{name} {version}' for name, version in versions.items())
    yield ok('environment', f'Python {platform.python_version()} on {platform.machine()}, {listed}')
    if importlib.util.find_spec('rclpy') is None:
        yield skip('ROS', 'rclpy is not installed; source a ROS 2 installation to run the node')
        return
    distro = os.environ.get('ROS_DISTRO') or 'distribution not told (ROS_DISTRO is not set)'
    if importlib.util.find_spec(_MESSAGE) is None:
        yield fail(
            'ROS', f'{distro}: the messages of this package are not built; build it where ROS is sourced'
        )
        return
    yield ok('ROS', f'{distro}, rclpy {_version("rclpy") or "of unknown version"}, messages built')


def _version(package: str) -> str:
    """Empty where pip knows nothing of it, as of OpenCV from apt."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ''
