# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Equalisation of whole models: it changes nothing in float32, and scales are those of what it makes."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from typer import Typer
from typer.testing import CliRunner

import flashrt_core.cli.calibrate as calibrate_command
import flashrt_core.cli.compare as compare_command
from flashrt_core._core import Calibration, Equalisation, pack_weights
from flashrt_core.bench import BenchSettings, random_samples
from flashrt_core.calibrate import CalibrationSettings, calibrate, calibrate_kept, calibrate_programs
from flashrt_core.equalising import equalise
from flashrt_core.errors import Error
from flashrt_core.programs import ProgramKey, Programs
from flashrt_core.samples import AnySample, read_samples

GOLDEN = Path(__file__).parents[1] / 'golden'
UNIT = 2.0**-24  # of rounding in float32
E4M3_MAX = 448


@dataclass(frozen=True)
class Model:
    """A checkpoint with one recorded observation."""

    name: str
    embodiment_slot: int = -1

    @property
    def folder(self) -> Path:
        return GOLDEN / self.name

    def samples(self) -> list[tuple[str, AnySample]]:
        return list(read_samples(self.folder / 'case_00.safetensors', self.embodiment_slot))[:1]

    def engine(self, **options):
        ((_, sample),) = self.samples()
        programs = Programs(self.folder, embodiment_slot=self.embodiment_slot, threads=1, **options)
        return programs.get(ProgramKey.of(sample))

    def chunk(self, **options) -> np.ndarray:
        """actions - noise."""
        ((_, sample),) = self.samples()
        return self.engine(**options).infer(*sample.inputs) - sample.noise

    def equalisation(self, strength: float) -> Equalisation:
        ((name, sample),) = self.samples()
        engine = self.engine(recipe='fp8', float_activations=True)
        return equalise([(name, engine, sample.inputs)], strength)


PI05, HEADS, PI0 = Model('pi05_tiny'), Model('pi05_heads'), Model('pi0_tiny')
GROOT = Model('groot_n16_tiny', embodiment_slot=2)
# Of vision two per layer and the last norm, of language two but one of the last layer, of the expert two; of
# GR00T two per layer, and those of connector and context.
SITES = {
    'pi05_tiny': (2 * 3 + 1) + (2 * 3 - 1) + 2 * 3,
    'pi05_heads': (2 * 1 + 1) + (2 * 2 - 1) + 2 * 2,
    'pi0_tiny': (2 * 3 + 1) + (2 * 3 - 1) + 2 * 3,
    'groot_n16_tiny': 2 * (3 + 3 + 8) + 2,
}


def relative(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sqrt(np.mean((a - b) ** 2) / np.mean(a**2)))


@pytest.mark.parametrize('strength', [0.25, 0.5, 1.0])
def test_no_bit_of_a_model_without_adaptive_norms_changes(strength):
    equalisation = PI0.equalisation(strength)
    assert any(any(octaves) for octaves in equalisation.octaves.values())
    np.testing.assert_array_equal(PI0.chunk(equalisation=equalisation), PI0.chunk())


@pytest.mark.parametrize('strength', [0.25, 0.5, 1.0])
@pytest.mark.parametrize('model', [PI05, HEADS, GROOT], ids=lambda model: model.name)
def test_a_model_with_adaptive_norms_changes_by_rounding_alone(model, strength):
    """Where scale is held instead of 1 + scale it is rounded to a unit of 1, relative to 1 / factor at worst.

    Every norm of every step may so move what follows: their sum is the bound, far above what errors of both
    signs come to.
    """
    equalisation = model.equalisation(strength)
    engine = model.engine(equalisation=equalisation)
    norms = sum('add_norm' in line and 'scale=' in line for line in engine.plan_text().splitlines())
    largest = max(max(octaves) for octaves in equalisation.octaves.values())
    assert norms
    assert largest > 0
    bound = UNIT * 2**largest * norms * engine.steps
    assert bound < 1e-4, 'the bound says something'
    assert relative(model.chunk(), model.chunk(equalisation=equalisation)) < bound


