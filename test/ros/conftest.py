# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""A ROS context per test on loopback, with nodes spun in the background."""

import os
import threading
import time
from collections.abc import Callable, Iterator

import pytest

os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
os.environ.setdefault('ROS_PYTHON_CHECK_FIELDS', '1')

PATIENCE_S = 20.0  # for what takes milliseconds on an idle machine


def eventually(claim: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> object:
    """The first true value of claim(); fails with `what` when there is none in time."""
    deadline = time.monotonic() + patience_s
    while not (value := claim()):
        if time.monotonic() > deadline:
            pytest.fail(f'waited {patience_s} s in vain for: {what}')
        time.sleep(0.01)
    return value


class Spinner:
    """Nodes of one context on one multi-threaded executor."""

    def __init__(self, domain_id: int) -> None:
        import rclpy
        from rclpy.context import Context
        from rclpy.executors import MultiThreadedExecutor
        from rclpy.signals import SignalHandlerOptions

        self.domain_id = domain_id
        self.context = Context()
        rclpy.init(context=self.context, domain_id=domain_id, signal_handler_options=SignalHandlerOptions.NO)
        self._executor = MultiThreadedExecutor(6, context=self.context)
        self._nodes: list = []
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self) -> None:
        while not self._is_closing.is_set():
            self._executor.spin_once(timeout_sec=0.1)

    def add(self, node):
        self._nodes.append(node)
        self._executor.add_node(node)
        return node

    def close(self) -> None:
        for node in self._nodes:
            if hasattr(node, 'release'):
                node.release()
        self._is_closing.set()
        self._thread.join()
        self._executor.shutdown()
        for node in self._nodes:
            node.destroy_node()
        self.context.try_shutdown()


@pytest.fixture(scope='session')
def domain_id() -> int:
    """One domain for this process, away from those of others on the machine."""
    return int(os.environ.get('ROS_DOMAIN_ID', 1 + os.getpid() % 100))


@pytest.fixture
def ros(domain_id: int, tmp_path, monkeypatch) -> Iterator[Spinner]:
    monkeypatch.setenv('ROS_LOG_DIR', str(tmp_path / 'log'))
    spinner = Spinner(domain_id)
    yield spinner
    spinner.close()
