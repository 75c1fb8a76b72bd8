# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Turns dataclass fields into a table of parameters: reading, checking and documenting them."""

import dataclasses
import difflib
import math
import re
import sys
import types
import typing
from array import array
from collections.abc import Iterable, Mapping

from flashrt_core.errors import Error
from flashrt_ros.package_files import resolved

REQUIRED = object()  # default of a key that has none, because a guess could move the arm

_EXAMPLES = {str: "'text'", int: '10', float: '2.0', bool: 'true'}
_WANTED = {str: 'a text', int: 'a whole number', float: 'a number', bool: 'true or false'}


class ParameterFaults(Error):
    """A configuration that cannot be used; the text lists every fault of it."""

    def __init__(self, source: str, faults: Iterable[str]) -> None:
        self._source, self.faults = source, tuple(faults)
        lines = '\n'.join(f'  - {fault}' for fault in self.faults)
        super().__init__(f'{source}: {len(self.faults)} fault(s)\n{lines}')

    def __reduce__(self) -> tuple:
        """From one process to another; an exception alone would give its text to __init__."""
        return type(self), (self._source, self.faults)


@dataclasses.dataclass(frozen=True)
class Key:
    """One row of the table; the type of the value is the type of the dataclass field."""

    name: str  # as in a parameter file; '<...>' stands for each camera slot or output
    text: str
    default: object
    unit: str
    low: float | None
    high: float | None
    choices: tuple
    live: bool  # may change while the node is active
    family: str  # of models that take it; empty: all
    is_path: bool  # package:// is resolved


def key(
    name: str,
    text: str,
    *,
    default: object = REQUIRED,
    unit: str = '',
    low: float | None = None,
    high: float | None = None,
    choices: tuple = (),
    live: bool = False,
    family: str = '',
    is_path: bool = False,
) -> typing.Any:
    """A dataclass field that is filled from the parameter `name`."""
    row = Key(name, text, default, unit, low, high, choices, live, family, is_path)
    return dataclasses.field(metadata={'key': row})


def keys_of(table: type) -> list[tuple[str, Key, object]]:
    """(field name, key, type) of every field of a dataclass that was made with key()."""
    hints = typing.get_type_hints(table)
    return [
        (item.name, item.metadata['key'], hints[item.name])
        for item in dataclasses.fields(table)
        if 'key' in item.metadata
    ]


class TableReader:
    """Reads typed values from a flat mapping and collects the faults instead of stopping at the first."""

    def __init__(self, values: Mapping[str, object], family: str = '') -> None:
        """family: of the model, whose own keys are read, too; empty: not known, so none of them is missed."""
        self._values = values
        self._family = family
        self.faults: list[str] = []
        self.known: set[str] = set()

    def read(self, table: type, part: str = '') -> dict[str, typing.Any]:
        """Field name -> value of every field without a fault; `part` replaces '<...>' in the names.

        Of the keys of another family the default, or None where there is none.
        """
        result = {}
        for field_name, row, kind in keys_of(table):
            name = re.sub('<.*?>', lambda _: part, row.name)  # `part` may hold a backslash
            self.known.add(name)
            is_foreign = bool(row.family and self._family) and row.family != self._family
            unset = None if is_foreign and row.default is REQUIRED else row.default
            if name not in self._values:
                if unset is not REQUIRED:
                    result[field_name] = unset
                elif self._family or not row.family:
                    self.faults.append(f'{name} is missing: {row.text}')
                continue
            try:
                value = checked(name, self._values[name], kind, row)
            except ValueError as fault:
                self.faults.append(str(fault))
                continue
            if is_foreign and value != unset:  # a node declares every key, with its default
                self.faults.append(
                    f'{name} is for {row.family} models and does nothing for one of {self._family}; '
                    'leave it out'
                )
                continue
            result[field_name] = value
        return result

    def unknown(self) -> list[str]:
        """One sentence per key that nothing has read, with the nearest key that exists."""
        return [
            f'{name} is not a parameter of this node' + nearest(name, self.known)
            for name in sorted(set(self._values) - self.known)
        ]


def nearest(name: str, known: Iterable[str]) -> str:
    """' (nearest: ...)' or nothing."""
    matches = difflib.get_close_matches(name, sorted(known), n=1)
    return f' (nearest: {matches[0]})' if matches else ''


