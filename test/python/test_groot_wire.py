# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Messages of the GR00T policy server: both forms, both ways, and bytes that are no message."""

from contextlib import suppress
from pathlib import Path

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from flashrt_core import Error
from flashrt_core.golden import check_folder
from flashrt_core.groot.wire import ModalityMessage, decode, encode

FOLDER = Path(__file__).parents[1] / 'golden' / 'groot_n16_tiny' / 'wire'
FORMS = ('n16', 'n17')
TYPES = st.sampled_from([np.uint8, np.float32, np.float64, np.int64, np.bool_])
RAW = {b'nd': True, b'type': '<f4', b'kind': b'', b'shape': [2], b'data': bytes(8)}


def test_the_original_is_reproduced_to_the_byte():
    report = check_folder(FOLDER)
    assert report.passed()
    assert len({item.case for item in report.comparisons if item.tensor == 'bytes'}) == 16


@pytest.mark.parametrize('form', FORMS)
@given(data=st.data())
def test_arrays_go_both_ways(form, data):
    array = data.draw(arrays(data.draw(TYPES), array_shapes(min_dims=0, max_dims=5, min_side=0)))
    message = decode(encode({'observation': [array, None]}, form))
    found, nothing = message.content['observation']
    assert (message.form, nothing, found.dtype, found.shape) == (form, None, array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize('form', FORMS)
def test_modalities_go_both_ways(form):
    sent = {'video': ModalityMessage({'delta_indices': [0], 'action_configs': None})}
    assert decode(encode(sent, form)).content == sent


# Clients of N1.6 and N1.7 are told apart by what they send; a message without arrays tells nothing.
def test_the_form_is_told_by_arrays_alone():
    array = np.zeros(3, np.float32)
    assert decode(encode(array, 'n16')).form == 'n16'
    assert decode(encode(array, 'n17')).form == 'n17'
    assert decode(encode({'endpoint': 'ping'}, 'n17')).form is None


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        (RAW | {b'kind': b'O'}, r"an array of kind b'O'; only plain numbers"),
        (RAW | {b'type': '|O'}, 'are no array .* of type'),
        (RAW | {b'type': 'float33'}, "'float33' is no type of numbers"),
        (RAW | {b'type': 4}, 'type is a int, needed a str'),
        (RAW | {b'shape': [3]}, r'8 bytes are no array \[3\] of type <f4'),
        (RAW | {b'shape': [-2]}, r'the shape of an array is \[-2\]'),
        (RAW | {b'shape': [1] * 9}, 'needed at most 8 whole numbers'),
        (RAW | {b'shape': [1 << 40, 1 << 40]}, '8 bytes are no array'),
        (RAW | {b'data': 'text'}, 'data is a str, needed a bytes'),
        ({'__ndarray_class__': True, 'as_npy': b'NUMPY'}, 'as_npy is no array'),
        ({'__ndarray_class__': True}, 'as_npy is a NoneType, needed a bytes'),
        ({'__ModalityConfig__': True, 'as_json': [1]}, 'as_json is a list, needed a dict'),
        ([RAW, {'__ModalityConfig_class__': True, 'as_json': {}}], 'mixes the forms of N1.6 and N1.7'),
    ],
)
def test_what_is_no_array_is_refused(content, message):
    with pytest.raises(Error, match=message):
        decode(msgpack.packb(content))


# An array of objects would have to be unpickled.
def test_objects_are_neither_read_nor_sent(tmp_path):
    np.save(tmp_path / 'objects.npy', np.array([{}]), allow_pickle=True)
    data = msgpack.packb({'__ndarray_class__': True, 'as_npy': (tmp_path / 'objects.npy').read_bytes()})
    with pytest.raises(Error, match='as_npy is no array'):
        decode(data)
    for form in FORMS:
        with pytest.raises(Error, match='a ndarray cannot be sent'):
            encode(np.array([{}]), form)
    with pytest.raises(Error, match='a complex cannot be sent'):
        encode(1j, 'n16')


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_refused(data):
    with suppress(Error):
        decode(data)


@given(st.sampled_from(sorted(FOLDER.iterdir())), st.integers(0, 500), st.integers(0, 255))
def test_a_damaged_message_is_read_or_refused(path, position, byte):
    data = bytearray(path.read_bytes())
    data[position % len(data)] = byte
    with suppress(Error):
        decode(bytes(data))
