# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Observations in a file: gone on with after Ctrl-C, used again, and refused where they differ."""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from typer import Typer
from typer.testing import CliRunner

from flashrt_core._core import Calibration, Observations
from flashrt_core.calibrate import CalibrationSettings, Estimator, calibrate, calibrate_kept
from flashrt_core.cli import calibrate as command
from flashrt_core.errors import Error
from flashrt_core.kept_observations import KeptObservations
from flashrt_core.programs import ProgramKey, Programs
from flashrt_core.samples import Sample, read_samples

MODEL = Path(__file__).parents[1] / 'golden' / 'pi05_tiny'
CASES = ('case_01', 'case_03', 'case_05', 'case_06')

Named = list[tuple[str, Sample]]


@pytest.fixture
def samples() -> Named:
    return [sample for case in CASES for sample in read_samples(MODEL / f'{case}.safetensors')]


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / 'observed.json'


@pytest.fixture
def flashrt():
    """`flashrt calibrate`: arguments -> result."""
    app = Typer(pretty_exceptions_enable=False)
    app.command()(command.run)
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


def interrupted_after(samples: Named, taken: int) -> Iterator[tuple[str, Sample]]:
    """Ctrl-C, while one more is read."""
    yield from samples[:taken]
    signal.raise_signal(signal.SIGINT)
    raise AssertionError('the signal was not delivered')


