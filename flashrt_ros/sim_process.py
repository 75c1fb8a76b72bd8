# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The simulated robot as its own process: its parameters and services, what it says, what it shows."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus
from rcl_interfaces.srv import SetParameters
from rclpy.node import Node
from rclpy.parameter import Parameter
from sensor_msgs.msg import CompressedImage
from std_srvs.srv import Trigger

from flashrt_core.errors import Error
from flashrt_ros.program_process import ANSWER_S, ProgramProcess, ros_arguments
from flashrt_ros.qos import LATCHED

NAME = '/sim_robot'
_COMMAND = (sys.executable, '-m', 'flashrt_ros.sim_robot')


class SimProcess(ProgramProcess):
    """The robot, and its newest status."""

    def __init__(self, client: Node, log: Path, values: Mapping[str, object]) -> None:
        """values: of its parameters."""
        super().__init__(client, NAME, [*_COMMAND, *ros_arguments(None, values)], log)
        self.status: Mapping[str, str] = {}
        self._set = client.create_client(SetParameters, f'{NAME}/set_parameters')
        self._reset = client.create_client(Trigger, f'{NAME}/reset')
        self._ask = client.create_client(Trigger, f'{NAME}/ask')
        client.create_subscription(DiagnosticStatus, f'{NAME}/status', self._on_status, LATCHED)

    def show(self, on_view: Callable[[CompressedImage], None]) -> None:
        """Has the robot draw its larger view, and hands each picture on."""
        self._client.create_subscription(CompressedImage, f'{NAME}/view/compressed', on_view, 10)

    def reset(self, **values: object) -> None:
        """Another scene, task, pace or delay; the rest stays as it was."""
        self._change(values)
        self._trigger(self._reset)
        self.wait_for(lambda: self.status.get('state') == 'waiting', 'the reset', ANSWER_S)

    def ask(self, task: str) -> None:
        """Another task in the scene as it is."""
        self._change({'task': task})
        self._trigger(self._ask)
        self.wait_for(lambda: self.status.get('task') == task, f'the task {task}', ANSWER_S)

    @property
    def state(self) -> str:
        """waiting | running | succeeded | failed, or nothing before it was heard."""
        return self.status.get('state', '')

    def _change(self, values: Mapping[str, object]) -> None:
        messages = [Parameter(name, value=value).to_parameter_msg() for name, value in values.items()]
        results = self.call(self._set, SetParameters.Request(parameters=messages), ANSWER_S).results
        if refused := [result.reason for result in results if not result.successful]:
            raise Error(f'{NAME} refused {dict(values)}: {"; ".join(refused)}')

    def _trigger(self, client: Any) -> None:
        self.call(client, Trigger.Request(), ANSWER_S)

    def _on_status(self, message: DiagnosticStatus) -> None:
        self.status = {pair.key: pair.value for pair in message.values}