@pytest.mark.parametrize('model', [PI05, HEADS, PI0, GROOT], ids=lambda model: model.name)
def test_every_quantised_norm_has_a_site(model):
    assert len(model.equalisation(0.5).octaves) == SITES[model.name]


@pytest.mark.parametrize('model', [PI05, PI0, GROOT], ids=lambda model: model.name)
def test_no_bit_changes_where_values_are_bfloat16_and_no_norm_adapts(model):
    """Up to the end of the vision tower, which both recipes hold in bfloat16."""
    ((_, sample),) = model.samples()
    programs = [
        Programs(model.folder, embodiment_slot=model.embodiment_slot, threads=1, recipe='bf16', **options)
        for options in ({}, {'equalisation': model.equalisation(0.5)})
    ]
    key = ProgramKey.of(sample).keeping_values()
    name = 'vision.1.mlp_norm.residual'
    first, second = (one.get(key).trace([name], *sample.inputs)[name] for one in programs)
    np.testing.assert_array_equal(first, second)


def calibrated(folder: Path, model: Model, **settings) -> Path:
    path = folder / 'calibration.json'
    calibrate(
        model.folder,
        model.samples(),
        CalibrationSettings(**settings),
        embodiment_slot=model.embodiment_slot,
        threads=1,
    ).save(path)
    return path


def test_scales_are_those_of_the_equalised_model(tmp_path):
    path = calibrated(tmp_path, PI05, equalise=0.5)
    calibration = Calibration.load(path)
    assert calibration.equalisation.strength == 0.5
    assert calibration.equalisation.octaves == PI05.equalisation(0.5).octaves
    assert calibration.origin.endswith('min_max, equalised with strength 0.5')
    ((_, sample),) = PI05.samples()
    programs = Programs(
        PI05.folder, recipe='fp8', float_activations=True, equalisation=calibration.equalisation
    )
    engine = programs.get(ProgramKey.of(sample).keeping_values())
    for site in ('vision.0.attn_norm', 'prefix.0.mlp_norm', 'denoise.2.mlp_norm'):
        largest = np.abs(engine.trace([site], *sample.inputs)[site]).max()
        assert calibration.scales(site) == [pytest.approx(largest / E4M3_MAX, rel=1e-6)]


def test_an_engine_with_the_calibration_is_equalised(tmp_path):
    path = calibrated(tmp_path, PI05, equalise=0.5)
    for recipe in ('f32', 'fp8'):
        engine = PI05.engine(recipe=recipe, calibration=str(path))
        assert engine.equalisation.octaves == PI05.equalisation(0.5).octaves
        assert 'equalising_norm' in engine.plan_text()
    assert relative(PI05.chunk(), PI05.chunk(recipe='fp8', calibration=str(path))) < 0.1


def test_off_by_default(tmp_path):
    path = calibrated(tmp_path, PI05)
    assert 'equalisation' not in json.loads(path.read_text())
    assert not PI05.engine(recipe='fp8', calibration=str(path)).equalisation.octaves


def test_other_sizes_of_the_same_model_have_the_same_sites(tmp_path):
    """Factors found with one picture serve two, in other steps, guided or not."""
    path = calibrated(tmp_path, PI05, equalise=1.0)
    programs = Programs(PI05.folder, recipe='fp8', calibration=str(path), threads=1)
    programs.get(ProgramKey(cameras=1, prompt_capacity=12, horizon=10, steps=10))
    engine = programs.get(ProgramKey(cameras=2, prompt_capacity=7, horizon=4, steps=3, guided=True))
    assert engine.plan_text().count('equalising_norm') > 0


def test_samples_are_gone_through_twice():
    with pytest.raises(Error, match='twice; give a list, not an iterator'):
        calibrate(PI05.folder, iter(PI05.samples()), CalibrationSettings(equalise=0.5))


