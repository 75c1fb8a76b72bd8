# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Real-time chunking changes inputs of a program and never the program: every prefix runs on the same one."""

import numpy as np
import pytest

from flashrt_core._core import Engine, Guidance

HORIZON, COLUMNS, STEPS = 10, 32, 4
COUNTERS = ('captures', 'allocations', 'tunings')
TIMES = [1.0, 0.75, 0.5, 0.25]


@pytest.fixture(params=['cpu', pytest.param('cuda', marks=pytest.mark.gpu)])
def engine(request, golden) -> Engine:
    return Engine(
        golden / 'pi05_tiny',
        cameras=1,
        prompt_capacity=20,
        steps=STEPS,
        horizon=HORIZON,
        times=TIMES,
        guided=True,
        threads=1,
        backend=request.param,
    )


def inputs(random: np.random.Generator) -> tuple:
    """Images, tokens, noise, and no state."""
    images = random.integers(0, 256, (1, 56, 56, 3), np.uint8)
    tokens = random.integers(4, 500, 12, np.int32)
    return images, tokens, random.standard_normal((HORIZON, COLUMNS), np.float32), None


def guidance(random: np.random.Generator, committed_rows: int) -> Guidance:
    previous = random.standard_normal((HORIZON, COLUMNS), np.float32)
    weights = np.sort(random.random(HORIZON, np.float32))[::-1].copy()
    scale = random.uniform(0, 5, STEPS).astype(np.float32)
    if committed_rows:
        weights[:], scale[:] = 0, 0
    return Guidance(previous, weights, scale, committed_rows)


def counters(engine: Engine, given: tuple) -> dict[str, int]:
    return {name: getattr(engine.measure([given], warmup=1, runs=1).before, name) for name in COUNTERS}


def test_no_prefix_is_captured_tuned_or_allocated_for(engine):
    random = np.random.default_rng(1)
    given = inputs(random)
    plain = engine.infer(*given, None)
    counters(engine, given)  # the first measurement records graphs of the stages, which count
    before, plan = counters(engine, given), engine.plan_text()
    chunks = [engine.infer(*given, guidance(random, number % HORIZON)) for number in range(3 * HORIZON)]
    assert counters(engine, given) == before
    assert engine.plan_text() == plan
    assert len({chunk.tobytes() for chunk in chunks}) == len(chunks)  # each prefix was read
    np.testing.assert_array_equal(engine.infer(*given, None), plain)  # and none stays


def test_committed_rows_come_back_as_they_were_given(engine):
    random = np.random.default_rng(2)
    given = inputs(random)
    for rows in range(1, HORIZON):
        previous = random.standard_normal((HORIZON, COLUMNS), np.float32)
        nothing = np.zeros(HORIZON, np.float32), np.zeros(STEPS, np.float32)
        chunk = engine.infer(*given, Guidance(previous, *nothing, rows))
        np.testing.assert_array_equal(chunk[:rows], previous[:rows])
        assert not np.array_equal(chunk[rows], previous[rows])


def test_weights_of_zero_have_the_bits_of_no_prefix(engine):
    random = np.random.default_rng(3)
    given = inputs(random)
    previous = random.standard_normal((HORIZON, COLUMNS), np.float32)
    scale = np.full(STEPS, 5, np.float32)
    chunk = engine.infer(*given, Guidance(previous, np.zeros(HORIZON, np.float32), scale, 0))
    np.testing.assert_array_equal(chunk, engine.infer(*given, None))
