# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Transforms, tokenizer, whole policies and real-time chunking reproduce the originals."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from flashrt_core.errors import Error
from flashrt_core.golden import RunOptions, check_folder

GOLDEN = Path(__file__).parents[1] / 'golden'


@pytest.mark.parametrize('name', ['preprocess', 'pi_tokenizer', 'pi_e2e', 'rtc'])
def test_the_original_is_reproduced(name):
    report = check_folder(GOLDEN / name)
    assert report.gaps == []
    assert [item for item in report.comparisons if not item.passed] == []


def test_every_file_of_the_transforms_is_compared():
    tensors = {item.tensor for item in check_folder(GOLDEN / 'preprocess').comparisons}
    assert tensors == {
        'pil_u8', 'bilinear_u8', 'antialias_u8', 'antialias_f32', 'bilinear_f32', 'letterbox', 'input sum',
        'state_normalised', 'actions_unnormalised', 'norm_stats.json', 'state bins', 'lerobot prompt',
        'delta mask', 'delta mask in JSON', 'delta actions', 'absolute actions', 'relative mask',
        'relative mask in JSON', 'lerobot relative actions', 'lerobot absolute actions', 'ALOHA state',
        'ALOHA actions', 'DROID state', 'float image', 'camera masks',
    }  # fmt: skip


def test_pictures_of_the_served_path_are_equal_to_the_byte():
    report = check_folder(GOLDEN / 'preprocess')
    pictures = [item for item in report.comparisons if item.tensor in ('pil_u8', 'bilinear_u8')]
    assert len(pictures) == 39
    assert all(item.bound == 0 and item.error == 0 for item in pictures)


def test_whole_policies_are_equal_where_they_must_be():
    report = check_folder(GOLDEN / 'pi_e2e')
    exact = {item.tensor for item in report.comparisons if item.bound == 0}
    assert exact == {'images', 'image masks', 'token ids', 'token mask'}
    errors = [item.error for item in report.comparisons if item.tensor == 'model actions']
    assert len(errors) == 6
    assert max(errors) < 1e-5


def test_execution_of_chunks_is_equal_where_it_must_be():
    report = check_folder(GOLDEN / 'rtc')
    compared = {}
    for item in report.comparisons:
        compared[item.tensor] = compared.get(item.tensor, 0) + item.compared
    assert (compared['queue size'], compared['queue action'], compared['queue leftover']) == (62, 48, 204)
    assert (compared['ensemble'], compared['interpolation'], compared['is policy action']) == (81, 63, 21)
    assert all(item.error == 0 for item in report.comparisons if item.tensor.startswith('queue'))


def copy(name: str, tmp_path: Path) -> Path:
    """A folder beside the models and the tokenizer that its cases name."""
    for other in ('pi05_tiny', 'pi0_tiny', 'pi_tokenizer'):
        if other != name:
            (tmp_path / other).symlink_to(GOLDEN / other)
    return Path(shutil.copytree(GOLDEN / name, tmp_path / name))


