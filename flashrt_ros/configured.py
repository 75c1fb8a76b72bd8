# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What exists between configure and cleanup, what is told about it, and how it is given back."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flashrt_ros.computer import Prepared
from flashrt_ros.device_watch import DeviceWatch
from flashrt_ros.health import CONNECTED, NO_PUBLISHER, Health, Situation
from flashrt_ros.inputs import Moment
from flashrt_ros.latency import LatencyRecorder
from flashrt_ros.motion import Motion
from flashrt_ros.observations import NotReady, ObservationBuffer
from flashrt_ros.outputs import OutputMap
from flashrt_ros.parameters import Parameters
from flashrt_ros.topics import CommandPublisher, Topics
from flashrt_ros.worker import InferenceWorker

if TYPE_CHECKING:
    from flashrt_core.policy import Policy

CLOSE_TIMEOUT_S = 1.0  # for an inference that is still running


@dataclass
class Configured:
    """The parts that the node connects."""

    parameters: Parameters
    policy: 'Policy'
    observations: ObservationBuffer
    motion: Motion
    outputs: OutputMap
    worker: InferenceWorker
    latency: LatencyRecorder
    topics: Topics
    commands: CommandPublisher
    computer: Prepared
    device: DeviceWatch

    def release(self) -> bool:
        """Frees everything; False when an inference still runs."""
        is_idle = self.worker.close(CLOSE_TIMEOUT_S)
        self.topics.destroy()
        self.commands.destroy()
        self.computer.close()
        return is_idle

    def situation(self, node: Situation, now: Moment) -> Situation:
        """What the node knows, and what its parts know."""
        reason = None
        if node.state == 'active':
            reason = self.observations.check(now) or self.observations.check_past()
        return replace(
            node,
            inference_error=self.worker.last_error,
            waiting='' if reason is None else self._in_words(reason),
            prompt_fault=self.worker.prompt_fault,
            is_commanding=self.motion.is_running,
            stop_latched=self.motion.latch.reason if self.motion.latch.is_latched else '',
            stop_connection=self.stop_fault(),
            stopped_because=self.motion.stopped_because,
            is_stopped_by_fault=self.motion.is_stopped_by_fault,
            first_command=self.motion.refusal,
            starved_s=self.motion.starved_s,
            is_dry_run=self.parameters.dry_run,
        )

    def _in_words(self, reason: NotReady) -> str:
        """With what the graph tells about a stream from which nothing came."""
        if reason.condition != 'missing':
            return str(reason)
        unheard = [
            f'{name}: {connection}'
            for name, connection in self.topics.connections().items()
            if connection != CONNECTED
        ]
        return f'{reason} ({"; ".join(unheard)})' if unheard else str(reason)

    def stop_fault(self) -> str:
        """Why a stop could not be heard, or nothing; without a publisher only where one is required."""
        connection = self.topics.stop_connection()
        if connection == CONNECTED or (connection == NO_PUBLISHER and not self.parameters.estop_required):
            return ''
        return f'stop topic {self.parameters.estop_topic}: {connection}'

    def health(self, situation: Situation, now: Moment) -> Health:
        chunk = self.worker.last_chunk
        return Health(
            situation,
            prompt=self.worker.prompt,
            streams=tuple(self.observations.health(now)),
            connections=self.topics.connections(),
            inference_errors=self.worker.errors,
            out_of_range={item.name: item.normalised for item in chunk.out_of_range} if chunk else {},
            play=self.motion.player.counters,
            motion=self.motion.counters,
            joint_names=self.parameters.commanded_joints,
            delay_rows=self.motion.player.delay_rows,
            prompt_id=self.worker.prompt_id,
            policy=self.policy.info(),
            latency=self.latency.summary(),
            device=self.device.read(),
        )
