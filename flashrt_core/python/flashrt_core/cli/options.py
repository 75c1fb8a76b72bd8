# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Options that several sub-commands have, and how what was given of them reaches an engine."""

from pathlib import Path
from typing import Annotated, Any

import typer

Backend = Annotated[str, typer.Option(help='What runs the model: cpu or cuda.')]
Device = Annotated[int, typer.Option(help='Index of the GPU.')]
Tuning = Annotated[Path | None, typer.Option(help='Keeps which algorithms are fastest on a GPU.')]
Packed = Annotated[Path | None, typer.Option(help='Made by `flashrt pack`: read instead of weights.')]
Threads = Annotated[int, typer.Option(help='0: one per core.')]


def given(**options: Any) -> dict[str, Any]:
    """Those that were given on the command line: the others are decided elsewhere."""
    return {name: value for name, value in options.items() if value is not None}