def test_engines_are_equalised_as_the_settings_say():
    programs = Programs(PI05.folder, recipe='fp8', float_activations=True, threads=1)
    with pytest.raises(Error, match=r'equalise is 0\.5, the engine is equalised with 0\.0'):
        calibrate_programs(programs, PI05.samples(), CalibrationSettings(equalise=0.5))


@pytest.mark.parametrize('strength', [0.0, -0.5, 1.5, float('nan')])
def test_strength_is_above_0_and_at_most_1(strength):
    with pytest.raises(Error, match='equalise is'):
        CalibrationSettings(equalise=strength)


def test_channels_are_observed_of_a_plain_engine_in_float():
    ((name, sample),) = PI05.samples()
    for options in (
        {'recipe': 'bf16'},
        {'recipe': 'fp8', 'float_activations': True, 'equalisation': PI05.equalisation(0.5)},
    ):
        with pytest.raises(Error, match='is not equalised'):
            equalise([(name, PI05.engine(**options), sample.inputs)], 0.5)


def test_a_recipe_that_quantises_no_norm_is_refused():
    ((name, sample),) = PI05.samples()
    engine = PI05.engine(recipe='bf16', float_activations=True)
    with pytest.raises(Error, match='nothing was observed'):
        equalise([(name, engine, sample.inputs)], 0.5)


def test_packed_weights_are_refused_by_name(tmp_path):
    packed = tmp_path / 'packed.safetensors'
    pack_weights(PI05.folder, packed, recipe='fp8')
    path = calibrated(tmp_path, PI05, equalise=0.5)
    with pytest.raises(Error, match=r'packed\.safetensors were packed without equalisation'):
        PI05.engine(recipe='fp8', calibration=str(path), packed=str(packed))
    with pytest.raises(Error, match=r'packed\.safetensors was packed without equalisation'):
        calibrate(PI05.folder, PI05.samples(), CalibrationSettings(equalise=0.5), packed=packed)


def test_factors_and_a_calibration_are_not_given_together(tmp_path):
    path = calibrated(tmp_path, PI05)
    with pytest.raises(Error, match='has its own or none'):
        PI05.engine(recipe='fp8', calibration=str(path), equalisation=PI05.equalisation(0.5))


# ---- a file of observations


def test_a_file_of_observations_goes_on_with_its_factors(tmp_path):
    """The first pass is not repeated: samples that come later do not change it."""
    observed = tmp_path / 'observed.json'
    cases = [s for case in ('case_01', 'case_05') for s in read_samples(PI05.folder / f'{case}.safetensors')]
    settings = CalibrationSettings(equalise=0.5)
    first = calibrate(PI05.folder, cases[:1], settings, kept_in=observed, threads=1)
    both = calibrate(PI05.folder, cases, settings, kept_in=observed, threads=1)
    assert both.samples == len(cases)
    assert both.equalisation.octaves == first.equalisation.octaves
    again = calibrate_kept(observed, CalibrationSettings(estimator='mse'))
    assert again.equalisation.octaves == first.equalisation.octaves
    more = [*cases, *read_samples(PI05.folder / 'case_03.safetensors')]
    with pytest.raises(Error, match=r'equalised with strength 0\.5, asked for is 0\.25'):
        calibrate(PI05.folder, more, CalibrationSettings(equalise=0.25), kept_in=observed)
    with pytest.raises(Error, match=r'equalised with strength 0\.5, this one is not equalised'):
        calibrate(PI05.folder, more, kept_in=observed)


def test_a_file_of_a_plain_model_is_not_gone_on_with(tmp_path):
    observed = tmp_path / 'observed.json'
    calibrate(PI05.folder, PI05.samples(), kept_in=observed, threads=1)
    with pytest.raises(Error, match=r'equalised nowhere, asked for is 0\.5'):
        calibrate(PI05.folder, PI05.samples(), CalibrationSettings(equalise=0.5), kept_in=observed)


