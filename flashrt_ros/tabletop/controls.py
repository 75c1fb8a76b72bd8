# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What evaluation changes on purpose, to see what success depends on."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error
from flashrt_ros.tabletop.seeds import generator
from flashrt_ros.tabletop.tasks import COLOURS, TASKS, Task
from flashrt_ros.tabletop.variation import CAMERAS, FRONT, WRIST, Layout

if TYPE_CHECKING:
    from flashrt_core.policy import FlashPolicy

Views = NDArray[np.uint8]  # [cameras, height, width, 3]

SWITCH_S, MOVE_S = 0.5, 0.75  # after the start
MOVED_M = 0.06
_DARK_LIGHT = 0.15  # of the key light; that of every scene is 0.4 to 0.7
_FRONT, _WRIST = CAMERAS.index(FRONT), CAMERAS.index(WRIST)
# Where cubes begin, m, and how far a moved one stays from the others where that is possible.
_LOWEST, _HIGHEST, _APART_M = np.array([0.25, -0.20]), np.array([0.44, 0.13]), 0.09


def _as_seen(views: Views, first: Views) -> Views:
    return views


def _as_drawn(layout: Layout) -> Layout:
    return layout


@dataclass(frozen=True)
class Control:
    """One change."""

    text: str
    change_views: Callable[[Views, Views], Views] = _as_seen  # views now, and the first ones
    change_layout: Callable[[Layout], Layout] = _as_drawn
    blanks_prompt: bool = False
    switches_prompt: bool = False  # from that of another cube, SWITCH_S after the start
    moves_block: bool = False  # the named one by MOVED_M, MOVE_S after the start


def _black(*cameras: int) -> Callable[[Views, Views], Views]:
    def change(views: Views, first: Views) -> Views:
        changed = views.copy()
        changed[list(cameras)] = 0
        return changed

    return change


def _frozen(views: Views, first: Views) -> Views:
    changed = views.copy()
    changed[_WRIST] = first[_WRIST]
    return changed


def _swapped(views: Views, first: Views) -> Views:
    return views[::-1].copy()


def _shifted(shift: tuple[float, float, float]) -> Callable[[Layout], Layout]:
    """The front camera by so many metres along the axes of the table."""

    def change(layout: Layout) -> Layout:
        shifts = layout.camera_shifts.copy()
        shifts[_FRONT] += shift
        return replace(layout, camera_shifts=shifts)

    return change


def _dark(layout: Layout) -> Layout:
    return replace(layout, light=_DARK_LIGHT)


CONTROLS: Mapping[str, Control] = {
    'none': Control('nothing is changed'),
    'blank_prompt': Control('the prompt without its words, the state stays in it', blanks_prompt=True),
    'prompt_switched': Control(
        f'the prompt of another cube for the first {SWITCH_S:g} s, judged by the second', switches_prompt=True
    ),
    'block_moved': Control(
        f'the named cube is put {MOVED_M * 100:g} cm elsewhere after {MOVE_S:g} s', moves_block=True
    ),
    'views_black': Control('both views black', _black(_FRONT, _WRIST)),
    'front_black': Control('the front view black', _black(_FRONT)),
    'wrist_black': Control('the wrist view black', _black(_WRIST)),
    'wrist_frozen': Control('the first wrist view again and again, under new stamps', _frozen),
    'views_swapped': Control('each view in the place of the other', _swapped),
    'front_2cm_aside': Control('the front camera 2 cm aside', change_layout=_shifted((0.0, 0.02, 0.0))),
    'front_5cm_aside': Control('the front camera 5 cm aside', change_layout=_shifted((0.0, 0.05, 0.0))),
    'front_2cm_up': Control('the front camera 2 cm higher', change_layout=_shifted((0.0, 0.0, 0.02))),
    'front_5cm_up': Control('the front camera 5 cm higher', change_layout=_shifted((0.0, 0.0, 0.05))),
    'dark': Control('light far darker than in training', change_layout=_dark),
}


def other_task(task: Task) -> Task:
    """Of the same kind with the next cube."""
    block = COLOURS[(task.block_index + 1) % len(COLOURS)]
    return next(other for other in TASKS if (other.kind, other.block) == (task.kind, block))


def moved_place(scene: int, cubes: NDArray[np.float64], index: int) -> NDArray[np.float64]:
    """[2] MOVED_M from where the cube is, on the part of the table that the arm reaches, off the others."""
    turns = generator(scene, 'moved').uniform(0.0, 2 * np.pi, 64)
    places = cubes[index, :2] + MOVED_M * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    inside = places[((places >= _LOWEST) & (places <= _HIGHEST)).all(axis=1)]
    if not len(inside):
        raise Error(f'scene {scene}: no place {MOVED_M:g} m from ({cubes[index, :2]}) is within reach')
    others = np.delete(cubes[:, :2], index, axis=0)
    gaps = np.linalg.norm(inside[:, np.newaxis] - others, axis=2).min(axis=1)
    far = np.flatnonzero(gaps > _APART_M)
    return inside[far[0] if len(far) else int(gaps.argmax())]


class _Wordless:
    """The tokens of a prompt without its task; everything else as the policy has it."""

    def __init__(self, tokens: Any) -> None:
        self._tokens = tokens

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokens, name)

    def tokens(self, task: str, normalised: NDArray) -> NDArray[np.int32]:
        return self._tokens.tokens('', normalised)

    def longest(self, task: str, state_dim: int) -> NDArray[np.int32]:
        return self._tokens.longest('', state_dim)


@contextmanager
def without_words(policy: 'FlashPolicy') -> Iterator[None]:
    """No prompt that is set meanwhile reaches the model; a policy itself refuses a blank one."""
    tokens = policy.prompt
    policy.prompt = _Wordless(tokens)
    try:
        yield
    finally:
        policy.prompt = tokens
