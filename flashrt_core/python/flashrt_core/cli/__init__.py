# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The `flashrt` command: its sub-commands are what installed packages register as `flashrt.commands`."""

import shlex
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points

import typer

from flashrt_core.errors import Error

GROUP = 'flashrt.commands'


def main(arguments: Sequence[str] | None = None) -> None:
    """Exit codes: 0 done, 1 the answer is no, 2 refused input."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
    app.callback()(_about)
    commands = {entry.name: entry for entry in entry_points(group=GROUP)}
    # Only the command that is meant is imported; all of them for the overview.
    for name in [name for name in sorted(commands) if name in arguments[:1]] or sorted(commands):
        app.command(name)(commands[name].load())
    try:
        app(arguments, prog_name='flashrt', obj=shlex.join(['flashrt', *arguments]))
    except Error as fault:
        print(f'error: {fault}', file=sys.stderr)
        sys.exit(2)


def _about() -> None:
    """Vision-language-action models from observations to robot action chunks."""
