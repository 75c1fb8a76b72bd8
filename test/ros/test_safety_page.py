# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""docs/safety.md names functions, tests and parameters that exist."""

import ast
import re
from functools import reduce
from importlib import import_module
from pathlib import Path

from flashrt_ros.parameters import static_keys

TEST = Path(__file__).resolve().parents[1]
PAGE = TEST.parent / 'docs' / 'safety.md'


def rules() -> list[list[str]]:
    """The cells of the table of rules: rule, functions, tests, parameters."""
    lines = PAGE.read_text().splitlines()
    first = lines.index('| rule | function | test | parameters |') + 2
    last = next(i for i in range(first, len(lines)) if not lines[i].startswith('|'))
    return [[cell.strip() for cell in line.strip('|').split('|')] for line in lines[first:last]]


def quoted(cell: str) -> list[str]:
    return re.findall(r'`([^`]+)`', cell)


def test_every_rule_has_a_function_and_a_test():
    assert len(rules()) >= 15
    for rule, functions, tests, _ in rules():
        assert quoted(functions), rule
        assert quoted(tests), rule
        for name in quoted(functions):
            module, *path = name.split('.')
            assert callable(reduce(getattr, path, import_module(f'flashrt_ros.{module}'))), name
        for name in quoted(tests):
            file, _, function = name.partition('::')
            tree = ast.parse((TEST / file).read_text())
            defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            assert not function or function in defined, name


def test_every_parameter_exists():
    known = {key.name for key in static_keys()}
    groups = {name.split('.')[0] for name in known if '.' in name}
    named = {name for name in quoted(PAGE.read_text()) if re.fullmatch(r'[a-z_]+\.[a-z_]+', name)}
    named = {name for name in named if name.split('.')[0] in groups}
    assert len(named) > 10
    assert named <= known
