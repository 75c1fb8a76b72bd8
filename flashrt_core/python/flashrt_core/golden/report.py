# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What a comparison with saved results found: the measurements, and what was not measured."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.markup import escape
from rich.table import Table

FORMAT = 1  # of the JSON file
_TINY = 1e-200  # below every bound; errors divided by it are still numbers


@dataclass(frozen=True)
class Comparison:
    """One tensor against its saved values, at the place that is nearest to its bound or furthest beyond."""

    case: str
    tensor: str
    error: float
    bound: float | None  # None: reported only
    where: tuple[int, ...]
    compared: int  # values
    excluded: int  # values in slots that the model does not have
    measure: str = 'max abs'
    note: str = ''

    @property
    def passed(self) -> bool:
        return self.compared > 0 and (self.bound is None or self.error <= self.bound)


@dataclass(frozen=True)
class Gap:
    """Something in the folder that was not compared."""

    place: str  # case or file
    what: str
    why: str


@dataclass
class Report:
    """Collects the comparisons of one folder."""

    folder: str
    backend: str = ''  # empty where no model runs
    recipe: str = ''
    comparisons: list[Comparison] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)

    def passed(self) -> bool:
        return bool(self.comparisons) and not self.gaps and all(item.passed for item in self.comparisons)

    def compare(
        self,
        case: str,
        tensor: str,
        actual: ArrayLike,
        expected: ArrayLike,
        bound: ArrayLike | None = 0.0,
        valid: NDArray[np.bool_] | None = None,
        note: str = '',
    ) -> None:
        """Largest absolute difference; bound: 0 for equal, an array for one bound per value.

        valid: marks the values to compare, broadcast over the trailing axes; all without it.
        """
        actual, expected = np.asarray(actual), np.asarray(expected)
        if actual.shape != expected.shape:
            fault = f'shape {list(actual.shape)}, saved {list(expected.shape)}'
            self.comparisons.append(
                Comparison(case, tensor, float('inf'), 0.0, (), expected.size, 0, note=fault)
            )
            return
        mask = np.ones(expected.shape, bool)
        if valid is not None:
            mask &= valid.reshape(valid.shape + (1,) * (expected.ndim - valid.ndim))
        error = np.where(mask, _distance(actual, expected), 0.0)
        limit = np.broadcast_to(np.asarray(0.0 if bound is None else bound, np.float64), expected.shape)
        compared = int(mask.sum())
        worst: tuple[int, ...] = ()
        if error.size:
            # Where all bounds are the same this is the largest error.
            with np.errstate(over='ignore'):
                nearness = error / np.maximum(limit, _TINY)
            worst = tuple(int(i) for i in np.unravel_index(np.argmax(nearness), error.shape))
        largest = float(error[worst]) if error.size else 0.0
        kept = None if bound is None else float(limit[worst] if error.size else 0.0)
        if not compared:
            note = 'no value is valid'
        self.comparisons.append(
            Comparison(case, tensor, largest, kept, worst, compared, expected.size - compared, note=note)
        )

    def compare_rms(
        self, case: str, tensor: str, actual: NDArray, expected: NDArray, bound: float | None
    ) -> None:
        """Root mean square error relative to the standard deviation of the saved values.

        Values without a deviation, such as a single one, are measured by their own root mean square.
        """
        first, second = actual.astype(np.float64), expected.astype(np.float64)
        scale, measure = np.std(second), 'RMS / std'
        if scale == 0:
            scale, measure = _rms(second), 'RMS / RMS'
        error = _rms(first - second)
        relative = error / scale if scale else np.inf if error else 0.0
        relative = relative if np.isfinite(relative) else np.inf
        self.comparisons.append(
            Comparison(case, tensor, float(relative), bound, (), expected.size, 0, measure=measure)
        )

    def compare_text(self, case: str, tensor: str, actual: str, expected: str) -> None:
        """Equal or not; the note shows where they part."""
        parts = next(
            (i for i, pair in enumerate(zip(actual, expected, strict=False)) if pair[0] != pair[1]),
            min(len(actual), len(expected)),
        )
        same = actual == expected
        note = '' if same else f'{actual[parts : parts + 20]!r}, saved {expected[parts : parts + 20]!r}'
        error = 0.0 if same else float('inf')
        where = () if same else (parts,)
        self.comparisons.append(
            Comparison(case, tensor, error, 0.0, where, max(1, len(expected)), 0, note=note)
        )

    def add_unused(self, place: str, tensors: Sequence[str]) -> None:
        """Tensors that no check has asked for."""
        self.gaps += [Gap(place, name, 'no check knows this tensor') for name in tensors]

    def add_more_items(self, place: str, name: str, tensor: NDArray, axis: int, compared: int) -> None:
        """Items of a saved batch beyond those that were run."""
        held = tensor.shape[axis] if tensor.ndim > axis else 0
        if held > compared:
            self.gaps.append(Gap(place, name, f'holds a batch of {held}, the inputs one of {compared}'))

    def add_part(self, name: str, part: 'Report') -> None:
        """What was found in a folder inside this one."""
        self.comparisons += [replace(item, case=f'{name}/{item.case}') for item in part.comparisons]
        self.gaps += [replace(gap, place=f'{name}/{gap.place}') for gap in part.gaps]

    def table(self, per_case: bool = False) -> Table:
        """One row per tensor, the worst case of each; per_case: one row per case and tensor."""
        table = Table(box=None, header_style='bold', pad_edge=False)
        numbers = ('error', 'bound', 'compared', 'excluded')
        for name in ('tensor', 'error', 'bound', 'where', 'compared', 'excluded', ''):
            table.add_column(name, justify='right' if name in numbers else 'left')
        for item, compared, excluded in self._rows(per_case):
            table.add_row(
                escape(item.tensor) + ('' if item.measure == 'max abs' else f' ({item.measure})'),
                f'{item.error:.2e}',
                '-' if item.bound is None else f'{item.bound:.0e}' if item.bound else 'exact',
                escape(f'{item.case} {list(item.where)}' if item.where else item.case),
                str(compared),
                str(excluded),
                ('' if item.passed else '[bold red]FAILED[/] ') + escape(item.note),
            )
        return table

    def _rows(self, per_case: bool) -> list[tuple[Comparison, int, int]]:
        groups: dict[tuple[str, str, str], list[Comparison]] = {}
        for item in self.comparisons:
            groups.setdefault((item.tensor, item.measure, item.case if per_case else ''), []).append(item)
        return [
            (
                max(group, key=lambda item: (not item.passed, item.error / (item.bound or 1.0))),
                sum(item.compared for item in group),
                sum(item.excluded for item in group),
            )
            for group in groups.values()
        ]

    def to_json(self) -> str:
        return json.dumps(
            {
                'format': FORMAT,
                'folder': self.folder,
                'backend': self.backend,
                'recipe': self.recipe,
                'passed': self.passed(),
                'comparisons': [
                    {
                        **vars(item),
                        'error': item.error if np.isfinite(item.error) else None,
                        'passed': item.passed,
                    }
                    for item in self.comparisons
                ],
                'not_compared': [vars(gap) for gap in self.gaps],
            },
            indent=1,
        )


def _rms(values: NDArray[np.float64]) -> np.float64:
    return np.sqrt(np.mean(values**2))


def _distance(actual: NDArray, expected: NDArray) -> NDArray[np.float64]:
    """Absolute difference in float64; a value that is not finite on one side only is infinitely far away."""
    first, second = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid='ignore'):
        difference = np.abs(first - second)
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    return np.where(same, 0.0, np.where(np.isnan(difference), np.inf, difference))
