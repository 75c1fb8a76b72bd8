# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Scales for recipes with quantised activations, from what the policy sees when it acts in float32.

The scenes are of the kind that training has and of no data set that anybody trains on: neither judged ones
nor seen ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, cast

import numpy as np
from safetensors.numpy import save_file

from flashrt_core.calibrate import (
    CalibrationSettings,
    Estimator,
    calibrate_kept,
    calibrate_policy,
    load_to_calibrate,
)
from flashrt_core.call_groups import linears_of
from flashrt_core.errors import Error
from flashrt_core.recipes import Recipe
from flashrt_core.types import Observation
from flashrt_ros.load import policy_settings
from flashrt_ros.tabletop.episode import EpisodePlayer, Values, parameters_for
from flashrt_ros.tabletop.evaluation import Assignment, Condition
from flashrt_ros.tabletop.seeds import scenes_for_scales
from flashrt_ros.tabletop.tasks import TASKS
from flashrt_ros.tabletop.variation import TRAINING

if TYPE_CHECKING:
    from flashrt_core.policy import FlashPolicy

EVERY = 8  # of the observations of an episode, so that they differ
IN_FLOAT = Condition('f32', '', 0, 'skip', 0.0, 'none')


@dataclass(frozen=True, eq=False)
class Seen:
    """What the policy was asked and saw."""

    name: str
    prompt: str
    observation: Observation


def look_around(player: EpisodePlayer, episodes: int) -> Iterator[list[Seen]]:
    """Per episode what was seen in it; every sentence comes in turn, and nobody is judged."""
    for count, scene in enumerate(scenes_for_scales(episodes)):
        seen: list[Seen] = []
        task = TASKS[count * 7 % len(TASKS)]  # 7 shares no divisor with their number: all kinds come early

        def watch(prompt: str, observation: Observation, seen: list[Seen] = seen, scene: int = scene) -> None:
            seen.append(Seen(f'scene {scene}, observation {len(seen)}', prompt, observation))

        assignment = Assignment(scene, task, count // len(TASKS) % 2)
        player.play(IN_FLOAT, assignment, TRAINING, watch)
        yield seen[::EVERY]


def calibrate(
    condition: Condition, estimators: Sequence[str], values: Values, seen: Sequence[Seen], folder: Path
) -> dict[tuple[str, str], tuple[str, str]]:
    """By recipe and estimator a file of scales in the folder, and what they were measured on."""
    paths = {
        (condition.recipe, estimator): str(folder / f'{Path(condition.recipe).stem}-{estimator}.json')
        for estimator in estimators
    }
    named = replace(condition, estimator=estimators[0])
    settings = policy_settings(parameters_for(named, values, paths))
    made = {}
    with TemporaryDirectory() as kept:
        kept_in = Path(kept) / 'observed'
        for place, ((recipe, estimator), path) in enumerate(paths.items()):
            how = CalibrationSettings(recipe, cast(Estimator, estimator))
            if place == 0:
                policy = load_to_calibrate(settings, how)
                calibration = calibrate_policy(policy, _asked(policy, seen), how, kept_in)
            else:
                calibration = calibrate_kept(kept_in, how)
            calibration.save(path)
            made[recipe, estimator] = path, calibration.origin
    return made


def needs_scales(recipe: str, policy: 'FlashPolicy') -> bool:
    """policy: of the checkpoint, in whatever recipe."""
    calls = [linear.name for linear in linears_of(policy.engine.plan_text())]
    return Recipe.read(recipe).needs_calibration(calls)


def write_samples(policy: 'FlashPolicy', seen: Sequence[Seen], path: Path) -> None:
    """What was seen as inputs of the model, for `flashrt calibrate` and `flashrt sensitivity`."""
    inputs = [policy.model_input(observation) for _, observation in _asked(policy, seen)]
    if inputs[0].model_state is not None or not isinstance(inputs[0].images, np.ndarray):
        raise Error('the inputs of the model can be written for Pi0.5 with cameras.max_image_bytes 0 alone')
    tokens = np.zeros((len(inputs), policy.spec.prompt_capacity), np.int32)
    mask = np.zeros(tokens.shape, np.uint8)
    for row, valid, given in zip(tokens, mask, inputs, strict=True):
        row[: len(given.tokens)], valid[: len(given.tokens)] = given.tokens, 1
    images = np.stack([given.images for given in inputs], axis=1)  # [cameras, batch, side, side, 3]
    save_file(
        {
            'in.images_u8': np.ascontiguousarray(images),
            'in.image_masks': np.ones(images.shape[:2], np.uint8),
            'in.token_ids': tokens,
            'in.token_mask': mask,
            'in.noise': np.stack([given.noise for given in inputs]),
            'in.num_steps': np.array([policy.engine.steps], np.int32),
        },
        path,
    )


def _asked(policy: 'FlashPolicy', seen: Sequence[Seen]) -> Iterator[tuple[str, Observation]]:
    for one in seen:
        prompt_id = policy.set_prompt(one.prompt)
        yield one.name, replace(one.observation, prompt_id=prompt_id)
