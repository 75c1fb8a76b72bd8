# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What FP8 costs: emulated bit by bit on the CPU, calibrated on other inputs than those tested.

Weights and inputs are random, so this says nothing about trained checkpoints. `pytest -s` prints the table.
"""

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import load_file

from flashrt_core.accuracy import Accuracy, measure
from flashrt_core.calibrate import CalibrationSettings, calibrate
from flashrt_core.cli.compare import accuracy_table
from flashrt_core.programs import ProgramKey, Programs
from flashrt_core.samples import Sample, read_samples

GOLDEN = Path(__file__).parents[1] / 'golden'
VISION_BF16 = str(Path(__file__).parents[2] / 'config/recipes/fp8_vision_bf16.json')


def others_like(sample: Sample, vocabulary: int, count: int, seed: int) -> list[tuple[str, Sample]]:
    """Random pictures, prompts and noise of the same sizes."""
    rng = np.random.default_rng(seed)
    return [
        (
            f'random[{i}]',
            Sample(
                images=rng.integers(0, 256, sample.images.shape, np.uint8),
                tokens=rng.integers(0, vocabulary, sample.tokens.shape, np.int32),
                noise=rng.standard_normal(sample.noise.shape, np.float32),
                state=sample.state,
                camera_mask=sample.camera_mask,
                token_mask=sample.token_mask,
                steps=sample.steps,
            ),
        )
        for i in range(count)
    ]


def accuracy_of(name: str, case: str, recipe: str, tmp_path: Path, count: int) -> Accuracy:
    model = GOLDEN / name
    tested = [sample for _, sample in read_samples(model / f'{case}.safetensors')]
    reference = Programs(model)
    other_inputs = others_like(tested[0], reference.config.vocab_size, count, seed=90210)
    calibrate(model, other_inputs, CalibrationSettings(recipe)).save(tmp_path / 'scales.json')
    accuracy = measure(
        reference, Programs(model, recipe=recipe, calibration=tmp_path / 'scales.json'), tested
    )
    console = Console(width=100)
    console.print(f'\n{name} {case}, {recipe} against f32, calibrated on {count} other inputs')
    console.print(accuracy_table(accuracy))
    return accuracy


@pytest.mark.parametrize('recipe', ['fp8', 'fp8_f16', VISION_BF16])
@pytest.mark.parametrize(
    ('name', 'case', 'count'), [('pi05_tiny', 'case_00', 8), ('pi05_heads', 'case_00', 2)]
)
def test_fp8_stays_near_float32(recipe, name, case, count, tmp_path):
    accuracy = accuracy_of(name, case, recipe, tmp_path, count)
    assert len(accuracy.steps) == 10
    for difference in [accuracy.chunk, *accuracy.steps.values()]:
        assert difference.cosine > 0.99
        assert 1e-3 < difference.relative < 0.15  # below: nothing was quantised


def test_float32_against_itself_is_equal(tmp_path):
    model = GOLDEN / 'pi05_tiny'
    tested = [sample for _, sample in read_samples(model)]
    accuracy = measure(Programs(model), Programs(model), tested, every_call=True)
    assert len(accuracy.steps) == 10 + 1 + 5 + 3
    assert len(accuracy.values) > 80
    assert all(item.rms == 0 for item in [accuracy.chunk, *accuracy.values.values()])


def test_differences_by_hand():
    """Of (3, 4) and (3, 4.5): RMS sqrt(0.125), cosine 27 / (5 sqrt(29.25))."""
    from flashrt_core.accuracy import _Sums

    sums = _Sums()
    sums.add(np.float32([3]), np.float32([3]))
    sums.add(np.float32([4]), np.float32([4.5]))
    difference = sums.difference()
    assert difference.rms == pytest.approx(0.125**0.5)
    assert difference.relative == pytest.approx((0.125 / 12.5) ** 0.5)
    assert difference.cosine == pytest.approx(27 / (5 * 29.25**0.5))
    assert difference.worst == 0.5


def on_e4m3_grid(values: np.ndarray) -> np.ndarray:
    """Nearest of the e4m3 numbers, ties to even: 3 bits of fraction, exponents from -6, at most 448."""
    values = np.clip(np.asarray(values, np.float64), -448, 448)
    exponent = np.maximum(np.floor(np.log2(np.maximum(np.abs(values), 2.0**-20))), -6)
    return np.rint(values / 2.0 ** (exponent - 3)) * 2.0 ** (exponent - 3)


def test_a_linear_in_fp8_is_that_of_the_formula(tmp_path):
    """fc1 of the first vision layer: input on the grid of its scale, weights on the grid of each row's."""
    model = GOLDEN / 'pi05_tiny'
    samples = list(read_samples(model / 'case_01.safetensors'))
    calibration = calibrate(model, samples)
    calibration.save(tmp_path / 'scales.json')
    sample = samples[0][1]
    programs = Programs(model, recipe='fp8', calibration=tmp_path / 'scales.json')
    engine = programs.get(ProgramKey.of(sample).keeping_values())
    traced = engine.trace(['vision.0.mlp_norm', 'vision.0.fc1'], *sample.inputs)
    x = traced['vision.0.mlp_norm'].astype(np.float64)
    (scale,) = calibration.scales('vision.0.mlp_norm')
    assert np.allclose(on_e4m3_grid(x / scale) * scale, x, rtol=1e-6, atol=0)
    assert np.abs(x).max() <= 448 * scale * (1 + 1e-6)

    weights = load_file(model / 'model.safetensors')
    layer = 'paligemma_with_expert.paligemma.model.vision_tower.vision_model.encoder.layers.0.mlp.fc1'
    weight = weights[f'{layer}.weight'].astype(np.float64)
    row_scale = np.abs(weight).max(axis=1, keepdims=True) / 448
    y = x @ (on_e4m3_grid(weight / row_scale) * row_scale).T + weights[f'{layer}.bias']
    y = 0.5 * y * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3)))

    (scale,) = calibration.scales('vision.0.fc1')  # the next linear reads it in FP8 as well
    expected, actual = y / scale, traced['vision.0.fc1'] / scale
    # Sums are float32, so a value between two codes may fall to the other side, and no further.
    neighbour = np.abs(on_e4m3_grid(expected * (1 + 1e-4)) - on_e4m3_grid(expected * (1 - 1e-4)))
    assert (np.abs(actual - on_e4m3_grid(expected)) <= neighbour + 1e-4).all()
    assert (np.abs(actual - on_e4m3_grid(expected)) < 1e-4).mean() > 0.99
