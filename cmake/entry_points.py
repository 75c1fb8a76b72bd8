# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Writes the entry points of pyproject.toml as entry_points.txt, for installs that pip does not make."""

import sys
import tomllib
from pathlib import Path


def main(pyproject: str, output: str) -> None:
    project = tomllib.loads(Path(pyproject).read_text())['project']
    groups = {'console_scripts': project['scripts'], **project['entry-points']}
    lines = [
        line
        for group, entries in groups.items()
        for line in [f'[{group}]', *(f'{name} = {target}' for name, target in entries.items()), '']
    ]
    Path(output).write_text('\n'.join(lines))


if __name__ == '__main__':
    main(*sys.argv[1:])
