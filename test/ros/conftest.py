# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""A ROS context per test, on loopback and in a domain of its own."""

import gc
import itertools
import os
from collections.abc import Iterator

import pytest

os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
os.environ.setdefault('ROS_PYTHON_CHECK_FIELDS', '1')


# Tests take turns on a few domains that belong to this process: a participant that ended hard, or is not
# collected yet, is seen by others of its domain for a while.
_DOMAINS_PER_PROCESS = 4
_FIRST_DOMAIN = _DOMAINS_PER_PROCESS * (int(os.environ.get('ROS_DOMAIN_ID', os.getpid())) % 25) + 1
_TURNS = itertools.cycle(range(_FIRST_DOMAIN, _FIRST_DOMAIN + _DOMAINS_PER_PROCESS))


@pytest.fixture
def domain_id() -> int:
    return next(_TURNS)


@pytest.fixture
def ros(domain_id: int, tmp_path, monkeypatch) -> Iterator:
    monkeypatch.setenv('ROS_LOG_DIR', str(tmp_path / 'log'))
    yield from _spinner(domain_id)


@pytest.fixture
def other_ros(ros, domain_id: int) -> Iterator:
    """A second participant, as in another process: topics of one participant cannot have two types."""
    yield from _spinner(domain_id)


def _spinner(domain_id: int) -> Iterator:
    from ros_spinner import Spinner

    spinner = Spinner(domain_id)
    yield spinner
    spinner.close()
    gc.collect()  # the participant of a context lives until the last reference to it is gone
