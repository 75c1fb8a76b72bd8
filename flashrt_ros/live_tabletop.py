# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The simulated robot and the policy node, each in its own process, told what to do and watched."""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Self

from rclpy.node import Node
from sensor_msgs.msg import CompressedImage
from std_msgs.msg import String

from flashrt_ros.conversions import stamp_ns
from flashrt_ros.node_process import NodeProcess
from flashrt_ros.package_files import package_folder
from flashrt_ros.qos import LATCHED
from flashrt_ros.replay_setup import NODE_NAME
from flashrt_ros.report import ChunkTiming
from flashrt_ros.sim_process import SimProcess
from flashrt_ros.tabletop.film import Take
from flashrt_ros.witness import Witness

_READY_S = 60.0  # for pictures and chunks, on a busy machine
_TASK_S = 300.0  # on the wall; a task has at most 10 s of its own
_HEARD_S = 10.0


def tabletop_parameters() -> Path:
    """The parameter file of the policy that comes with the package."""
    return package_folder() / 'config' / 'pi05_tabletop.yaml'


@dataclass(frozen=True)
class Speed:
    """How fast this machine is, with everything running."""

    inference_ms: float  # 90th percentile
    simulation: float  # simulated seconds per second


@dataclass(frozen=True)
class Ended:
    """How one task ended."""

    task: str
    is_success: bool
    why: str
    time_s: float  # since it was given


class LiveTabletop:
    """Both processes, from start to end; leaving the context ends them."""

    def __init__(
        self,
        client: Node,  # spun elsewhere
        out: Path,  # folder of the logs
        *,
        robot: Mapping[str, object],  # parameters of sim_robot
        policy: Mapping[str, object],  # parameters of the node that win over its file
    ) -> None:
        self.robot = SimProcess(client, out / 'robot.log', robot)
        self.policy = NodeProcess(
            client, NODE_NAME, tabletop_parameters(), out / 'node.log', simulated_time=True, overrides=policy
        )
        self.witness = Witness(client)
        self._prompts = client.create_publisher(String, f'{NODE_NAME}/prompt', LATCHED)
        self._task = ''
        self._views: list[tuple[int, float]] = []  # stamp [ns], heard at [s]
        self._takes: list[Take] = []
        self._is_filming = False
        self._chunks: list[ChunkTiming] = []  # kept at the end

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.enter_context(self.robot)
            undo.enter_context(self.policy)
            self.policy.configure()
            self.policy.activate()
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._undo.__exit__(*exception)

    # How fast

    def measure(self, chunks: int) -> Speed:
        """Over so many chunks, while nothing moves yet; begins to film, which costs, too."""
        self.robot.show(self._on_view)
        self._wait(lambda: self._views and self.witness.chunks, 'a view and a chunk', _READY_S)
        first, heard = len(self.witness.chunks), len(self._views)
        self._wait(lambda: len(self.witness.chunks) >= first + chunks, f'{chunks} chunks', _READY_S)
        views = self._views[heard - 1 :]
        simulated_s = (views[-1][0] - views[0][0]) / 1e9
        self._hear_news()
        return Speed(self.witness.stages['inference'].p90_ms, simulated_s / (views[-1][1] - views[0][1]))

    def _hear_news(self) -> None:
        self.witness.expect_news()
        self._wait(self.witness.has_news, f'a report of {NODE_NAME} on ~/status and ~/latency', _HEARD_S)

    # What to do

    def begin(self, task: str, **scene: object) -> None:
        """Resets the scene, with other parameters of the robot if they are given, and starts the policy."""
        self.policy.trigger('stop')
        self.robot.reset(task=task, **scene)
        self._takes.clear()
        self._chunks = []
        self._prompt(task)
        self.policy.trigger('start')
        self._wait(lambda: self.witness.is_commanding, f'{NODE_NAME} commanding', _HEARD_S)
        self._is_filming = True

    def ask(self, task: str) -> None:
        """Another task in the scene as it is, while the policy goes on."""
        self.robot.ask(task)
        self._prompt(task)

    def finish(self) -> Ended:
        """Waits for the end of the task; a policy that stops commanding before ends it, too."""
        self._wait(
            lambda: self.robot.state in ('succeeded', 'failed') or not self.witness.is_commanding,
            f'the end of the task: {self._task}',
            _TASK_S,
        )
        status = self.robot.status
        why = status['why']
        if self._takes:
            self._takes[-1] = replace(self._takes[-1], state=status['state'])
        if self.robot.state not in ('succeeded', 'failed'):
            why = f'{NODE_NAME} stopped commanding: {self.witness.words}'
        return Ended(self._task, self.robot.state == 'succeeded', why, float(status['time_s']))

    def rest(self) -> None:
        """The policy commands no more, though it goes on to look and to infer."""
        self._is_filming = False
        self._chunks = self.chunks
        self.policy.trigger('stop')
        self._hear_news()

    @property
    def takes(self) -> list[Take]:
        """The film since the begin."""
        return list(self._takes)

    @property
    def chunks(self) -> list[ChunkTiming]:
        """Of the policy while things moved, on the time of the robot."""
        if self._chunks:
            return self._chunks
        begin_ns = float(self.robot.status['begin_s'] or 'inf') * 1e9
        return [chunk for chunk in self.witness.chunks if chunk.end_ns >= begin_ns]

    @property
    def longest_gap_s(self) -> float:
        """Between two of them."""
        ends_ns = [chunk.end_ns for chunk in self.chunks]
        return max((after - before for before, after in pairwise(ends_ns)), default=0) / 1e9

    def _prompt(self, task: str) -> None:
        self._task = task
        self._prompts.publish(String(data=task))

    def _wait(self, claim: Callable[[], object], what: str, patience_s: float) -> None:
        """As long as both processes live."""

        def is_true() -> bool:
            self.robot.check_alive()
            return bool(claim())

        self.policy.wait_for(is_true, what, patience_s)

    def _on_view(self, message: CompressedImage) -> None:
        now_ns = stamp_ns(message.header.stamp)
        self._views.append((now_ns, time.monotonic()))
        status = self.robot.status
        if self._is_filming and (begin_s := status.get('begin_s')):
            time_s = now_ns / 1e9 - float(begin_s)
            self._takes.append(Take(time_s, bytes(message.data), status['task'], status['state']))
