# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""How far one way of running a model is from another: errors of the chunk, of each velocity, of each call."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error
from flashrt_core.programs import ProgramKey, Programs
from flashrt_core.samples import AnySample

VELOCITY = 'denoise.velocity'
# Those of them that a model has.
FEATURES = ('vision.projector', 'backbone.0.connector_out', 'backbone.context_norm')


@dataclass(frozen=True)
class Difference:
    """Two versions of the same numbers; the first one is the reference."""

    rms: float  # of the error
    reference_rms: float
    cosine: float
    worst: float  # largest absolute error

    @property
    def relative(self) -> float:
        return self.rms / self.reference_rms if self.reference_rms else float(self.rms > 0)


@dataclass
class _Sums:
    """Enough of all samples to tell their difference."""

    squared_error: float = 0.0
    first: float = 0.0
    second: float = 0.0
    product: float = 0.0
    worst: float = 0.0
    count: int = 0

    def add(self, first: NDArray, second: NDArray) -> None:
        a, b = first.astype(np.float64).ravel(), second.astype(np.float64).ravel()
        error = a - b
        self.squared_error += error @ error
        self.first += a @ a
        self.second += b @ b
        self.product += a @ b
        self.worst = max(self.worst, float(np.abs(error).max()))
        self.count += a.size

    def difference(self) -> Difference:
        lengths = np.sqrt(self.first * self.second)
        cosine = self.product / lengths if lengths else float(self.first == self.second)
        rms, reference = np.sqrt(self.squared_error / self.count), np.sqrt(self.first / self.count)
        return Difference(float(rms), float(reference), float(cosine), self.worst)


@dataclass
class Accuracy:
    """Differences over all samples, free-running: errors of one call go into the next."""

    chunk: Difference  # of actions - noise: the noise alone makes all actions look alike
    steps: dict[str, Difference]  # of the velocity, by step
    values: dict[str, Difference] = field(default_factory=dict)  # of the plan, in order


def measure(
    reference: Programs, other: Programs, samples: Iterable[AnySample], every_call: bool = False
) -> Accuracy:
    """Runs every sample on both.

    Compares what the stages hand on, or, with every_call, all values that both plans write.
    """
    chunk = _Sums()
    steps: dict[str, _Sums] = {}
    compared: dict[str, _Sums] = {}
    for sample in samples:
        key = ProgramKey.of(sample).keeping_values()
        engines = reference.get(key), other.get(key)
        written = [_written(engine.plan_text()) for engine in engines]
        names = [name for name in written[0] if name in written[1]]
        if not every_call:
            names = _handed_on(names)
        traced = list(dict.fromkeys([*names, VELOCITY, 'actions']))
        first, second = (engine.trace(traced, *sample.inputs) for engine in engines)
        chunk.add(*(_last(values['actions']) - sample.noise for values in (first, second)))
        velocities = [values[VELOCITY].reshape(sample.steps, -1) for values in (first, second)]
        for step, pair in enumerate(zip(*velocities, strict=True), 1):
            steps.setdefault(f'{step} of {sample.steps}', _Sums()).add(*pair)
        for name in names:
            compared.setdefault(name, _Sums()).add(first[name], second[name])
    if not chunk.count:
        raise Error('compare: no sample was given')
    return Accuracy(
        chunk.difference(),
        {name: sums.difference() for name, sums in steps.items()},
        {name: sums.difference() for name, sums in compared.items()},
    )


def _last(actions: NDArray) -> NDArray:
    """Actions of the last step; a program of one step has no axis of steps."""
    return actions[-1] if actions.ndim == 3 else actions


def _written(plan_text: str) -> list[str]:
    """Names of the values that the calls of a plan write, in order."""
    written = []
    for line in plan_text.splitlines():
        _, arrow, results = line.partition(' -> ')
        if arrow:
            written += re.findall(r'\w+=(\S+) \[', results)
    return list(dict.fromkeys(written))


def _handed_on(written: list[str]) -> list[str]:
    """Features of images and context, and keys and values of the first, middle and last prefix layer."""
    caches: dict[str, str] = {}  # of a layer -> the rows that are written first
    for name in written:
        if match := re.fullmatch(r'(cache\.\d+\.[kv])\[\d+:\d+\]', name):
            caches.setdefault(match[1], name)
    last = len(caches) // 2 - 1
    layers = dict.fromkeys((0, last // 2, last))
    features = [name for name in FEATURES if name in written]
    return [*features, *(caches[f'cache.{layer}.{part}'] for layer in layers for part in 'kv')]
