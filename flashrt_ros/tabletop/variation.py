# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What differs between scenes: where things stand, how they look, how the arm begins, where the cameras are.

A layout holds numbers only and follows from the number of the scene; world.py puts it into the physics.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error
from flashrt_ros.tabletop.arm import LOWER, OPEN_M, UPPER, joint_angles, within_reach
from flashrt_ros.tabletop.seeds import generator
from flashrt_ros.tabletop.tasks import COLOURS

CUBE_M = 0.04  # edge
TABLE_TONE = np.array([0.72, 0.68, 0.60])
FRONT, WRIST = 'front', 'wrist'
CAMERAS = (FRONT, WRIST)
CAMERA_RATE_HZ = 10.0

_LEAST_GAP_M = 0.10  # between the middles of two cubes
_HOME_TIP = np.array([0.27, 0.0, 0.26])
_BRIGHT, _DARK = 0.85, 0.12  # of a cube, in its own colour and in the others


@dataclass(frozen=True)
class Variation:
    """How far scenes may differ, beyond places and looks, which always do."""

    start: str  # home: above the table; any: also elsewhere, or resting on a cube
    front_shift_m: float = 0.0  # the camera in each direction, at most
    front_turn_rad: float = 0.0  # about each axis
    wrist_shift_m: float = 0.0
    wrist_turn_rad: float = 0.0

    def __post_init__(self) -> None:
        if self.start not in ('home', 'any'):
            raise Error(f"the start is '{self.start}', possible: home, any")


EVALUATION = Variation('home')
TRAINING = Variation('any', 0.03, 0.03, 0.004, 0.02)


@dataclass(frozen=True, eq=False)
class Layout:
    """Everything that a reset sets; lengths in metres, angles in radians."""

    cubes: NDArray[np.float64]  # [3, 3] x, y and yaw
    tray: NDArray[np.float64]  # [2] x, y
    light: float  # of the key light, 0 to 1
    light_place: NDArray[np.float64]  # [3]
    table_tone: NDArray[np.float64]  # [3] red, green, blue
    cube_tones: NDArray[np.float64]  # [3, 3]
    start_tip: NDArray[np.float64]  # [3]
    start_offset: NDArray[np.float64]  # [6] joints, on top of the angles for that tip
    start_gripper: float
    camera_shifts: NDArray[np.float64]  # [cameras, 3] along the axes of the table
    camera_turns: NDArray[np.float64]  # [cameras, 3] about the axes of the camera

    @property
    def start(self) -> NDArray[np.float64]:
        """[joints]"""
        angles = joint_angles(self.start_tip) + self.start_offset
        return np.clip([*angles, self.start_gripper], LOWER, UPPER)


def draw_layout(scene: int, variation: Variation) -> Layout:
    """Where cubes stand and how things look is the same for every variation."""
    places, looks = generator(scene, 'places'), generator(scene, 'looks')
    cubes = _cubes(places)
    tip, offset, gripper = _start(generator(scene, 'start'), cubes, variation.start == 'any')
    views = generator(scene, 'views')
    shifts = np.array([[variation.front_shift_m], [variation.wrist_shift_m]])
    turns = np.array([[variation.front_turn_rad], [variation.wrist_turn_rad]])
    return Layout(
        cubes=cubes,
        tray=np.array([0.30, 0.28]) + places.uniform([-0.02, -0.015], [0.02, 0.015]),
        light=looks.uniform(0.4, 0.7),
        light_place=np.array([0.4, -0.4, 1.4]) + looks.uniform([-0.3, -0.4, 0.0], [0.3, 0.4, 0.0]),
        table_tone=TABLE_TONE * looks.uniform(0.8, 1.15),
        cube_tones=_cube_tones(looks),
        start_tip=tip,
        start_offset=offset,
        start_gripper=gripper,
        camera_shifts=shifts * views.uniform(-1, 1, (2, 3)),
        camera_turns=turns * views.uniform(-1, 1, (2, 3)),
    )


def _cubes(random: np.random.Generator) -> NDArray[np.float64]:
    """[3, 3] on the part of the table that the arm reaches, apart from each other and from the tray."""
    places: list[NDArray[np.float64]] = []
    while len(places) < len(COLOURS):
        place = random.uniform([0.25, -0.20, -0.35], [0.44, 0.13, 0.35])
        if all(np.linalg.norm(place[:2] - other[:2]) > _LEAST_GAP_M for other in places):
            places.append(place)
    return np.array(places)


def _cube_tones(random: np.random.Generator) -> NDArray[np.float64]:
    pure = np.where(np.eye(len(COLOURS), dtype=bool), _BRIGHT, _DARK)
    return np.clip(pure + random.uniform(-0.06, 0.06, pure.shape), 0.0, 1.0)


def _start(
    random: np.random.Generator, cubes: NDArray[np.float64], is_anywhere: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Tip, offset of the joints, gripper."""
    offset = random.normal(0.0, 0.06, 6)
    gripper = float(random.choice([0.0, OPEN_M, random.uniform(0.0, OPEN_M)]))
    lot = random.uniform()
    if not is_anywhere or lot < 0.5:
        return _HOME_TIP + random.normal(0.0, 0.02, 3), offset, gripper
    if lot < 0.85:
        tip = random.uniform([0.22, -0.22, 0.075], [0.45, 0.28, 0.28])
        return within_reach(tip), offset, gripper
    # As after a touch: the closed fingers a little above a cube.
    above = cubes[random.integers(len(COLOURS)), :2] + random.normal(0.0, 0.006, 2)
    return np.array([*above, CUBE_M + 0.008]), 0.2 * offset, 0.0
