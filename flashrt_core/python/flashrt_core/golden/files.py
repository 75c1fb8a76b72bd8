# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Finds the files of a golden folder, and those that its documents name.

A name in a document is that of a file in the same folder. Only models and tokenizers lie elsewhere: in the
golden folder, in a folder beside it, or where the user says. Nothing leads out of there.
"""

import json
from pathlib import Path

from flashrt_core.errors import Error
from flashrt_core.json_fields import Fields
from flashrt_core.tensor_file import TensorFile

_LONGEST_NAME = 255  # bytes that file systems take


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


def notes(file: TensorFile) -> Fields:
    """What a file of tensors says about itself; values are JSON or else plain text."""
    return Fields(f'{file.path}: metadata', {name: _parsed(text) for name, text in file.metadata().items()})


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _is_name(part: str) -> bool:
    return part not in ('', '.', '..') and not {'/', '\0'} & set(part) and len(part.encode()) <= _LONGEST_NAME


def file_in(folder: Path, name: str, place: str) -> Path:
    """The file of this name in the folder; place: who names it."""
    if not _is_name(name):
        raise Error(f'{place}: {name!r} is not the name of a file in {folder}; it must hold no path')
    return folder / name


def find(case: Fields, field: str, folder: Path, given: Path | None) -> Path:
    """The model folder or tokenizer that a case names.

    It lies in the golden folder or in one beside it. Where the user gives a folder, it is that one,
    lies in it or in one beside it.
    """
    name = case.text(field)
    parts = name.split('/')
    if not all(map(_is_name, parts)):
        raise Error(
            f"{case.place}: field '{field}' is {name!r}, needed 'folder' or 'folder/file' as "
            f"seen from the parent of {folder}, without '..'"
        )
    places = [folder.resolve().parent] if given is None else [given.resolve(), given.resolve().parent]
    candidates = [place.joinpath(*parts) for place in places]
    if given is not None and given.resolve().name == parts[-1]:
        candidates.insert(0, given.resolve())
    for candidate in candidates:
        if candidate.exists():
            return candidate
    raise Error(
        f"golden: '{name}', which {folder} refers to, was looked for as {', '.join(map(str, candidates))}; "
        'give the folder that holds it with --model'
    )
