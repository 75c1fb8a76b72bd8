# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Options that several sub-commands have, and how what was given of them reaches an engine."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

Backend = Annotated[str, typer.Option(help='What runs the model: cpu or cuda.')]
INT_MAX = 2**31 - 1
SEED_MAX = 2**64 - 1
ROWS_MAX, CAMERAS_MAX = 2**14, 64  # as the core bounds plans

Device = Annotated[int, typer.Option(min=0, max=INT_MAX, help='Index of the GPU.')]
Tuning = Annotated[Path | None, typer.Option(help='Keeps which algorithms are fastest on a GPU.')]
Packed = Annotated[Path | None, typer.Option(help='Made by `flashrt pack`: read instead of weights.')]
EmbodimentSlot = Annotated[
    int, typer.Option(help='Of a GR00T checkpoint, needed there: the slot whose small networks are loaded.')
]
Threads = Annotated[int, typer.Option(min=0, max=INT_MAX, help='0: one per core.')]
Seed = Annotated[
    int | None,
    typer.Option(min=0, max=SEED_MAX, help='Random weights of this seed instead of the checkpoint.'),
]
RandomWeights = Annotated[
    str | None,
    typer.Option(help='Instead of a checkpoint: pi05, pi0, groot_n16 or a folder with a config.json.'),
]
RandomSeed = Annotated[int | None, typer.Option(min=0, max=SEED_MAX, help='Of the random weights; else 0.')]
Outliers = Annotated[
    float, typer.Option(help='Of the random weights: factor of a few channels and a token, e.g. 100.')
]


def given(**options: Any) -> dict[str, Any]:
    """Those that were given on the command line: the others are decided elsewhere."""
    return {name: value for name, value in options.items() if value is not None}


def command_line(context: typer.Context) -> str:
    """The command that runs, as it was typed, for results that say how they were made."""
    return context.find_root().obj


def table_console() -> Console:
    """Where it is no terminal, as wide as the tables: a log file has no width."""
    console = Console()
    return console if console.is_terminal else Console(width=160)
