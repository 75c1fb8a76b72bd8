# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What exists between configure and cleanup, what is told about it, and how it is given back."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flashrt_ros.actions import ActionPlayer, OutputMap
from flashrt_ros.health import Health, Situation
from flashrt_ros.inputs import Moment
from flashrt_ros.latency import LatencyRecorder
from flashrt_ros.observations import ObservationBuffer
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
    player: ActionPlayer
    outputs: OutputMap
    worker: InferenceWorker
    latency: LatencyRecorder
    topics: Topics
    commands: CommandPublisher
    stopped_because: str = ''

    def release(self) -> bool:
        """Frees everything; False when an inference still runs."""
        is_idle = self.worker.close(CLOSE_TIMEOUT_S)
        self.topics.destroy()
        self.commands.destroy()
        return is_idle

    def situation(self, node: Situation, now: Moment) -> Situation:
        """What the node knows, and what its parts know."""
        reason = self.observations.check(now) if node.state == 'active' else None
        return replace(
            node,
            inference_error=self.worker.last_error,
            waiting='' if reason is None else str(reason),
            prompt_fault=self.worker.prompt_fault,
            is_commanding=self.player.is_running,
            stopped_because=self.stopped_because,
            starved_s=self.player.starved_s,
            is_dry_run=self.parameters.dry_run,
        )

    def health(self, situation: Situation, now: Moment) -> Health:
        chunk = self.worker.last_chunk
        return Health(
            situation,
            prompt=self.worker.prompt,
            streams=tuple(self.observations.health(now)),
            connections=self.topics.connections(),
            inference_errors=self.worker.errors,
            out_of_range={item.name: item.normalised for item in chunk.out_of_range} if chunk else {},
            play=self.player.counters,
            skipped_rows=self.player.skipped_rows,
            policy=self.policy.info(),
            latency=self.latency.summary(),
        )
