# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Results of the tools as JSON files: written whole or not at all, read by format and version."""

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from flashrt_core.errors import Error
from flashrt_core.json_fields import Fields, read_object


def write_result(path: Path, content: dict[str, Any]) -> None:
    """A reader sees the file as it was before, or all of the new one."""
    text = json.dumps(content, indent=1, allow_nan=False) + '\n'
    part = None
    try:
        with tempfile.NamedTemporaryFile('w', dir=path.parent, suffix='.part', delete=False) as file:
            part = Path(file.name)
            file.write(text)
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask)  # temporary files are their owner's alone
        part.replace(path)
    except OSError as fault:
        if part:
            part.unlink(missing_ok=True)
        raise Error(f'{path} cannot be written: {fault}') from fault


def check_output(path: Path) -> None:
    """Before the work."""
    if not path.resolve().parent.is_dir():
        raise Error(f'folder {path.resolve().parent} of {path.name} does not exist')


def make_folder(folder: Path) -> None:
    """Before the work; refuses one that nothing can be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as fault:
        raise Error(f'{folder} is no folder to write to: {fault}') from fault


def read_result(path: Path, versions: dict[str, int]) -> Fields:
    """versions: of the formats that are accepted."""
    content = read_object(path)
    known = content.choice('format', versions)
    if (version := content.integer('version')) != versions[known]:
        raise Error(f'{path} is {known} version {version}, this program reads version {versions[known]}')
    return content


def file_digest(path: str | os.PathLike) -> str:
    """Of its bytes, sha256 as hex."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as fault:
        raise Error(f'{path} cannot be read: {fault}') from fault
