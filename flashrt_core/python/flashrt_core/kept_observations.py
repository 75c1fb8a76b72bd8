# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""A file that keeps what was observed: an interrupted calibration goes on from it, others begin with it."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from flashrt_core.engine import Engine, native_core
from flashrt_core.errors import Error

if TYPE_CHECKING:
    from flashrt_core._core import Observations


@dataclass
class KeptObservations:
    """Observations in the making: those of the file, if there is one, and those that follow.

    The samples have to come in the order in which they came before: those that the file holds already are
    compared with it by their digest, and passed over.
    """

    path: Path | None  # None: kept nowhere
    recipe: str  # the name of a built-in one or a path
    interval_s: float = 30.0  # from one writing of the file to the next
    clock: Callable[[], float] = time.monotonic
    observations: 'Observations' = field(init=False)
    held: int = field(init=False, default=0)  # by the file, at the beginning
    _seen: int = field(init=False, default=0)
    _digest: str = field(init=False, default='')
    _written_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._written_s = self.clock()
        recipe = _identity(self.recipe)
        if self.path is None or not self.path.exists():
            self.observations = cast(Any, native_core()).Observations()
            self.observations.recipe = recipe
            return
        self.observations = read_observations(self.path)
        self.held = self.observations.samples
        if self.observations.recipe != recipe:
            raise Error(
                f'calibrate: {self.path} was observed with recipe {self.observations.recipe}, this is '
                f'{recipe}; {self._what_to_do()}'
            )

    def takes(self, name: str, engine: Engine, inputs: tuple) -> bool:
        """Whether the next sample is still to be observed; inputs: as Engine.infer takes them."""
        if self.path is None:
            self.observations.announce(name, '')
            return True
        self._digest = _digest(self._digest, inputs)
        self._seen += 1
        if self._seen > self.held:
            self.observations.announce(name, self._digest)
            return True
        if self._seen == 1:  # before all the others are read
            self.observations.check_fits(str(self.path), engine.weights_digest, engine.plan_digest)
        if self._seen == self.held and self._digest != self.observations.samples_digest:
            raise Error(
                f'calibrate: {self.path} holds {self.held} observations, the last of them '
                f'{self.observations.last_sample}, of other samples than the first {self.held} given here, '
                f'the last of them {name}; {self._what_to_do()}'
            )
        return False

    def write_now_and_then(self) -> None:
        if self.clock() - self._written_s >= self.interval_s:
            self.write()

    def write(self) -> None:
        """Nothing where there is nothing to keep, or nowhere."""
        if self.path is not None and self.observations.samples > self.held:
            self.observations.save(self.path)
        self._written_s = self.clock()

    def check_all_were_given(self) -> None:
        if self._seen < self.held:
            raise Error(
                f'calibrate: {self.path} holds {self.held} observations, but only {self._seen} samples were '
                f'given; {self._what_to_do()}'
            )

    def _what_to_do(self) -> str:
        return 'remove the file to observe anew, or name another one'


def read_observations(path: Path) -> 'Observations':
    return cast(Any, native_core()).Observations.load(path)


def _identity(recipe: str) -> str:
    """A file of the same name may have another content by the time a calibration goes on."""
    path = Path(recipe)
    if not path.is_file():
        return recipe
    return f'{path.name} ({hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()})'


def _digest(before: str, inputs: tuple) -> str:
    """Over samples up to this one; inputs: arrays, frames of cameras or None."""
    digest = hashlib.blake2b(before.encode(), digest_size=16)
    for value in inputs:
        for part in value if isinstance(value, list | tuple) else (value,):
            content = np.empty(0) if part is None else np.asarray(part)
            digest.update(f'{content.dtype.str} {content.shape};'.encode())
            digest.update(np.ascontiguousarray(content).data)
    return digest.hexdigest()
