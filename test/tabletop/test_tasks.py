# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Tasks and their sentences, seeds and shares: small rules on plain values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_core.errors import Error
from flashrt_ros.tabletop.proportion import Proportion
from flashrt_ros.tabletop.seeds import (
    MILLION,
    evaluation_scenes,
    generator,
    scenes_for_scales,
    training_scenes,
)
from flashrt_ros.tabletop.tasks import PROMPTS, TASKS, WORDINGS, Task, read_task


def test_every_sentence_leads_back_to_its_task():
    for task in TASKS:
        for wording in range(len(WORDINGS[task.kind])):
            assert read_task(task.prompt(wording)) == task
    assert len(TASKS) == 3 * 3 + 6
    assert len(PROMPTS) == len(set(PROMPTS)) == 2 * len(TASKS)


@pytest.mark.parametrize('prompt', ['', 'lift the pink block', 'Lift the red block', 'lift the red block '])
def test_another_sentence_is_refused_with_those_that_exist(prompt: str):
    with pytest.raises(Error, match='lift the red block; '):
        read_task(prompt)


@pytest.mark.parametrize(
    ('words', 'why'),
    [
        (('push', 'red'), 'no kind of task'),
        (('lift', 'pink'), "no 'pink' block"),
        (('stack', 'red', 'red'), 'the base is'),
        (('stack', 'red'), 'the base is'),
        (('lift', 'red', 'blue'), 'the base is'),
    ],
)
def test_a_task_that_cannot_be(words: tuple[str, ...], why: str):
    with pytest.raises(Error, match=why):
        Task(*words)


@given(st.integers(1, 999), st.integers(1, MILLION), st.integers(1, 999), st.integers(0, MILLION))
def test_no_scene_is_in_two_sets(dataset: int, episodes: int, other: int, evaluated: int):
    training = training_scenes(dataset, episodes)
    assert evaluation_scenes(evaluated).stop <= training.start
    assert training.stop <= scenes_for_scales(episodes).start
    others = training_scenes(other, episodes)
    assert dataset == other or training.start >= others.stop or others.start >= training.stop


def test_scenes_that_would_be_of_the_other_kind_are_refused():
    for dataset, episodes in ((0, 1), (-1, 1), (1000, 1), (1, 0), (1, MILLION + 1)):
        with pytest.raises(Error):
            training_scenes(dataset, episodes)
    for count, first in ((2, MILLION - 1), (1, -1), (-1, 5), (1, MILLION)):
        with pytest.raises(Error, match='0 to 999999'):
            evaluation_scenes(count, first)


def test_random_numbers_of_a_scene_are_one_stream_per_purpose():
    first = generator(7, 'looks').uniform(size=4)
    assert (first == generator(7, 'looks').uniform(size=4)).all()
    for scene, purpose in ((7, 'places'), (8, 'looks')):
        assert not (first == generator(scene, purpose).uniform(size=4)).any()


@pytest.mark.parametrize(
    ('successes', 'tried', 'interval'),
    [
        # Wilson score intervals as published for such counts; 0 and all have closed forms: z2 / (n + z2).
        (0, 10, (0.0, 3.8415 / 13.8415)),
        (10, 10, (10 / 13.8415, 1.0)),
        (8, 10, (0.4902, 0.9433)),
        (0, 0, (0.0, 1.0)),
    ],
)
def test_interval_of_a_share(successes: int, tried: int, interval: tuple[float, float]):
    assert Proportion(successes, tried).interval() == pytest.approx(interval, abs=1e-4)


@given(st.integers(0, 300), st.integers(0, 300))
def test_interval_holds_the_share(successes: int, failures: int):
    tried = successes + failures
    low, high = Proportion(successes, tried).interval()
    assert 0 <= low <= high <= 1
    if tried:
        assert low - 1e-12 <= successes / tried <= high + 1e-12
