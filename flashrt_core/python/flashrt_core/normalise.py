# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Robot units to model units and back, as each origin computes them; nothing is clipped either way."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error
from flashrt_core.settings import Normalisation, Origin
from flashrt_core.statistics import Statistics

OPENPI_EPS = 1e-6
LEROBOT_EPS = 1e-8


class Scaler(Protocol):
    """Both directions of one normalisation; arrays are [..., columns]."""

    def normalise(self, x: NDArray) -> NDArray: ...

    def unnormalise(self, x: NDArray) -> NDArray: ...


@dataclass(frozen=True)
class Identity:
    """Values that were trained on as they are."""

    def normalise(self, x: NDArray) -> NDArray:
        return x

    def unnormalise(self, x: NDArray) -> NDArray:
        return x


@dataclass(frozen=True, eq=False)
class OpenpiZScore:
    """(x - mean) / (std + 1e-6) in float64.

    On the way back, columns beyond the statistics count as mean 0, std 1.
    """

    mean: NDArray[np.float64]
    std: NDArray[np.float64]

    def normalise(self, x: NDArray) -> NDArray:
        mean, std = (_cut(value, x) for value in (self.mean, self.std))
        return (x - mean) / (std + OPENPI_EPS)

    def unnormalise(self, x: NDArray) -> NDArray:
        missing = max(0, x.shape[-1] - len(self.mean))
        mean = np.pad(self.mean, (0, missing))[: x.shape[-1]]
        std = np.pad(self.std, (0, missing), constant_values=1)[: x.shape[-1]]
        return x * (std + OPENPI_EPS) + mean


