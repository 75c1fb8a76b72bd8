# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Files from elsewhere: none is executed, none fills the memory, and nothing is fetched over a network."""

import ast
import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from flashrt_core.errors import Error
from flashrt_core.fast_codec import BytePairCodes
from flashrt_core.groot.tokenizer import QwenTokenizer
from flashrt_core.json_fields import read_object
from flashrt_core.small_file import MOST_BYTES, read_small_file
from flashrt_core.statistics import read_norm_stats
from flashrt_core.tensor_file import TensorFile
from flashrt_core.tokenizer import Tokenizer
from flashrt_ros.parameter_file import read_parameter_file
from flashrt_ros.parameter_table import ParameterFaults

ROOT = Path(__file__).parents[2]
# Modules that run what they read, or fetch something.
REFUSED_MODULES = {
    *('pickle', 'marshal', 'shelve', 'dill', 'joblib', 'cloudpickle', 'torch'),
    *('urllib', 'http', 'requests', 'ftplib', 'huggingface_hub', 'transformers'),
}
REFUSED_CALLS = {'eval', 'exec', 'compile', '__import__'}
# Of yaml: what builds any object that a file names.
REFUSED_YAML = {'load', 'load_all', 'unsafe_load', 'full_load', 'Loader', 'FullLoader', 'UnsafeLoader'}


def offences(path: Path) -> Iterator[str]:
    """What a source file has that runs or fetches what it is given."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        yield from (f'imports {name}' for name in names if name.split('.')[0] in REFUSED_MODULES)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in REFUSED_CALLS:
            yield f'calls {node.func.id}()'
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == 'yaml' and node.attr in REFUSED_YAML:
                yield f'uses yaml.{node.attr}'
        if (
            isinstance(node, ast.keyword)
            and node.arg == 'allow_pickle'
            and ast.unparse(node.value) != 'False'
        ):
            yield 'allows pickle'


def test_no_source_runs_or_fetches_what_it_reads():
    sources = [
        path
        for folder in ('flashrt_ros', 'flashrt_core', 'launch')
        for path in ROOT.glob(f'{folder}/**/*.py')
    ]
    assert len(sources) > 80
    found = {str(path.relative_to(ROOT)): list(offences(path)) for path in sources}
    assert {name: what for name, what in found.items() if what} == {}


@pytest.mark.parametrize(
    ('line', 'offence'),
    [
        ('import pickle', 'imports pickle'),
        ('from urllib.request import urlopen', 'imports urllib.request'),
        ('def f():\n    import torch.nn', 'imports torch.nn'),
        ('x = eval(text)', 'calls eval()'),
        ('yaml.load(text, Loader=yaml.SafeLoader)', 'uses yaml.load'),
        ('numpy.load(path, allow_pickle=flag)', 'allows pickle'),
    ],
)
def test_an_offence_is_found(tmp_path: Path, line: str, offence: str):
    (tmp_path / 'a.py').write_text(line)
    assert list(offences(tmp_path / 'a.py')) == [offence]


@pytest.mark.parametrize(
    ('name', 'read'),
    [
        ('norm_stats.json', read_norm_stats),
        ('tokenizer.model', Tokenizer),
        ('tokenizer.json', BytePairCodes.read),
        ('vocab.json', lambda path: QwenTokenizer(path.parent)),
        ('statistics.json', read_object),
    ],
)
def test_file_of_many_megabytes_is_refused_unread(tmp_path: Path, name: str, read: Callable[[Path], object]):
    path = tmp_path / name
    with path.open('wb') as file:
        file.truncate(MOST_BYTES + 1)  # takes no room on the disk
    with pytest.raises(Error, match=rf'{name} has {MOST_BYTES + 1} bytes, .* at most {MOST_BYTES}'):
        read(path)


def test_the_largest_file_that_is_read(tmp_path: Path):
    path = tmp_path / 'file'
    path.write_bytes(b'12345')
    assert read_small_file(path, 5) == b'12345'
    with pytest.raises(Error, match='file has 5 bytes, a file of its kind has at most 4'):
        read_small_file(path, 4)


def test_parameter_file_of_many_megabytes_is_refused_unread(tmp_path: Path):
    path = tmp_path / 'robot.yaml'
    with path.open('wb') as file:
        file.truncate((1 << 20) + 1)
    with pytest.raises(ParameterFaults, match='has 1048577 bytes'):
        read_parameter_file(path, '/policy')


def test_parameter_file_that_names_its_parts_again_and_again_is_refused(tmp_path: Path):
    """Forty lines that would become a mapping of 2^40 entries; ROS takes no aliases either."""
    lines = ['a0: &a0 {x: 1}', *(f'a{i}: &a{i} {{l: *a{i - 1}, r: *a{i - 1}}}' for i in range(1, 40))]
    path = tmp_path / 'robot.yaml'
    path.write_text('\n'.join([*lines, '/policy: {ros__parameters: *a39}']))
    with pytest.raises(ParameterFaults, match=r"line 2: '\*a0': write the value out, ROS takes no aliases"):
        read_parameter_file(path, '/policy')


@pytest.mark.parametrize(
    'tag', ['!!python/object/apply:os.system ["true"]', '!!python/name:os.system ""', '!mine {}']
)
def test_parameter_file_that_asks_for_an_object_is_refused(tmp_path: Path, tag: str):
    path = tmp_path / 'robot.yaml'
    path.write_text(f'/policy: {{ros__parameters: {{prompt: {tag}}}}}')
    with pytest.raises(ParameterFaults, match='could not determine a constructor'):
        read_parameter_file(path, '/policy')


class Payload:
    """Would run when it is unpickled."""

    def __reduce__(self) -> tuple:
        return pytest.fail, ('a pickle was run',)


def test_array_of_objects_is_refused(tmp_path: Path):
    path = tmp_path / 'inputs.npz'
    np.savez(path, noise=np.array([Payload()], object))
    with pytest.raises(
        Error, match=r'inputs\.npz cannot be read \(ValueError: Object arrays cannot be loaded'
    ):
        TensorFile(path)


def test_array_that_claims_more_than_any_memory_is_refused(tmp_path: Path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {'descr': '<f8', 'fortran_order': False, 'shape': (2**50,)})
    path = tmp_path / 'inputs.npz'
    with zipfile.ZipFile(path, 'w') as archive:
        archive.writestr('noise.npy', header.getvalue())
    with pytest.raises(Error, match=r'inputs\.npz cannot be read'):
        TensorFile(path)


@pytest.mark.parametrize('name', ['inputs.npz', 'inputs.safetensors'])
@pytest.mark.parametrize('content', [b'', b'PK\x03\x04', b'\xff' * 64, b'\x10' + bytes(7) + b'{' * 16])
def test_damaged_arrays_are_refused_by_name(tmp_path: Path, name: str, content: bytes):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(Error, match=f'{name} cannot be read'):
        TensorFile(path)
