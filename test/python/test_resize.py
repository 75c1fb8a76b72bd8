# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Resizing: numbers by hand, every reference array, and properties at free sizes."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from flashrt_core import Error
from flashrt_core.resize import (
    Resize,
    Rotate,
    float_to_bytes,
    letterbox,
    model_range_to_bytes,
    to_model_range,
    unit_to_model_range,
)

SIZES = st.integers(1, 60)


def pictures(height, width):
    """The formula of the reference inputs."""
    y, x, c = np.mgrid[:height, :width, :3]
    return ((3 * x + 5 * y + 17 * c + 2 * ((x * y) % 97)) % 256).astype(np.uint8)


def triangle(x):
    return max(0.0, 1 - abs(x))


def cubic(x):
    x = abs(x)
    if x < 1:
        return 1.5 * x**3 - 2.5 * x**2 + 1
    return -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2 if x < 2 else 0.0


def pillow_axis(line, outputs, kernel=triangle, reach=1):
    """One line of pixels by the formula of Pillow's Resample.c, one pixel at a time in whole numbers."""
    inputs = len(line)
    if inputs == outputs:
        return list(line)
    scale = inputs / outputs
    stretch = max(1.0, scale)
    width = reach * stretch
    result = []
    for output in range(outputs):
        centre = (output + 0.5) * scale
        first = max(0, int(centre - width + 0.5))
        last = min(inputs, int(centre + width + 0.5))
        weights = [kernel((tap - centre + 0.5) * (1 / stretch)) for tap in range(first, last)]
        total = 0.0
        for weight in weights:
            total += weight
        fixed = [int(weight / total * 2**22 + (0.5 if weight >= 0 else -0.5)) for weight in weights]
        value = sum(int(line[first + k]) * weight for k, weight in enumerate(fixed)) + 2**21
        result.append(min(255, max(0, value >> 22)))
    return result


# 4 -> 2: support 2, so output 0 sees pixels 0, 1, 2 with weights 3/4, 3/4, 1/4 of 7/4.
def test_pillow_by_hand():
    line = np.array([0, 70, 140, 210], np.uint8)
    image = np.repeat(line[None, :, None], 3, axis=2)
    weights = [math.floor(3 / 7 * 2**22 + 0.5), math.floor(1 / 7 * 2**22 + 0.5)]
    first = (70 * weights[0] + 140 * weights[1] + 2**21) >> 22
    last = (70 * weights[1] + (140 + 210) * weights[0] + 2**21) >> 22
    assert (first, last) == (50, 160)
    assert Resize(1, 2, 'pil', 'stretch')(image)[0, :, 0].tolist() == [50, 160]


# 2 -> 4 at half-pixel centres: sources -0.25 (held at 0), 0.25, 0.75, 1.25 (held at the last pixel).
def test_bilinear_by_hand():
    image = np.repeat(np.array([0, 200], np.uint8)[None, :, None], 3, axis=2)
    floats = Resize(1, 4, 'torch', 'stretch')(image)
    np.testing.assert_allclose(floats[0, :, 0] * 255, [0, 50, 150, 200], atol=1e-4)
    assert Resize(1, 4, 'torch_u8', 'stretch')(image)[0, :, 0].tolist() == [0, 50, 150, 200]


# Shrinking by 2 without antialiasing looks at two pixels only: the mean of pixels 0, 1 and of 2, 3.
def test_bilinear_is_not_antialiased():
    image = np.repeat(np.array([0, 70, 140, 210], np.uint8)[None, :, None], 3, axis=2)
    np.testing.assert_allclose(Resize(1, 2, 'torch', 'stretch')(image)[0, :, 0] * 255, [35, 175], atol=1e-4)


@pytest.mark.parametrize('name', ['resize_openpi', 'resize_lerobot'])
def test_reference_arrays(golden, name):
    arithmetic = {
        'pil_u8': ('pil', 0),
        'bilinear_u8': ('torch_u8', 0),
        'antialias_u8': ('jax', 1),  # values on exact halves depend on the order of float32 sums
        'antialias_f32': ('jax', 1e-4),
        'bilinear_f32': ('torch', 1e-4),
    }
    expected = load_file(golden / 'preprocess' / f'{name}.safetensors')
    assert expected
    for key, want in expected.items():
        kind, _, sizes = key.partition('.')
        (height, width), (rows, columns) = (map(int, size.split('x')) for size in sizes.split('_to_'))
        image = pictures(height, width)
        if kind == 'antialias_f32':
            image = to_model_range(image)
        rule, bound = arithmetic[kind]
        got = Resize(rows, columns, rule)(image)
        assert got.dtype == want.dtype
        difference = np.abs(got.astype(np.float64) - want)
        assert difference.max() <= bound, f'{key}: {difference.max()} at {difference.argmax()}'


def test_geometry_of_reference_cases(golden):
    cases = json.loads((golden / 'preprocess' / 'resize_cases.json').read_text())['cases']
    for case in cases:
        place = letterbox(case['h'], case['w'], case['H'], case['W'])
        assert (place.height, place.width) == (case['inner_h'], case['inner_w'])
        assert (place.top, place.left) == (case['pad_top'], case['pad_left'])
        assert int(pictures(case['h'], case['w']).sum(dtype=np.int64)) == case['input_sum']


