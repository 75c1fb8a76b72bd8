# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Pictures of any size on their way to a GR00T model."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flashrt_core import Error
from flashrt_core.golden import check_folder
from flashrt_core.groot.pictures import (
    CropCentre,
    FitTokens,
    PadToSquare,
    ShortestSide,
    picture_steps,
    size_after,
)

FOLDER = Path(__file__).parents[1] / 'golden' / 'groot_n16_tiny' / 'preproc'


def prepared(image: np.ndarray, letterbox: bool) -> np.ndarray:
    for step in picture_steps(letterbox, 256, 0.95):
        image = step(image)
    return image


def test_every_stage_is_the_originals_to_the_byte():
    report = check_folder(FOLDER)
    assert report.passed()
    assert {item.case for item in report.comparisons} == {'image_00', 'image_01', 'image_02'}
    assert {item.bound for item in report.comparisons} == {0.0}


@given(st.integers(1, 700), st.integers(1, 700))
@settings(max_examples=30, deadline=None)
def test_any_picture_becomes_the_square_of_the_model(rows, columns):
    image = np.full((rows, columns, 3), 90, np.uint8)
    found = prepared(image, letterbox=True)
    assert (found.dtype, found.shape) == (np.uint8, (252, 252, 3))
    assert found.flags.c_contiguous
    assert found.max() > 0


@given(st.integers(20, 500), st.integers(20, 500), st.booleans())
@settings(max_examples=30, deadline=None)
def test_the_size_is_known_before_the_picture(rows, columns, letterbox):
    found = prepared(np.zeros((rows, columns, 3), np.uint8), letterbox)
    assert size_after(picture_steps(letterbox, 256, 0.95), rows, columns) == found.shape[:2]
    assert found.shape[0] % 28 == found.shape[1] % 28 == 0


# The sizes of a 640x480 camera before pictures got letterboxes: 341x256, 323x243, 340x256, 336x252.
def test_sizes_without_letterbox():
    sizes = [(480, 640)]
    for step in picture_steps(False, 256, 0.95):
        sizes.append(step.size(*sizes[-1]))
    assert sizes[1:] == [(256, 341), (243, 323), (256, 340), (252, 336)]


def test_bars_are_black_and_an_odd_pixel_lies_behind():
    padded = PadToSquare()(np.full((3, 6, 3), 9, np.uint8))
    assert padded[:, 0, 0].tolist() == [0, 9, 9, 9, 0, 0]
    padded = PadToSquare()(np.full((4, 1, 3), 9, np.uint8))
    assert padded[0, :, 0].tolist() == [0, 9, 0, 0]


def test_the_centre_is_kept():
    image = np.arange(6 * 7 * 3, dtype=np.uint8).reshape(6, 7, 3)
    np.testing.assert_array_equal(CropCentre(0.5)(image), image[1:4, 2:5])
    assert CropCentre(0.95).size(256, 341) == (243, 323)


def test_halves_are_rounded_to_even():
    assert ShortestSide(256).size(512, 513) == (256, 256)
    assert FitTokens().size(42, 70) == (56, 56)


def test_a_picture_that_scales_to_its_own_size_stays():
    image = np.random.default_rng(0).integers(0, 256, (256, 300, 3), np.uint8)
    np.testing.assert_array_equal(ShortestSide(256)(image), image)


def test_a_stripe_without_letterbox_is_refused():
    with pytest.raises(Error, match=r'would become 19208x252; the model takes 3136 to 3211264 pixels'):
        size_after(picture_steps(False, 256, 0.95), 10, 750)