# ---- what it wins


def test_it_recovers_outlier_channels_in_int8(tmp_path):
    """Random weights with three channels 1000 times as large; observations that are judged are others.

    Of 16 observations the factor was 0.68 to 0.80; of 4 it was up to 0.92, by how a processor adds up.
    """
    recipe = str(Path(__file__).parents[2] / 'config/recipes/int8.json')
    options = {'random_seed': 0, 'random_outliers': 1000.0, 'threads': 1}
    settings = BenchSettings(checkpoint=str(HEADS.folder), horizon=10, steps=5, new_prompts=True)
    config = Programs(HEADS.folder, **options).config
    seen, judged = (random_samples(config, settings, seed, 16) for seed in (1, 2))
    plain = Programs(HEADS.folder, **options)
    key = ProgramKey.of(judged[0])
    expected = [plain.get(key).infer(*sample.inputs) - sample.noise for sample in judged]

    def error(equalisation: Equalisation | None) -> float:
        path = tmp_path / 'calibration.json'
        watched = Programs(
            HEADS.folder, recipe=recipe, float_activations=True, equalisation=equalisation, **options
        )
        named = [(f'random {number}', sample) for number, sample in enumerate(seen)]
        calibrate_programs(watched, named, CalibrationSettings(recipe)).save(path)
        engine = Programs(HEADS.folder, recipe=recipe, calibration=str(path), **options).get(key)
        found = [engine.infer(*sample.inputs) - sample.noise for sample in judged]
        return relative(np.array(expected), np.array(found))

    watched = Programs(HEADS.folder, recipe=recipe, float_activations=True, **options).get(key)
    factors = equalise([('random', watched, sample.inputs) for sample in seen], 0.5)
    assert error(factors) < 0.9 * error(None)


# ---- commands


@pytest.fixture
def flashrt():
    """Commands as they are registered: name, arguments -> exit code, output, errors."""
    app = Typer(pretty_exceptions_enable=False)
    for command in (calibrate_command, compare_command):
        app.command(command.__name__.rpartition('.')[2])(command.run)

    def run(*arguments):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        return result.exit_code, result.stdout, result.stderr

    return run


def test_commands(flashrt, tmp_path):
    """The reference is equalised as well: the same values can be compared, within their bounds."""
    file = tmp_path / 'scales.json'
    case = PI05.folder / 'case_03.safetensors'
    code, out, _ = flashrt('calibrate', PI05.folder, case, '-o', file, '--equalise', 0.5)
    assert code == 0
    assert out.splitlines()[0].endswith('min_max, equalised with strength 0.5')
    code, out, err = flashrt('compare', PI05.folder, case, '--recipe', 'fp8', '--calibration', file)
    assert (code, err) == (0, '')
    assert out.splitlines()[1] == '286 results of 114 values, 0 beyond their bounds'
    code, out, _ = flashrt(
        'compare', PI05.folder, case, '--recipe', 'fp8', '--calibration', file, '--free-running', '--calls'
    )
    assert code == 0
    errors = {
        row[0].strip(): float(row[2]) for row in (line.rsplit(maxsplit=4) for line in out.splitlines()[2:])
    }
    assert errors['denoise.0.attn_norm'] < 0.2


def test_engines_that_are_not_equalised_alike_are_not_compared(tmp_path):
    ((_, sample),) = PI05.samples()
    key = ProgramKey.of(sample).keeping_values()
    first = Programs(PI05.folder, threads=1).get(key)
    second = Programs(PI05.folder, threads=1, equalisation=PI05.equalisation(0.5)).get(key)
    with pytest.raises(
        Error, match=r'first engine is not equalised, the second equalised with strength 0\.5'
    ):
        first.compare(second, *sample.inputs)
