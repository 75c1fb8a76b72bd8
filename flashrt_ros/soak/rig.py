# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The node among its robot, cameras, stop button and operator, each of which can fail on demand."""

import itertools
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import Bool, String

from flashrt_core.errors import Error
from flashrt_ros.node_process import NodeProcess
from flashrt_ros.replay_setup import NODE_NAME
from flashrt_ros.soak.child import Child
from flashrt_ros.soak.configuration import PROMPTS, STUB
from flashrt_ros.soak.journal import Usage
from flashrt_ros.stub_node import stub_arguments
from flashrt_ros.stub_policy import StubSettings

_BUTTON_PERIOD_S = 0.1
_SERVICE_S, _READY_S = 10.0, 20.0
_LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
_NODE = 'flashrt_ros.stub_node'
_TICKS_PER_S = os.sysconf('SC_CLK_TCK')
_PAGE = os.sysconf('SC_PAGE_SIZE')


class LiveRig:
    """Implements faults.Rig; leaving the context ends every process."""

    def __init__(
        self,
        client: Node,  # spun elsewhere
        params: Path,
        out: Path,
        *,
        simulated_time: bool = False,
        camera_arguments: tuple[str, ...] = (),
        settings: StubSettings = STUB,
    ) -> None:
        self._log = out
        self._simulated_time = simulated_time
        self._camera_arguments = camera_arguments
        self._sent_before: list[dict[str, int]] = []  # by robots that have ended
        self._position: list[float] = []
        self._shift_s = 0.0
        self._prompts = itertools.cycle([*PROMPTS[1:], PROMPTS[0]])
        self._is_pressed = self._is_silent = False
        self._button_ns = 0
        self.status = DiagnosticStatus()
        self.values: dict[str, str] = {}  # of the status
        client.create_subscription(DiagnosticStatus, f'{NODE_NAME}/status', self._on_status, _LATCHED)
        self._button = client.create_publisher(Bool, 'estop', _LATCHED)
        self._prompt = client.create_publisher(String, f'{NODE_NAME}/prompt', _LATCHED)
        self._fault = client.create_publisher(String, f'{NODE_NAME}/stub_fault', 10)
        client.create_timer(_BUTTON_PERIOD_S, self._press)
        self.node = NodeProcess(
            client, NODE_NAME, params, out / 'node.log', simulated_time=simulated_time, overrides={},
            command=(sys.executable, '-m', _NODE, *stub_arguments(settings)),
        )  # fmt: skip

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            self.camera = undo.enter_context(self._child('camera', *self._camera_arguments))
            self.robot = self._robot()
            undo.callback(lambda: self.robot.close())  # which may be another one by then
            self.camera.ready()
            self.robot.ready()
            undo.enter_context(self.node)
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._undo.__exit__(*exception)

    # What the operator does

    def bring_up(self) -> None:
        """To the first motion."""
        self.node.configure()
        self.node.activate()
        self.insist('estop_reset')  # a required stop begins latched
        self.node.wait_for(
            lambda: self.status.message.startswith('inferring'), 'the first observation', _READY_S
        )
        self.insist('start')
        self.node.wait_for(lambda: self.is_in_motion, 'motion', _READY_S)

    def insist(self, service: str) -> int:
        """Calls until it is granted, for it may be refused until the node has heard of the end of a fault."""
        deadline_s = time.monotonic() + _SERVICE_S
        while True:
            asked_ns = self.now_ns()
            try:
                self.node.trigger(service)
                return asked_ns
            except Error:
                self.node.check_alive()
                if time.monotonic() > deadline_s:
                    raise
            time.sleep(0.05)

    def comes_true(self, claim: Callable[[], bool], timeout_s: float) -> bool:
        """Within the time; raises where the node has ended."""
        with suppress(Error):
            self.node.wait_for(claim, '', timeout_s)
        self.node.check_alive()
        return claim()

    @property
    def is_commanding(self) -> bool:
        return self.values.get('commanding') == 'True'

    @property
    def is_in_motion(self) -> bool:
        return self.status.message == 'commanding'

    # What is done to it: faults.Rig

    def now_ns(self) -> int:
        return time.time_ns()

    def fail(self, text: str) -> int:
        self._fault.publish(String(data=text))
        return self.now_ns()

    def press(self, is_pressed: bool) -> int:
        self._is_pressed = is_pressed
        at_ns = self.now_ns()
        self._button.publish(Bool(data=is_pressed))
        return at_ns

    def let_go(self, is_silent: bool) -> int:
        self._is_silent = is_silent
        return self._button_ns if is_silent else self.now_ns()

    def other_prompt(self) -> int:
        at_ns = self.now_ns()
        self._prompt.publish(String(data=next(self._prompts)))
        return at_ns

    def end_robot(self) -> int:
        following = self._robot('--waiting')
        try:
            following.ready()
            self.node.wait_for(lambda: following.ask('count')['is_connected'], 'a second robot', _READY_S)
            last = self.robot.ask('leave')
            self.robot.close()
        except BaseException:
            following.close()
            raise
        self.robot = following
        self._position = last['position']
        self._sent_before.append(last['sent'])
        return last['last_ns']

    def begin_robot(self) -> int:
        return self.robot.ask('at ' + ' '.join(map(str, self._position)))['now_ns']

    def shift_clock(self, seconds: float) -> int:
        self._shift_s += seconds
        at_ns = self.robot.ask(f'shift {self._shift_s}')['now_ns']
        self.camera.ask(f'shift {self._shift_s}')
        return at_ns

    # What can be read from outside

    def sent(self) -> dict[str, int]:
        """Topic -> messages of cameras and joints so far, those of robots that have ended included."""
        total: dict[str, int] = dict(self.camera.ask('count')['sent'])
        for part in (*self._sent_before, self.robot.ask('count')['sent']):
            for topic, count in part.items():
                total[topic] = total.get(topic, 0) + count
        return total

    def usage(self) -> Usage:
        """Of the process of the node, from /proc."""
        folder = Path(f'/proc/{self.node.pid}')
        resident = int((folder / 'statm').read_text().split()[1]) * _PAGE
        times = (folder / 'stat').read_text().rpartition(')')[2].split()
        return Usage(
            self.now_ns(),
            resident,
            len(list((folder / 'fd').iterdir())),
            (int(times[11]) + int(times[12])) / _TICKS_PER_S,
        )

    def _robot(self, *arguments: str) -> Child:
        clock = ('--clock', f'--shift={self._shift_s}') if self._simulated_time else ()
        return self._child('robot', *clock, *arguments)

    def _child(self, module: str, *arguments: str) -> Child:
        return Child(f'flashrt_ros.soak.{module}', arguments, self._log / f'{module}.log')

    def _press(self) -> None:
        if not self._is_silent:
            self._button_ns = self.now_ns()
            self._button.publish(Bool(data=self._is_pressed))

    def _on_status(self, message: DiagnosticStatus) -> None:
        self.values = {pair.key: pair.value for pair in message.values}
        self.status = message
