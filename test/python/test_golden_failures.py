# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`flashrt golden` can fail: every way of being wrong is found, and the tensor is named."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from flashrt_core.errors import Error
from flashrt_core.golden import RunOptions, check_folder

GOLDEN = Path(__file__).parents[1] / 'golden'
Tensors = dict[str, NDArray]


@pytest.fixture
def folder(tmp_path) -> Path:
    """One case of pi05_tiny: two cameras, the third masked, five prompt tokens."""
    for name in ('config.json', 'model.safetensors', 'case_01.safetensors'):
        shutil.copy(GOLDEN / 'pi05_tiny' / name, tmp_path)
    assert check_folder(tmp_path).passed()
    return tmp_path


def change(path: Path, edit: Callable[[Tensors], object]) -> None:
    tensors = load_file(path)
    edit(tensors)
    save_file(tensors, path)


def failures(folder: Path) -> set[str]:
    """What a failed report names."""
    report = check_folder(folder)
    assert not report.passed()
    return {item.tensor for item in report.comparisons if not item.passed} | {gap.what for gap in report.gaps}


@pytest.mark.parametrize(
    'name',
    [
        name
        for name in load_file(GOLDEN / 'pi05_tiny' / 'case_01.safetensors')
        if name.startswith('out.') and name != 'out.time'
    ],
)
def test_a_changed_value_is_found(name, folder):
    """One value of each tensor, in a slot that is valid: the first."""

    def edit(tensors: Tensors) -> None:
        first = tensors[name].reshape(-1)[:1]
        first += 1 if first.dtype != np.float32 else 2e-4

    change(folder / 'case_01.safetensors', edit)
    assert failures(folder) == {name}


def test_a_changed_value_in_an_excluded_slot_is_not_looked_at(folder):
    change(folder / 'case_01.safetensors', lambda t: t['out.prefix_k.last'][0, 0, -1].fill(9))
    assert check_folder(folder).passed()


def test_other_times_are_found(folder):
    """The run takes its times from the case, so everything after them moves."""
    change(folder / 'case_01.safetensors', lambda t: t['out.time'].__iadd__(np.float32(1e-3)))
    assert {'out.time', 'out.time_sincos', 'out.v_t'} <= failures(folder)


EXPERT = 'paligemma_with_expert.gemma_expert.model.layers'
LANGUAGE = 'paligemma_with_expert.paligemma.model.language_model.layers'


@pytest.mark.parametrize(
    ('weight', 'first'),
    [
        ('action_out_proj.bias', 'out.v_t'),
        (f'{LANGUAGE}.0.self_attn.v_proj.weight', 'out.prefix_v.first'),
        (f'{EXPERT}.0.input_layernorm.dense.bias', 'out.mod_first_attn'),
    ],
)
def test_a_weight_that_is_off_by_a_thousandth_is_found(weight, first, folder):
    change(folder / 'model.safetensors', lambda t: t[weight].__iadd__(np.float32(1e-3)))
    assert first in failures(folder)


@pytest.mark.parametrize(
    ('stack', 'found', 'untouched'),
    [(LANGUAGE, 'out.prefix_k.last', 'out.prefix_embeds'), (EXPERT, 'out.layer0_out', 'out.prefix_k.last')],
)
def test_swapped_layers_are_found(stack, found, untouched, folder):
    def edit(tensors: Tensors) -> None:
        for name in [name for name in tensors if name.startswith(f'{stack}.0.')]:
            other = name.replace(f'{stack}.0.', f'{stack}.1.')
            tensors[name], tensors[other] = tensors[other], tensors[name]

    change(folder / 'model.safetensors', edit)
    failed = failures(folder)
    assert found in failed
    assert 'out.actions' in failed
    assert untouched not in failed


def test_a_value_that_is_not_finite_is_found(folder):
    change(folder / 'case_01.safetensors', lambda t: t['out.actions'][0, 3].fill(np.nan))
    assert failures(folder) == {'out.actions'}
    (item,) = (item for item in check_folder(folder).comparisons if item.tensor == 'out.actions')
    assert (item.error, item.where) == (float('inf'), (3, 0))


def test_an_unknown_output_is_not_passed_over(folder):
    change(folder / 'case_01.safetensors', lambda t: t.update({'out.entropy': np.zeros(3, np.float32)}))
    assert failures(folder) == {'out.entropy'}


