# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""R-53: the text of the state changes its length from tick to tick, and the program stays as it is."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from flashrt_core import Observation
from flashrt_core.policy import FlashPolicy, PolicySettings, load_policy

JOINTS, STATES = 7, 200
CLASSES = ((0, 9), (10, 99), (100, 255))  # bins of one, two and three digits
COUNTERS = ('captures', 'allocations', 'tunings')


@pytest.fixture
def make_policy(golden, write_stats):
    def make(backend: str) -> FlashPolicy:
        settings = PolicySettings(
            checkpoint=golden / 'pi05_tiny',
            tokenizer=golden / 'pi_tokenizer' / 'tiny_spm.model',
            origin='openpi',
            platform='none',
            cameras=('base_0_rgb',),
            resize='openpi',
            fit='letterbox',
            state_in_prompt=True,
            actions='joint_position',
            statistics=write_stats(JOINTS, JOINTS, low=-1.0, high=1.0),
            normalisation='quantile',
            delta_mask=(),
            state_dim=JOINTS,
            action_dim=JOINTS,
            prompt_capacity=120,
            steps=2,
            backend=backend,
            threads=1,
        )
        policy = load_policy(settings)
        policy.warm_up()
        policy.set_prompt('pick up the red block')
        return policy

    return make


def states() -> Iterator[np.ndarray]:
    """Every number of digits that the joints can have together, all columns through all bins' classes."""
    random = np.random.default_rng(53)
    for number in range(STATES):
        digits = np.ones(JOINTS, int)
        for _ in range(number % (2 * JOINTS + 1)):
            digits[random.choice(np.flatnonzero(digits < 3))] += 1
        bins = np.array([random.integers(*CLASSES[count - 1], endpoint=True) for count in digits])
        yield (bins + 0.5 - 128) / 128  # the middle of each bin, in [-1, 1]


def observation(policy: FlashPolicy, state: np.ndarray) -> Observation:
    picture = np.full((56, 56, 3), 90, np.uint8)
    return Observation({'base_0_rgb': picture}, state, {}, 1)


def chunks(policy: FlashPolicy) -> list[np.ndarray]:
    """From the same picture and noise: only the text differs."""
    noise = np.zeros((policy.spec.horizon, policy.spec.model_action_dim), np.float32)
    return [policy.infer(observation(policy, state), noise=noise).model_actions for state in states()]


def lengths(policy: FlashPolicy) -> list[int]:
    return [len(policy.model_input(observation(policy, state), seed=0).tokens) for state in states()]


def check_lengths(policy: FlashPolicy) -> None:
    """The sweep has the shortest text, the longest one, and every length between that the digits give."""
    found = set(lengths(policy))
    text = policy.pipeline.prompt.pieces('pick up the red block', np.full(JOINTS, 200))[0]
    assert text.count('200') == JOINTS
    assert len(found) == 2 * JOINTS + 1
    assert max(found) == len(policy.longest_prompt('pick up the red block'))
    assert min(found) == len(policy.prompt.tokens('pick up the red block', np.full(JOINTS, -1.0)))  # bins 0


def resident_bytes() -> int:
    return int(Path('/proc/self/statm').read_text().split()[1]) * os.sysconf('SC_PAGE_SIZE')


def test_no_length_makes_another_program_or_takes_memory(make_policy):
    policy = make_policy('cpu')
    check_lengths(policy)
    engine, plan, sizes = policy.engine, policy.engine.plan_text(), policy.engine.plan_stats()
    first = chunks(policy)
    before = resident_bytes()
    second = chunks(policy)
    assert resident_bytes() - before < 1 << 20
    assert policy.engine is engine
    assert (engine.plan_text(), engine.plan_stats()) == (plan, sizes)
    np.testing.assert_array_equal(first, second)
    assert len({chunk.tobytes() for chunk in first}) == STATES  # the texts are read


@pytest.mark.parametrize('backend', ['cpu', pytest.param('cuda', marks=pytest.mark.gpu)])
def test_no_length_is_captured_tuned_or_allocated_for(make_policy, backend):
    policy = make_policy(backend)
    check_lengths(policy)
    inputs = [policy.model_input(observation(policy, state), seed=0).inputs for state in states()]
    measured = policy.engine.measure(inputs, warmup=2, runs=STATES)
    for name in COUNTERS:
        assert getattr(measured.after, name) == getattr(measured.before, name), name
    if backend == 'cuda':
        assert measured.before.captures > 0  # the counters count
        assert measured.before.allocations > 0
        assert max(measured.replay) < 2 * np.median(measured.replay)
