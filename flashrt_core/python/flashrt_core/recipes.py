# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Recipes as the tools change them: rules by call name, exceptions, what a backend can run."""

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

from flashrt_core.engine import native_core
from flashrt_core.errors import Error

FORMAT, VERSION = 'flashrt_recipe', 1
FloatType = Literal['f32', 'bf16']
FLOATS = ('f32', 'bf16', 'f16')
ON_CUDA = (*FLOATS, 'e4m3')  # the other formats are emulated, by the CPU backend alone
WITHOUT_SCALES = (*FLOATS, 'mxfp4')  # of activations: what needs no calibration

Rule = Mapping[str, Any]  # match, weight, activation and more, as in a recipe file


@dataclass(frozen=True)
class Recipe:
    """What a recipe file says. Fields of rules that decide nothing here are passed on as they are."""

    name: str
    values: str
    rules: tuple[Rule, ...]

    @classmethod
    def read(cls, name_or_path: str | os.PathLike) -> 'Recipe':
        """A built-in one or a file."""
        text = cast(Any, native_core()).recipe_json(os.fspath(name_or_path))
        return cls.parse(json.loads(text))

    @classmethod
    def parse(cls, content: Mapping[str, Any]) -> 'Recipe':
        """The content of a recipe file that the native module has accepted."""
        return cls(content['name'], content['values'], tuple(content['rules']))

    def rule_for(self, call: str) -> Rule | None:
        """The last rule that matches."""
        return next((rule for rule in reversed(self.rules) if matches(rule['match'], call)), None)

    def quantises(self, call: str) -> bool:
        """Whether the weight or the activation of this linear is held in fewer bits than a float."""
        rule = self.rule_for(call)
        return rule is not None and not {rule['weight'], rule['activation']} <= set(FLOATS)

    def needs_calibration(self, calls: Iterable[str]) -> bool:
        rules = [rule for call in calls if (rule := self.rule_for(call)) is not None]
        return any(rule['activation'] not in WITHOUT_SCALES for rule in rules)

    def with_float(self, name: str, patterns: Iterable[str], kept: str) -> 'Recipe':
        """The same with these calls in a float type."""
        exceptions = [{'match': pattern, 'weight': kept, 'activation': kept} for pattern in patterns]
        return Recipe(name, self.values, (*self.rules, *exceptions))

    def emulated(self, calls: Iterable[str]) -> list[str]:
        """Formats of these linears that only the CPU backend runs, in order of their names."""
        rules = [rule for call in calls if (rule := self.rule_for(call)) is not None]
        used = {rule[side] for rule in rules for side in ('weight', 'activation')}
        return sorted(used - set(ON_CUDA))

    def content(self) -> dict[str, Any]:
        """As a recipe file holds it."""
        rules = [dict(rule) for rule in self.rules]
        return {
            'format': FORMAT,
            'version': VERSION,
            'name': self.name,
            'values': self.values,
            'rules': rules,
        }

    def write(self, path: Path) -> None:
        try:
            path.write_text(json.dumps(self.content(), indent=1) + '\n', encoding='utf-8')
        except OSError as fault:
            raise Error(f'recipe: {path} cannot be written: {fault}') from fault


def runs_on(emulated: Collection[str]) -> str:
    """For tables: which backends run what holds these emulated formats."""
    return f'cpu only, emulates {", ".join(emulated)}' if emulated else 'cpu, cuda'


def matches(pattern: str, name: str) -> bool:
    """As recipes mean it: '*' stands for any text, '?' for any one character, and nothing else for others."""
    text = ''.join({'*': '.*', '?': '.'}.get(letter, re.escape(letter)) for letter in pattern)
    return re.fullmatch(text, name, re.DOTALL) is not None


def float_type(option: str | None, recipe: Recipe) -> str:
    """In what the linears are kept that are not quantised: as asked for, else as the recipe holds values."""
    kept = option or recipe.values
    if kept not in get_args(FloatType):
        raise Error(f"float type '{kept}', known are {', '.join(get_args(FloatType))}")
    return kept
