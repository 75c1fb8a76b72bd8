# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Pictures of a world from its cameras, drawn off screen by a GPU, or by Mesa on the processor."""

from collections.abc import Sequence
from typing import Self

import mujoco
import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error
from flashrt_ros.tabletop.variation import CAMERAS
from flashrt_ros.tabletop.world import World

SIDE_PX = 112
_MAX_GEOMS = 200


class Pictures:
    """Draws one world, again and again. Belongs to the thread that made it."""

    def __init__(self, world: World, cameras: Sequence[str] = CAMERAS, side_px: int = SIDE_PX) -> None:
        """Raises Error where nothing can be drawn."""
        self._world, self._side_px = world, side_px
        self._context = _egl_context(side_px)
        self._context.make_current()
        model = world.model
        model.vis.global_.offwidth = model.vis.global_.offheight = side_px
        self._scene = mujoco.MjvScene(model, _MAX_GEOMS)
        self._options, self._perturbation = mujoco.MjvOption(), mujoco.MjvPerturb()
        self._renderer = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._renderer)
        self._area = mujoco.MjrRect(0, 0, side_px, side_px)
        self._cameras = []
        for name in cameras:
            camera = mujoco.MjvCamera()
            camera.type, camera.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED.value, model.camera(name).id
            self._cameras.append(camera)

    def draw(self) -> NDArray[np.uint8]:
        """[cameras, side_px, side_px, 3] RGB, of this moment."""
        self._context.make_current()
        pixels = np.empty((len(self._cameras), self._side_px, self._side_px, 3), np.uint8)
        for view, camera in zip(pixels, self._cameras, strict=True):
            mujoco.mjv_updateScene(
                self._world.model,
                self._world.data,
                self._options,
                self._perturbation,
                camera,
                mujoco.mjtCatBit.mjCAT_ALL.value,
                self._scene,
            )
            mujoco.mjr_render(self._area, self._scene, self._renderer)
            mujoco.mjr_readPixels(view, None, self._area, self._renderer)
        return pixels[:, ::-1].copy()  # OpenGL begins at the bottom

    @property
    def renderer(self) -> str:
        """What draws, in its own words."""
        from OpenGL.GL import GL_RENDERER, glGetString  # MuJoCo brings it, and EGL has to come first

        self._context.make_current()
        return glGetString(GL_RENDERER).decode()

    def close(self) -> None:
        self._context.make_current()
        self._renderer.free()
        self._context.free()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _egl_context(side_px: int) -> object:
    # PyOpenGL looks for libEGL when it is imported, and fails in whatever way the missing part makes it.
    try:
        from mujoco.egl import GLContext

        return GLContext(side_px, side_px)
    except Exception as error:
        raise Error(
            f'no pictures can be drawn, EGL does not work ({error}); on Debian or Ubuntu: '
            'sudo apt-get install libegl1 libopengl0 libgl1-mesa-dri'
        ) from error
