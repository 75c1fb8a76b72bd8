# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Runs a program with a ROS node as its own process and calls its services, as an operator would."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from rclpy.client import Client
from rclpy.node import Node

from flashrt_core.errors import Error

DISCOVERY_S, ANSWER_S = 30.0, 10.0
_STOP_S = 10.0
_LOOK_AROUND_S = 1.0  # for the discovery of a node that is there already
_LINES_SHOWN = 15


def ros_arguments(params: Path | None, values: Mapping[str, object]) -> list[str]:
    """A parameter file, and values that win over it."""
    arguments = ['--ros-args', *(('--params-file', os.fspath(params)) if params else ())]
    for key, value in values.items():
        # ROS reads the value as YAML, of which JSON is a part: a text stays a text, whatever is in it.
        arguments += ['-p', f'{key}:={json.dumps(value, ensure_ascii=False)}']
    return arguments


class ProgramProcess:
    """A node from start to end; leaving the context ends it, whatever happened."""

    def __init__(self, client: Node, name: str, command: Sequence[str], log: Path) -> None:
        """client: spun elsewhere; name: full name of the node; log: what the program prints."""
        self.name = name
        self._client, self._command, self._log = client, list(command), log
        self._process: subprocess.Popen | None = None

    def __enter__(self) -> Self:
        time.sleep(_LOOK_AROUND_S)
        if any(self.name == _full_name(*names) for names in self._client.get_node_names_and_namespaces()):
            raise Error(
                f'a node {self.name} runs on this ROS domain already; stop it, or take another '
                'ROS_DOMAIN_ID: what is played here must not reach a robot'
            )
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open('wb') as output:
            self._process = subprocess.Popen(
                self._command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C reaches the parent only, which then ends the node
            )  # fmt: skip
        return self

    def __exit__(self, *exception: object) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is None:
                self._process.send_signal(number)
                try:
                    self._process.wait(_STOP_S)
                except subprocess.TimeoutExpired:
                    continue
        if exception[0] is None and self._process.returncode:
            raise self._ended()

    @property
    def pid(self) -> int:
        return self._process.pid

    def check_alive(self) -> None:
        if self._process.poll() is not None:
            raise self._ended()

    def wait_for(self, condition: Callable[[], bool], what: str, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            self.check_alive()
            if time.monotonic() > deadline:
                raise Error(f'{what} did not happen within {timeout_s:g} s; {self.last_lines()}')
            time.sleep(0.005)

    def call(self, client: Client, request: Any, timeout_s: float) -> Any:
        self.wait_for(client.service_is_ready, f'the service {client.srv_name}', DISCOVERY_S)
        future = client.call_async(request)
        self.wait_for(future.done, f'the answer of {client.srv_name}', timeout_s)
        return future.result()

    def _ended(self) -> Error:
        code = self._process.returncode
        return Error(f'the node {self.name} ended with code {code}; {self.last_lines()}')

    def last_lines(self) -> str:
        lines = self._log.read_text(encoding='utf-8', errors='replace').splitlines()
        return '\n'.join([f'its log {self._log} ends with', *lines[-_LINES_SHOWN:]])


def _full_name(name: str, namespace: str) -> str:
    return f'{namespace.rstrip("/")}/{name}'
