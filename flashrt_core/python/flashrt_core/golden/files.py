# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Reads the JSON files of a golden folder, and finds the files that they refer to."""

import json
from pathlib import Path
from typing import Any, NoReturn

from flashrt_core.errors import Error


class Fields(dict):
    """A JSON object that names its file when a field is missing."""

    def __init__(self, path: Path, fields: dict) -> None:
        super().__init__(fields)
        self._path = path

    def __missing__(self, name: str) -> NoReturn:
        raise Error(f"{self._path}: field '{name}' is missing beside {sorted(self)}")


def read_json(path: Path, kind: type = dict) -> Any:
    """The document, an object unless told otherwise; objects in it are Fields."""
    try:
        document = json.loads(
            path.read_text(encoding='utf-8'), object_hook=lambda fields: Fields(path, fields)
        )
    except (OSError, ValueError, RecursionError) as fault:
        raise Error(f'{path} cannot be read ({type(fault).__name__}: {fault})') from fault
    if not isinstance(document, kind):
        raise Error(f'{path} holds a {type(document).__name__}, needed a {kind.__name__}')
    return document


def data_files(folder: Path) -> list[Path]:
    """What may hold results: files, but no hidden ones and no notes for people."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.is_file() and not path.name.startswith('.') and path.suffix != '.md'
    )


def only(folder: Path, pattern: str, what: str) -> Path:
    """The one file of its kind."""
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        names = [path.name for path in found]
        raise Error(f'golden: {folder} holds {names or "no file"} matching {pattern}; needed one {what}')
    return found[0]


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
