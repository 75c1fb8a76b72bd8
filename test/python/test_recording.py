# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`flashrt calibrate` on a recording: the observations of the node, spread, to a file that the node loads."""

import json
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
import yaml
from typer import Typer
from typer.testing import CliRunner

import flashrt_core.recordings
from flashrt_core._core import Calibration, pack_weights
from flashrt_core.cli import calibrate
from flashrt_core.errors import Error
from flashrt_core.proposal import Limit, propose
from flashrt_core.result_file import write_result
from flashrt_core.sensitivity import SensitivitySettings, open_bench, study
from flashrt_core.sensitivity_file import StoredStudy, worst_joint
from flashrt_core.trials import Source
from flashrt_core.types import Observation
from flashrt_ros.bag import Bag, BagError
from flashrt_ros.bag_inputs import observations
from flashrt_ros.load import load_policy
from flashrt_ros.parameter_table import ParameterFaults
from flashrt_ros.parameters import load_parameters_file
from flashrt_ros.recording import open_recording

ROOT = Path(__file__).resolve().parents[2]
BAGS = ROOT / 'test' / 'cases' / 'bags'
GOLDEN = ROOT / 'test' / 'golden'
DURATION_S = 2.0  # of the recordings, about


@pytest.fixture
def write_params(tmp_path, write_stats):
    """Writes the parameters of the robot of the recordings with a tiny Pi0.5; changes: 'model' -> values."""

    def write(**changes: dict) -> Path:
        file = ROOT / 'test' / 'cases' / 'params' / 'ok.yaml'
        parameters = yaml.safe_load(file.read_text())['/**']['policy']['ros__parameters']
        cameras = {
            slot: {'topic': f'cam_{name}/image_raw/compressed', 'transport': 'compressed', 'rotation': 0}
            for slot, name in (('base_0_rgb', 'base'), ('left_wrist_0_rgb', 'wrist'))
        }
        parameters['cameras'] = {'names': list(cameras), **cameras}
        parameters['model'] |= {
            'checkpoint': str(GOLDEN / 'pi05_tiny'),
            'tokenizer': str(GOLDEN / 'pi_tokenizer' / 'tiny_spm.model'),
            'statistics': str(write_stats(7, 7, low=-2.0, high=2.0)),
            'recipe': 'fp8',
            'calibration': str(tmp_path / 'scales.json'),
            'denoise_steps': 2,
            'threads': 2,
        }
        for section, values in changes.items():
            parameters[section] |= values
        path = tmp_path / 'robot.yaml'
        path.write_text(yaml.safe_dump({'/**': {'policy': {'ros__parameters': parameters}}}))
        return path

    return write


@pytest.fixture
def policy(write_params):
    """Of the same parameters, in float32: what it is asked for is an observation's worth of inputs."""
    parameters, _ = load_parameters_file(write_params(model={'recipe': 'f32', 'calibration': ''}))
    return load_policy(parameters)


@pytest.fixture
def flashrt(monkeypatch):
    """`flashrt calibrate` as it is registered: arguments -> result."""
    project = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']
    entries = [
        EntryPoint(name, value, flashrt_core.recordings.GROUP)
        for name, value in project['entry-points'][flashrt_core.recordings.GROUP].items()
    ]

    def entry_points(group: str, name: str) -> list[EntryPoint]:
        return [entry for entry in entries if (entry.group, entry.name) == (group, name)]

    monkeypatch.setattr(flashrt_core.recordings, 'entry_points', entry_points)
    app = Typer(pretty_exceptions_enable=False)
    app.command()(calibrate.run)

    def run(*arguments: object):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return run


def read(bag: Path, params: Path, policy, count: int, warn=pytest.fail) -> list[tuple[float, Observation]]:
    """(seconds from the begin of the recording, observation)"""
    with open_recording(bag, params, warn) as recording:
        return [
            (float(name.removeprefix(f'{bag.name} at ').removesuffix(' s')), observation)
            for name, observation in recording.observations(policy, count)
        ]


@pytest.mark.parametrize('count', [1, 4, 7])
def test_observations_are_spread_over_the_recording(write_params, policy, count):
    times = [time for time, _ in read(BAGS / 'plain_db3', write_params(), policy, count)]
    assert len(times) == count
    span = DURATION_S / count
    for i, time in enumerate(times):
        middle = (i + 0.5) * span
        assert middle - 0.06 <= time <= middle + 0.16, times  # a picture comes every 0.1 s


