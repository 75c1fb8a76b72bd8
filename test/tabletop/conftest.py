# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""One robot for all tests: loading the scene takes longer than resetting it."""

import pytest

from flashrt_ros.tabletop.robot import SimulatedRobot
from flashrt_ros.tabletop.tasks import TASKS
from flashrt_ros.tabletop.variation import EVALUATION, draw_layout


@pytest.fixture(scope='session')
def robot() -> SimulatedRobot:
    """To be reset before use."""
    return SimulatedRobot(draw_layout(0, EVALUATION), TASKS[0])
