# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Recorded inputs of GR00T: what `flashrt calibrate` and `flashrt compare` read, and for which embodiment."""

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from safetensors.numpy import load_file, save_file
from typer.testing import CliRunner

from flashrt_core.calibrate import CalibrationSettings, calibrate
from flashrt_core.cli import calibrate as calibrate_command
from flashrt_core.cli import compare as compare_command
from flashrt_core.comparison import compare_calls
from flashrt_core.errors import Error
from flashrt_core.programs import ProgramKey, Programs
from flashrt_core.samples import read_samples

MODEL = Path(__file__).parents[1] / 'golden' / 'groot_n16_tiny'
# Rows of the saved cases by their embodiment slot.
CASES = ('case_00', 'case_01', 'case_02', 'case_03')
SLOTS = {
    f'{case}[{row}]': int(slot)
    for case in CASES
    for row, slot in enumerate(load_file(MODEL / f'{case}.safetensors')['in.embodiment_id'])
}


def command(run, *arguments: object):
    app = typer.Typer()
    app.command()(run)
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={'COLUMNS': '160'})


@pytest.mark.parametrize('slot', sorted({*SLOTS.values()}))
def test_the_rows_of_one_embodiment_are_read(slot):
    found = dict(read_samples(MODEL, slot))
    assert list(found) == [name for name, of in SLOTS.items() if of == slot]
    programs = Programs(MODEL, embodiment_slot=slot)
    for name, sample in found.items():
        expected = load_file(MODEL / f'{name[:7]}.safetensors')['action_pred'][int(name[8])]
        actual = programs.get(ProgramKey.of(sample)).infer(*sample.inputs)
        assert np.abs(actual - expected).max() < 2e-5


def test_an_embodiment_must_be_named_and_known():
    slots = sorted({*SLOTS.values()})
    for slot in (-1, 31):
        with pytest.raises(Error) as refused:
            list(read_samples(MODEL, slot))
        assert f'embodiment slots {slots}, none of {slot}; give --embodiment-slot' in str(refused.value)


def test_pi_samples_need_none():
    assert len(list(read_samples(MODEL.parent / 'pi05_tiny' / 'case_01.safetensors'))) > 0


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        (lambda t: t.pop('in.image_mask'), 'in.image_mask'),
        (lambda t: t.update({'in.image_mask': t['in.image_mask'][:, 1:]}), 'batches of different sizes'),
        (
            lambda t: t.update({'in.state': np.repeat(t['in.state'], 2, axis=1)}),
            'in.state holds 2 time steps',
        ),
        (lambda t: t.update({'in.image_mask': 0 * t['in.image_mask']}), 'row 0 has no image'),
    ],
)
def test_damaged_files_are_refused(tmp_path, change, message):
    tensors = inputs_of('case_00')
    change(tensors)
    save_file(tensors, tmp_path / 'inputs.safetensors')
    with pytest.raises(Error, match=message):
        list(read_samples(tmp_path / 'inputs.safetensors', SLOTS['case_00[0]']))


def test_a_file_of_inputs_alone_says_its_steps(tmp_path):
    tensors = inputs_of('case_00')
    save_file(tensors, tmp_path / 'inputs.safetensors')
    [(name, sample)] = read_samples(tmp_path / 'inputs.safetensors', SLOTS['case_00[0]'])
    assert (name, sample.steps) == ('inputs[0]', 4)
    del tensors['in.num_steps']
    np.savez(tmp_path / 'inputs.npz', **tensors)
    with pytest.raises(Error, match=r'in.num_steps is missing'):
        list(read_samples(tmp_path / 'inputs.npz', SLOTS['case_00[0]']))


def inputs_of(case: str) -> dict[str, np.ndarray]:
    tensors = {k: v for k, v in load_file(MODEL / f'{case}.safetensors').items() if k.startswith('in.')}
    return tensors | {'in.num_steps': np.array([4], np.int32)}


def test_scales_of_one_embodiment_serve_its_rows(tmp_path):
    slot = SLOTS['case_01[0]']
    named = list(read_samples(MODEL, slot))
    calibrate(MODEL, named, CalibrationSettings(), embodiment_slot=slot).save(tmp_path / 'scales.json')
    exact = Programs(MODEL, embodiment_slot=slot)
    fp8 = Programs(MODEL, embodiment_slot=slot, recipe='fp8', calibration=tmp_path / 'scales.json')
    rows = compare_calls(exact, fp8, named, all_calls=True)
    assert all(row.passed for row in rows)
    assert {row.types[1] for row in rows} >= {'e4m3', 'bf16'}


def test_commands_calibrate_and_compare_cases(tmp_path):
    slot, scales = SLOTS['case_01[0]'], tmp_path / 'scales.json'
    made = command(calibrate_command.run, MODEL, MODEL, '-o', scales, '--embodiment-slot', slot)
    assert made.exit_code == 0, made.output
    count = sum(of == slot for of in SLOTS.values())
    assert f'sites from {count} samples' in made.output
    assert json.loads(scales.read_text())['plan_digest']
    how = ('--recipe', 'fp8', '--calibration', scales, '--embodiment-slot', slot)
    compared = command(compare_command.run, MODEL, MODEL, *how)
    assert compared.exit_code == 0, compared.output
    assert ', 0 beyond their bounds' in compared.output
    free = command(compare_command.run, MODEL, MODEL, *how, '--free-running')
    assert free.exit_code == 0, free.output
    assert 'velocity, step 4 of 4' in free.output


def test_an_embodiment_beside_parameters_is_refused(tmp_path):
    refused = command(
        calibrate_command.run, tmp_path, '--params', tmp_path / 'p.yaml', '--embodiment-slot', 2
    )
    assert '--embodiment-slot 2: --params names the embodiment' in str(refused.exception)
