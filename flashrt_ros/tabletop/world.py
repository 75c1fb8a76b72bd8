# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The physics of the tabletop: a layout put into MuJoCo, steps under joint targets, and what stands where."""

from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error
from flashrt_ros.tabletop.arm import JOINTS
from flashrt_ros.tabletop.tasks import COLOURS
from flashrt_ros.tabletop.variation import CAMERAS, CUBE_M, Layout

try:
    import mujoco
except ImportError as error:
    raise Error(
        f'the tabletop needs MuJoCo, which cannot be imported ({error}); install it with: pip install mujoco'
    ) from error

SCENE = Path(__file__).with_name('scene.xml')
STEP_S = 0.0025


@cache
def _scene_text() -> str:
    return SCENE.read_text(encoding='utf-8')


class World:
    """One table. Time passes with `step` alone."""

    def __init__(self) -> None:
        self.model = mujoco.MjModel.from_xml_string(_scene_text())
        self.data = mujoco.MjData(self.model)
        model = self.model
        self._joints = [model.joint(name).qposadr[0] for name in JOINTS]
        self._right_finger = model.joint('right_finger').qposadr[0]
        self._cubes = [model.joint(colour).qposadr[0] for colour in COLOURS]  # 3 of place, 4 of a quaternion
        self._cube_geoms = {model.geom(colour).id: index for index, colour in enumerate(COLOURS)}
        self._fingers = {model.geom(f'{side}_finger').id for side in ('left', 'right')}
        self._tip = model.site('tip').id
        self._tray = model.body('tray').id
        self._cameras = [model.camera(name).id for name in CAMERAS]
        self._camera_places = model.cam_pos[self._cameras].copy()
        self._camera_quaternions = model.cam_quat[self._cameras].copy()
        self._steps = 0

    def reset(self, layout: Layout) -> None:
        """Everything as the layout says, at rest, at time 0."""
        model, data = self.model, self.data
        mujoco.mj_resetData(model, data)
        model.body_pos[self._tray, :2] = layout.tray
        light = model.light('key').id
        model.light_diffuse[light], model.light_pos[light] = layout.light, layout.light_place
        model.geom('table').rgba[:3] = layout.table_tone
        for geom, index in self._cube_geoms.items():
            model.geom_rgba[geom, :3] = layout.cube_tones[index]
        model.cam_pos[self._cameras] = self._camera_places + layout.camera_shifts
        for camera, straight, turn in zip(
            self._cameras, self._camera_quaternions, layout.camera_turns, strict=True
        ):
            mujoco.mju_mulQuat(model.cam_quat[camera], straight, _quaternion(turn))
        for address, (x, y, yaw) in zip(self._cubes, layout.cubes, strict=True):
            data.qpos[address : address + 7] = [x, y, CUBE_M / 2, *_quaternion(np.array([0.0, 0.0, yaw]))]
        data.qpos[self._joints] = data.ctrl[:] = layout.start
        data.qpos[self._right_finger] = layout.start[-1]
        mujoco.mj_forward(model, data)
        self._steps = 0

    def step(self, target: NDArray[np.float64]) -> None:
        """target: [joints], what the servos hold for STEP_S."""
        self.data.ctrl[:] = target
        mujoco.mj_step(self.model, self.data)
        self._steps += 1

    @property
    def time_s(self) -> float:
        return self._steps * STEP_S

    def move_cube(self, index: int, place: NDArray[np.float64]) -> None:
        """place: [2] x and y on the table, where the cube is from now on, in no time."""
        address = self._cubes[index]
        self.data.qpos[address : address + 2] = place
        mujoco.mj_forward(self.model, self.data)

    def measured(self) -> NDArray[np.float64]:
        """[joints], a copy."""
        return self.data.qpos[self._joints]

    def cubes(self) -> NDArray[np.float64]:
        """[3, 3] the middle of each cube."""
        return np.array([self.data.qpos[address : address + 3] for address in self._cubes])

    def tray(self) -> NDArray[np.float64]:
        """[2] its middle."""
        return self.model.body_pos[self._tray, :2].copy()

    def tip(self) -> NDArray[np.float64]:
        """[3] between the ends of the fingers, as of the last step."""
        return self.data.site_xpos[self._tip].copy()

    def touched(self) -> set[int]:
        """The cubes that a finger is in contact with."""
        pairs = self.data.contact.geom  # [contacts, 2]
        touched = set()
        for first, second in pairs:
            for cube, finger in ((first, second), (second, first)):
                if finger in self._fingers and cube in self._cube_geoms:
                    touched.add(self._cube_geoms[cube])
        return touched


def _quaternion(turn: NDArray[np.float64]) -> NDArray[np.float64]:
    """[4] of a turn about an axis, by its length in radians."""
    quaternion = np.zeros(4)
    angle = np.linalg.norm(turn)
    axis = turn / angle if angle else np.array([1.0, 0.0, 0.0])
    mujoco.mju_axisAngle2Quat(quaternion, axis, angle)
    return quaternion
