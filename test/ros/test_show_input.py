# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`flashrt show-input`: the pixels, the numbers and the text that the model gets, without its weights."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from fake_policy import CASES
from PIL import Image
from tiny_checkpoint import SIZES, SLOTS, tiny_values, write_params, write_tiny_checkpoint
from typer.testing import CliRunner

from flashrt_core.prompt import state_bins
from flashrt_ros import show_input
from flashrt_ros.bag import Bag, BagError
from flashrt_ros.bag_inputs import BagInputs
from flashrt_ros.input_picture import draw_views, view_corner
from flashrt_ros.load import load_policy
from flashrt_ros.parameters import Parameters, read_parameters
from flashrt_ros.without_weights import policy_without_weights

BAGS = CASES / 'bags'
BAG = BAGS / 'plain_db3'


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory) -> Path:
    return write_tiny_checkpoint(tmp_path_factory.mktemp('tiny') / 'checkpoint')


@pytest.fixture
def command(checkpoint, tmp_path):
    """Runs `flashrt show-input` on parameters with changes; returns its result and the picture, if any."""
    app = typer.Typer()
    app.command()(show_input.run)

    def run(*arguments: object, bag: Path = BAG, **changes: object):
        params = write_params(tmp_path / 'params.yaml', tiny_values(checkpoint, **changes))
        out = tmp_path / 'new_folder' / 'input.png'
        given = [bag, '--params', params, '--out', out, *arguments]
        result = CliRunner().invoke(app, [str(argument) for argument in given], env={'COLUMNS': '200'})
        return result, np.asarray(Image.open(out)) if out.exists() else None

    return run


def parameters(checkpoint: Path, **changes: object) -> Parameters:
    return read_parameters(tiny_values(checkpoint, **changes), '/policy')[0]


def views(picture: np.ndarray) -> list[np.ndarray]:
    size = SIZES.image
    corners = [view_corner(i, size) for i in range(len(SLOTS))]
    return [picture[top : top + size, left : left + size] for top, left in corners]


def observed(given: Parameters, prompt_id: int, at_s: float | None = None):
    with Bag(BAG, lambda _: None) as bag:
        return show_input.observe(bag, given, prompt_id, at_s, lambda _: None)


@pytest.mark.parametrize('at_s', [None, 1.0])
@pytest.mark.parametrize('changes', [{}, {'cameras__max_image_bytes': 1 << 20}, {'model__resize': 'lerobot'}])
def test_picture_has_the_bytes_of_the_policy_with_its_weights(command, checkpoint, changes, at_s):
    result, picture = command(*([] if at_s is None else ['--at', at_s]), **changes)
    assert result.exit_code == 0, result.output
    given = parameters(checkpoint, **changes)
    policy = load_policy(given)
    expected = policy.model_images(observed(given, policy.set_prompt(given.prompt), at_s).observation)
    assert np.array_equal(views(picture), expected)


def test_moments_differ(command):
    assert not np.array_equal(command('--at', 0.5)[1], command('--at', 1.5)[1])


def test_swapped_cameras_look_swapped(command):
    base, wrist = views(command()[1])
    assert not np.array_equal(base, wrist)
    swapped = {
        f'cameras__{SLOTS[slot]}__topic': f'cam_{other}/image_raw/compressed'
        for slot, other in (('base', 'wrist'), ('wrist', 'base'))
    }
    assert np.array_equal(views(command(**swapped)[1]), [wrist, base])


def test_a_turned_camera_looks_turned(command):
    """The recorded pictures are 4:3, so that bars change sides."""
    upright, _ = views(command()[1])
    turned, _ = views(command(cameras__base_0_rgb__rotation=180)[1])
    assert np.abs(turned.astype(int) - upright[::-1, ::-1]).max() <= 2
    assert not np.array_equal(turned, upright)


def test_state_and_prompt_are_those_of_the_model(command, checkpoint):
    result, _ = command('--at', 1.0)
    given = parameters(checkpoint)
    policy = load_policy(given)
    prompt_id = policy.set_prompt(given.prompt)
    observation = observed(given, prompt_id, 1.0).observation
    model_input = policy.model_input(observation)
    bins = state_bins(model_input.state.normalised)
    for i, name in enumerate(given.joint_names):
        numbers = [f'{observation.state[i]:.4f}', f'{model_input.state.normalised[i]:.4f}', str(bins[i])]
        assert re.search(rf'{name} +{" +".join(map(re.escape, numbers))}', result.output), result.output
    [text] = policy.pipeline.prompt.pieces(given.prompt, bins)
    assert repr(text) in result.output
    assert f'{len(model_input.tokens)} of 200 tokens' in result.output


