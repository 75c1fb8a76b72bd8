# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What controls change: the views, the scene, the prompt, and where a cube goes."""

import numpy as np
import pytest

from flashrt_core.errors import Error
from flashrt_ros.tabletop.controls import CONTROLS, MOVED_M, moved_place, other_task, without_words
from flashrt_ros.tabletop.robot import SimulatedRobot
from flashrt_ros.tabletop.tasks import TASKS, Task
from flashrt_ros.tabletop.variation import EVALUATION, draw_layout

NOW = np.stack([np.full((2, 2, 3), 10, np.uint8), np.full((2, 2, 3), 20, np.uint8)])
FIRST = NOW + np.uint8(100)


@pytest.mark.parametrize(
    ('control', 'front', 'wrist'),
    [
        ('none', 10, 20),
        ('views_black', 0, 0),
        ('front_black', 0, 20),
        ('wrist_black', 10, 0),
        ('wrist_frozen', 10, 120),
        ('views_swapped', 20, 10),
    ],
)
def test_views(control: str, front: int, wrist: int):
    seen = CONTROLS[control].change_views(NOW, FIRST)
    assert seen.shape == NOW.shape
    assert [np.unique(view).tolist() for view in seen] == [[front], [wrist]]
    assert [np.unique(view).tolist() for view in NOW] == [[10], [20]]  # what was drawn stays


@pytest.mark.parametrize(
    ('control', 'shift'),
    [
        ('front_2cm_aside', [0, 0.02, 0]),
        ('front_5cm_aside', [0, 0.05, 0]),
        ('front_2cm_up', [0, 0, 0.02]),
        ('front_5cm_up', [0, 0, 0.05]),
    ],
)
def test_a_shifted_camera_reaches_the_scene(robot: SimulatedRobot, control: str, shift: list[float]):
    layout = draw_layout(3, EVALUATION)
    robot.reset(layout, TASKS[0])
    before = robot.world.model.camera('front').pos.copy()
    changed = CONTROLS[control].change_layout(layout)
    robot.reset(changed, TASKS[0])
    assert robot.world.model.camera('front').pos - before == pytest.approx(np.array(shift))
    assert not changed.camera_shifts[1].any()
    assert not layout.camera_shifts.any()


def test_dark_is_darker_than_any_scene():
    layouts = [draw_layout(scene, EVALUATION) for scene in range(50)]
    dark = {CONTROLS['dark'].change_layout(layout).light for layout in layouts}
    assert max(dark) < min(layout.light for layout in layouts) / 2


@pytest.mark.parametrize('task', TASKS, ids=lambda task: task.prompt())
def test_another_task_is_about_another_cube(task: Task):
    other = other_task(task)
    assert other.kind == task.kind
    assert other.block != task.block


def test_a_moved_cube_is_so_far_away_on_the_table_and_stays_there(robot: SimulatedRobot):
    for scene in range(40):
        robot.reset(draw_layout(scene, EVALUATION), TASKS[0])
        before, index = robot.world.cubes(), scene % 3
        place = moved_place(scene, before, index)
        robot.world.move_cube(index, place)
        robot.advance(5)
        after = robot.world.cubes()
        assert np.linalg.norm(after[index] - before[index]) == pytest.approx(MOVED_M, abs=1e-3)
        others = [other for other in range(3) if other != index]
        assert after[others] == pytest.approx(before[others], abs=1e-3)
        gap = np.linalg.norm(after[others, :2] - after[index, :2], axis=1).min()
        assert gap > 0.06, scene  # no cube stands in another
        assert (place == moved_place(scene, before, index)).all()


def test_a_cube_that_nowhere_could_go_is_named():
    cubes = np.array([[2.0, 2.0, 0.02], [0.3, 0.0, 0.02], [0.4, 0.1, 0.02]])
    with pytest.raises(Error, match='scene 5: no place'):
        moved_place(5, cubes, 0)


class Tokens:
    """Of a prompt; what matters here is which task they are asked for."""

    uses_state = True

    def tokens(self, task: str, normalised: np.ndarray) -> str:
        return f'<{task}|{normalised.tolist()}>'

    def longest(self, task: str, state_dim: int) -> str:
        return f'<{task}|{state_dim}>'


class Holder:
    prompt = Tokens()


def test_without_words_the_state_stays_and_the_policy_gets_its_prompt_back():
    policy = Holder()
    whole = policy.prompt
    with without_words(policy):
        assert policy.prompt.tokens('lift it', np.array([1.0])) == '<|[1.0]>'
        assert policy.prompt.longest('lift it', 7) == '<|7>'
        assert policy.prompt.uses_state
    assert policy.prompt is whole
