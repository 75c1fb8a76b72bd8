# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Two ways of running a model, call by call: where they part, and whether that is more than rounding."""

from collections.abc import Iterable
from dataclasses import dataclass

from flashrt_core.errors import Error
from flashrt_core.programs import ProgramKey, Programs
from flashrt_core.samples import AnySample


@dataclass(frozen=True)
class CallRow:
    """The worst of one value over samples and steps; errors as a part of the reference's root mean square."""

    value: str
    operation: str
    types: tuple[str, str]  # of the reference, of the other
    rms: float
    worst: float
    not_finite: int
    bound: float
    reason: str
    passed: bool
    sample: str
    step: int
    count: int = 1  # results that were compared

    @property
    def severity(self) -> tuple[bool, float]:
        return not self.passed, self.rms / self.bound


def compare_calls(
    reference: Programs, other: Programs, samples: Iterable[tuple[str, AnySample]], all_calls: bool = False
) -> list[CallRow]:
    """Each call of the other works on what the reference computed.

    Ends with the first value beyond its bound, unless all are asked for.
    """
    rows: dict[str, CallRow] = {}
    for name, sample in samples:
        key = ProgramKey.of(sample).keeping_values()
        for found in reference.get(key).compare(other.get(key), *sample.inputs, all=all_calls):
            before = rows.get(found.value)
            row = CallRow(
                value=found.value,
                operation=found.operation,
                types=found.types,
                rms=found.rms,
                worst=found.worst,
                not_finite=found.not_finite,
                bound=found.bound,
                reason=found.reason,
                passed=found.passed,
                sample=name,
                step=found.iteration,
                count=before.count + 1 if before else 1,
            )
            if before is not None and before.severity >= row.severity:
                row = CallRow(**(vars(before) | {'count': row.count}))
            rows[found.value] = row
            if not found.passed and not all_calls:
                return list(rows.values())
    if not rows:
        raise Error('compare: no sample was given')
    return list(rows.values())
