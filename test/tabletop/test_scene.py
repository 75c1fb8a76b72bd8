# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Layouts, the arm and the pictures: what is drawn from a number is where it should be, and is seen."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flashrt_core.errors import Error
from flashrt_ros.tabletop import arm
from flashrt_ros.tabletop.pictures import SIDE_PX, Pictures
from flashrt_ros.tabletop.robot import SimulatedRobot
from flashrt_ros.tabletop.tasks import COLOURS, TASKS
from flashrt_ros.tabletop.variation import CAMERAS, EVALUATION, TRAINING, Variation, draw_layout

SCENES = st.integers(0, 1000 * 1_000_000)
TIPS = st.tuples(st.floats(0.15, 0.5), st.floats(-0.3, 0.3), st.floats(0.0, 0.3))


def reset(robot: SimulatedRobot, scene: int, variation: Variation = EVALUATION) -> SimulatedRobot:
    robot.reset(draw_layout(scene, variation), TASKS[0])
    return robot


@given(SCENES)
@settings(max_examples=60, deadline=None)
def test_layouts_are_within_their_bounds(scene: int):
    layout = draw_layout(scene, TRAINING)
    assert (layout.start >= arm.LOWER).all()
    assert (layout.start <= arm.UPPER).all()
    places = layout.cubes[:, :2]
    for index, place in enumerate(places):
        for other in places[index + 1 :]:
            assert np.linalg.norm(place - other) > 0.1
        assert np.linalg.norm(place - layout.tray) > 0.12  # beside the tray
    assert np.abs(layout.camera_shifts).max() <= TRAINING.front_shift_m
    assert np.abs(layout.camera_turns).max() <= TRAINING.front_turn_rad


def test_a_variation_changes_start_and_views_only():
    plain, varied = draw_layout(5, EVALUATION), draw_layout(5, TRAINING)
    for same in ('cubes', 'tray', 'light', 'light_place', 'table_tone', 'cube_tones'):
        assert (np.asarray(getattr(plain, same)) == getattr(varied, same)).all()
    assert not plain.camera_shifts.any()
    assert not plain.camera_turns.any()
    assert varied.camera_shifts.all()
    with pytest.raises(Error, match='home, any'):
        Variation('nowhere')


@given(TIPS)
@settings(max_examples=60, deadline=None)
def test_joint_angles_bring_the_tip_there(robot: SimulatedRobot, tip: tuple[float, float, float]):
    """The closed form against the physics' own kinematics."""
    place = arm.within_reach(tip)
    layout = draw_layout(0, EVALUATION)
    robot.world.reset(type(layout)(**{**vars(layout), 'start_tip': place, 'start_offset': np.zeros(6)}))
    assert robot.world.tip() == pytest.approx(place, abs=1e-9)
    pointing = robot.world.data.site('tip').xmat.reshape(3, 3)
    assert pointing == pytest.approx(np.eye(3), abs=1e-9)


def test_a_place_that_is_too_far_is_refused_and_the_nearest_is_not():
    far = [0.6, 0.3, 0.1]
    with pytest.raises(Error, match=r'0\.600, 0\.300, 0\.100'):
        arm.joint_angles(far)
    assert np.isfinite(arm.joint_angles(arm.within_reach(far))).all()
    assert arm.within_reach([0.3, 0.0, 0.1]) == pytest.approx([0.3, 0.0, 0.1])


def test_limits_are_those_of_the_scene(robot: SimulatedRobot):
    model = robot.world.model
    ranges = np.array([model.joint(name).range for name in arm.JOINTS])
    assert (ranges[:, 0] == arm.LOWER).all()
    assert (ranges[:, 1] == arm.UPPER).all()
    assert [model.actuator(index).name for index in range(model.nu)] == list(arm.JOINTS)


def test_the_same_scene_moves_and_looks_the_same(robot: SimulatedRobot):
    def run(scene: int) -> tuple[np.ndarray, np.ndarray]:
        reset(robot, scene, TRAINING)
        robot.play_row(robot.target + 0.05)
        return robot.world.data.qpos.copy(), pictures.draw()

    with Pictures(robot.world) as pictures:
        (first, first_pictures), _, (again, again_pictures) = run(3), run(4), run(3)
    assert (first == again).all()
    assert (first_pictures == again_pictures).all()


def test_a_world_at_rest_stays_at_rest(robot: SimulatedRobot):
    reset(robot, 11)
    before = robot.world.cubes()
    robot.advance(100)
    assert robot.world.cubes() == pytest.approx(before, abs=1e-3)
    assert robot.world.measured() == pytest.approx(robot.target, abs=2e-3)


@pytest.mark.parametrize('scene', range(6))
def test_every_cube_is_in_the_front_picture_however_the_camera_stands(robot: SimulatedRobot, scene: int):
    """Red is where red is more than twice any other part, and so on; the arm hides none in this pose."""
    reset(robot, scene, Variation('home', 0.03, 0.03))
    with Pictures(robot.world) as pictures:
        front = pictures.draw()[CAMERAS.index('front')].astype(int)
    assert front.shape == (SIDE_PX, SIDE_PX, 3)
    for index, colour in enumerate(COLOURS):
        others = np.delete(front, index, axis=2).max(axis=2)
        assert (front[..., index] > 2 * others).sum() > 15, colour


def test_pictures_show_what_moved_and_which_camera(robot: SimulatedRobot):
    reset(robot, 2)
    with Pictures(robot.world) as pictures:
        before = pictures.draw()
        assert before.shape == (len(CAMERAS), SIDE_PX, SIDE_PX, 3)
        assert (before == pictures.draw()).all()
        robot.play_row(robot.target + [0.2, 0, 0, 0, 0, 0, 0])
        robot.advance(50)
        after = pictures.draw()
    assert not (before[0] == before[1]).all()
    for view in range(len(CAMERAS)):
        assert (before[view] != after[view]).any(axis=-1).mean() > 0.02


def test_without_egl_the_package_to_install_is_named(robot: SimulatedRobot, monkeypatch: pytest.MonkeyPatch):
    import mujoco.egl

    def fail(*_: object) -> None:
        raise RuntimeError('no display')

    monkeypatch.setattr(mujoco.egl, 'GLContext', fail)
    with pytest.raises(Error, match=r'no display.*apt-get install libegl1'):
        Pictures(robot.world)
