# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Actions that count from the state at inference time: the same state for all rows of a chunk."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


def expand_mask(spec: Sequence[int]) -> tuple[bool, ...]:
    """(6, -1) -> six relative columns, then one absolute."""
    return tuple(relative for count in spec for relative in [count > 0] * abs(count))


def mask_by_name(columns: int, names: Sequence[str] | None, exclude: Sequence[str]) -> tuple[bool, ...]:
    """lerobot's rule: a column is absolute if its name contains an excluded word, whatever the case.

    Without names or words, and beyond the names, all columns are relative.
    """
    words = [word.lower() for word in exclude if word]
    named = [not any(word in name.lower() for word in words) for name in (names or ())[:columns]]
    return tuple(named + [True] * (columns - len(named)))


@dataclass(frozen=True)
class RelativeActions:
    """mask: one claim per column, true = relative; columns beyond it are left alone."""

    mask: tuple[bool, ...]

    def _offset(self, state: NDArray) -> NDArray:
        return np.where(self.mask, state[..., : len(self.mask)], 0)[..., None, :]

    def to_relative(self, actions: NDArray, state: NDArray) -> NDArray:
        """[..., rows, columns] minus the state [..., columns] in the relative columns."""
        relative = actions.copy()
        relative[..., : len(self.mask)] -= self._offset(state)
        return relative

    def to_absolute(self, actions: NDArray, state: NDArray) -> NDArray:
        """[..., rows, columns] plus the state [..., columns] in the relative columns."""
        absolute = actions.copy()
        absolute[..., : len(self.mask)] += self._offset(state)
        return absolute
