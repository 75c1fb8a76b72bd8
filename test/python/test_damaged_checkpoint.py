# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Weight files that are cut or changed anywhere, through Python: loaded or refused by name (R-54 to R-56)."""

import json
import shutil
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flashrt_core import Error, _core

CASES = Path(__file__).resolve().parent.parent / 'cases' / 'checkpoints'
few = settings(
    max_examples=120, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip


@pytest.fixture
def checkpoint(golden, tmp_path) -> Path:
    shutil.copy(golden / 'pi05_tiny' / 'config.json', tmp_path)
    return tmp_path


@pytest.fixture(scope='module')
def weights(golden) -> bytes:
    return (golden / 'pi05_tiny' / 'model.safetensors').read_bytes()


def refusal(checkpoint: Path, content: bytes) -> str:
    """Empty: it was loaded. Whatever else is raised, or ends the process, fails the test."""
    (checkpoint / 'model.safetensors').write_bytes(content)
    try:
        _core.Engine(checkpoint, cameras=1, prompt_capacity=8, steps=1, threads=1)
    except Error as error:
        return str(error)
    return ''


def header_of(content: bytes) -> tuple[dict, bytes]:
    (length,) = struct.unpack_from('<Q', content)
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def file_of(header: object, body: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack('<Q', len(text)) + text + body


def test_the_whole_file_is_loaded(checkpoint, weights):
    assert refusal(checkpoint, weights) == ''
    assert refusal(checkpoint, file_of(*header_of(weights))) == ''


@pytest.mark.parametrize(
    ('name', 'words'),
    [
        ('git_lfs_pointer', 'is a Git LFS pointer'),
        ('truncated_header', 'the header alone needs 136'),
        ('truncated_body', 'b.weight ends 20 bytes past the end'),
        ('offsets_past_end', 'b.weight ends 4000 bytes past the end'),
        ('seven_bytes', 'found 7 bytes'),
        ('zero_bytes', 'is empty'),
    ],
)
def test_cases_are_refused_by_name(checkpoint, name, words):
    text = refusal(checkpoint, (CASES / f'{name}.safetensors').read_bytes())
    assert 'model.safetensors' in text
    assert words in text


@few
@given(st.data())
def test_file_that_is_cut_anywhere_is_refused_by_name(checkpoint, weights, data):
    (header,) = struct.unpack_from('<Q', weights)
    cut = data.draw(st.integers(0, header + 8) | st.integers(0, len(weights) - 1), label='cut')
    text = refusal(checkpoint, weights[:cut])
    assert 'model.safetensors' in text
    assert f'found {cut} bytes' in text


@few
@given(st.data())
def test_header_with_other_bytes_is_loaded_or_refused_by_name(checkpoint, weights, data):
    content = bytearray(weights)
    (header,) = struct.unpack_from('<Q', weights)
    changes = st.tuples(st.integers(0, header + 7), st.integers(0, 255))
    for at, value in data.draw(st.lists(changes, min_size=1, max_size=4), label='changes'):
        content[at] = value
    text = refusal(checkpoint, bytes(content))
    assert not text or 'model.safetensors' in text or 'tensor' in text


NUMBER = (
    st.integers(-(2**65), 2**65) | st.integers(-3, 70_000) | st.floats() | st.text(max_size=3) | st.none()
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        'dtype': st.sampled_from(['F32', 'BF16', 'F64', 'I8', 'F31', '']) | NUMBER,
        'shape': st.lists(NUMBER, max_size=9) | NUMBER,
        'data_offsets': st.lists(NUMBER, max_size=3) | NUMBER,
        'stride': NUMBER,
    },
)


@few
@given(st.data())
def test_entry_that_lies_is_refused_by_file_and_tensor(checkpoint, weights, data):
    header, body = header_of(weights)
    name = data.draw(st.sampled_from(sorted(header.keys() - {'__metadata__'})), label='tensor')
    changes = data.draw(FIELDS, label='changes')
    before = json.dumps(header)
    header[name] |= changes
    text = refusal(checkpoint, file_of(header, body))
    assert bool(text) == (json.dumps(header) != before)
    assert not text or 'model.safetensors' in text


@few
@given(st.integers(0, 2**64 - 1), st.binary(max_size=60))
def test_any_declared_length_of_the_header_is_refused(checkpoint, length, content):
    text = refusal(checkpoint, struct.pack('<Q', length) + content)
    assert 'model.safetensors' in text
