# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Reads the JSON files of a golden folder."""

import json
from pathlib import Path
from typing import Any

from flashrt_core.errors import Error


def read_json(path: Path) -> Any:
    """The document as it is; what is missing in it shows when it is used."""
    try:
        return json.loads(path.read_text(encoding='utf-8'))
    except (OSError, ValueError) as fault:
        raise Error(f'{path} cannot be read ({type(fault).__name__}: {fault})') from fault


def find(name: Path, folder: Path, given: Path | None) -> Path:
    """A model folder or tokenizer that a case names.

    It lies beside the golden folder, or, where the user gives a folder, is that one, in it or beside it.
    """
    places = [folder.resolve().parent] if given is None else [given.resolve(), given.resolve().parent]
    candidates = [place / name for place in places]
    if given is not None and given.resolve().name == name.name:
        candidates.insert(0, given.resolve())
    for candidate in candidates:
        if candidate.exists():
            return candidate
    raise Error(
        f"golden: '{name}', which {folder} refers to, was looked for as {', '.join(map(str, candidates))}; "
        'give the folder that holds it with --model'
    )