def test_observations_are_those_that_the_node_forms(write_params, policy):
    params = write_params()
    parameters, _ = load_parameters_file(params)
    with Bag(BAGS / 'plain_db3', pytest.fail) as bag:
        formed = [item.observation for item in observations(bag, parameters, prompt_id=1)]
    by_stamps = {pictures_of(observation): observation for observation in formed}
    for _, observation in read(BAGS / 'plain_db3', params, policy, 6):
        expected = by_stamps[pictures_of(observation)]
        assert observation.prompt_id == 1
        for slot, picture in observation.images.items():
            np.testing.assert_array_equal(picture, expected.images[slot])
        assert observation.state.shape == (7,)
        assert policy.model_input(observation).tokens.size > 1


def pictures_of(observation: Observation) -> tuple[int, ...]:
    return tuple(observation.stamps_ns[slot] for slot in observation.images)


def test_fewer_than_were_asked_for_is_said(write_params, policy):
    warnings: list[str] = []
    observed = read(BAGS / 'plain_mcap', write_params(), policy, 500, warnings.append)
    assert 20 < len(observed) < 45  # 20 pictures of each camera
    assert warnings == [f'{BAGS}/plain_mcap gives {len(observed)} observations, 500 were asked for']


def test_a_recording_without_an_observation_is_refused_with_the_reason(write_params, policy):
    warnings: list[str] = []
    with pytest.raises(
        BagError, match=r"stamp_zero gives no observation .*no picture from camera 'base_0_rgb'"
    ):
        read(BAGS / 'stamp_zero', write_params(), policy, 4, warnings.append)
    assert 'stamp is zero' in warnings[0]
    with pytest.raises(BagError, match='does not hold /nowhere, which the parameters name'):
        read(BAGS / 'plain_db3', write_params(joints={'topics': ['nowhere']}), policy, 4)


def test_a_checkpoint_that_is_not_the_one_of_the_parameters_is_refused(write_params, policy):
    with pytest.raises(ParameterFaults, match=r'model\.config is pi0, the checkpoint holds pi05'):
        read(BAGS / 'plain_db3', write_params(model={'config': 'pi0'}), policy, 4)


def test_from_a_recording_to_a_policy_in_fp8(flashrt, write_params, tmp_path):
    """The file is written where the parameters want it, and the node's policy runs with it."""
    params = write_params()
    parameters, _ = load_parameters_file(params)
    with pytest.raises(
        Error, match=r'calibration .*/scales\.json does not exist; `flashrt calibrate` writes it'
    ):
        load_policy(parameters)
    result = flashrt(BAGS / 'plain_db3', '--params', params, '--observations', 3, '--per-step')
    assert (result.exit_code, result.stderr) == (0, '')
    assert result.stdout.startswith(f'{tmp_path}/scales.json: ')
    assert 'sites from 3 samples (plain_db3 at 0.' in result.stdout
    assert '2 steps, recipe fp8, min_max, per step' in result.stdout
    calibration = Calibration.load(tmp_path / 'scales.json')
    assert calibration.samples == 3
    assert len(calibration.scales('denoise.0.attn_norm')) == 2

    running = load_policy(parameters)
    assert running.info()['calibration'] == str(tmp_path / 'scales.json')
    ((_, observation),) = read(BAGS / 'plain_db3', params, running, 1)
    assert np.isfinite(running.infer(observation).actions).all()


def test_options_replace_parameters(flashrt, write_params, tmp_path):
    """A file for the GPU calibrates on the processor, with packed weights, to another file."""
    packed = tmp_path / 'packed.safetensors'
    pack_weights(GOLDEN / 'pi05_tiny', packed, recipe='fp8')
    params = write_params(model={'backend': 'cuda', 'recipe': 'fp8_f16', 'packed': str(tmp_path / 'none')})
    how = ('--backend', 'cpu', '--recipe', 'fp8', '--packed', packed, '--threads', 1)
    how += ('--estimator', 'percentile', '--fraction', 0.99, '--observations', 2)
    result = flashrt(BAGS / 'plain_db3', '--params', params, '-o', tmp_path / 'b.json', *how)
    assert result.exit_code == 0, result.exception
    assert not (tmp_path / 'scales.json').exists()
    stored = json.loads((tmp_path / 'b.json').read_text())
    assert stored['method'] == {'estimator': 'percentile', 'fraction': 0.99, 'per_step': False}
    assert 'recipe fp8, percentile 0.99' in stored['origin']


def test_one_observation_is_warned_about(flashrt, write_params):
    result = flashrt(BAGS / 'plain_db3', '--params', write_params(), '--observations', 1)
    assert result.exit_code == 0
    assert result.stderr == 'warning: one observation says little about the range of others\n'


def test_a_recipe_without_fp8_is_refused_and_nothing_is_written(flashrt, write_params, tmp_path):
    params = write_params(model={'recipe': 'bf16'})
    result = flashrt(BAGS / 'plain_db3', '--params', params)
    assert 'the recipe quantises no activation' in str(result.exception)
    assert not (tmp_path / 'scales.json').exists()