@dataclass(frozen=True, eq=False)
class OpenpiQuantile:
    """[q01, q99] -> [-1, 1] in float64.

    On the way back, columns beyond the statistics pass through.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]

    def normalise(self, x: NDArray) -> NDArray:
        low, high = (_cut(value, x) for value in (self.low, self.high))
        return (x - low) / (high - low + OPENPI_EPS) * 2.0 - 1.0

    def unnormalise(self, x: NDArray) -> NDArray:
        columns = min(x.shape[-1], len(self.low))
        low, high = self.low[:columns], self.high[:columns]
        # On float32 actions the division by 2 is float32, as in the original: Python scalars do not widen it.
        scaled = (x[..., :columns] + 1.0) / 2.0 * (high - low + OPENPI_EPS) + low
        return np.concatenate([scaled, x[..., columns:]], axis=-1)


@dataclass(frozen=True, eq=False)
class LerobotZScore:
    """(x - mean) / (std + eps) in float32; the way back has no eps."""

    mean: NDArray[np.float32]
    std: NDArray[np.float32]
    eps: float = LEROBOT_EPS

    def normalise(self, x: NDArray) -> NDArray[np.float32]:
        return (_float32(x) - _cut(self.mean, x)) / (_cut(self.std, x) + np.float32(self.eps))

    def unnormalise(self, x: NDArray) -> NDArray[np.float32]:
        return _float32(x) * _cut(self.std, x) + _cut(self.mean, x)


@dataclass(frozen=True, eq=False)
class LerobotRange:
    """[low, high] -> [-1, 1] in float32: quantiles, min-max, q10 to q90.

    A width of exactly 0 is replaced by eps.
    """

    low: NDArray[np.float32]
    high: NDArray[np.float32]
    halve_first: bool = False  # min-max halves before it multiplies on the way back
    eps: float = LEROBOT_EPS

    def _width(self, x: NDArray) -> NDArray[np.float32]:
        width = _cut(self.high, x) - _cut(self.low, x)
        return np.where(width == 0, np.float32(self.eps), width)

    def normalise(self, x: NDArray) -> NDArray[np.float32]:
        two, one = np.float32(2), np.float32(1)
        return two * (_float32(x) - _cut(self.low, x)) / self._width(x) - one

    def unnormalise(self, x: NDArray) -> NDArray[np.float32]:
        two, one = np.float32(2), np.float32(1)
        if self.halve_first:
            return (_float32(x) + one) / two * self._width(x) + _cut(self.low, x)
        return (_float32(x) + one) * self._width(x) / two + _cut(self.low, x)


def _float32(x: NDArray) -> NDArray[np.float32]:
    return np.asarray(x, np.float32)


def _cut(statistic: NDArray, x: NDArray) -> NDArray:
    if len(statistic) < x.shape[-1]:
        raise Error(f'normalise: {x.shape[-1]} columns, but statistics for {len(statistic)} only')
    return statistic[: x.shape[-1]]


# What maps to -1 and +1; for a z-score these are mean -+ std.
_BOUNDS: dict[Normalisation, tuple[str, str]] = {
    'zscore': ('mean', 'std'),
    'quantile': ('q01', 'q99'),
    'min_max': ('min', 'max'),
    'quantile10': ('q10', 'q90'),
}


def make_scaler(
    origin: Origin, kind: Normalisation, statistics: Statistics, eps: float = LEROBOT_EPS
) -> Scaler:
    """The normalisation of that kind with that origin's arithmetic; eps is used by lerobot's only."""
    if kind == 'identity':
        return Identity()
    first, second = (statistics.get(name, f"normalisation '{kind}'") for name in _BOUNDS[kind])
    if origin == 'openpi':
        if kind not in ('zscore', 'quantile'):
            raise Error(f"normalisation is '{kind}'; openpi knows zscore and quantile")
        first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
        return (OpenpiZScore if kind == 'zscore' else OpenpiQuantile)(first, second)
    first, second = _float32(first), _float32(second)
    if kind == 'zscore':
        return LerobotZScore(first, second, eps)
    return LerobotRange(first, second, halve_first=kind == 'min_max', eps=eps)


def check_widths(
    kind: Normalisation,
    statistics: Statistics,
    names: tuple[str, ...],
    min_width: float,
    allow_degenerate: bool,
) -> list[str]:
    """Refuses statistics that would divide by nothing; returns warnings where the user allowed them.

    The width of a column is what maps to [-1, 1], in robot units: high - low, or 2 std. Swapped or non-finite
    statistics are always refused. names: one per column that is in use, in the order of the statistics.
    """
    if kind == 'identity':
        return []
    columns = len(names)
    kinds = _BOUNDS[kind]
    first, second = (statistics.get(item, f"normalisation '{kind}'") for item in kinds)
    for item, value in zip(kinds, (first, second), strict=True):
        if len(value) < columns:
            raise Error(f'statistics of {statistics.name}: {item} has {len(value)} columns, {columns} needed')
    first, second = (np.asarray(value[:columns], np.float64) for value in (first, second))
    with np.errstate(invalid='ignore', over='ignore'):  # of infinities, which are refused below
        width = 2 * second if kind == 'zscore' else second - first
    finite = np.isfinite(first) & np.isfinite(second)
    broken = ~finite | ~(width >= 0)
    narrow = ~broken & (width < min_width)

    def listed(selected: NDArray[np.bool_]) -> str:
        return ', '.join(
            f'{names[i]} ({kinds[0]} {first[i]:.6g}, {kinds[1]} {second[i]:.6g})'
            for i in np.flatnonzero(selected)
        )

    if broken.any():
        raise Error(f'statistics of {statistics.name}: swapped or not finite: {listed(broken)}')
    if not narrow.any():
        return []
    fault = f'statistics of {statistics.name}: narrower than {min_width:g}: {listed(narrow)}'
    if not allow_degenerate:
        raise Error(
            f'{fault}; the smallest motion would become a large number. Use statistics in which these joints '
            'move, or set allow_degenerate_statistics to keep the formula as it is'
        )
    return [f'{fault}; kept because allow_degenerate_statistics is set']