def test_a_joint_outside_of_the_training_data_is_marked(command, checkpoint):
    result, _ = command()
    assert 'outside of the training data' not in result.output
    narrow = write_narrow_statistics(checkpoint)
    result, _ = command(model__statistics=str(narrow))
    marked = [line.split()[0] for line in result.output.splitlines() if 'outside of' in line]
    assert marked == ['joint_2']


def write_narrow_statistics(checkpoint: Path) -> Path:
    """joint_2 has moved less than it does in the recording."""
    path = checkpoint.with_name('narrow.json')
    text = (checkpoint / 'assets' / 'aloha_sim' / 'norm_stats.json').read_text()
    path.write_text(text.replace('"q99": [2.0, 2.0,', '"q99": [2.0, -1.9,'))
    return path


def test_a_prompt_without_state_shows_no_bins(command):
    result, _ = command(model__state_in_prompt=False)
    assert result.exit_code == 0, result.output
    assert ' bin ' not in result.output
    assert repr('pick up the red block\n') in result.output


def test_weights_are_not_needed(command, checkpoint, tmp_path):
    bare = tmp_path / 'bare'
    bare.mkdir()
    (bare / 'config.json').write_bytes((checkpoint / 'config.json').read_bytes())
    usual = command()[1]
    result, picture = command(
        model__checkpoint=str(bare),
        model__recipe='fp8',
        model__calibration='missing.json',
        model__backend='cuda',
    )
    assert result.exit_code == 0, result.output
    assert np.array_equal(picture, usual)


def test_a_policy_without_weights_does_not_infer(checkpoint):
    given = parameters(checkpoint)
    policy = policy_without_weights(given)
    prompt_id = policy.set_prompt(given.prompt)
    with pytest.raises(Exception, match='loaded without its weights'):
        policy.infer(observed(given, prompt_id).observation)


def test_ros_is_not_imported():
    code = (
        'import sys, flashrt_ros.show_input; '
        "print([name for name in ('rclpy', 'sensor_msgs') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, '-c', code], capture_output=True, text=True).stdout == '[]\n'


@pytest.mark.parametrize(
    ('arguments', 'changes', 'words'),
    [
        (['--at', '9'], {}, '--at 9: the recording'),
        (['--at', '0'], {}, 'at 0 s: no picture from camera'),
        ([], {'joints__names': ['a', 'b']}, 'joints.lower has 7 values'),
        ([], {'joints__topics': ['elsewhere']}, 'does not hold /elsewhere'),
        ([], {'prompt': 'word ' * 300}, 'tokens, the capacity is 200'),
        ([], {'model__tokenizer': '/missing/file'}, 'tokenizer: /missing/file does not exist'),
    ],
)
def test_faults_are_named_and_nothing_is_written(command, arguments, changes, words):
    result, picture = command(*arguments, **changes)
    assert result.exit_code == show_input.FAULTY
    assert words in result.output
    assert 'Traceback' not in result.output
    assert picture is None


def test_only_pictures_near_the_moment_are_decoded(checkpoint, monkeypatch):
    given = parameters(checkpoint)
    decoded = []

    class Inputs(BagInputs):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            form = self.buffer.form
            monkeypatch.setattr(
                self.buffer, 'form', lambda now, prompt_id: decoded.append(now()) or form(now, prompt_id)
            )

    whole = observed(given, 1, 1.5)
    monkeypatch.setattr(show_input, 'BagInputs', Inputs)
    assert observed(given, 1, 1.5).stamp_ns == whole.stamp_ns
    with Bag(BAG, lambda _: None) as bag:
        since_start_s = [(moment.ros_ns - bag.start_ns) / 1e9 for moment in decoded]
    window_s = given.camera_max_age_s + given.max_clock_skew_s
    assert min(since_start_s) >= 1.5 - window_s
    assert max(since_start_s) <= 1.5


def test_a_recording_without_an_observation_says_why(checkpoint):
    given = parameters(checkpoint)
    words = re.compile('no observation in the whole recording.*zero')
    with Bag(BAGS / 'stamp_zero', lambda _: None) as bag, pytest.raises(BagError, match=words):
        show_input.observe(bag, given, 1, None, lambda _: None)


def test_a_picture_that_cannot_be_written_is_named(command, tmp_path):
    (tmp_path / 'file').write_text('')
    result, _ = command('--out', tmp_path / 'file' / 'input.png')
    assert result.exit_code == show_input.FAULTY
    assert 'cannot be written' in result.output


def test_titles_do_not_touch_the_views():
    images = np.arange(3 * 16 * 16 * 3, dtype=np.uint8).reshape(3, 16, 16, 3)
    plain = draw_views(['', '', ''], images)
    titled = draw_views(['base', 'a name longer than its view', 'wrist'], images)
    for i, image in enumerate(images):
        top, left = view_corner(i, 16)
        for picture in (plain, titled):
            assert np.array_equal(picture[top : top + 16, left : left + 16], image)
    assert not np.array_equal(plain, titled)
