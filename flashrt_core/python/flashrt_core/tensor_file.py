# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""A file of named arrays that knows which of them were used, so that nothing in it is passed over."""

import zipfile
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file

from flashrt_core.errors import Error

# What the readers stumble over in a damaged file, or in one that claims more than there is memory.
_FAULTS = (
    *(OSError, EOFError, ValueError, KeyError, TypeError, NotImplementedError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, SafetensorError),
)


class TensorFile:
    """Reads a .safetensors or .npz file whole; `take` marks an array as used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tensors = _load(path)
        self._used: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def names(self) -> list[str]:
        return sorted(self._tensors)

    def metadata(self) -> dict[str, str]:
        """What a .safetensors file says about itself."""
        with safe_open(self.path, 'np') as file:
            return file.metadata() or {}

    def unused(self) -> list[str]:
        return sorted(set(self._tensors) - self._used)

    def take(self, name: str, axes: int | None = None) -> NDArray:
        """axes: how many the array must have; None takes any."""
        if name not in self._tensors:
            raise Error(f"{self.path}: tensor '{name}' is missing; it has {self.names()}")
        tensor = self._tensors[name]
        if axes is not None and tensor.ndim != axes:
            raise Error(f"{self.path}: tensor '{name}' has shape {list(tensor.shape)}, needed {axes} axes")
        self._used.add(name)
        return tensor


def _load(path: Path) -> dict[str, NDArray]:
    if not path.is_file():
        raise Error(f'{path} does not exist')
    try:
        if path.suffix == '.safetensors':
            return load_file(path)
        if path.suffix == '.npz':
            with np.load(path, allow_pickle=False) as archive:
                return dict(archive)
    except _FAULTS as fault:
        raise Error(f'{path} cannot be read ({type(fault).__name__}: {fault})') from fault
    raise Error(f"{path}: unknown kind of file '{path.suffix}'; known are .safetensors and .npz")
