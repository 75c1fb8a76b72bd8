# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Errors of one way of running a model against another: per observation, together, and how sure they are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashrt_core.accuracy import VELOCITY, Difference
from flashrt_core.errors import Error
from flashrt_core.trials import Engines, Trial

LEVEL, RESAMPLES, SEED = 0.95, 2000, 7
FEW = 10  # observations, below which intervals are rough

Interval = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a model made of one observation."""

    chunk: NDArray[
        np.float32
    ]  # [rows, columns], actions - noise: the noise alone makes all actions look alike
    velocities: NDArray[np.float32]  # [steps, rows * columns]
    joints: NDArray[np.float64] | None  # [rows, joints] in robot units, where the way to the robot is known


def run(engines: Engines, trial: Trial) -> Outcome:
    values = engines.get(trial.key).trace([VELOCITY, 'actions'], *trial.inputs)
    actions = values['actions']
    steps = 1 if actions.ndim == 2 else len(actions)
    actions = actions if actions.ndim == 2 else actions[-1]
    if not np.isfinite(actions).all():
        raise Error(f'{trial.name}: the model gives actions that are not finite')
    return Outcome(
        chunk=actions - trial.noise,
        velocities=values[VELOCITY].reshape(steps, -1),
        joints=None if trial.to_robot is None else trial.to_robot(actions),
    )


@dataclass(frozen=True, eq=False)
class ErrorSums:
    """One row per observation: enough to tell the error of any selection of them."""

    squared_error: NDArray[np.float64]
    reference: NDArray[np.float64]  # sums of squares
    other: NDArray[np.float64]
    product: NDArray[np.float64]
    count: NDArray[np.float64]  # numbers
    worst: NDArray[np.float64]  # largest absolute error

    @classmethod
    def of(cls, pairs: Sequence[tuple[NDArray, NDArray]]) -> 'ErrorSums':
        """pairs: reference and other, one per observation."""
        rows = []
        for reference, other in pairs:
            a, b = reference.astype(np.float64).ravel(), other.astype(np.float64).ravel()
            error = a - b
            rows.append((error @ error, a @ a, b @ b, a @ b, a.size, np.abs(error).max()))
        return cls(*np.array(rows, np.float64).T)

    def difference(self) -> Difference:
        everything = np.arange(len(self.count))[np.newaxis]
        return Difference(
            rms=float(self.rms(everything)[0]),
            reference_rms=float(np.sqrt(self.reference.sum() / self.count.sum())),
            cosine=float(self.cosine(everything)[0]),
            worst=float(self.worst.max()),
        )

    def rms(self, taken: NDArray[np.intp]) -> NDArray[np.float64]:
        """Of the observations in each row of `taken`."""
        return np.sqrt(self.squared_error[taken].sum(1) / self.count[taken].sum(1))

    def relative(self, taken: NDArray[np.intp]) -> NDArray[np.float64]:
        return _ratio(self.squared_error[taken].sum(1), self.reference[taken].sum(1))

    def cosine(self, taken: NDArray[np.intp]) -> NDArray[np.float64]:
        first, second = self.reference[taken].sum(1), self.other[taken].sum(1)
        lengths = np.sqrt(first * second)
        known = lengths > 0
        return np.where(
            known, self.product[taken].sum(1) / np.where(known, lengths, 1), (first == second).astype(float)
        )


def _ratio(squared_error: NDArray, reference: NDArray) -> NDArray:
    """As Difference.relative has it where the reference is zero."""
    known = reference > 0
    return np.where(
        known, np.sqrt(squared_error / np.where(known, reference, 1)), (squared_error > 0).astype(float)
    )


@dataclass(frozen=True)
class Errors:
    """Of one variant, over all observations."""

    chunk: Difference
    rms: Interval | None  # None: one observation says nothing about others
    relative: Interval | None
    cosine: Interval | None
    steps: tuple[Difference, ...]  # of the velocity; all steps of samples that have the same number of them
    joints: tuple[Difference, ...]  # in robot units; empty: not known
    joint_intervals: tuple[Interval | None, ...]  # of their root mean square
    sums: ErrorSums  # of the chunk

    def content(self, joints: Sequence[str]) -> dict[str, Any]:
        """For a result file."""
        return {
            **_content(self.chunk),
            'rms_interval': self.rms,
            'relative_interval': self.relative,
            'cosine_interval': self.cosine,
            'squared_errors': self.sums.squared_error.tolist(),
            'steps': [_content(step) for step in self.steps],
            'joints': [
                {'name': name, **_content(joint), 'rms_interval': interval}
                for name, joint, interval in zip(joints, self.joints, self.joint_intervals, strict=True)
            ],
        }


def _content(difference: Difference) -> dict[str, float]:
    return {
        'rms': difference.rms,
        'relative': difference.relative,
        'cosine': difference.cosine,
        'worst': difference.worst,
    }


def errors(reference: Sequence[Outcome], other: Sequence[Outcome]) -> Errors:
    """Both of the same observations, in the same order."""
    pairs = list(zip(reference, other, strict=True))
    sums = ErrorSums.of([(a.chunk, b.chunk) for a, b in pairs])
    counts = {len(a.velocities) for a in reference}
    steps = range(counts.pop()) if len(counts) == 1 else ()
    names = range(0 if reference[0].joints is None else reference[0].joints.shape[1])
    joints = [ErrorSums.of([(_column(a, j), _column(b, j)) for a, b in pairs]) for j in names]
    return Errors(
        chunk=sums.difference(),
        rms=interval(len(pairs), sums.rms),
        relative=interval(len(pairs), sums.relative),
        cosine=interval(len(pairs), sums.cosine),
        steps=tuple(
            ErrorSums.of([(a.velocities[step], b.velocities[step]) for a, b in pairs]).difference()
            for step in steps
        ),
        joints=tuple(joint.difference() for joint in joints),
        joint_intervals=tuple(interval(len(pairs), joint.rms) for joint in joints),
        sums=sums,
    )


def _column(outcome: Outcome, joint: int) -> NDArray:
    assert outcome.joints is not None
    return outcome.joints[:, joint]


def interval(observations: int, statistic: Callable[[NDArray[np.intp]], NDArray]) -> Interval | None:
    """What 95 % of resampled sets of observations give: the percentile bootstrap, with a fixed seed.

    Not a t-interval: a root mean square and a cosine are no means, and errors of observations are skewed. The
    same sets are drawn for everything, so a difference of two variants has the interval of the difference.
    Of few observations the interval is too narrow, of one there is none.
    """
    if observations < 2:
        return None
    taken = np.random.default_rng(SEED).integers(0, observations, (RESAMPLES, observations))
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(statistic(taken), [tail, 1 - tail])
    return float(low), float(high)


def certainty(observations: int) -> str:
    """What the intervals are, for people."""
    if observations < 2:
        return 'one observation: no interval can be given, and others may have other errors'
    text = f'{LEVEL:.0%} intervals over {observations} observations: percentile bootstrap, {RESAMPLES} draws'
    if observations < FEW:
        text += f'; of fewer than {FEW} observations they are too narrow'
    return text
