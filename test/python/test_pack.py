# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Packed weights: the same bits without the checkpoint's weights; what does not fit is refused."""

import json
import os
import shutil

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from flashrt_core import Error, _core
from flashrt_core.calibrate import calibrate
from flashrt_core.samples import read_samples

on_each_backend = pytest.mark.parametrize('backend', ['cpu', pytest.param('cuda', marks=pytest.mark.gpu)])

SIZES = {'cameras': 2, 'prompt_capacity': 12, 'steps': 2, 'threads': 2}


@pytest.fixture
def checkpoint(golden, tmp_path):
    """A copy whose files a test may change."""
    folder = tmp_path / 'checkpoint'
    folder.mkdir()
    for name in ('config.json', 'model.safetensors'):
        shutil.copy2(golden / 'pi05_tiny' / name, folder)
    return folder


@pytest.fixture(scope='module')
def scales(golden, tmp_path_factory):
    path = tmp_path_factory.mktemp('scales') / 'scales.json'
    samples = read_samples(golden / 'pi05_tiny' / 'case_03.safetensors')
    calibrate(golden / 'pi05_tiny', samples, threads=2).save(path)
    return path


@pytest.fixture(scope='module')
def model_input():
    rng = np.random.default_rng(5)
    return {
        'images': rng.integers(0, 256, (2, 56, 56, 3), dtype=np.uint8),
        'tokens': rng.integers(3, 512, 11, dtype=np.int32),
        'noise': rng.standard_normal((10, 32), dtype=np.float32),
    }


def pack(checkpoint, recipe='bf16', **options):
    file = checkpoint.parent / f'{recipe}.packed'
    return file, _core.pack_weights(checkpoint, file, recipe=recipe, threads=2, **options)


def header_of(file):
    with safe_open(file, 'np') as tensors:
        return json.loads(tensors.metadata()['flashrt'])


@on_each_backend
@pytest.mark.parametrize('recipe', ['f32', 'bf16', 'fp8', 'fp8_f16'])
def test_packed_weights_give_the_same_bits(checkpoint, model_input, scales, recipe, backend):
    file, digest = pack(checkpoint, recipe)
    how = SIZES | {
        'recipe': recipe,
        'calibration': scales if recipe.startswith('fp8') else None,
        'backend': backend,
        'tuning': checkpoint.parent / 'tuning.json',  # both use the same kernels
    }
    from_checkpoint = _core.Engine(checkpoint, **how)
    assert digest == from_checkpoint.weights_digest
    expected = from_checkpoint.infer(**model_input)
    (checkpoint / 'model.safetensors').unlink()
    packed = _core.Engine(checkpoint, packed=file, **how)
    assert packed.weights_digest == digest
    np.testing.assert_array_equal(packed.infer(**model_input), expected)


@on_each_backend
def test_random_weights_can_be_packed(checkpoint, model_input, backend):
    (checkpoint / 'model.safetensors').unlink()
    file, _ = pack(checkpoint, random_seed=4)
    how = SIZES | {
        'recipe': 'bf16',
        'random_seed': 4,
        'backend': backend,
        'tuning': checkpoint.parent / 'tuning.json',
    }
    expected = _core.Engine(checkpoint, **how).infer(**model_input)
    np.testing.assert_array_equal(_core.Engine(checkpoint, packed=file, **how).infer(**model_input), expected)
    with pytest.raises(Error, match=r'was packed from weights random pi05 seed 4 .* are random pi05 seed 5'):
        _core.Engine(checkpoint, packed=file, **(how | {'random_seed': 5}))
    with pytest.raises(Error, match=r'seed 4 [0-9a-f]*, those of .* are random pi05 seed 4 outliers 100 '):
        _core.Engine(checkpoint, packed=file, **(how | {'random_outliers': 100.0}))


def test_random_weights_are_refused_for_a_checkpoint(checkpoint):
    file, _ = pack(checkpoint, random_seed=4)
    with pytest.raises(Error, match=r'was packed from weights random pi05 seed 4 '):
        _core.Engine(checkpoint, packed=file, recipe='bf16', **SIZES)


