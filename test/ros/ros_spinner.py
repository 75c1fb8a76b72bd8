# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Nodes of one context spun in the background, and waiting for what they do."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import rclpy
from rclpy.context import Context
from rclpy.executors import MultiThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from flashrt_ros.run import spin_some

PATIENCE_S = 20.0  # for what takes milliseconds on an idle machine


def eventually(
    claim: Callable[[], Any], what: str | Callable[[], str], patience_s: float = PATIENCE_S
) -> Any:
    """The first true value of claim(); fails with `what` when there is none in time."""
    deadline = time.monotonic() + patience_s
    while not (value := claim()):
        if time.monotonic() > deadline:
            text = what if isinstance(what, str) else what()
            pytest.fail(f'waited {patience_s} s in vain for: {text}')
        time.sleep(0.01)
    return value


class Spinner:
    """Nodes of one context on one multi-threaded executor."""

    def __init__(self, domain_id: int) -> None:
        self.domain_id = domain_id
        self.context = Context()
        rclpy.init(context=self.context, domain_id=domain_id, signal_handler_options=SignalHandlerOptions.NO)
        self._executor = MultiThreadedExecutor(6, context=self.context)
        self._nodes: list[Node] = []
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self) -> None:
        while not self._is_closing.is_set():
            spin_some(self._executor)

    def add(self, node: Node) -> Node:
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
