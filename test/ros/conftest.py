# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""A ROS context per test, on loopback and in a domain of its own."""

import os
from collections.abc import Iterator

import pytest

os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
os.environ.setdefault('ROS_PYTHON_CHECK_FIELDS', '1')


@pytest.fixture(scope='session')
def domain_id() -> int:
    """One domain for this process, away from those of others on the machine."""
    return int(os.environ.get('ROS_DOMAIN_ID', 1 + os.getpid() % 100))


@pytest.fixture
def ros(domain_id: int, tmp_path, monkeypatch) -> Iterator:
    from ros_spinner import Spinner

    monkeypatch.setenv('ROS_LOG_DIR', str(tmp_path / 'log'))
    spinner = Spinner(domain_id)
    yield spinner
    spinner.close()