def test_the_file_is_safetensors_with_codes_and_scales(checkpoint):
    file, digest = pack(checkpoint, 'fp8')
    header = header_of(file)
    assert (header['format'], header['version'], header['recipe']) == ('flashrt_packed', 1, 'fp8')
    assert header['weights_digest'] == digest
    assert [entry['name'] for entry in header['files']] == ['model.safetensors']
    with safe_open(file, 'np') as tensors:
        scales = tensors.get_tensor('language.0.gate_up.weight.scales')
        assert tensors.get_slice('language.0.gate_up.weight').get_dtype() == 'F8_E4M3'
    assert len(scales) == 2 * 128
    assert (scales > 0).all()


def test_another_recipe_is_refused(checkpoint, scales):
    file, _ = pack(checkpoint, 'bf16')
    with pytest.raises(Error, match='is packed as bf16 with 0 scales, the recipe reads e4m3'):
        _core.Engine(checkpoint, packed=file, recipe='fp8', calibration=scales, **SIZES)


def test_a_source_that_changed_is_refused_and_a_copy_of_it_is_not(checkpoint, model_input):
    file, _ = pack(checkpoint)
    weights = checkpoint / 'model.safetensors'
    os.utime(weights)  # touched, but the same
    _core.Engine(checkpoint, packed=file, recipe='bf16', **SIZES)
    tensors = load_file(weights)
    name = next(name for name in tensors if name.endswith('action_out_proj.bias'))
    tensors[name] = tensors[name] + np.float32(1)
    save_file(tensors, weights)
    with pytest.raises(
        Error, match=r'was packed from weights \w{16}, those of .* are \w{16}; pack them again'
    ):
        _core.Engine(checkpoint, packed=file, recipe='bf16', **SIZES)


def test_a_damaged_file_is_refused(checkpoint):
    file, _ = pack(checkpoint)
    content = bytearray(file.read_bytes())
    content[-1000] ^= 1
    file.write_bytes(content)
    with pytest.raises(Error, match=r'damaged: its tensors have digest \w{16}, written was \w{16}'):
        _core.Engine(checkpoint, packed=file, recipe='bf16', **SIZES)


@pytest.mark.parametrize(
    ('change', 'fault'),
    [
        ({'version': 2}, 'version is 2, expected 1'),
        ({'format': 'other'}, 'format is "other", expected flashrt_packed'),
        ({'plan_digest': '0' * 16}, r'was packed for plan 0{16}, this is \w{16}; pack the checkpoint'),
        ({'files': [{'name': 3, 'bytes': 1, 'modified': 1}]}, 'name is 3'),
    ],
)
def test_a_header_of_something_else_is_refused(checkpoint, change, fault):
    file, _ = pack(checkpoint)
    content = file.read_bytes()
    length = int.from_bytes(content[:8], 'little')
    header = json.loads(content[8 : 8 + length])
    metadata = json.loads(header['__metadata__']['flashrt'])
    header['__metadata__']['flashrt'] = json.dumps(metadata | change)
    changed = json.dumps(header).encode()
    file.write_bytes(len(changed).to_bytes(8, 'little') + changed + content[8 + length :])
    with pytest.raises(Error, match=fault):
        _core.Engine(checkpoint, packed=file, recipe='bf16', **SIZES)


def test_a_checkpoint_is_no_packed_file(checkpoint):
    with pytest.raises(
        Error, match='no packed weights: their metadata are missing; `flashrt pack` makes them'
    ):
        _core.Engine(checkpoint, packed=checkpoint / 'model.safetensors', recipe='bf16', **SIZES)


def test_nothing_is_left_where_packing_failed(checkpoint):
    (checkpoint / 'model.safetensors').write_bytes(b'')
    with pytest.raises(Error, match='is empty'):
        pack(checkpoint)
    assert [path.name for path in checkpoint.parent.iterdir()] == ['checkpoint']
