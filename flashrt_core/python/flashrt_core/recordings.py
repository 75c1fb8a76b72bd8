# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Recordings of robots: another package reads them, the core takes observations and knows no format."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from flashrt_core.errors import Error
from flashrt_core.policy import Policy
from flashrt_core.settings import CheckpointSettings
from flashrt_core.types import Observation

GROUP, NAME = 'flashrt.recordings', 'rosbag2'


class Recording(Protocol):
    """An open recording, and the parameters that a robot is run with."""

    settings: CheckpointSettings  # of the policy that the parameters describe
    joints: tuple[str, ...]  # in the order of its actions

    def observations(self, policy: Policy, count: int) -> Iterator[tuple[str, Observation]]:
        """At most `count`, with their names, spread over the recording; the policy gets its prompt.

        Error where there is none.
        """
        ...


def open_recording(
    path: Path, params: Path, warn: Callable[[str], None]
) -> AbstractContextManager[Recording]:
    """path: a recording of rosbag2; params: the parameter file of the policy node."""
    for entry in entry_points(group=GROUP, name=NAME):
        return entry.load()(path, params, warn)
    raise Error(
        f'recordings are read by the package flashrt_ros, which is not installed here (there is no entry '
        f'point {NAME} in {GROUP}); install the whole project with `pip install .` or `colcon build`'
    )
