# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Errors over observations, and the intervals that say how sure they are."""

import numpy as np
import pytest

from flashrt_core.accuracy import _Sums
from flashrt_core.outcomes import Outcome, certainty, errors, interval


def outcomes(count: int, scale: float, seed: int = 1) -> tuple[list[Outcome], list[Outcome]]:
    """A reference and a version with errors, with two joints of which the second is off by more."""
    rng = np.random.default_rng(seed)
    reference, other = [], []
    for _ in range(count):
        chunk, velocities = rng.standard_normal((5, 3)), rng.standard_normal((2, 15))
        off = scale * rng.standard_normal((5, 3))
        joints = np.cumsum(chunk[:, :2], axis=0)
        reference.append(Outcome(chunk, velocities, joints))
        other.append(Outcome(chunk + off, velocities + scale, joints + [0.01, 0.5]))
    return reference, other


def test_errors_are_those_of_all_observations_together():
    reference, other = outcomes(7, 0.1)
    found = errors(reference, other)
    sums = _Sums()
    for a, b in zip(reference, other, strict=True):
        sums.add(a.chunk, b.chunk)
    expected = sums.difference()
    for name in ('rms', 'reference_rms', 'cosine', 'worst'):
        assert getattr(found.chunk, name) == pytest.approx(getattr(expected, name), rel=1e-12)
    assert [step.rms for step in found.steps] == pytest.approx([0.1, 0.1])
    assert [joint.rms for joint in found.joints] == pytest.approx([0.01, 0.5])
    content = found.content(['elbow', 'gripper'])
    assert [joint['name'] for joint in content['joints']] == ['elbow', 'gripper']
    assert len(content['squared_errors']) == 7


def test_equal_outcomes_have_no_error():
    reference, _ = outcomes(3, 0.1)
    found = errors(reference, reference)
    assert (found.chunk.rms, found.chunk.worst, found.rms) == (0, 0, (0, 0))
    assert found.chunk.cosine == pytest.approx(1)


def test_silence_has_a_cosine_and_a_relative_error_all_the_same():
    zeros = [Outcome(np.zeros((2, 2)), np.zeros((1, 4)), None)] * 2
    ones = [Outcome(np.ones((2, 2)), np.zeros((1, 4)), None)] * 2
    assert errors(zeros, zeros).chunk.cosine == 1
    assert errors(zeros, ones).relative == (1, 1)
    assert errors(zeros, ones).joints == ()


def test_intervals_hold_the_true_error_nearly_as_often_as_they_say():
    """Of 200 studies of 20 observations each, whose error is known."""
    held = 0
    for seed in range(200):
        low, high = errors(*outcomes(20, 0.1, seed)).rms
        held += low <= 0.1 <= high
    assert 0.85 <= held / 200 <= 0.99


def test_more_observations_make_it_surer():
    studies = {count: [errors(*outcomes(count, 0.1, seed)) for seed in range(10)] for count in (4, 16, 64)}
    widths = [np.mean([np.ptp(study.rms) for study in studies[count]]) for count in (4, 16, 64)]
    assert widths == sorted(widths, reverse=True)


def test_an_interval_is_the_same_each_time_and_none_of_one_observation():
    def mean(taken):
        return np.arange(5.0)[taken].mean(1)

    assert interval(5, mean) == interval(5, mean)
    assert interval(1, mean) is None
    assert 'no interval' in certainty(1)
    assert 'too narrow' in certainty(9)
    assert 'too narrow' not in certainty(10)


def test_steps_of_observations_with_other_numbers_of_them_are_left_out():
    reference, other = outcomes(2, 0.1)
    reference.append(Outcome(reference[0].chunk, np.zeros((3, 15)), reference[0].joints))
    other.append(Outcome(other[0].chunk, np.zeros((3, 15)), other[0].joints))
    assert errors(reference, other).steps == ()
