# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The linears of a plan in groups, by what their call names say."""

import difflib
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from flashrt_core.errors import Error
from flashrt_core.recipes import matches


@dataclass(frozen=True)
class Linear:
    """A call of a plan that multiplies with a weight."""

    name: str  # prefix.3.qkv
    stage: str
    weight: str


@dataclass(frozen=True)
class Group:
    """Linears that are quantised or kept together."""

    name: str  # a pattern of call names
    calls: tuple[str, ...]  # in the order of the plan


def linears_of(plan_text: str) -> list[Linear]:
    """Of the text of a plan, in order."""
    linears, stage = [], ''
    for line in plan_text.splitlines():
        if match := re.match(r'stage (\S+) \(', line):
            stage = match[1]
        elif match := re.match(r'  (\S+) = linear .*? weight=(\S+) ', line):
            linears.append(Linear(match[1], stage, match[2]))
    return linears


def _stage(linear: Linear) -> str:
    return f'{linear.stage}.*'


def _block(linear: Linear) -> str:
    """'prefix.3.*'; a linear outside the blocks stands for itself."""
    match = re.match(r'(.*?\.\d+)\.', linear.name)
    return f'{match[1]}.*' if match else linear.name


def _projection(linear: Linear) -> str:
    """'prefix.*.qkv'."""
    return re.sub(r'\.\d+(?=\.|$)', '.*', linear.name)


KINDS: dict[str, Callable[[Linear], str]] = {'stage': _stage, 'block': _block, 'projection': _projection}


def group_linears(linears: Sequence[Linear], quantised: Callable[[str], bool], by: str) -> list[Group]:
    """Groups of those linears that are quantised, in the order of the plan.

    by: stage, block, projection, or patterns with commas between them. Linears that read one weight stay
    together, in the group of the first of them; with patterns, those that match none are in no group.
    """
    label = KINDS.get(by) or _by_pattern(by.split(','), [one.name for one in linears if quantised(one.name)])
    first: dict[str, str | None] = {}  # weight -> the group of the first linear that reads it
    found: dict[str, list[str]] = {}
    for linear in linears:
        if not quantised(linear.name):
            continue
        name = first.setdefault(linear.weight, label(linear))
        if name is not None:
            found.setdefault(name, []).append(linear.name)
    if not found:
        raise Error('groups: the recipe quantises no linear of this model')
    return [Group(name, tuple(calls)) for name, calls in found.items()]


def _by_pattern(patterns: list[str], quantised: list[str]) -> Callable[[Linear], str | None]:
    for pattern in patterns:
        if not any(matches(pattern, name) for name in quantised):
            near = difflib.get_close_matches(pattern, quantised, 3, 0.0)
            raise Error(
                f"groups: '{pattern}' is neither {', '.join(KINDS)} nor a pattern of a call that the recipe "
                f'quantises, such as {", ".join(near) or "none: it quantises nothing"}'
            )

    def label(linear: Linear) -> str | None:
        found = [pattern for pattern in patterns if matches(pattern, linear.name)]
        if len(found) > 1:
            raise Error(f"groups: {linear.name} matches '{found[0]}' and '{found[1]}'; groups do not overlap")
        return found[0] if found else None

    return label


def cover(calls: Collection[str], linears: Sequence[Linear]) -> list[str]:
    """Few patterns that match these calls and no other linear."""
    wanted, left, patterns = set(calls), set(calls), []
    for kind in (*KINDS.values(), lambda linear: linear.name):
        for linear in linears:
            if linear.name not in left:
                continue
            pattern = kind(linear)
            matched = {other.name for other in linears if matches(pattern, other.name)}
            if matched and matched <= wanted:
                patterns.append(pattern)
                left -= matched
    return patterns