def test_what_is_missing_is_named(flashrt, write_params, tmp_path, monkeypatch):
    params = write_params(model={'recipe': 'bf16', 'calibration': ''})
    bag = BAGS / 'plain_db3'

    def fault(*arguments: object) -> str:
        result = flashrt(*arguments)
        assert isinstance(result.exception, Error), result.exception
        return str(result.exception)

    assert 'give --output, or name the file as model.calibration' in fault(bag, '--params', params)
    assert 'only the recording is given' in fault(bag, bag, '--params', params)
    assert 'give CHECKPOINT SAMPLES --output FILE, or, for what' in fault(bag)
    assert 'RECORDING --params FILE' in fault(GOLDEN / 'pi05_tiny', GOLDEN / 'pi05_tiny')
    far = tmp_path / 'no' / 'a.json'
    assert f'folder {far.parent} of the output does not exist' in fault(bag, '--params', params, '-o', far)
    assert 'model.calibration is missing' in fault(bag, '--params', write_params(model={'calibration': ''}))
    monkeypatch.setattr(flashrt_core.recordings, 'entry_points', lambda **_: [])
    assert 'read by the package flashrt_ros, which is not installed' in fault(bag, '--params', params)


def test_a_backend_that_is_not_there_is_named(flashrt, write_params, no_gpu):
    if not no_gpu:
        pytest.skip('there is a GPU')
    result = flashrt(BAGS / 'plain_db3', '--params', write_params(model={'backend': 'cuda'}))
    assert str(result.exception).startswith("backend 'cuda' ")


def test_settings_of_a_recording_are_those_of_the_node(write_params):
    params = write_params(model={'tuning': '/var/t.json', 'device': 1})
    with open_recording(BAGS / 'plain_db3', params, pytest.fail) as recording:
        assert (recording.settings.tuning, recording.settings.device) == ('/var/t.json', 1)


# ---- sensitivity


def test_errors_of_joints_are_in_the_units_of_the_robot(flashrt, write_params, policy, tmp_path):
    """Against actions of the policy itself, on the observations of the recording."""
    params = write_params()
    bag = BAGS / 'plain_db3'
    source = Source(
        recording=str(bag),
        params=str(params),
        observations=2,
        calibrate_on=2,
        backend_options={'threads': 2},
    )
    scales = tmp_path / 'made.json'
    bench = open_bench(SensitivitySettings(source, curve=0), tmp_path, scales)
    assert not [trial.name for trial in bench.trials.judged if trial.name in Calibration.load(scales).origin]
    found = bench.measure(bench.load(()), ()).errors
    parameters, _ = load_parameters_file(write_params(model={'calibration': str(scales)}))
    quantised = load_policy(parameters)
    quantised.set_prompt(parameters.prompt)
    names = [trial.name for trial in bench.trials.judged]
    squares = []
    with open_recording(bag, params, pytest.fail) as recording:
        for name, observation in recording.observations(policy, 4):
            if name in names:
                noise = bench.trials.judged[names.index(name)].noise
                chunks = [each.infer(observation, noise=noise) for each in (policy, quantised)]
                squares.append((chunks[0].actions - chunks[1].actions) ** 2)
    assert bench.joints == parameters.commanded_joints
    rms = np.sqrt(np.mean(squares, axis=(0, 1)))
    np.testing.assert_allclose([joint.rms for joint in found.joints], rms, rtol=1e-6)
    assert rms.min() > 0
    worst = np.sqrt(np.max(squares, axis=(0, 1)))
    np.testing.assert_allclose([joint.worst for joint in found.joints], worst, rtol=1e-6)


def test_a_proposed_recipe_holds_the_worst_joint_within_its_limit(flashrt, write_params, tmp_path):
    source = Source(
        recording=str(BAGS / 'plain_db3'),
        params=str(write_params()),
        observations=2,
        calibrate_on=1,
        backend_options={'threads': 2},
    )
    settings = SensitivitySettings(source, curve=0, command='flashrt sensitivity')
    file = tmp_path / 'study.json'
    bench = open_bench(settings, tmp_path, tmp_path / 'made.json')
    study(settings, bench, lambda content: write_result(file, content))
    stored = StoredStudy.read(file)
    errors = sorted(variant.error('joint') for variant in stored.variants.values())
    limit = (errors[0] + errors[-1]) / 2
    proposal = propose(stored, Limit(max_error=limit, measure='joint'), (), lambda text: None)
    name, rms = worst_joint(proposal.errors)
    assert name in bench.joints
    assert rms <= limit
