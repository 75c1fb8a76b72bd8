# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""One robot for all tests, since loading the scene takes longer than resetting it; ROS as in test/ros."""

import gc
import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flashrt_ros.tabletop.robot import SimulatedRobot
from flashrt_ros.tabletop.tasks import TASKS
from flashrt_ros.tabletop.variation import EVALUATION, draw_layout

os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
os.environ.setdefault('ROS_PYTHON_CHECK_FIELDS', '1')
sys.path.append(str(Path(__file__).parents[1] / 'ros'))  # what waits for nodes, and a policy without a model
# Each test has a domain to itself, away from those of test/ros, which end at 101.
_DOMAINS = itertools.cycle(range(110, 220))


@pytest.fixture(scope='session')
def robot() -> SimulatedRobot:
    """To be reset before use."""
    return SimulatedRobot(draw_layout(0, EVALUATION), TASKS[0])


@pytest.fixture
def domain_id() -> int:
    return next(_DOMAINS)


@pytest.fixture
def ros(domain_id: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator:
    from ros_spinner import Spinner

    monkeypatch.setenv('ROS_LOG_DIR', str(tmp_path / 'log'))
    spinner = Spinner(domain_id)
    yield spinner
    spinner.close()
    gc.collect()  # the participant of a context lives until the last reference to it is gone