def checked(name: str, value: object, kind: object, row: Key) -> object:
    """The value of one parameter in the type of its key; raises ValueError with name and value."""
    if isinstance(kind, types.UnionType):  # 'T | None': None only as the default
        kind = next(item for item in typing.get_args(kind) if item is not type(None))
    if typing.get_origin(kind) is tuple:
        return _checked_list(name, value, typing.get_args(kind)[0], row)
    return _checked_scalar(name, value, kind, row)


def _checked_list(name: str, value: object, kind: type, row: Key) -> tuple:
    if value is None:  # how ROS delivers '[]'
        return ()
    if not isinstance(value, list | tuple | array):  # the last is how ROS delivers numbers
        raise ValueError(f'{name} is {value!r}, wanted a list such as [{_EXAMPLES[kind]}, {_EXAMPLES[kind]}]')
    return tuple(_checked_scalar(f'{name}[{i}]', item, kind, row) for i, item in enumerate(value))


def _checked_scalar(name: str, value: object, kind: type, row: Key) -> object:
    if kind is str:
        return _checked_text(name, value, row)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind is float and is_number:
        is_too_large = abs(value) > sys.float_info.max
        value = math.copysign(math.inf, 1 if value > 0 else -1) if is_too_large else float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f'{name} is {value!r}, wanted {_WANTED[kind]} such as {_EXAMPLES[kind]}')
    if kind is float and not math.isfinite(value):
        raise ValueError(f'{name} is {value}, wanted a finite number')
    if row.choices and value not in row.choices:
        raise ValueError(f'{name} is {value}, allowed: {_choices(row)}')
    if (row.low is not None and value < row.low) or (row.high is not None and value > row.high):
        raise ValueError(f'{name} is {value}, allowed: {_range(row)}')
    return value


def _checked_text(name: str, value: object, row: Key) -> str:
    plain = name.split('[')[0]
    if isinstance(value, bool):
        word = 'on, yes or true' if value else 'off, no or false'
        quoted = 'on' if value else 'off'
        raise ValueError(
            f'{name} is a boolean: YAML reads the bare words {word} that way; '
            f"quote it, as in {plain}: '{quoted}'"
        )
    if isinstance(value, int | float):
        raise ValueError(f"{name} is the number {value}; for a text quote it, as in {plain}: '{value}'")
    if not isinstance(value, str):
        raise ValueError(f"{name} has no text value; quote it, as in {plain}: 'text'")
    if not value.strip() and row.default is REQUIRED:
        raise ValueError(f'{name} is blank: {row.text}')
    if row.choices and value not in row.choices:
        raise ValueError(f"{name} is '{value}', allowed: {_choices(row)}{nearest(value, row.choices)}")
    if row.is_path:
        try:
            return resolved(value)
        except Error as fault:
            raise ValueError(f"{name} is '{value}': {fault}") from None
    return value


def _choices(row: Key) -> str:
    return ', '.join(str(choice) for choice in row.choices)


def _range(row: Key) -> str:
    if row.low is not None and row.high is not None:
        return f'{row.low} to {row.high}'
    return f'{row.low} or more' if row.low is not None else f'{row.high} or less'


def markdown(*tables: type) -> str:
    """The table as documentation, one line per key in the order of the fields."""
    lines = [
        '| parameter | models | type | unit | default | allowed | change while active | meaning |',
        '|---|---|---|---|---|---|---|---|',
    ]
    for table in tables:
        for _, row, kind in keys_of(table):
            allowed = _choices(row)
            if not allowed and (row.low is not None or row.high is not None):
                allowed = _range(row)
            default = '**required**' if row.default is REQUIRED else _default(row.default)
            live = 'yes' if row.live else 'no'
            lines.append(
                f'| `{row.name}` | {row.family} | {_kind(kind)} | {row.unit} | {default} | {allowed} '
                f'| {live} | {row.text} |'
            )
    return '\n'.join(lines) + '\n'


def _default(value: object) -> str:
    if value is None or value == '' or value == ():
        return ''
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f'[{", ".join(map(str, value))}]'
    return str(value)


def _kind(kind: object) -> str:
    names = {str: 'text', int: 'integer', float: 'number', bool: 'boolean'}
    if isinstance(kind, types.UnionType):
        kind = next(item for item in typing.get_args(kind) if item is not type(None))
    if typing.get_origin(kind) is tuple:
        return f'list of {names[typing.get_args(kind)[0]]}s'
    return names[kind]