@pytest.mark.parametrize(
    ('name', 'file', 'tensor', 'found'),
    [
        ('pi_e2e', 'aloha_pi05', 'out.image.base_0_rgb', 'images'),
        ('pi_e2e', 'aloha_pi05', 'out.token_ids', 'token ids'),
        ('pi_e2e', 'droid_pi05', 'out.state_normalised', 'state normalised'),
        ('pi_e2e', 'libero_pi0', 'out.state_model', 'state of the model'),
        ('pi_e2e', 'libero_pi0', 'out.actions_unnormalised', 'actions unnormalised'),
        ('pi_e2e', 'aloha_pi0_one_camera', 'out.actions', 'robot actions'),
        ('rtc', 'guided_00', 'out.actions', 'out.actions'),
        ('rtc', 'guided_00', 'out.correction', 'out.correction'),
        ('rtc', 'trained_01', 'out.v_t', 'out.v_t'),
        ('rtc', 'prefix_weights', 'weights.exp.0_10_50', 'prefix weights'),
        ('rtc', 'temporal_ensemble', 'b.actions', 'ensemble'),
        ('rtc', 'interpolation', 'x2.output', 'interpolation'),
        ('rtc', 'interpolation', 'x3.is_policy_action', 'is policy action'),
        ('preprocess', 'resize_openpi', 'pil_u8.7x7_to_56x56', 'pil_u8'),
        ('preprocess', 'resize_lerobot', 'bilinear_f32.7x7_to_56x56', 'bilinear_f32'),
        ('preprocess', 'normalise_lerobot', 'min_max.state_normalised', 'state_normalised'),
        ('preprocess', 'state_bins', 'bin_f64', 'state bins'),
        ('preprocess', 'platforms', 'aloha_adapt.actions_out', 'ALOHA actions'),
    ],
)
def test_a_changed_value_is_found(name, file, tensor, found, tmp_path):
    folder = copy(name, tmp_path)
    tensors = load_file(folder / f'{file}.safetensors')
    first = tensors[tensor].reshape(-1)[:1]
    first += 1 if first.dtype.kind in 'iu' else max(1e-3, 1e-3 * abs(float(first[0])))
    save_file(tensors, folder / f'{file}.safetensors')
    report = check_folder(folder)
    assert {item.tensor for item in report.comparisons if not item.passed} == {found}


@pytest.mark.parametrize(
    ('name', 'file'), [('preprocess', 'platforms'), ('pi_e2e', 'aloha_pi05'), ('rtc', 'guided_00')]
)
def test_an_unknown_tensor_is_not_passed_over(name, file, tmp_path):
    folder = copy(name, tmp_path)
    tensors = load_file(folder / f'{file}.safetensors') | {'out.torque': np.zeros(2)}
    save_file(tensors, folder / f'{file}.safetensors')
    report = check_folder(folder)
    assert not report.passed()
    assert 'out.torque' in {gap.what for gap in report.gaps}


@pytest.mark.parametrize(
    ('name', 'file'),
    [
        ('pi05_tiny', 'cases.json'),
        ('pi_e2e', 'cases.json'),
        ('rtc', 'prefix_weights.json'),
        ('preprocess', 'camera_masks.json'),
        ('pi_tokenizer', 'fast_cases.json'),
    ],
)
def test_a_document_of_another_kind_is_refused(name, file, tmp_path):
    shutil.copytree(GOLDEN / name, tmp_path / name)
    (tmp_path / name / file).write_text('5')
    with pytest.raises(Error, match=rf'{file} holds a int, needed a'):
        check_folder(tmp_path / name, RunOptions(model=GOLDEN if name != 'pi05_tiny' else None))


def test_a_document_without_cases_is_not_passed_over(tmp_path):
    shutil.copytree(GOLDEN / 'preprocess', tmp_path / 'preprocess')
    (tmp_path / 'preprocess' / 'camera_masks.json').write_text('{}')
    (gap,) = check_folder(tmp_path / 'preprocess').gaps
    assert (gap.place, gap.why) == ('camera_masks.json', 'it holds no case')


@pytest.mark.parametrize('name', ['preprocess', 'pi_e2e', 'pi_tokenizer', 'rtc', 'pi05_tiny'])
def test_an_unknown_file_is_not_passed_over(name, tmp_path):
    folder = copy(name, tmp_path)
    (folder / 'extra.safetensors').write_text('')
    (folder / 'README.md').write_text('notes')
    report = check_folder(folder)
    assert not report.passed()
    assert {gap.place for gap in report.gaps} == {'extra.safetensors'}


@pytest.mark.parametrize(
    ('change', 'found'),
    [
        (lambda call: call['result'].__setitem__(0, 0.0), 'queue action'),
        (lambda call: call.update(result=None), 'queue action is there'),
        (lambda call: call.update(qsize=6), 'queue size'),
        (lambda call: call.update(index=2), 'queue index'),
        (lambda call: call.update(empty=True), 'queue empty'),
    ],
)
def test_a_changed_call_of_the_queue_is_found(change, found, tmp_path):
    folder = copy('rtc', tmp_path)
    traces = json.loads((folder / 'action_queue_trace.json').read_text())
    change(traces[0]['ops'][3])
    (folder / 'action_queue_trace.json').write_text(json.dumps(traces))
    report = check_folder(folder)
    failed = {(item.case, item.tensor) for item in report.comparisons if not item.passed}
    assert failed == {('action_queue_trace[0][3]', found)}


