# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Reads JSON files through getters that name file and field of what does not fit."""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error
from flashrt_core.small_file import read_small_file

T = TypeVar('T')

MOST = 1 << 31  # of whole numbers that say no other limit
LARGEST = float(np.finfo(np.float32).max)  # of the others: models work in float32


@dataclass(frozen=True)
class Fields:
    """A JSON object. Every getter requires its field, and that it holds what the getter is called."""

    place: str  # file and position, for messages
    values: dict[str, Any]

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self.values.get(name) is not None

    def value(self, name: str) -> Any:
        """Whatever the field holds."""
        if name not in self.values:
            raise Error(f"{self.place}: field '{name}' is missing beside {sorted(self.values)}")
        return self.values[name]

    def text(self, name: str) -> str:
        return self._checked(name, str, 'a text')

    def choice(self, name: str, known: Collection[str]) -> str:
        value = self.text(name)
        if value not in known:
            raise self._fault(name, f'one of {sorted(known)}')
        return value

    def flag(self, name: str) -> bool:
        return self._checked(name, bool, 'true or false')

    def integer(self, name: str, least: int = 0, most: int = MOST) -> int:
        value = self.value(name)
        if type(value) is not int or not least <= value <= most:
            raise self._fault(name, f'a whole number from {least} to {most}')
        return value

    def number(self, name: str) -> float:
        return float(self.numbers(name, axes=0))

    def numbers(self, name: str, axes: int) -> NDArray[np.float64]:
        """Finite numbers in lists of lists ..., all of one axis equally long."""
        value = self.value(name)
        shape = _shape(value, axes)
        if shape is None:
            raise self._fault(name, f'finite numbers in {axes} axes of lists' if axes else 'a finite number')
        return np.array(value, np.float64).reshape(shape)

    def integers(self, name: str, least: int = -MOST, most: int = MOST) -> list[int]:
        values = self._checked(name, list, 'a list')
        if not all(type(value) is int and least <= value <= most for value in values):
            raise self._fault(name, f'a list of whole numbers from {least} to {most}')
        return values

    def flags(self, name: str) -> list[bool]:
        return self._list(name, bool, 'true or false')

    def texts(self, name: str) -> list[str]:
        return self._list(name, str, 'texts')

    def objects(self, name: str) -> list['Fields']:
        values = self._checked(name, list, 'a list of objects')
        return _objects(f'{self.place}: {name}', values)

    def child(self, name: str) -> 'Fields':
        """The object that the field holds."""
        return Fields(f'{self.place}: {name}', self._object(name))

    def members(self) -> dict[str, 'Fields']:
        """Every field, where all of them are objects."""
        return {name: self.child(name) for name in self.values}

    def _object(self, name: str) -> dict[str, Any]:
        return self._checked(name, dict, 'an object')

    def _list(self, name: str, kind: type[T], what: str) -> list[T]:
        values = self._checked(name, list, f'a list of {what}')
        if not all(type(value) is kind for value in values):
            raise self._fault(name, f'a list of {what}')
        return values

    def _checked(self, name: str, kind: type[T], what: str) -> T:
        value = self.value(name)
        if type(value) is not kind:
            raise self._fault(name, what)
        return value

    def _fault(self, name: str, needed: str) -> Error:
        shown = repr(self.values[name])
        shown = shown if len(shown) <= 80 else f'{shown[:77]}...'
        return Error(f"{self.place}: field '{name}' is {shown}, needed {needed}")


def _shape(value: Any, axes: int) -> tuple[int, ...] | None:
    """None where the value is no array of finite numbers with so many axes."""
    if not axes:
        try:
            return () if type(value) in (int, float) and abs(float(value)) <= LARGEST else None
        except OverflowError:  # a whole number beyond every float
            return None
    if type(value) is not list:
        return None
    shapes = {_shape(item, axes - 1) for item in value} or {(0,) * (axes - 1)}
    inner = shapes.pop()
    return None if shapes or inner is None else (len(value), *inner)


def _objects(place: str, values: list[Any]) -> list[Fields]:
    for index, value in enumerate(values):
        if type(value) is not dict:
            raise Error(f'{place}[{index}] is a {type(value).__name__}, needed an object')
    return [Fields(f'{place}[{index}]', value) for index, value in enumerate(values)]


def read_object(path: Path) -> Fields:
    """The file as one object."""
    return Fields(str(path), _read(path, dict))


def read_objects(path: Path) -> list[Fields]:
    """The file as a list of objects."""
    return _objects(str(path), _read(path, list))


def _read(path: Path, kind: type[T]) -> T:
    try:
        document = json.loads(read_small_file(path).decode())
        json.dumps(document, ensure_ascii=False).encode()  # refuses halves of surrogate pairs
    except (OSError, ValueError, RecursionError) as fault:
        raise Error(f'{path} cannot be read ({type(fault).__name__}: {fault})') from fault
    if not isinstance(document, kind):
        raise Error(f'{path} holds a {type(document).__name__}, needed a {kind.__name__}')
    return document
