# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The table of cases in test/README.md has every case once, and names tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

TEST = Path(__file__).resolve().parents[1]
ROWS = re.findall(r'^\| (R-\d\d) \|.*\| (.*) \|$', (TEST / 'README.md').read_text(), re.MULTILINE)


@cache
def functions(file: str) -> set[str]:
    """The tests of a file, Python or GoogleTest."""
    text = (TEST / file).read_text()
    if file.endswith('.cpp'):
        return set(re.findall(r'^TEST(?:_[FP])?\(\w+, (\w+)\)', text, re.MULTILINE))
    return {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}


def test_every_case_has_a_row():
    assert [case for case, _ in ROWS] == [f'R-{number:02}' for number in range(1, 57)]


def test_every_named_test_exists():
    for case, tests in ROWS:
        named = re.findall(r'`([\w/]+\.(?:py|cpp))::(\w+)`', tests)
        assert len(named) == len(tests.split()) > 0, f'{case}: {tests}'
        for file, function in named:
            assert function in functions(file), f'{case}: {file} has no {function}'