def test_a_trace_without_calls_is_not_passed_over(tmp_path):
    folder = copy('rtc', tmp_path)
    (folder / 'action_queue_trace.json').write_text('[]')
    (gap,) = check_folder(folder).gaps
    assert (gap.place, gap.why) == ('action_queue_trace.json', 'it holds no case')


def test_a_changed_token_is_found(tmp_path):
    folder = copy('pi_tokenizer', tmp_path)
    cases = json.loads((folder / 'prompt_cases.json').read_text())
    cases['cases'][0]['ids'][3] += 1
    (folder / 'prompt_cases.json').write_text(json.dumps(cases))
    report = check_folder(folder)
    (failed,) = (item for item in report.comparisons if not item.passed)
    assert (failed.case, failed.tensor, failed.where) == ('prompt_cases[0]', 'pi0 ids', (3,))


@pytest.mark.parametrize(
    ('name', 'file', 'field'),
    [
        ('pi_e2e', 'cases.json', 'platform'),
        ('rtc', 'cases.json', 'inference_delay'),
        ('pi_tokenizer', 'prompt_cases.json', 'max_len'),
        ('preprocess', 'resize_cases.json', 'pad_left'),
    ],
)
def test_a_missing_field_is_named_with_its_file(name, file, field, tmp_path):
    folder = copy(name, tmp_path)
    text = (folder / file).read_text()
    (folder / file).write_text(text.replace(f'"{field}"', '"renamed"'))
    with pytest.raises(Error, match=rf"{file}: \w+(\[0\])?: field '{field}' is missing beside .*'renamed'"):
        check_folder(folder)


def test_a_tokenizer_folder_needs_one_model(tmp_path):
    folder = copy('pi_tokenizer', tmp_path)
    shutil.copy(folder / 'tiny_spm.model', folder / 'other.model')
    with pytest.raises(Error, match=r"'other.model', 'tiny_spm.model'\] matching \*\.model; needed one"):
        check_folder(folder)


def test_models_are_found_beside_the_folder_or_where_the_user_says(tmp_path):
    folder = Path(shutil.copytree(GOLDEN / 'pi_e2e', tmp_path / 'alone' / 'pi_e2e'))
    with pytest.raises(Error, match=r"golden: '.*pi05_tiny', which .* refers to, was looked for as"):
        check_folder(folder)
    assert check_folder(folder, RunOptions(model=GOLDEN)).passed()
    assert check_folder(folder, RunOptions(model=GOLDEN / 'pi05_tiny')).passed()


def test_a_folder_of_something_else_is_refused(tmp_path):
    with pytest.raises(Error, match='holds nothing to compare'):
        check_folder(tmp_path)
    with pytest.raises(Error, match='is not a folder'):
        check_folder(tmp_path / 'none')


def test_folders_inside_are_checked_as_if_they_stood_alone(tmp_path):
    shutil.copytree(GOLDEN / 'preprocess', tmp_path / 'preprocess')
    shutil.copytree(GOLDEN / 'groot_n16_tiny' / 'tokenizer', tmp_path / 'tokenizer')
    report = check_folder(tmp_path)
    assert report.passed()
    parts = [check_folder(tmp_path / name) for name in ('preprocess', 'tokenizer')]
    assert len(report.comparisons) == sum(len(part.comparisons) for part in parts)
    assert report.comparisons[-1].case == 'tokenizer/cases[12]'
    (tmp_path / 'notes').mkdir()
    (tmp_path / 'linked').symlink_to(GOLDEN / 'preprocess')
    gaps = check_folder(tmp_path).gaps
    assert [(gap.place, gap.why) for gap in gaps] == [
        ('linked/', 'no check knows this folder'),
        ('notes/', 'no check knows this folder'),
    ]
