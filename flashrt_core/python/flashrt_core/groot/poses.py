# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Poses of an end effector as rows of numbers, and what a pose relative to another one is in space."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error

# Position, then the first two rows of the rotation matrix, or a rotation vector (axis times angle, radians).
PoseFormat = Literal['XYZ_ROT6D', 'XYZ_ROTVEC']
POSE_COLUMNS: dict[PoseFormat, int] = {'XYZ_ROT6D': 9, 'XYZ_ROTVEC': 6}
# Rows shorter than this have no direction.
_LEAST_LENGTH = 1e-9


def compose(base: NDArray, relative: NDArray, pose_format: PoseFormat) -> NDArray[np.float64]:
    """[rows, columns] relative to the frame of `base` [columns] -> the same poses in the frame of the base.

    Error where six numbers of a rotation are no two directions.
    """
    base_rotation, rotations = (_rotation(pose[..., 3:], pose_format) for pose in (base, relative))
    positions = relative[..., :3] @ base_rotation.T + base[..., :3]
    rotated = base_rotation @ rotations
    if pose_format == 'XYZ_ROT6D':
        numbers = rotated[..., :2, :].reshape(*rotated.shape[:-2], 6)
    else:
        numbers = _rotation_vectors(rotated)
    return np.concatenate([positions, numbers], axis=-1)


def _rotation(numbers: NDArray, pose_format: PoseFormat) -> NDArray[np.float64]:
    """[..., 6] or [..., 3] -> matrices [..., 3, 3]."""
    numbers = np.asarray(numbers, np.float64)
    return _from_rows(numbers) if pose_format == 'XYZ_ROT6D' else _from_vectors(numbers)


def _from_rows(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Gram-Schmidt: row 0 keeps its direction, row 1 loses its share of row 0, row 2 is their product."""
    first = _unit(numbers[..., :3])
    second = numbers[..., 3:]
    second = _unit(second - (first * second).sum(axis=-1, keepdims=True) * first)
    return np.stack([first, second, np.cross(first, second)], axis=-2)


def _unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    if not (length > _LEAST_LENGTH).all():
        raise Error('the six numbers of a rotation hold no two directions: one is zero, or both are the same')
    return rows / length


def _from_vectors(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rodrigues' formula; sinc keeps it exact where the angle is 0."""
    angle = np.linalg.norm(vectors, axis=-1)[..., None, None]
    x, y, z = np.moveaxis(vectors, -1, 0)
    zero = np.zeros_like(x)
    cross = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=-1).reshape(*x.shape, 3, 3)
    sine = np.sinc(angle / np.pi)  # sin(angle) / angle
    half_sine = np.sinc(angle / (2 * np.pi))  # sin(angle / 2) / (angle / 2)
    return np.eye(3) + sine * cross + half_sine**2 / 2 * cross @ cross


def _rotation_vectors(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    """[..., 3, 3] -> [..., 3], angles from 0 to pi, by way of quaternions: they have no singular angle.

    At exactly pi both directions of the axis are the same rotation; one of them is given.
    """
    quaternions = _quaternions(matrices)
    quaternions = np.where(quaternions[..., :1] < 0, -quaternions, quaternions)
    real, imaginary = quaternions[..., :1], quaternions[..., 1:]
    length = np.linalg.norm(imaginary, axis=-1, keepdims=True)
    angle = 2 * np.arctan2(length, real)
    small = length < _LEAST_LENGTH
    return imaginary * np.where(small, 2.0, angle / np.where(small, 1.0, length))


def _quaternions(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    """[..., 4], real part first: from the largest of the four, which loses no digits (Shepperd)."""
    m = matrices
    trace = np.trace(m, axis1=-2, axis2=-1)
    squares = np.stack([trace, m[..., 0, 0], m[..., 1, 1], m[..., 2, 2]], axis=-1)
    a, b, c = m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]
    d, e, f = m[..., 1, 0] + m[..., 0, 1], m[..., 0, 2] + m[..., 2, 0], m[..., 2, 1] + m[..., 1, 2]
    # Row k is 4 q_k q.
    products = np.stack(
        [
            np.stack([1 + trace, a, b, c], axis=-1),
            np.stack([a, 1 + 2 * m[..., 0, 0] - trace, d, e], axis=-1),
            np.stack([b, d, 1 + 2 * m[..., 1, 1] - trace, f], axis=-1),
            np.stack([c, e, f, 1 + 2 * m[..., 2, 2] - trace], axis=-1),
        ],
        axis=-2,
    )
    largest = np.argmax(squares, axis=-1)[..., None, None]
    row = np.take_along_axis(products, largest, axis=-2)[..., 0, :]
    return row / np.linalg.norm(row, axis=-1, keepdims=True)