def keep(samples: Named, file: Path, taken: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        calibrate(MODEL, interrupted_after(samples, taken), kept_in=file, threads=1)


def scales_of(calibration: Calibration) -> dict[str, list[float]]:
    return {site: calibration.scales(site) for site in calibration.sites}


@pytest.mark.parametrize('taken', [1, 3])
def test_going_on_after_ctrl_c_is_the_same_as_never_stopping(samples, file, tmp_path, taken):
    keep(samples, file, taken)
    assert Observations.load(file).samples == taken
    resumed = calibrate(MODEL, samples, kept_in=file, threads=1)
    whole = calibrate(MODEL, samples, kept_in=tmp_path / 'whole.json', threads=1)
    assert file.read_bytes() == (tmp_path / 'whole.json').read_bytes()
    assert scales_of(resumed) == scales_of(whole) == scales_of(calibrate(MODEL, samples, threads=1))
    assert (resumed.origin, resumed.samples) == (whole.origin, len(samples))
    resumed.save(tmp_path / 'a.json')
    whole.save(tmp_path / 'b.json')
    assert (tmp_path / 'a.json').read_bytes() == (tmp_path / 'b.json').read_bytes()


def test_more_samples_are_added_to_a_complete_file(samples, file):
    calibrate(MODEL, samples[:2], kept_in=file, threads=1)
    before = file.stat().st_mtime_ns
    assert calibrate(MODEL, samples[:2], kept_in=file, threads=1).samples == 2
    assert file.stat().st_mtime_ns == before, 'nothing new: not written again'
    more = calibrate(MODEL, samples, kept_in=file, threads=1)
    assert scales_of(more) == scales_of(calibrate(MODEL, samples, threads=1))


def test_it_is_written_now_and_then(samples, file):
    """A clock that goes on by 20 s with each look."""
    ticks = count(0, 20)
    kept = KeptObservations(file, 'fp8', interval_s=30, clock=lambda: next(ticks))
    seen = []
    calibration = Calibration(kept.observations)
    kept.observations = calibration.observations
    programs = Programs(MODEL, recipe='fp8', float_activations=True, threads=1)
    for name, sample in samples:
        engine = programs.get(ProgramKey.of(sample))
        assert kept.takes(name, engine, sample.inputs)
        engine.observe(calibration, *sample.inputs)
        kept.write_now_and_then()
        seen.append(Observations.load(file).samples if file.exists() else 0)
    assert seen[0] == 0
    assert 0 < max(seen[:-1]) < len(samples)


def test_all_estimators_are_had_from_one_file_without_the_model(samples, file):
    calibrate(MODEL, samples, kept_in=file, threads=1)
    sums = {}
    for estimator in get_args(Estimator):
        for per_step in (False, True):
            how = CalibrationSettings(estimator=estimator, fraction=0.99, per_step=per_step)
            if per_step and len(Observations.load(file).steps) > 1:
                with pytest.raises(Error, match='denoise steps'):
                    calibrate_kept(file, how)
                continue
            calibration = calibrate_kept(file, how)
            measured = calibrate(MODEL, samples, how, threads=1)
            assert scales_of(calibration) == scales_of(measured)
            assert calibration.origin == measured.origin
            assert calibration.method.startswith(estimator)
            sums[estimator] = sum(scale for scales in scales_of(calibration).values() for scale in scales)
    assert len(set(sums.values())) == len(sums)
    assert max(sums, key=lambda name: sums[name]) == 'min_max'


def test_other_samples_are_refused(samples, file):
    keep(samples, file, 2)
    name, first = samples[0]
    pixels = first.images.copy()
    pixels[0, 0, 0, 0] ^= 1
    others = [(name, replace(first, images=pixels)), *samples[1:]]
    with pytest.raises(
        Error,
        match=r'observed\.json holds 2 observations, the last of them case_03\[0\], of other samples than '
        r'the first 2 given here, the last of them case_03\[0\]; remove the file to observe anew',
    ):
        calibrate(MODEL, others, kept_in=file, threads=1)
    with pytest.raises(Error, match='of other samples'):
        calibrate(MODEL, samples[::-1], kept_in=file, threads=1)
    with pytest.raises(Error, match='holds 2 observations, but only 1 samples were given'):
        calibrate(MODEL, samples[:1], kept_in=file, threads=1)
    assert Observations.load(file).samples == 2, 'the file stays as it was'


def test_other_weights_plans_and_recipes_are_refused(samples, file, tmp_path):
    keep(samples, file, 2)
    stored = json.loads(file.read_text())
    for key, named in (('weights_digest', 'weights'), ('plan_digest', 'plan')):
        file.write_text(json.dumps(stored | {key: '0000'}))
        with pytest.raises(Error, match=rf'observed\.json was measured on {named} 0000'):
            calibrate(MODEL, samples, kept_in=file, threads=1)
    file.write_text(json.dumps(stored))
    other = CalibrationSettings(recipe='fp8_f16')
    with pytest.raises(Error, match='was observed with recipe fp8, this is fp8_f16'):
        calibrate(MODEL, samples, other, kept_in=file, threads=1)
    file.write_text(json.dumps(stored | {'version': 2}))
    with pytest.raises(Error, match='version is 2, expected 1; observe again'):
        calibrate(MODEL, samples, kept_in=file, threads=1)
    scales = tmp_path / 'scales.json'
    calibrate(MODEL, samples[:1], threads=1).save(scales)
    with pytest.raises(Error, match='format is "flashrt_calibration", expected flashrt_observations'):
        calibrate_kept(scales, CalibrationSettings())


def test_a_recipe_file_is_told_from_another_of_its_name(samples, file, tmp_path):
    recipe = tmp_path / 'mine.json'
    rule = {'match': '*', 'weight': 'int8', 'activation': 'int8', 'weight_scale': 'channel'}
    content = {'format': 'flashrt_recipe', 'version': 1, 'name': 'mine', 'values': 'f32', 'rules': [rule]}
    recipe.write_text(json.dumps(content))
    how = CalibrationSettings(recipe=str(recipe))
    calibration = calibrate(MODEL, samples[:1], how, kept_in=file, threads=1)
    assert {calibration.number_format(site) for site in calibration.sites} == {'int8'}
    recipe.write_text(json.dumps(content | {'values': 'bf16'}))
    with pytest.raises(Error, match=r'with recipe mine\.json \(\w+\), this is mine\.json \(\w+\)'):
        calibrate(MODEL, samples[:1], how, kept_in=file, threads=1)


def test_what_failed_halfway_is_not_kept(samples, file):
    name, sample = samples[1]
    broken = replace(sample, noise=np.full_like(sample.noise, np.nan))
    with pytest.raises(Error, match='expected finite values'):
        calibrate(MODEL, [samples[0], (name, broken)], kept_in=file, threads=1)
    assert not file.exists()


def test_the_command_goes_on_and_makes_others(flashrt, file, tmp_path, monkeypatch):
    case, out = MODEL / 'case_04.safetensors', tmp_path / 'scales.json'
    read = command.read_samples

    def interrupted(path: Path, slot: int):
        yield from interrupted_after(list(read(path, slot)), 1)

    how = (MODEL, case, '-o', out, '--observed', file, '--threads', 1)
    with monkeypatch.context() as patch:
        patch.setattr(command, 'read_samples', interrupted)
        result = flashrt(*how)
    assert result.exit_code == 130
    assert f'{file} keeps what was observed, and the same command goes on from it' in result.stderr
    assert not out.exists()
    result = flashrt(*how)
    assert result.exit_code == 0, result.exception
    assert 'sites from 2 samples (case_04[0], case_04[1])' in result.stdout

    result = flashrt(file, '-o', tmp_path / 'mse.json', '--estimator', 'mse')
    assert result.exit_code == 0, result.exception
    assert Calibration.load(tmp_path / 'mse.json').method == 'mse'
    result = flashrt(file, '-o', out, '--threads', 1, '--recipe', 'fp8')
    assert 'is a file of observations: it needs no model, so without --threads, --recipe' in str(
        result.exception
    )
    result = flashrt(MODEL, case, '-o', out, '--observed', tmp_path / 'no' / 'file.json')
    assert 'does not exist' in str(result.exception)


def test_a_file_that_cannot_be_written_is_named(samples, tmp_path):
    folder = tmp_path / 'folder'
    folder.mkdir()
    with pytest.raises(Error, match='folder: it is not a regular file'):
        calibrate(MODEL, samples[:1], kept_in=folder, threads=1)
    assert os.listdir(folder) == []
