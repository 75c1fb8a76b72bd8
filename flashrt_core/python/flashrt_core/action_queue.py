# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The rest of a chunk in two forms: for the robot, which takes row by row, and for the next inference."""

import numpy as np
from numpy.typing import NDArray

from flashrt_core.chunk_joining import remaining
from flashrt_core.errors import Error


class ActionQueue:
    """Two aligned arrays and one read index, for loops that send one row per tick.

    replaces: with real-time chunking a new chunk takes the place of what is left; otherwise it follows it.
    """

    def __init__(self, replaces: bool) -> None:
        self._replaces = replaces
        self.clear()

    def clear(self) -> None:
        """As before the first chunk."""
        self._model: NDArray | None = None  # [rows, columns] in model space
        self._robot: NDArray | None = None  # [rows, joints] in robot units
        self._index = 0

    @property
    def index(self) -> int:
        """Rows sent since the last merge."""
        return self._index

    def __len__(self) -> int:
        """Rows left."""
        return 0 if self._robot is None else len(self._robot) - self._index

    def get(self) -> NDArray | None:
        """[joints] to be sent now; None where no row is left."""
        if not len(self):
            return None
        self._index += 1
        return self._robot[self._index - 1]

    def leftover(self) -> tuple[NDArray, NDArray] | None:
        """What is left in model space and in robot units; None before the first chunk."""
        if self._model is None:
            return None
        return remaining(self._model, self._index), remaining(self._robot, self._index)

    def merge(self, model_actions: NDArray, actions: NDArray, delay: int) -> None:
        """Takes a new chunk; delay: rows that were sent while it was inferred, of use when it replaces."""
        if len(model_actions) != len(actions):
            raise Error(
                f'action queue: {len(model_actions)} rows in model space, {len(actions)} in robot units; the '
                'two arrays must be of one chunk'
            )
        if self._replaces:
            sent = max(0, delay)
            self._model, self._robot = model_actions[sent:], actions[sent:]
        elif (left := self.leftover()) is None:
            self._model, self._robot = model_actions, actions
        else:
            self._model = _append('in model space', left[0], model_actions)
            self._robot = _append('in robot units', left[1], actions)
        self._index = 0


def _append(what: str, left: NDArray, new: NDArray) -> NDArray:
    if new.shape[1:] != left.shape[1:]:
        raise Error(f'action queue: rows of shape {new.shape[1:]} {what} cannot follow {left.shape[1:]}')
    return np.concatenate([left, new])
