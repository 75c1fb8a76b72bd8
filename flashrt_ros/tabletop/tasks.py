# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What can be asked of the robot, in how many words, and for how long it may try."""

from collections.abc import Mapping
from dataclasses import dataclass

from flashrt_core.errors import Error

COLOURS = ('red', 'green', 'blue')  # the cubes, in the order of every array

# Kind -> sentences. A policy knows these sentences and no others.
WORDINGS: Mapping[str, tuple[str, ...]] = {
    'touch': ('touch the {block} block', 'reach for the {block} cube'),
    'lift': ('lift the {block} block', 'pick up the {block} cube'),
    'place': ('put the {block} block in the tray', 'place the {block} cube into the tray'),
    'stack': (
        'stack the {block} block on the {base} block',
        'put the {block} cube on top of the {base} cube',
    ),
}
KINDS = tuple(WORDINGS)
LIMITS_S: Mapping[str, float] = {'touch': 5.0, 'lift': 7.0, 'place': 10.0, 'stack': 10.0}


@dataclass(frozen=True)
class Task:
    """One thing to do with one cube."""

    kind: str
    block: str
    base: str = ''  # the cube below, of a stack

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise Error(f"'{self.kind}' is no kind of task; there are: {', '.join(KINDS)}")
        if self.block not in COLOURS:
            raise Error(f"there is no '{self.block}' block; there are: {', '.join(COLOURS)}")
        bases = [colour for colour in COLOURS if colour != self.block] if self.kind == 'stack' else ['']
        if self.base not in bases:
            raise Error(f"{self.kind} the {self.block} block: the base is '{self.base}', possible: {bases}")

    @property
    def block_index(self) -> int:
        return COLOURS.index(self.block)

    @property
    def base_index(self) -> int | None:
        return COLOURS.index(self.base) if self.base else None

    @property
    def limit_s(self) -> float:
        return LIMITS_S[self.kind]

    def prompt(self, wording: int = 0) -> str:
        return WORDINGS[self.kind][wording].format(block=self.block, base=self.base)


def _all_tasks() -> tuple[Task, ...]:
    single = [Task(kind, block) for kind in KINDS if kind != 'stack' for block in COLOURS]
    pairs = [(block, base) for block in COLOURS for base in COLOURS if block != base]
    return (*single, *(Task('stack', block, base) for block, base in pairs))


TASKS = _all_tasks()
_BY_PROMPT = {task.prompt(wording): task for task in TASKS for wording in range(len(WORDINGS[task.kind]))}
PROMPTS = tuple(_BY_PROMPT)


def read_task(prompt: str) -> Task:
    """The task that a prompt asks for; raises Error for any other sentence."""
    if prompt not in _BY_PROMPT:
        raise Error(f"'{prompt}' is no task of the tabletop; the sentences are: {'; '.join(PROMPTS)}")
    return _BY_PROMPT[prompt]
