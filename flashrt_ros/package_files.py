# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Files that come with a ROS package, wherever it is installed: what `package://` in a path means."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from flashrt_core.errors import Error

OWN = 'flashrt_ros'
_SCHEME = 'package://'


def resolved(path: str) -> str:
    """package://NAME/REST is REST in the share folder of the package NAME; any other path is as it is.

    Raises Error where there is no such package.
    """
    if not path.startswith(_SCHEME):
        return path
    name, _, rest = path.removeprefix(_SCHEME).partition('/')
    return os.fspath(package_folder(name) / rest)


def package_folder(name: str = OWN) -> Path:
    """share/NAME of an installed package; of this one, where it is used from its sources, their root."""
    folders = list(_own_folders() if name == OWN else _folders(name))
    for folder in folders:
        if folder.is_dir():
            return folder
    places = ', '.join(map(str, folders))
    raise Error(f"there is no package '{name}': none of {places} is a folder; is its workspace sourced?")


def _own_folders() -> Iterator[Path]:
    """Of the installation that this module is part of, whatever else is sourced."""
    sources, *prefixes = Path(__file__).resolve().parents[1:]
    if (sources / 'package.xml').is_file():
        yield sources
    yield from (prefix / 'share' / OWN for prefix in prefixes)


def _folders(name: str) -> Iterator[Path]:
    prefixes = [prefix for prefix in os.environ.get('AMENT_PREFIX_PATH', '').split(':') if prefix]
    for prefix in dict.fromkeys((*prefixes, sys.prefix)):
        yield Path(prefix) / 'share' / name
