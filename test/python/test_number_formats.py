# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Number formats against ml_dtypes, which JAX and the quantisation tools of others round with, bit by bit."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flashrt_core import Error
from flashrt_core._core import NUMBER_FORMATS, format_info, format_scale, round_to_format

F32 = np.float32
# What one code is, the largest magnitude, and the numbers that share a scale.
CODES = {
    'e4m3': (ml_dtypes.float8_e4m3fn, 448, 1),
    'e5m2': (ml_dtypes.float8_e5m2, 57344, 1),
    'int8': (np.int8, 127, 1),
    'nvfp4': (ml_dtypes.float4_e2m1fn, 6, 16),
    'mxfp4': (ml_dtypes.float4_e2m1fn, 6, 32),
}


def codes_of(format: str, values: np.ndarray) -> np.ndarray:
    """float32 -> float32 through the codes of ml_dtypes or numpy; saturates, NaN stays."""
    dtype, largest, _ = CODES[format]
    clipped = np.clip(values, -largest, largest)
    if dtype is np.int8:
        whole = np.nan_to_num(np.rint(clipped)).astype(np.int8).astype(F32)
    else:
        whole = clipped.astype(dtype).astype(F32)
    return np.where(np.isnan(values), F32('nan'), whole)


def block_scales(format: str, amax: np.ndarray, scale: np.float32) -> np.ndarray:
    """Of blocks with these largest magnitudes, finite."""
    if format == 'nvfp4':
        return codes_of('e4m3', amax / F32(6) / scale) * scale
    exponents = np.frexp(amax)[1] - 1 - 2  # floor(log2(amax)) - that of 6
    powers = np.ldexp(F32(1), np.where(amax > 0, np.maximum(exponents, -127), -127))
    stored = powers.astype(ml_dtypes.float8_e8m0fnu).astype(F32)
    assert np.array_equal(stored, powers), 'a device can store the scale of each block'
    return powers


def expected(format: str, row: np.ndarray, scale: np.float32) -> np.ndarray:
    block = CODES[format][2]
    if block == 1:
        return codes_of(format, row / scale) * scale
    parts = []
    for begin in range(0, len(row), block):
        values = row[begin : begin + block]
        finite = np.where(np.isnan(values), F32(0), np.minimum(np.abs(values), np.finfo(F32).max))
        unit = block_scales(format, finite.max(keepdims=True), scale)
        divisor = np.where(unit > 0, unit, F32(1))
        parts.append(codes_of(format, values / divisor) * unit)
    return np.concatenate(parts)


def assert_same_bits(found: np.ndarray, wanted: np.ndarray) -> None:
    same = (found.view(np.uint32) == wanted.view(np.uint32)) | (np.isnan(found) & np.isnan(wanted))
    assert same.all(), f'at {np.flatnonzero(~same)[:5]}: {found[~same][:5]}, expected {wanted[~same][:5]}'


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all='ignore'):
        yield


def test_the_formats_that_are_known():
    assert tuple(CODES) == NUMBER_FORMATS
    for format, (_, largest, block) in CODES.items():
        info = format_info(format)
        assert info['block'] == block
        assert info['largest'] == {'nvfp4': 6 * 448, 'mxfp4': 0}.get(format, largest)
        assert info['emulated'] == (format != 'e4m3')
    assert [format_info(format)['bits'] for format in NUMBER_FORMATS] == [8, 8, 8, 4.5, 4.25]


@pytest.mark.parametrize('format', CODES)
def test_every_bfloat16_and_float16_number(format):
    """All exponents and signs, zeros, subnormals, infinities and NaN, in rows that end within a block."""
    bits = np.arange(65536, dtype=np.uint16)
    values = np.concatenate([bits.view(ml_dtypes.bfloat16).astype(F32), bits.view(np.float16).astype(F32)])
    for order in (values, np.random.default_rng(3).permutation(values)):
        rows = order[: len(order) // 100 * 100].reshape(-1, 100)
        for scale in (1.0, 0.0137):
            found = round_to_format(format, rows, scale)
            for row, result in zip(rows, found, strict=True):
                assert_same_bits(result, expected(format, row, F32(scale)))


@pytest.mark.parametrize('format', CODES)
def test_ties_and_their_neighbours(format):
    """Half way between two codes, a little below and above; blocks have 6 as their largest number."""
    dtype, largest, block = CODES[format]
    if dtype is np.int8:
        numbers = np.arange(128, dtype=F32)
    else:
        codes = np.arange(128 if block == 1 else 8, dtype=np.uint8)
        numbers = (
            codes.view(dtype).astype(F32) if block == 1 else codes.astype(np.uint8).view(dtype).astype(F32)
        )
        numbers = numbers[np.isfinite(numbers)]
    assert numbers.max() == largest
    middle = (numbers[1:] + numbers[:-1]) / 2
    near = np.concatenate([middle, np.nextafter(middle, F32('inf')), np.nextafter(middle, F32(0)), numbers])
    near = np.concatenate([near, -near])
    if block > 1:  # one block each
        near = np.stack([near, *[np.full_like(near, 6)] * (block - 1)], 1)
        found = round_to_format(format, near, 1.0)
        assert_same_bits(found[:, 0], codes_of(format, near[:, 0]))
    else:
        assert_same_bits(round_to_format(format, near, 1.0), codes_of(format, near))


@pytest.mark.parametrize('format', CODES)
@pytest.mark.parametrize('width', [1, 15, 16, 17, 31, 32, 33, 70, 1024])
def test_normal_values_of_every_size(format, width):
    rng = np.random.default_rng(width)
    for spread in (1e-38, 1e-12, 1e-3, 1, 1e4, 1e30):
        rows = (rng.standard_normal((20, width)) * np.exp(rng.standard_normal((20, width))) * spread).astype(
            F32
        )
        rows[0] = 0
        for part in (1, 30, 1e-4):  # exact, saturating, coarse
            scale = format_scale(format, F32(np.abs(rows).max() / part))
            found = round_to_format(format, rows, scale)
            for row, result in zip(rows, found, strict=True):
                assert_same_bits(result, expected(format, row, F32(scale)))


@given(
    st.sampled_from(NUMBER_FORMATS),
    arrays(F32, st.integers(1, 80), elements=st.floats(width=32)),
    st.floats(2**-126, 2**100, width=32),
)
def test_any_row_of_any_numbers(format, row, scale):
    with np.errstate(all='ignore'):
        assert_same_bits(round_to_format(format, row, scale), expected(format, row, F32(scale)))


@given(st.sampled_from(NUMBER_FORMATS), arrays(F32, (3, 48), elements=st.floats(-1e6, 1e6, width=32)))
def test_rows_do_not_see_each_other(format, rows):
    together = round_to_format(format, rows, 0.5)
    for row, result in zip(rows, together, strict=True):
        assert np.array_equal(round_to_format(format, row, 0.5), result)


def test_scales():
    for format, (_, largest, _) in CODES.items():
        if format == 'mxfp4':
            assert format_scale(format, 12.0) == 1
            continue
        top = largest * 448 if format == 'nvfp4' else largest
        assert format_scale(format, 12.0) == F32(12) / F32(top)
        assert format_scale(format, 0.0) == 1
        assert format_scale(format, 1e-45) == np.finfo(F32).tiny, 'never subnormal'


def test_what_is_wrong_is_named():
    with pytest.raises(Error, match=r"number format 'int4'; known: e4m3, e5m2, int8, nvfp4, mxfp4"):
        format_info('int4')
    with pytest.raises(Error, match='a single number, expected rows'):
        round_to_format('int8', np.array(1, F32), 1.0)
