# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The pictures of an observation as an engine takes them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flashrt_core.engine import Frame
from flashrt_core.errors import Error
from flashrt_core.pipeline import Camera
from flashrt_core.resize import model_range_to_bytes
from flashrt_core.types import CameraFrame, Observation

EngineImages = NDArray[np.uint8] | NDArray[np.float32] | Sequence[Frame]
# data, encoding, height, width and step to a frame of the engine
MakeFrame = Callable[..., Frame]


@dataclass(frozen=True, eq=False)
class ModelPictures:
    """Puts the pictures in the order of the model, whatever the order of their names."""

    cameras: tuple[Camera, ...]
    sizes: tuple[tuple[int, int], ...]  # height and width of every camera's picture in the model
    dtype: type[np.uint8] | type[np.float32]
    make_frame: MakeFrame | None = (
        None  # of engines that resize by themselves; None: pictures are resized here
    )

    def black(self) -> EngineImages:
        """Black pictures, to warm up."""
        if self.make_frame is not None:
            return [self.make_frame(bytes(1), 'mono8', 1, 1, 1) for _ in self.cameras]
        images, views = self._empty()
        for view in views:
            view.fill(0)
        return images

    def of(self, observation: Observation) -> EngineImages:
        """[cameras, height, width, 3]; of several sizes one behind the other; or frames."""
        if self.make_frame is not None:
            return [self._frame(camera.name, image) for camera, image in self._observed(observation)]
        return self._prepared(observation)[0]

    def seen(self, observation: Observation) -> NDArray[np.uint8]:
        """[cameras, height, width, 3] for people: floats as bytes, and smaller pictures end in black."""
        _, views = self._prepared(observation)
        height, width = (max(sides) for sides in zip(*self.sizes, strict=True))
        shown = np.zeros((len(views), height, width, 3), np.uint8)
        for place, view in zip(shown, views, strict=True):
            place[: view.shape[0], : view.shape[1]] = (
                view if view.dtype == np.uint8 else model_range_to_bytes(view)
            )
        return shown

    def _empty(self) -> tuple[NDArray, list[NDArray]]:
        """What the engine takes, and the part of it that each camera fills."""
        if len(set(self.sizes)) == 1:
            images = np.empty((len(self.sizes), *self.sizes[0], 3), self.dtype)
            return images, list(images)
        ends = np.cumsum([3 * height * width for height, width in self.sizes])
        images = np.empty(ends[-1], self.dtype)
        parts = np.split(images, ends[:-1])
        return images, [part.reshape(*size, 3) for part, size in zip(parts, self.sizes, strict=True)]

    def _prepared(self, observation: Observation) -> tuple[NDArray, list[NDArray]]:
        images, views = self._empty()
        for view, (camera, image) in zip(views, self._observed(observation), strict=True):
            prepared = camera(image.rgb() if isinstance(image, CameraFrame) else image)
            if prepared.shape != view.shape:
                raise Error(
                    f"infer: picture '{camera.name}' becomes {prepared.shape[1]}x{prepared.shape[0]} (width "
                    f'x height), the model was loaded for {view.shape[1]}x{view.shape[0]}: the camera has '
                    'another aspect ratio than the settings say'
                )
            view[:] = prepared
        return images, views

    def _observed(self, observation: Observation) -> Iterator[tuple[Camera, NDArray[np.uint8] | CameraFrame]]:
        """The cameras of the model in its order, and what the observation has of them."""
        names = [camera.name for camera in self.cameras]
        missing = [name for name in names if name not in observation.images]
        unknown = [name for name in observation.images if name not in names]
        if missing or unknown:
            raise Error(
                f'infer: cameras missing: {missing}, not known: {unknown}; the policy was loaded for {names}'
            )
        for camera in self.cameras:
            image = observation.images[camera.name]
            if not isinstance(image, np.ndarray | CameraFrame):
                raise Error(f"infer: picture '{camera.name}' is a {type(image).__name__}, needed an array")
            if isinstance(image, np.ndarray) and (
                image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or 0 in image.shape
            ):
                raise Error(
                    f"infer: picture '{camera.name}' is {image.dtype} {image.shape}, needed uint8 "
                    '(height, width, 3)'
                )
            yield camera, image

    def _frame(self, name: str, image: NDArray[np.uint8] | CameraFrame) -> Frame:
        assert self.make_frame is not None
        if not isinstance(image, CameraFrame):
            image = np.ascontiguousarray(image)
            height, width, _ = image.shape
            image = CameraFrame(image, 'rgb8', height, width, 3 * width)
        try:
            return self.make_frame(image.data, image.encoding, image.height, image.width, image.step)
        except Error as fault:
            raise Error(f"infer: picture '{name}': {fault}") from None
