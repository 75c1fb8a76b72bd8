# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Messages of the GR00T policy server: MessagePack maps with arrays, in the form of N1.6 or of N1.7.

A server answers in the form it was asked in: clients of N1.6 cannot read arrays of N1.7. MessagePack is read
by the library: it is small, depends on nothing, and has been read with hostile bytes for years.
"""

import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgpack
import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error

WireForm = Literal['n16', 'n17']

_MODALITY_MARKS: dict[WireForm, str] = {'n16': '__ModalityConfig_class__', 'n17': '__ModalityConfig__'}
_NPY_MARK, _NPY = '__ndarray_class__', 'as_npy'
_RAW_MARK, _TYPE, _KIND, _SHAPE, _DATA = b'nd', b'type', b'kind', b'shape', b'data'
_JSON = 'as_json'
_MOST_AXES = 8


@dataclass(frozen=True)
class ModalityMessage:
    """A modality configuration, as processor_config.json writes one."""

    fields: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Message:
    """What a message holds: maps, lists, texts, numbers, arrays and modality configurations."""

    content: Any
    form: WireForm | None  # None: nothing in it tells


def decode(data: bytes) -> Message:
    """Reads a message of either form; Error for whatever is none."""
    forms: set[WireForm] = set()

    def convert(fields: dict[Any, Any]) -> Any:
        if _NPY_MARK in fields:
            forms.add('n16')
            return _array_from_npy(fields.get(_NPY))
        if _RAW_MARK in fields:
            forms.add('n17')
            return _array_from_bytes(fields)
        for form, mark in _MODALITY_MARKS.items():
            if mark in fields:
                forms.add(form)
                return ModalityMessage(_checked(fields.get(_JSON), dict, _JSON))
        return fields

    try:
        content = msgpack.unpackb(data, object_hook=convert, strict_map_key=False)
    except (ValueError, TypeError, RecursionError, msgpack.exceptions.UnpackException) as fault:
        raise Error(f'wire: {len(data)} bytes are no message ({type(fault).__name__}: {fault})') from fault
    if len(forms) > 1:
        raise Error('wire: the message mixes the forms of N1.6 and N1.7')
    return Message(content, forms.pop() if forms else None)


def encode(content: Any, form: WireForm) -> bytes:
    """The message as that version writes it."""

    def convert(value: Any) -> dict[Any, Any]:
        if isinstance(value, ModalityMessage):
            return {_MODALITY_MARKS[form]: True, _JSON: dict(value.fields)}
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return _npy_from_array(value) if form == 'n16' else _bytes_from_array(value)
        raise Error(f'wire: a {type(value).__name__} cannot be sent')

    return msgpack.packb(content, default=convert)


def _array_from_npy(data: Any) -> NDArray:
    try:
        # EOFError and KeyError come of damaged headers.
        return np.load(io.BytesIO(_checked(data, bytes, _NPY)), allow_pickle=False)
    except (ValueError, EOFError, KeyError, TypeError, SyntaxError, MemoryError, OverflowError) as fault:
        raise Error(f'wire: {_NPY} is no array ({type(fault).__name__}: {fault})') from fault


def _npy_from_array(array: NDArray) -> dict[str, Any]:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return {_NPY_MARK: True, _NPY: file.getvalue()}


def _array_from_bytes(fields: dict[Any, Any]) -> NDArray:
    if fields.get(_KIND) != b'':
        raise Error(f'wire: an array of kind {fields.get(_KIND)!r}; only plain numbers are taken')
    shape, data = _checked(fields.get(_SHAPE), list, 'shape'), _checked(fields.get(_DATA), bytes, 'data')
    if len(shape) > _MOST_AXES or not all(type(side) is int and side >= 0 for side in shape):
        raise Error(f'wire: the shape of an array is {shape!r}, needed at most {_MOST_AXES} whole numbers')
    try:
        dtype = np.dtype(_checked(fields.get(_TYPE), str, 'type'))
    except (TypeError, ValueError, SyntaxError) as fault:
        raise Error(f'wire: {fields.get(_TYPE)!r} is no type of numbers') from fault
    if dtype.kind not in 'biuf' or math.prod(shape) * dtype.itemsize != len(data):
        raise Error(f'wire: {len(data)} bytes are no array {shape} of type {dtype.str}')
    return np.frombuffer(data, dtype).reshape(shape)


def _bytes_from_array(array: NDArray) -> dict[bytes, Any]:
    return {
        _RAW_MARK: True,
        _TYPE: array.dtype.str,
        _KIND: b'',
        _SHAPE: list(array.shape),
        _DATA: array.tobytes(),
    }


def _checked(value: Any, kind: type, what: str) -> Any:
    if type(value) is not kind:
        raise Error(f'wire: {what} is a {type(value).__name__}, needed a {kind.__name__}')
    return value
