# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The success rules on sights made by hand: each rule, what just misses it, and what it must not forgive."""

from dataclasses import replace

import numpy as np
import pytest

from flashrt_ros.tabletop.judge import HOLD_S, Judge, Sight, Verdict, lifted, placed, stacked
from flashrt_ros.tabletop.tasks import Task

RED, GREEN, BLUE = 0, 1, 2
BEGIN = Sight(
    time_s=2.0,  # a task may be given at any time
    cubes=np.array([[0.30, -0.10, 0.02], [0.30, 0.00, 0.02], [0.30, 0.10, 0.02]]),
    tip=np.array([0.27, 0.0, 0.26]),
    tray=np.array([0.30, 0.28]),
)
LIFT_RED, PLACE_RED = Task('lift', 'red'), Task('place', 'red')
TOUCH_RED, STACK_RED_ON_BLUE = Task('touch', 'red'), Task('stack', 'red', 'blue')


def moved(cube: int, to: list[float], tip: list[float] = BEGIN.tip, sight: Sight = BEGIN) -> Sight:
    cubes = sight.cubes.copy()
    cubes[cube] = to
    return replace(sight, cubes=cubes, tip=np.array(tip))


IN_THE_AIR = moved(RED, [0.3, -0.1, 0.12], tip=[0.3, -0.1, 0.125])
IN_THE_TRAY = moved(RED, [0.31, 0.27, 0.025])
ON_BLUE = moved(RED, [0.305, 0.10, 0.06])


def judged(task: Task, *sights: Sight, hold_s: float = 1.0) -> Verdict:
    """Each sight lasts for hold_s."""
    judge, time_s = Judge(task, BEGIN), BEGIN.time_s
    for sight in sights:
        for _ in range(round(hold_s / 0.05) + 1):
            judge.see(replace(sight, time_s=time_s))
            time_s += 0.05
    return judge.verdict


@pytest.mark.parametrize(
    ('task', 'sight'),
    [
        (TOUCH_RED, replace(BEGIN, touched=frozenset({RED}))),
        (LIFT_RED, IN_THE_AIR),
        (PLACE_RED, IN_THE_TRAY),
        (STACK_RED_ON_BLUE, ON_BLUE),
    ],
)
def test_what_was_asked_for_succeeds_once_it_lasts(task: Task, sight: Sight):
    assert judged(task, BEGIN).state == 'running'
    assert judged(task, BEGIN, sight, hold_s=HOLD_S - 0.1).state == 'running'
    verdict = judged(task, BEGIN, sight)
    assert (verdict.state, verdict.acted_on) == ('succeeded', RED)
    assert verdict.time_s == pytest.approx(1.05 + (0.5 if task.kind == 'touch' else HOLD_S))


def test_a_hold_that_is_broken_begins_anew():
    verdict = judged(LIFT_RED, IN_THE_AIR, BEGIN, IN_THE_AIR, BEGIN, hold_s=HOLD_S - 0.1)
    assert verdict.state == 'running'


@pytest.mark.parametrize(
    ('task', 'sight', 'why'),
    [
        (TOUCH_RED, replace(BEGIN, touched=frozenset({GREEN})), 'touch: green instead of red'),
        (TOUCH_RED, replace(BEGIN, touched=frozenset({RED, GREEN})), 'touch: red, green instead of red'),
        (LIFT_RED, moved(BLUE, [0.3, 0.1, 0.12], tip=[0.3, 0.1, 0.12]), 'lift: blue instead of red'),
        (PLACE_RED, moved(GREEN, [0.3, 0.28, 0.025]), 'place: green instead of red'),
        (PLACE_RED, moved(GREEN, [0.27, 0.28, 0.025], sight=IN_THE_TRAY), 'place: red, green instead'),
        (STACK_RED_ON_BLUE, moved(RED, [0.3, 0.0, 0.06]), 'red on green instead of red on blue'),
        (STACK_RED_ON_BLUE, moved(BLUE, [0.3, -0.1, 0.06]), 'blue on red instead of red on blue'),
    ],
)
def test_another_cube_fails_in_words(task: Task, sight: Sight, why: str):
    verdict = judged(task, sight)
    assert verdict.state == 'failed'
    assert why in verdict.why


