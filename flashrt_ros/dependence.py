# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Shows that a policy's chunks depend on every input: one is changed at a time, and the chunk must change.

A policy that ignores a camera, mixes two up, or answers from memory still looks alive in every other test.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from flashrt_core.policy import Policy
from flashrt_core.types import CameraFrame, Observation

# Normalised units. The computation repeats bit for bit, so this only has to be above nothing at all.
SMALLEST_CHANGE = 1e-4
PATCH = 1 / 12  # of a picture's longer side: a little more than one patch of the model
JOINT_STEP = 0.05  # robot units, several bins of the state text


@dataclass(frozen=True)
class Dependence:
    """How far one change of the inputs moved the chunk."""

    what: str
    change: float  # largest, in normalised units
    is_wanted: bool  # False where nothing was changed

    @property
    def is_fine(self) -> bool:
        return self.change >= SMALLEST_CHANGE if self.is_wanted else self.change == 0.0


def dependences(
    policy: Policy, observation: Observation, joints: Sequence[str], prompt: str, other_prompt: str
) -> list[Dependence]:
    """Sets the prompts of the policy itself and leaves it with `prompt`."""
    prompt_id = policy.set_prompt(prompt)
    same = _chunk(policy, observation, prompt_id)

    def moved(what: str, changed: Observation, prompt_id: int, is_wanted: bool = True) -> Dependence:
        distance = np.abs(_chunk(policy, changed, prompt_id) - same).max()
        return Dependence(what, float(distance), is_wanted)

    found = [moved('nothing', observation, prompt_id, is_wanted=False)]
    found += [moved(what, changed, prompt_id) for what, changed in _other_pictures(observation)]
    for column, joint in enumerate(joints):
        # Both ways: a joint at the end of its range in the training data cannot go further in the prompt.
        ways = [moved(joint, _stepped(observation, column, sign), prompt_id) for sign in (-1, 1)]
        found.append(max(ways, key=lambda way: way.change))
    found.append(moved('the prompt', observation, policy.set_prompt(other_prompt)))
    policy.set_prompt(prompt)
    return found


def _chunk(policy: Policy, observation: Observation, prompt_id: int) -> NDArray[np.float32]:
    """Normalised, because robot units contain the state; the same noise every time."""
    policy.reset()
    return policy.infer(replace(observation, prompt_id=prompt_id)).model_actions


def _stepped(observation: Observation, column: int, sign: int) -> Observation:
    state = observation.state.copy()
    state[column] += sign * JOINT_STEP
    return replace(observation, state=state)


def _other_pictures(observation: Observation) -> Iterator[tuple[str, Observation]]:
    images = observation.images
    for slot, picture in images.items():
        yield f'one patch of {slot}', replace(observation, images=images | {slot: _with_patch(picture)})
    for one, other in combinations(images, 2):
        swapped: Mapping = images | {one: images[other], other: images[one]}
        yield f'{one} and {other} swapped', replace(observation, images=swapped)


def _with_patch(picture: NDArray[np.uint8] | CameraFrame) -> NDArray[np.uint8]:
    """The middle of the picture with its colours inverted."""
    picture = picture.rgb() if isinstance(picture, CameraFrame) else picture
    height, width, _ = picture.shape
    side = round(max(height, width) * PATCH)
    rows = slice((height - side) // 2, (height + side) // 2)
    columns = slice((width - side) // 2, (width + side) // 2)
    changed = picture.copy()
    changed[rows, columns] = 255 - changed[rows, columns]
    return changed
