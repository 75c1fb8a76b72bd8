# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What live and offline replay share: the checked parameters, warnings, and the progress bar."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from flashrt_core.errors import Error
from flashrt_ros.bag import Bag
from flashrt_ros.parameter_file import read_parameter_file
from flashrt_ros.parameters import Parameters, read_parameters
from flashrt_ros.report import Report
from flashrt_ros.stub_policy import StubSettings

NODE_NAME = '/policy'

OnProgress = Callable[[int], None]  # log time reached


def live_replay() -> Callable[..., Report]:
    """replay_live.replay_live; imported when asked for, because it brings rclpy and the messages with it."""
    try:
        from flashrt_ros.replay_live import replay_live
    except ImportError as fault:
        raise Error(
            f'live replay needs ROS 2 with the messages of this package ({fault}): source the workspace that '
            'it was built in (apt: ros-<distro>-rclpy, ros-<distro>-diagnostic-msgs, '
            'ros-<distro>-lifecycle-msgs), or replay with --offline'
        ) from None
    return replay_live


def stub_command(settings: StubSettings) -> tuple[str, ...]:
    """The node on a stub policy, as a program; imports rclpy as live_replay does."""
    from flashrt_ros.stub_node import stub_arguments

    return sys.executable, '-m', 'flashrt_ros.stub_node', *stub_arguments(settings)


def checked_parameters(
    params: Path, warn: Callable[[str], None], overrides: Mapping[str, object] | None
) -> Parameters:
    values = read_parameter_file(params, NODE_NAME) | dict(overrides or {})
    parameters, faults = read_parameters(values, NODE_NAME)
    for fault in faults:
        warn(fault)
    return parameters


class Warnings:
    """Shows each warning at once and keeps it for the report."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.texts: list[str] = []

    def __call__(self, text: str) -> None:
        self.texts.append(text)
        self._console.print(f'warning: {text}', style='yellow', markup=False, highlight=False)


@contextmanager
def progress_bar(console: Console, title: str, bag: Bag) -> Iterator[OnProgress]:
    """Moves with the log time of the recording."""
    columns = (TextColumn('{task.description}'), BarColumn(), TextColumn('{task.percentage:>3.0f} %'))
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task(title, total=max(bag.end_ns - bag.start_ns, 1))
        yield lambda log_ns: bar.update(task, completed=log_ns - bag.start_ns)
