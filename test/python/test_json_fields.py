# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Documents of golden folders: fields that do not fit are named, and names lead nowhere else."""

import json
import shutil
from pathlib import Path

import pytest

from flashrt_core.errors import Error
from flashrt_core.golden import RunOptions, check_folder
from flashrt_core.json_fields import Fields, read_object

GOLDEN = Path(__file__).parents[1] / 'golden'


@pytest.fixture
def edited(tmp_path):
    """A copy of a golden folder, beside the others, with one value of a document replaced."""

    def edit(name: str, file: str, *path_and_value) -> Path:
        for other in ('pi05_tiny', 'pi0_tiny', 'pi_tokenizer'):
            if other != name:
                (tmp_path / other).symlink_to(GOLDEN / other)
        folder = Path(shutil.copytree(GOLDEN / name, tmp_path / name))
        document = json.loads((folder / file).read_text())
        *keys, last, value = path_and_value
        target = document
        for key in keys:
            target = target[key]
        target[last] = value
        (folder / file).write_text(json.dumps(document))
        return folder

    return edit


@pytest.mark.parametrize(
    ('name', 'file', 'change', 'text'),
    [
        ('rtc', 'cases.json', ['guided_00', 5], "'guided_00' is 5, needed an object"),
        ('rtc', 'cases.json', ['guided_00', 'mode', 'free'], r"'mode' is 'free', needed one of \['guided'"),
        ('rtc', 'cases.json', ['guided_00', 'schedule', 'cubic'], "'schedule' is 'cubic', needed one of"),
        ('rtc', 'cases.json', ['guided_00', 'inference_delay', 1.5], "'inference_delay' is 1.5, needed a"),
        ('rtc', 'cases.json', ['guided_00', 'execution_horizon', -1], "'execution_horizon' is -1, needed a"),
        ('rtc', 'cases.json', ['guided_00', 'max_guidance_weight', 'x'], "is 'x', needed a finite number"),
        ('rtc', 'prefix_weights.json', [0, 5], r'prefix_weights\.json\[0\] is a int, needed an object'),
        ('rtc', 'prefix_weights.json', [0, 'chunk', 1 << 40], 'needed a whole number from 0 to 65536'),
        ('pi_e2e', 'cases.json', ['aloha_pi05', 'platform', ['x']], r"'platform' is \['x'\], needed a text"),
        ('pi_e2e', 'cases.json', ['aloha_pi05', 'delta_mask', 6], "'delta_mask' is 6, needed a list"),
        ('pi_e2e', 'cases.json', ['aloha_pi05', 'use_quantile_norm', 1], 'is 1, needed true or false'),
        ('pi_tokenizer', 'fast_cases.json', ['cases', 0, 'actions', [[1], []]], 'needed finite numbers in 2'),
        ('pi_tokenizer', 'fast_cases.json', ['cases', 0, 'actions', [[1e30] * 7] * 10], 'no character of'),
        ('pi_tokenizer', 'fast_cases.json', ['cases', 0, 'tokens', ['a']], 'needed a list of whole numbers'),
        ('pi_tokenizer', 'fast_cases.json', ['scale', 0], 'scale 0.0, horizon 10 .* must be positive'),
        ('pi_tokenizer', 'prompt_cases.json', ['cases', {}], "'cases' is {}, needed a list of objects"),
        ('preprocess', 'resize_cases.json', ['cases', 0, 'h', 0], "'h' is 0, needed a whole number from 1"),
        ('preprocess', 'delta_absolute.json', ['aloha', 'mask_spec', [99]], 'mask_spec says 99 columns'),
        ('preprocess', 'relative_lerobot.json', ['all', 'exclude_joints', [1]], 'needed a list of texts'),
        ('preprocess', 'camera_masks.json', ['panda/pi0', {}], "'panda/pi0' is no platform with a model"),
        ('preprocess', 'prompt_text_lerobot.json', [0, 'task', '\ud800'], r'\.json cannot be read .Unicode'),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(name, file, change, text, edited):
    with pytest.raises(Error, match=text) as refusal:
        check_folder(edited(name, file, *change))
    assert file in str(refusal.value) or 'FAST codec' in str(refusal.value)


OUTSIDE = ['../pi05_tiny', '/etc/passwd', 'pi05_tiny/../pi0_tiny', './pi05_tiny', '..', '', 'a//b', 'y' * 300]


@pytest.mark.parametrize('value', OUTSIDE)
@pytest.mark.parametrize(
    ('name', 'case', 'field'),
    [('pi_e2e', 'aloha_pi05', 'model'), ('pi_e2e', 'aloha_pi05', 'tokenizer'), ('rtc', 'guided_00', 'model')],
)
@pytest.mark.parametrize('model', [None, GOLDEN, GOLDEN / 'pi05_tiny'])
def test_models_and_tokenizers_lie_in_the_folder_or_beside_it(value, name, case, field, model, edited):
    folder = edited(name, 'cases.json', case, field, value)
    with pytest.raises(Error, match=rf"{case}: field '{field}' is .*, needed 'folder' or 'folder/file'"):
        check_folder(folder, RunOptions(model=model))


@pytest.mark.parametrize(
    'value', ['../pi05_tiny/case_00.safetensors', '/etc/passwd', '..', '', 'sub/case.npz']
)
def test_inputs_lie_in_the_folder_of_the_model(value, edited):
    folder = edited('rtc', 'cases.json', 'guided_00', 'inputs', value)
    with pytest.raises(Error, match=r'guided_00: .* is not the name of a file in .*pi05_tiny'):
        check_folder(folder)


@pytest.mark.parametrize(('name', 'known'), [('pi_e2e', 'aloha_pi05'), ('rtc', 'guided_00')])
def test_cases_are_files_of_the_folder(name, known, edited):
    case = json.loads((GOLDEN / name / 'cases.json').read_text())[known]
    shown = f'../{name}/{known}'
    folder = edited(name, 'cases.json', shown, case)
    (folder / 'cases.json').write_text(json.dumps({shown: case}))
    with pytest.raises(
        Error, match=rf"cases\.json: '\.\./{name}/{known}\.safetensors' is not the name of a file"
    ):
        check_folder(folder)


def test_a_tokenizer_may_lie_in_the_folder_itself(edited):
    folder = edited('pi_e2e', 'cases.json', 'aloha_pi05', 'tokenizer', 'pi_e2e/own.model')
    shutil.copy(GOLDEN / 'pi_tokenizer' / 'tiny_spm.model', folder / 'own.model')
    report = check_folder(folder)
    assert all(item.passed for item in report.comparisons)
    assert [gap.place for gap in report.gaps] == ['own.model']


@pytest.mark.parametrize(
    ('value', 'axes'),
    [(True, 0), ('1', 0), (float('nan'), 0), (1e39, 0), (1 << 2000, 0), ([1], 0), (1, 1), ([[1], [1, 2]], 2),
     ([['1']], 2), ([1, [2]], 1), ({}, 1)],
)  # fmt: skip
def test_numbers_are_finite_and_of_one_shape(value, axes):
    with pytest.raises(Error, match=r"file: field 'a' is .*, needed"):
        Fields('file', {'a': value}).numbers('a', axes)


def test_numbers_keep_their_shape():
    assert Fields('file', {'a': [[1, 2.5, 3]]}).numbers('a', axes=2).tolist() == [[1, 2.5, 3]]
    assert Fields('file', {'a': []}).numbers('a', axes=2).shape == (0, 0)
    assert Fields('file', {'a': [[], []]}).numbers('a', axes=2).shape == (2, 0)


def test_long_values_are_cut_in_messages(tmp_path):
    (tmp_path / 'x.json').write_text(json.dumps({'a': ['long'] * 1000}))
    with pytest.raises(
        Error, match=r"x\.json: field 'a' is \['long'.*\.\.\., needed true or false"
    ) as refusal:
        read_object(tmp_path / 'x.json').flag('a')
    assert len(str(refusal.value)) < 300
