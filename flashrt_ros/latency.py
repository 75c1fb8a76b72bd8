# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Latency from the sensor stamp to the command, stage by stage, as percentiles of the newest chunks."""

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from flashrt_ros.inputs import Moment
from flashrt_ros.worker import InferenceResult

WINDOW = 1000  # chunks; one per inference

# stamp -> receive -> observation ready -> inference start -> inference end -> command published
STAGES = (
    'stamp_to_receive',
    'receive_to_observation',
    'observation_to_inference',
    'inference',
    'inference_to_command',
    'stamp_to_command',
)


@dataclass(frozen=True)
class Percentiles:
    """Of one stage, in milliseconds."""

    count: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float


class LatencyRecorder:
    """Notes each chunk twice: when it is computed, and when its first command is complete."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._samples: dict[str, deque[float]] = {stage: deque(maxlen=WINDOW) for stage in STAGES}
        self._waiting: dict[int, InferenceResult] = {}

    def note_result(self, result: InferenceResult) -> None:
        observed = result.observed
        with self._lock:
            self._add('stamp_to_receive', observed.receive.ros_ns - observed.stamp_ns)
            self._add('receive_to_observation', observed.ready.steady_ns - observed.receive.steady_ns)
            self._add('observation_to_inference', result.start.steady_ns - observed.ready.steady_ns)
            self._add('inference', result.end.steady_ns - result.start.steady_ns)
            self._waiting = {result.chunk_id: result}  # an older chunk is not played any more

    def note_command(self, chunk_id: int, now: Moment) -> None:
        """The first command that carries rows of the chunk is complete; later ones are no news."""
        with self._lock:
            result = self._waiting.pop(chunk_id, None)
            if result is None:
                return
            observed = result.observed
            self._add('inference_to_command', now.steady_ns - result.end.steady_ns)
            before_ns = observed.receive.ros_ns - observed.stamp_ns
            self._add('stamp_to_command', before_ns + now.steady_ns - observed.receive.steady_ns)

    def summary(self) -> Mapping[str, Percentiles]:
        """Stages without a sample are left out."""
        with self._lock:
            samples = {stage: np.array(values) for stage, values in self._samples.items() if values}
        return {
            stage: Percentiles(len(ms), *(float(p) for p in np.percentile(ms, (50, 90, 99, 100))))
            for stage, ms in samples.items()
        }

    def _add(self, stage: str, nanoseconds: int) -> None:
        self._samples[stage].append(nanoseconds / 1e6)
