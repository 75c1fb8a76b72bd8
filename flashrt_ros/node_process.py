# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Runs the policy node as its own process and drives it through its services, as an operator would."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.client import Client
from rclpy.node import Node
from std_srvs.srv import Trigger

from flashrt_core.errors import Error

COMMAND = (sys.executable, '-m', 'flashrt_ros.policy_node')
_CONFIGURE_S, _DISCOVERY_S, _ANSWER_S, _STOP_S = 300.0, 30.0, 10.0, 10.0
_HEARD_S = 1.0  # for the answer to a question without effect
_LOOK_AROUND_S = 1.0  # for the discovery of a node that is there already
_LINES_SHOWN = 15


class NodeProcess:
    """The node from start to end; leaving the context ends it, whatever happened."""

    def __init__(
        self,
        client: Node,  # spun elsewhere
        name: str,
        params: Path,
        log: Path,
        *,
        simulated_time: bool,
        overrides: Mapping[str, object],
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._client = client
        self._name = name
        self._log = log
        self._process: subprocess.Popen | None = None
        # All made now: a stop must not wait until its service has been discovered.
        self._change = client.create_client(ChangeState, f'{name}/change_state')
        self._state = client.create_client(GetState, f'{name}/get_state')
        self._triggers = {
            service: client.create_client(Trigger, f'{name}/{service}')
            for service in ('start', 'stop', 'estop_reset')
        }
        values = {'use_sim_time': simulated_time} | dict(overrides)
        self._command = [*command, '--ros-args', '--params-file', os.fspath(params)]
        for key, value in values.items():
            # ROS reads the value as YAML, of which JSON is a part: a text stays a text, whatever is in it.
            self._command += ['-p', f'{key}:={json.dumps(value, ensure_ascii=False)}']

    def __enter__(self) -> Self:
        time.sleep(_LOOK_AROUND_S)
        if any(self._name == _full_name(*names) for names in self._client.get_node_names_and_namespaces()):
            raise Error(
                f'a node {self._name} runs on this ROS domain already; stop it, or replay on another '
                'ROS_DOMAIN_ID: the recording must not reach a robot'
            )
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open('wb') as output:
            self._process = subprocess.Popen(
                self._command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C reaches the replay only, which then ends the node
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
            raise Error(f'the node ended with code {self._process.returncode}; {self._last_lines()}')

    @property
    def pid(self) -> int:
        return self._process.pid

    def configure(self) -> None:
        self.wait_for(self._is_heard, 'an answer of the node', _DISCOVERY_S)
        self._change_state(Transition.TRANSITION_CONFIGURE, 'configure', _CONFIGURE_S)

    def activate(self) -> None:
        self._change_state(Transition.TRANSITION_ACTIVATE, 'activate', _ANSWER_S)

    def trigger(self, service: str) -> None:
        """~/start, ~/stop, ~/estop_reset."""
        answer = self._call(self._triggers[service], Trigger.Request(), _ANSWER_S)
        if not answer.success:
            raise Error(f'{self._name}/{service} was refused: {answer.message}')

    def check_alive(self) -> None:
        if self._process.poll() is not None:
            raise Error(f'the node ended with code {self._process.returncode}; {self._last_lines()}')

    def wait_for(self, condition: Callable[[], bool], what: str, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            self.check_alive()
            if time.monotonic() > deadline:
                raise Error(f'{what} did not happen within {timeout_s:g} s; {self._last_lines()}')
            time.sleep(0.005)

    def _is_heard(self) -> bool:
        """The first answers may get lost while the two sides discover each other."""
        if not (self._state.service_is_ready() and self._change.service_is_ready()):
            return False
        future = self._state.call_async(GetState.Request())
        deadline = time.monotonic() + _HEARD_S
        while not future.done() and time.monotonic() < deadline:
            time.sleep(0.005)
        return future.done()

    def _change_state(self, transition: int, label: str, timeout_s: float) -> None:
        request = ChangeState.Request(transition=Transition(id=transition))
        if not self._call(self._change, request, timeout_s).success:
            raise Error(f'the node refused to {label}; {self._last_lines()}')

    def _call(self, client: Client, request: Any, timeout_s: float) -> Any:
        self.wait_for(client.service_is_ready, f'the service {client.srv_name}', _DISCOVERY_S)
        future = client.call_async(request)
        self.wait_for(future.done, f'the answer of {client.srv_name}', timeout_s)
        return future.result()

    def _last_lines(self) -> str:
        lines = self._log.read_text(encoding='utf-8', errors='replace').splitlines()
        return '\n'.join([f'its log {self._log} ends with', *lines[-_LINES_SHOWN:]])


def _full_name(name: str, namespace: str) -> str:
    return f'{namespace.rstrip("/")}/{name}'
