# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The table of cases in test/README.md names tests that exist."""

import ast
import re
from pathlib import Path

TEST = Path(__file__).resolve().parents[1]


def test_every_named_test_exists():
    named = re.findall(r'`([a-z_/]+\.py)::(test_\w+)`', (TEST / 'README.md').read_text())
    assert len(named) > 60
    functions: dict[str, set[str]] = {}
    for file, function in named:
        if file not in functions:
            tree = ast.parse((TEST / file).read_text())
            functions[file] = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert function in functions[file], f'{file} has no {function}'
