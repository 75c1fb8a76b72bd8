# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""ROS 2 within this machine: how the processes of a replay or a demo hear each other, and nobody else."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import rclpy
from rclpy.context import Context
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from flashrt_ros.package_files import package_folder

_KILTED = 8  # first major version of rclpy after Jazzy's


def set_up_transport(params: Path) -> None:
    """Loopback only, and a shared-memory segment that holds raw pictures; what the user has set stays."""
    os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
    profile = _profile(params)
    if profile is not None:
        os.environ.setdefault('FASTDDS_DEFAULT_PROFILES_FILE', os.fspath(profile))
        if (
            int(metadata.version('rclpy').split('.')[0]) < _KILTED
        ):  # where the new name is read, this one warns
            os.environ.setdefault('FASTRTPS_DEFAULT_PROFILES_FILE', os.fspath(profile))


def _profile(params: Path) -> Path | None:
    """config/fastdds_shm.xml: beside the parameter file, or that of the package."""
    folders = params.parent, package_folder() / 'config'
    return next((file for folder in folders if (file := folder / 'fastdds_shm.xml').is_file()), None)


@contextmanager
def spinning_node(name: str) -> Iterator[Node]:
    """A node whose callbacks run in a thread of their own."""
    context = Context()
    rclpy.init(context=context, signal_handler_options=SignalHandlerOptions.NO)
    node = Node(name, context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    is_done = threading.Event()

    def spin() -> None:
        while not is_done.is_set():
            try:
                executor.spin_once(timeout_sec=0.1)
            except ExternalShutdownException:
                return

    thread = threading.Thread(target=spin, name='replay-spin', daemon=True)
    thread.start()
    try:
        yield node
    finally:
        is_done.set()
        thread.join()
        executor.shutdown()
        node.destroy_node()
        context.shutdown()