def test_an_unknown_input_is_not_passed_over(folder):
    change(folder / 'case_01.safetensors', lambda t: t.update({'in.depth': np.zeros(3, np.float32)}))
    assert failures(folder) == {'in.depth'}


def test_a_case_without_its_result_fails(folder):
    change(folder / 'case_01.safetensors', lambda t: t.pop('out.actions'))
    assert failures(folder) == {'out.actions'}


@pytest.mark.parametrize('name', ['velocity.safetensors', 'case_02.npz', 'cases_b.json'])
def test_a_file_without_a_check_is_not_passed_over(name, folder):
    shutil.copy(folder / 'case_01.safetensors', folder / name)
    assert failures(folder) == {'all of it'}


def test_a_listed_case_without_a_file_fails(folder):
    (folder / 'cases.json').write_text(json.dumps({'case_01': {}, 'case_07': {}}))
    assert failures(folder) == {'case_07'}


@pytest.mark.parametrize(
    ('name', 'edit'),
    [
        ('out.mod_final', lambda tensor: tensor[:, :-1]),
        ('out.prefix_k.last', lambda tensor: tensor[0, 0]),
        ('out.v_t', lambda tensor: tensor[:, :0]),
        ('out.actions', lambda tensor: tensor.reshape(-1)),
    ],
)
def test_another_shape_fails(name, edit, folder):
    change(folder / 'case_01.safetensors', lambda t: t.update({name: np.ascontiguousarray(edit(t[name]))}))
    assert failures(folder) == {name}


@pytest.mark.parametrize(
    ('name', 'axis'), [('out.actions', 0), ('out.v_t', 1), ('out.siglip', 1), ('out.prefix_mask', 0)]
)
def test_items_beyond_the_batch_are_not_passed_over(name, axis, folder):
    change(
        folder / 'case_01.safetensors',
        lambda t: t.update({name: np.concatenate([t[name], t[name] + 7], axis)}),
    )
    assert failures(folder) == {name}


@pytest.mark.parametrize(('case', 'name'), [('guided_00', 'out.v_guided'), ('trained_00', 'out.time')])
def test_guided_items_beyond_the_batch_are_not_passed_over(case, name, tmp_path):
    cases = json.loads((GOLDEN / 'rtc' / 'cases.json').read_text())
    (tmp_path / 'cases.json').write_text(json.dumps({case: cases[case]}))
    shutil.copy(GOLDEN / 'rtc' / f'{case}.safetensors', tmp_path)
    options = RunOptions(model=GOLDEN)
    assert check_folder(tmp_path, options).passed()
    path = tmp_path / f'{case}.safetensors'
    change(path, lambda t: t.update({name: np.concatenate([t[name], t[name] + 7], 1)}))
    assert [gap.what for gap in check_folder(tmp_path, options).gaps] == [name]


def test_a_case_without_an_item_is_refused(folder):
    def empty(tensors: Tensors) -> None:
        for name in ('in.noise', 'in.token_ids', 'in.token_mask'):
            tensors[name] = tensors[name][:0]
        for name in ('in.images_u8', 'in.image_masks'):
            tensors[name] = np.ascontiguousarray(tensors[name][:, :0])

    change(folder / 'case_01.safetensors', empty)
    with pytest.raises(Error, match=r'in\.noise \[0, 10, 32\] holds no item'):
        check_folder(folder)


@pytest.mark.parametrize('name', ['in.noise', 'in.token_mask', 'in.num_steps'])
def test_a_case_without_an_input_is_refused(name, folder):
    change(folder / 'case_01.safetensors', lambda t: t.pop(name))
    with pytest.raises(Error, match=rf"case_01\.safetensors: tensor '{name}' is missing"):
        check_folder(folder)


def test_a_folder_without_cases_is_refused(folder):
    (folder / 'case_01.safetensors').unlink()
    with pytest.raises(Error, match=r'holds no case_\*\.safetensors'):
        check_folder(folder)


def test_a_damaged_file_is_refused(folder):
    (folder / 'case_01.safetensors').write_bytes(b'\xff' * 100)
    with pytest.raises(Error, match=r'case_01\.safetensors cannot be read'):
        check_folder(folder)
