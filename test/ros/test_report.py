# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What a report says about its own figures."""

import json

import pytest
from rich.console import Console

from flashrt_ros.latency import WINDOW, LatencyRecorder, Percentiles
from flashrt_ros.report import ChunkTiming, Report


def report(chunks: int, samples: int) -> Report:
    stages = {
        'inference': Percentiles(samples, 1.0, 1.0, 1.0, 1.0),
        'stamp_to_command': Percentiles(3, 1, 1, 1, 1),
    }
    return Report(
        mode='live', clock='', bag='', parameters='', messages=9000, duration_s=8.0, stages=stages,
        gated_stage='stamp_to_command', chunks=tuple(ChunkTiming(i, 0, 1, 2) for i in range(chunks)),
        streams={}, play={},
    )  # fmt: skip


@pytest.mark.parametrize(('chunks', 'is_partial'), [(WINDOW + 500, True), (WINDOW, False)])
def test_latencies_of_the_last_chunks_only_are_told_as_such(chunks: int, is_partial: bool):
    console = Console(record=True, width=120, quiet=False)
    it = report(chunks, WINDOW)
    it.print(console)
    assert (
        f'the latencies are those of the last {WINDOW} of {chunks} chunks' in console.export_text()
    ) == is_partial
    assert json.loads(it.to_json())['latency_samples'] == WINDOW


def test_report_without_a_chunk_has_no_samples():
    assert Report('live', '', '', '', 0, 0.0, {}, 'x', (), {}, {}).latency_samples == 0


def test_node_keeps_the_newest_chunks_only():
    recorder = LatencyRecorder()
    for _ in range(WINDOW + 1):
        recorder._add('inference', 1_000_000)
    assert recorder.summary()['inference'].count == WINDOW