# width, height -> scaled width, height, left, right, top, bottom.
@pytest.mark.parametrize(
    ('size', 'scaled', 'margins'),
    [
        ((640, 480), (224, 168), (0, 0, 28, 28)),
        ((641, 480), (224, 167), (0, 0, 28, 29)),
        ((1280, 720), (224, 126), (0, 0, 49, 49)),
        ((1920, 1080), (224, 126), (0, 0, 49, 49)),
        ((33, 21), (224, 142), (0, 0, 41, 41)),
        ((224, 224), (224, 224), (0, 0, 0, 0)),
        ((480, 640), (168, 224), (28, 28, 0, 0)),
        ((333, 777), (96, 224), (64, 64, 0, 0)),
        ((225, 224), (223, 223), (0, 1, 0, 1)),
    ],
)
@pytest.mark.parametrize('arithmetic', ['pil', 'torch'])
def test_letterbox_geometry(size, scaled, margins, arithmetic):
    left, right, top, bottom = margins
    white = np.full((size[1], size[0], 3), 255, np.uint8)
    result = Resize(224, 224, arithmetic)(white)
    inside = np.zeros((224, 224), bool)
    inside[top : 224 - bottom, left : 224 - right] = True
    assert (inside.sum(axis=0).max(), inside.sum(axis=1).max()) == (scaled[1], scaled[0])
    assert (result[inside] == result.max()).all()
    assert (result[~inside] == 0).all()


def test_refuses_a_side_that_would_vanish():
    with pytest.raises(Error, match=r'1x1000.*0x224.*0 pixels'):
        Resize(224, 224, 'pil')(np.zeros((1000, 1, 3), np.uint8))


def test_stretch_fills_the_square():
    image = pictures(30, 90)
    result = Resize(24, 24, 'pil', 'stretch')(image)
    columns = np.array([pillow_axis(row, 24) for row in image[:, :, 0]])
    assert result[:, :, 0].T.tolist() == [pillow_axis(column, 24) for column in columns.T]


@pytest.mark.parametrize(
    ('arithmetic', 'kernel'), [('pil', (triangle, 1)), ('pil_bicubic', (cubic, 2))], ids=['linear', 'cubic']
)
@settings(max_examples=60, deadline=None)
@given(SIZES, SIZES, SIZES, SIZES)
def test_pillow_at_any_size(arithmetic, kernel, height, width, rows, columns):
    image = pictures(height, width)
    result = Resize(rows, columns, arithmetic, 'stretch')(image)
    horizontal = np.array([pillow_axis(row, columns, *kernel) for row in image[:, :, 1]])
    vertical = np.array([pillow_axis(column, rows, *kernel) for column in horizontal.T]).T
    np.testing.assert_array_equal(result[:, :, 1], vertical)


@settings(max_examples=60, deadline=None)
@given(SIZES, SIZES, st.sampled_from(['pil', 'pil_bicubic', 'torch', 'torch_u8', 'jax']), st.integers(0, 255))
def test_flat_colour_stays_flat(height, width, arithmetic, value):
    image = np.full((height, width, 3), value, np.uint8)
    result = Resize(32, 20, arithmetic, 'stretch')(image)
    want = value / 255 if arithmetic == 'torch' else value
    np.testing.assert_allclose(result, want, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(SIZES, SIZES, st.sampled_from(['pil', 'pil_bicubic', 'torch_u8', 'jax']))
def test_same_size_is_identity(height, width, arithmetic):
    image = pictures(height, width)
    np.testing.assert_array_equal(Resize(height, width, arithmetic)(image), image)


def test_reads_pictures_with_padded_rows():
    image = pictures(21, 33)
    padded = np.full((21, 40, 3), 0xEE, np.uint8)
    padded[:, :33] = image
    np.testing.assert_array_equal(Resize(28, 28, 'pil')(padded[:, :33]), Resize(28, 28, 'pil')(image))


def test_rotation_is_counter_clockwise():
    image = np.zeros((2, 3, 3), np.uint8)
    image[0, 2] = 9  # top right
    assert Rotate(90)(image)[0, 0].tolist() == [9, 9, 9]  # top left
    assert Rotate(180)(image)[1, 0].tolist() == [9, 9, 9]
    assert Rotate(270)(image).shape == (3, 2, 3)


def test_value_maps_by_hand(golden):
    assert to_model_range(np.array([0, 51, 255], np.uint8)).tolist() == [-1, pytest.approx(-0.6), 1]
    unit = np.array([0, 0.5, 0.501, 1], np.float32)
    assert unit_to_model_range(unit).tolist() == [-1, 0, pytest.approx(0.002, abs=1e-6), 1]
    assert model_range_to_bytes(np.array([-3, -1, 0, 1], np.float32)).tolist() == [0, 0, 128, 255]
    assert float_to_bytes(np.array([0, 0.999, 1])).tolist() == [0, 254, 255]
    reference = load_file(golden / 'preprocess' / 'platforms.safetensors')
    np.testing.assert_array_equal(float_to_bytes(reference['float_image.in']), reference['float_image.u8'])