@pytest.mark.parametrize(
    ('task', 'done', 'cube', 'distance', 'is_fine'),
    [
        (TOUCH_RED, BEGIN, GREEN, 0.009, True),
        (TOUCH_RED, BEGIN, GREEN, 0.011, False),
        (TOUCH_RED, BEGIN, RED, 0.029, True),
        (TOUCH_RED, BEGIN, RED, 0.031, False),
        (LIFT_RED, IN_THE_AIR, GREEN, 0.019, True),
        (LIFT_RED, IN_THE_AIR, GREEN, 0.021, False),
        (PLACE_RED, IN_THE_TRAY, BLUE, 0.021, False),
        (STACK_RED_ON_BLUE, ON_BLUE, BLUE, 0.021, True),
        (STACK_RED_ON_BLUE, ON_BLUE, GREEN, 0.021, False),
    ],
)
def test_cubes_beside_must_stay(task: Task, done: Sight, cube: int, distance: float, is_fine: bool):
    place = done.cubes[cube] + [distance, 0.0, 0.0]
    sight = moved(cube, place, tip=done.tip, sight=done)
    if task.kind == 'touch':
        sight = replace(sight, touched=frozenset({RED}))
    verdict = judged(task, sight)
    assert verdict.state == ('succeeded' if is_fine else 'failed')
    assert is_fine or f'{distance:.3f} m' in verdict.why


def test_a_cube_under_the_fingers_is_touched_after_they_have_left_it():
    """As after a change of the prompt: what was touched for another task does not count for this one."""
    on_green = replace(BEGIN, tip=np.array([0.30, 0.0, 0.045]), touched=frozenset({GREEN}))
    on_red = replace(BEGIN, tip=np.array([0.30, -0.1, 0.045]), touched=frozenset({RED}))

    def verdict(*sights: Sight) -> Verdict:
        judge = Judge(TOUCH_RED, on_green)
        for step, sight in enumerate(sights):
            judge.see(replace(sight, time_s=BEGIN.time_s + 0.6 * step))
        return judge.verdict

    assert verdict(on_green, on_green, BEGIN, on_red, on_red).state == 'succeeded'
    assert verdict(on_green, BEGIN, on_green, on_green).why == 'touch: green instead of red'


def test_time_is_over():
    verdict = judged(TOUCH_RED, BEGIN, hold_s=6.0)
    assert (verdict.state, verdict.why) == ('failed', 'not done within 5 s')
    assert verdict.acted_on is None


def test_what_was_decided_stays_decided():
    assert judged(LIFT_RED, IN_THE_AIR, BEGIN, hold_s=8.0).state == 'succeeded'
    assert judged(TOUCH_RED, BEGIN, replace(BEGIN, touched=frozenset({RED})), hold_s=6.0).state == 'failed'


@pytest.mark.parametrize(
    ('rule', 'sight', 'near_miss'),
    [
        (lifted, IN_THE_AIR, moved(RED, [0.3, -0.1, 0.079], tip=[0.3, -0.1, 0.08])),
        (lifted, IN_THE_AIR, moved(RED, [0.3, -0.1, 0.12], tip=[0.3, -0.1, 0.19])),
        (placed, IN_THE_TRAY, moved(RED, [0.366, 0.28, 0.025])),
        (placed, IN_THE_TRAY, moved(RED, [0.31, 0.27, 0.025], tip=[0.31, 0.27, 0.05])),
        (placed, IN_THE_TRAY, moved(RED, [0.31, 0.27, 0.06])),
        (stacked, ON_BLUE, moved(RED, [0.326, 0.10, 0.06])),
        (stacked, ON_BLUE, moved(RED, [0.305, 0.10, 0.069])),
        (stacked, ON_BLUE, moved(RED, [0.305, 0.10, 0.06], tip=[0.305, 0.10, 0.07])),
    ],
)
def test_a_near_miss_is_a_miss(rule, sight: Sight, near_miss: Sight):
    assert rule(sight)
    assert not rule(near_miss)
