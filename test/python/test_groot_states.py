# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""States of several moments: each is a token of the action head of GR00T, checked against its formulas."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from reference_groot_head import ReferenceHead
from safetensors.numpy import load_file

from flashrt_core._core import Calibration, Engine
from flashrt_core.errors import Error
from flashrt_core.groot.samples import GrootSample, groot_samples
from flashrt_core.tensor_file import TensorFile

MODEL = Path(__file__).parents[1] / 'golden' / 'groot_n16_tiny'
BOUND = 2e-5  # of actions, as for the saved cases


def rows_of(case: str) -> list[tuple[GrootSample, NDArray, NDArray]]:
    """Samples with their saved context and actions."""
    tensors = load_file(MODEL / f'{case}.safetensors')
    return [
        (
            sample,
            tensors['head.vl_embeds'][sample.index][sample.token_mask],
            tensors['action_pred'][sample.index],
        )
        for sample in groot_samples(TensorFile(MODEL / f'{case}.safetensors'))
    ]


ROWS = [row for case in ('case_00', 'case_01', 'case_02', 'case_03') for row in rows_of(case)]


def engine(sample: GrootSample, state_rows: int = 1, **options: object) -> Engine:
    return Engine(
        MODEL,
        cameras=len(sample.images),
        prompt_capacity=sample.prompt_length,
        image_sizes=sample.image_sizes,
        markup_rows=sample.markup_rows,
        embodiment_slot=sample.slot,
        state_rows=state_rows,
        **options,
    )


def states_of(sample: GrootSample, moments: int) -> NDArray[np.float32]:
    """The state of the sample last, others before it."""
    rng = np.random.default_rng(moments)
    before = rng.uniform(-1, 1, (moments - 1, len(sample.state)))
    return np.concatenate([before, sample.state[None]]).astype(np.float32)


@pytest.mark.parametrize('row', range(len(ROWS)))
def test_the_formulas_are_those_of_the_saved_cases(row):
    sample, context, expected = ROWS[row]
    head = ReferenceHead(MODEL, sample.slot)
    actual = head.actions(context, sample.is_image, sample.state[None], sample.noise)
    assert np.abs(actual - expected).max() < BOUND


@pytest.mark.parametrize('moments', [2, 3, 7])
@pytest.mark.parametrize('row', range(len(ROWS)))
def test_every_moment_is_a_token(row, moments):
    sample, context, alone = ROWS[row]
    states = states_of(sample, moments)
    expected = ReferenceHead(MODEL, sample.slot).actions(context, sample.is_image, states, sample.noise)
    images, tokens, noise, _ = sample.inputs
    actual = engine(sample, moments).infer(images, tokens, noise, states)
    assert np.abs(actual - expected).max() < BOUND
    assert np.abs(actual - alone).max() > 100 * BOUND  # the moments before matter


def test_a_calibration_fits_any_number_of_moments(tmp_path):
    sample, context, _ = ROWS[1]
    calibration = Calibration()
    engine(sample, recipe='fp8', float_activations=True).observe(calibration, *sample.inputs)
    calibration.finish()
    calibration.save(tmp_path / 'scales.json')
    states = states_of(sample, 3)
    expected = ReferenceHead(MODEL, sample.slot).actions(context, sample.is_image, states, sample.noise)
    quantised = engine(sample, 3, recipe='fp8', calibration=tmp_path / 'scales.json')
    images, tokens, noise, _ = sample.inputs
    error = np.abs(quantised.infer(images, tokens, noise, states) - expected).max()
    assert 1e-3 < error < 0.5


@pytest.mark.parametrize(
    ('state_rows', 'shape', 'message'),
    [
        (1, (2, 20), 'state: 40 values, expected 1 x 20'),
        (3, (20,), 'state: 20 values, expected 3 x 20'),
        (3, (20, 3), r'state: shape \[20, 3\], expected \[3, 20\]'),
    ],
)
def test_another_number_of_moments_is_refused(state_rows, shape, message):
    sample = ROWS[0][0]
    images, tokens, noise, _ = sample.inputs
    with pytest.raises(Error, match=message):
        engine(sample, state_rows).infer(images, tokens, noise, np.zeros(shape, np.float32))


def test_models_with_one_state_refuse_more():
    with pytest.raises(Error, match='state rows: 2, but pi05 is given the state of one moment'):
        Engine(MODEL.parent / 'pi05_tiny', cameras=1, state_rows=2)
    with pytest.raises(Error, match='state rows: 0, expected 1 to'):
        engine(ROWS[0][0], 0)
