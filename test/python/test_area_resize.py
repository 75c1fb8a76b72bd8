# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Pictures scaled as OpenCV's INTER_AREA scales them: by hand, and against the OpenCV that is installed."""

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flashrt_core import Error
from flashrt_core.area_resize import resize_area

# OpenCV may fuse multiplication and addition where it shrinks, as the processor allows.
FUSED = 1


def picture(seed: int, rows: int, columns: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (rows, columns, 3), np.uint8)


def opencv(image: np.ndarray, height: int, width: int) -> np.ndarray:
    return cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)


def largest_error(image: np.ndarray, height: int, width: int) -> int:
    ours, theirs = resize_area(image, height, width), opencv(image, height, width)
    assert ours.dtype == np.uint8
    return int(np.abs(ours.astype(int) - theirs).max())


@given(st.integers(0, 9), st.integers(2, 60), st.integers(2, 60), st.data())
@settings(max_examples=60, deadline=None)
def test_enlarging_is_opencvs_to_the_byte(seed, rows, columns, data):
    height, width = data.draw(st.integers(rows, 150)), data.draw(st.integers(columns, 150))
    assert largest_error(picture(seed, rows, columns), height, width) == 0


@given(st.integers(0, 9), st.integers(1, 60), st.integers(1, 60), st.data())
@settings(max_examples=60, deadline=None)
def test_shrinking_is_opencvs(seed, height, width, data):
    rows, columns = data.draw(st.integers(height, 150)), data.draw(st.integers(width, 150))
    assert largest_error(picture(seed, rows, columns), height, width) <= FUSED


@pytest.mark.parametrize(('rows', 'columns'), [(257, 257), (480, 640), (720, 1280), (360, 480)])
def test_cameras_shrink_as_with_opencv(rows, columns):
    scale = 256 / min(rows, columns)
    image = picture(0, rows, columns)
    assert largest_error(image, round(rows * scale), round(columns * scale)) <= FUSED


@pytest.mark.parametrize('factor', [2, 3, 4, 5])
def test_whole_factors_are_opencvs_to_the_byte(factor):
    assert largest_error(picture(1, 32 * factor, 40 * factor), 32, 40) == 0


# (1 + 2 + 3 + 5 + 2) >> 2 = 3; a factor of 3 has float32(1 / 9), and 40.5 goes to the even 40.
def test_whole_factors_by_hand():
    two = np.array([[1, 2], [3, 5]], np.uint8)[..., None]
    assert resize_area(two, 1, 1).item() == 3
    assert resize_area(np.full((3, 3, 1), 7, np.uint8), 1, 1).item() == 7
    four = np.full((4, 4, 1), 40, np.uint8)
    four[:2] = 41
    assert resize_area(four, 1, 1).item() == 40


# Three pixels become two: each takes one whole pixel and a half of the middle one.
def test_area_by_hand():
    line = np.array([10, 40, 100], np.uint8).reshape(1, 3, 1).repeat(3, axis=0)
    assert resize_area(line, 2, 2)[0, :, 0].tolist() == [20, 80]


def test_the_same_size_is_the_same_picture():
    image = picture(2, 5, 7)
    np.testing.assert_array_equal(resize_area(image, 5, 7), image)


def test_one_side_larger_and_one_smaller_is_refused():
    with pytest.raises(Error, match=r'a picture of 7x5 \(width x height\) cannot become 6x6'):
        resize_area(picture(3, 5, 7), 6, 6)
