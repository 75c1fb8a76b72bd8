# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The policy node as its own process, driven through its services, as an operator would."""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.node import Node
from std_srvs.srv import Trigger

from flashrt_core.errors import Error
from flashrt_ros.program_process import ANSWER_S, DISCOVERY_S, ProgramProcess, ros_arguments

COMMAND = (sys.executable, '-m', 'flashrt_ros.policy_node')
_CONFIGURE_S = 300.0
_HEARD_S = 1.0  # for the answer to a question without effect


class NodeProcess(ProgramProcess):
    """The node, its lifecycle and its services."""

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
        values = {'use_sim_time': simulated_time} | dict(overrides)
        super().__init__(client, name, [*command, *ros_arguments(params, values)], log)
        # All made now: a stop must not wait until its service has been discovered.
        self._change = client.create_client(ChangeState, f'{name}/change_state')
        self._state = client.create_client(GetState, f'{name}/get_state')
        self._triggers = {
            service: client.create_client(Trigger, f'{name}/{service}')
            for service in ('start', 'stop', 'estop_reset')
        }

    def configure(self) -> None:
        self.wait_for(self._is_heard, 'an answer of the node', DISCOVERY_S)
        self._change_state(Transition.TRANSITION_CONFIGURE, 'configure', _CONFIGURE_S)

    def activate(self) -> None:
        self._change_state(Transition.TRANSITION_ACTIVATE, 'activate', ANSWER_S)

    def trigger(self, service: str) -> None:
        """~/start, ~/stop, ~/estop_reset."""
        answer = self.call(self._triggers[service], Trigger.Request(), ANSWER_S)
        if not answer.success:
            raise Error(f'{self.name}/{service} was refused: {answer.message}')

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
        if not self.call(self._change, request, timeout_s).success:
            raise Error(f'the node refused to {label}; {self.last_lines()}')
