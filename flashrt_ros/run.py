# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Runs a node as a process: parameter files checked first, signals end it safely and with code 0."""

import contextlib
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import rclpy
from rclpy.exceptions import InvalidHandle
from rclpy.executors import Executor, MultiThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from flashrt_ros.parameter_file import check_parameter_file
from flashrt_ros.parameter_table import ParameterFaults

_BEGIN_S = 0.0005
_THREADS = 4  # callbacks, services during a long configure, status


def run_node(make_node: Callable[[], Node], arguments: Sequence[str] | None = None) -> int:
    """Spins until SIGINT or SIGTERM; the node releases itself while its publishers are still valid."""
    arguments = sys.argv if arguments is None else arguments
    try:
        for path in _parameter_files(arguments):
            check_parameter_file(path)
    except ParameterFaults as faults:
        print(faults, file=sys.stderr)
        return 1
    is_stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: is_stopping.set())
    # With rclpy's own handlers the publishers would be dead before the safe reaction.
    rclpy.init(args=list(arguments), signal_handler_options=SignalHandlerOptions.NO)
    node = make_node()
    executor = MultiThreadedExecutor(_THREADS)
    executor._executor = OncePool(_THREADS)
    executor.add_node(node)
    try:
        while not is_stopping.is_set():
            spin_some(executor)
    finally:
        is_idle = node.release()
    if not is_idle:  # a load or an inference that cannot be interrupted must not delay the end
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    executor.shutdown()
    node.destroy_node()
    rclpy.shutdown()
    return 0


class OncePool(ThreadPoolExecutor):
    """The threads of the executor, which get each task once.

    rclpy offers a task again and again until a thread has begun it. Submitted each time, a few tasks that
    wait for a processor become thousands, and the loop that submits them keeps the others out.
    """

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self._waiting: set[Callable[[], None]] = set()

    def submit(self, task: Callable[[], None]) -> None:
        if task in self._waiting:
            time.sleep(_BEGIN_S)  # lets a thread begin it
            return
        self._waiting.add(task)
        super().submit(self._begin, task)

    def _begin(self, task: Callable[[], None]) -> None:
        try:
            task()
        finally:
            self._waiting.discard(task)


def spin_some(executor: Executor) -> None:
    """Waits a little for work and does it.

    Cleaning up destroys topics in one thread while another one collects what to wait for, and rclpy then
    stumbles over their events; the next round does not meet them any more.
    """
    with contextlib.suppress(InvalidHandle):
        executor.spin_once(timeout_sec=0.1)


def _parameter_files(arguments: Sequence[str]) -> list[str]:
    """The files after --params-file, which ROS would refuse without naming the key."""
    return [path for flag, path in itertools.pairwise(arguments) if flag == '--params-file']
