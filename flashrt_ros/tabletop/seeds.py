# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Which scenes are for training and which for evaluation: no scene is ever both.

A scene is one number. The first million is evaluation's; data set S >= 1 draws from the million that begins
at S million. The last one is for measuring scales: of it there are no demonstrations.
"""

import numpy as np

from flashrt_core.errors import Error

MILLION = 1_000_000
_FOR_SCALES = 1_000  # the last data set, which keeps a scene within 32 bits


def evaluation_scenes(count: int, first: int = 0) -> range:
    """Raises Error where they would be scenes of training."""
    scenes = range(first, first + count)
    if first < 0 or count < 0 or scenes.stop > MILLION:
        raise Error(f'scenes {first} to {scenes.stop - 1}: those of evaluation are 0 to {MILLION - 1}')
    return scenes


def training_scenes(dataset: int, episodes: int) -> range:
    """Raises Error for numbers that would leave the data set's own million."""
    if not 1 <= dataset < _FOR_SCALES:
        raise Error(
            f'the seed of a data set is {dataset}, it must be 1 to {_FOR_SCALES - 1}: 0 is evaluation, '
            f'{_FOR_SCALES} is for scales'
        )
    return _scenes(dataset, episodes)


def scenes_for_scales(episodes: int) -> range:
    """Of the kind that training has, neither trained on nor judged. Raises Error where they are too many."""
    return _scenes(_FOR_SCALES, episodes)


def _scenes(dataset: int, episodes: int) -> range:
    if not 1 <= episodes <= MILLION:
        raise Error(f'{episodes} episodes, a data set has 1 to {MILLION}')
    return range(dataset * MILLION, dataset * MILLION + episodes)


def generator(scene: int, purpose: str) -> np.random.Generator:
    """Random numbers of one scene for one purpose, independent of those for every other."""
    return np.random.default_rng([scene, *purpose.encode()])
