# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Listens to what the policy node publishes, for a report about it."""

import time
from collections.abc import Mapping
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile

from flashrt_ros.bag_inputs import input_topics, stream_counts
from flashrt_ros.conversions import stamp_ns
from flashrt_ros.latency import STAGES, Percentiles
from flashrt_ros.node_process import NodeProcess
from flashrt_ros.parameters import Parameters
from flashrt_ros.replay_setup import NODE_NAME
from flashrt_ros.report import ChunkTiming, StreamCounts

GATED_STAGE = 'stamp_to_command'
_QUIET_S, _SETTLE_S = 0.3, 10.0  # after the last message: no new chunk for this long, and at most this long
_REPORT_S = 5.0  # the node reports once a second
_DEPTH = 1000  # a busy machine may delay the witness, not make it miss a chunk


class Witness:
    """Listens to what the node publishes."""

    def __init__(self, node: Node) -> None:
        from flashrt_ros.msg import ActionChunk

        self.chunks: list[ChunkTiming] = []
        self.stages: dict[str, Percentiles] = {}
        self.last_chunk_s = time.monotonic()
        self.words = ''  # of the newest status
        self._status: dict[str, str] = {}
        self._news: set[str] = set()
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        node.create_subscription(ActionChunk, f'{NODE_NAME}/action_chunk', self._on_chunk, _DEPTH)
        node.create_subscription(DiagnosticStatus, f'{NODE_NAME}/status', self._on_status, latched)
        node.create_subscription(DiagnosticArray, f'{NODE_NAME}/latency', self._on_latency, 10)

    @property
    def is_commanding(self) -> bool:
        return self._status.get('commanding') == 'True'

    def expect_news(self) -> None:
        self._news.clear()

    def has_news(self) -> bool:
        """A status has come, and latencies if there is a chunk that they could be about."""
        return 'status' in self._news and ('latency' in self._news or not self.chunks)

    def gaps(self) -> list[str]:
        """Chunks whose message did not reach this process."""
        missed, last = 0, 0
        for chunk in self.chunks:
            begin = last if chunk.chunk_id > last else 0  # a new run counts from 1 again
            missed += chunk.chunk_id - begin - 1
            last = chunk.chunk_id
        total = missed + len(self.chunks)
        return [f'{missed} of {total} chunks did not reach the replay'] if missed else []

    def streams(
        self, parameters: Parameters, published: Mapping[str, int] | None = None
    ) -> dict[str, StreamCounts]:
        """published: topic -> how many were played; None where nobody counted them."""
        slots = {camera.slot for camera in parameters.cameras}
        return {
            stream: stream_counts(
                topic,
                None if published is None else published.get(topic, 0),
                self._counters(stream),
                stream in slots,
            )
            for topic, stream in input_topics(parameters).items()
        }

    def play(self) -> dict[str, float]:
        return {key.removeprefix('play.'): float(value) for key, value in self._with_prefix('play.')}

    def policy(self) -> dict[str, str]:
        return {key.removeprefix('policy.'): value for key, value in self._with_prefix('policy.')}

    def _counters(self, stream: str) -> dict[str, int]:
        pairs = ((key.removeprefix(f'{stream}.'), value) for key, value in self._with_prefix(f'{stream}.'))
        return {reason: int(value) for reason, value in pairs if not reason.endswith('age_s')}

    def _with_prefix(self, prefix: str) -> list[tuple[str, str]]:
        return [(key, value) for key, value in self._status.items() if key.startswith(prefix)]

    def _on_chunk(self, message: Any) -> None:
        self.last_chunk_s = time.monotonic()
        self.chunks.append(
            ChunkTiming(
                message.chunk_id,
                stamp_ns(message.header.stamp),
                stamp_ns(message.inference_start),
                stamp_ns(message.inference_end),
            )
        )

    def _on_status(self, message: DiagnosticStatus) -> None:
        self.words = message.message
        self._status = {pair.key: pair.value for pair in message.values}
        self._news.add('status')

    def _on_latency(self, message: DiagnosticArray) -> None:
        self.stages = _stages(message)
        self._news.add('latency')


def settle(process: NodeProcess, witness: Witness) -> None:
    """Waits for the inference that is under way, then for figures that include it."""
    deadline_s = time.monotonic() + _SETTLE_S
    process.wait_for(
        lambda: time.monotonic() > min(witness.last_chunk_s + _QUIET_S, deadline_s),
        'the last chunk',
        2 * _SETTLE_S,
    )
    witness.expect_news()
    process.wait_for(witness.has_news, 'a report of the node on ~/status and ~/latency', _REPORT_S)


def _stages(message: DiagnosticArray) -> dict[str, Percentiles]:
    found = {}
    for status in message.status:
        values = {pair.key: pair.value for pair in status.values}
        stage = status.name.rsplit(' ', 1)[-1]
        found[stage] = Percentiles(
            int(values['count']), *(float(values[f'{name}_ms']) for name in ('p50', 'p90', 'p99', 'max'))
        )
    return {stage: found[stage] for stage in STAGES if stage in found}
