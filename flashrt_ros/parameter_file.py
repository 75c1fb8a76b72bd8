# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Reads a ROS parameter file without ROS, and names file, line and key where it is wrong."""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from flashrt_core.errors import Error
from flashrt_core.small_file import read_small_file
from flashrt_ros.parameter_table import ParameterFaults

_SECTION = 'ros__parameters'
_MOST_BYTES = 1 << 20


def read_parameter_file(path: str | Path, node_name: str) -> dict[str, object]:
    """Flat names ('cameras.names') -> values of every section that applies to the node `node_name`.

    Later sections win, as in ROS. Raises ParameterFaults.
    """
    values: dict[str, object] = {}
    for name, section in _sections(path):
        if _matches(name, node_name):
            values.update(_flatten(section))
    return values


def check_parameter_file(path: str | Path) -> None:
    """Raises ParameterFaults where ROS would only say that it could not parse the file."""
    for _, _section in _sections(path):
        pass


def _sections(path: str | Path) -> Iterator[tuple[str, Mapping]]:
    """(node name pattern, parameters) of every section of the file."""
    path = Path(path)
    try:
        text = read_small_file(path, _MOST_BYTES).decode('utf-8')
    except (OSError, UnicodeDecodeError, Error) as error:
        raise ParameterFaults(str(path), [f'cannot be read: {error}']) from None
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:
        raise ParameterFaults(
            str(path), [f'holds what is no text: {error.reason} (byte {error.position})']
        ) from None
    loader.name = str(path)
    try:
        content = loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = text.splitlines()[mark.line] if mark and mark.line < len(text.splitlines()) else ''
        advice = '; indent with spaces, YAML allows no tabs' if '\t' in line else ''
        where = f'line {mark.line + 1}: ' if mark else ''
        raise ParameterFaults(str(path), [f'{where}{error.problem}{advice}']) from None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:  # such as 2020-13-45 or [a]: b
        raise ParameterFaults(str(path), [f'is not YAML: {error}']) from None
    finally:
        loader.dispose()
    if loader.faults:
        raise ParameterFaults(str(path), loader.faults)
    if not isinstance(content, Mapping):
        raise ParameterFaults(str(path), [f"has no '<node name>: {_SECTION}:' section"])
    sections = list(_find_sections(content, ''))
    if not sections:
        raise ParameterFaults(str(path), [f"has no '<node name>: {_SECTION}:' section"])
    yield from sections


def _find_sections(content: Mapping, prefix: str) -> Iterator[tuple[str, Mapping]]:
    for name, value in content.items():
        if not isinstance(value, Mapping):
            continue
        if name == _SECTION:
            yield prefix, value
        else:
            yield from _find_sections(value, f'{prefix}/{str(name).strip("/")}')


def _matches(pattern: str, node_name: str) -> bool:
    """ROS patterns: '*' is one name, '**' any number of names."""
    return _match_parts(pattern.strip('/').split('/'), node_name.strip('/').split('/'))


def _match_parts(pattern: list[str], names: list[str]) -> bool:
    if not pattern:
        return not names
    if pattern[0] == '**':
        return any(_match_parts(pattern[1:], names[i:]) for i in range(len(names) + 1))
    return bool(names) and fnmatchcase(names[0], pattern[0]) and _match_parts(pattern[1:], names[1:])


def _flatten(section: Mapping, prefix: str = '') -> dict[str, object]:
    values: dict[str, object] = {}
    for name, value in section.items():
        if isinstance(value, Mapping):
            values.update(_flatten(value, f'{prefix}{name}.'))
        else:
            values[f'{prefix}{name}'] = value
    return values


class _Loader(yaml.SafeLoader):
    """Safe YAML that also reports what ROS refuses without naming the key."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.faults: list[str] = []

    def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):  # a few lines of them stand for more than any memory holds
            event = self.peek_event()
            raise yaml.composer.ComposerError(
                None, None, f"'*{event.anchor}': write the value out, ROS takes no aliases", event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        seen: dict[object, int] = {}
        for key_node, value_node in node.value:
            name, line = key_node.value, key_node.start_mark.line + 1
            if name in seen:
                self.faults.append(f"line {line}: key '{name}' was already given in line {seen[name]}")
            seen[name] = line
            if value_node.tag == 'tag:yaml.org,2002:null':
                self.faults.append(f"line {line}: '{name}' has no value; a text is written {name}: 'text'")
            if isinstance(value_node, yaml.SequenceNode):
                self._check_sequence(name, value_node)
        return super().construct_mapping(node, deep=deep)

    def _check_sequence(self, name: str, node: yaml.SequenceNode) -> None:
        where = f"line {node.start_mark.line + 1}: '{name}'"
        kinds = {item.tag.rsplit(':', 1)[-1] for item in node.value}
        if kinds == {'int', 'float'}:
            advice = 'which ROS refuses; write every number with a point, as in 2.0'
            self.faults.append(f'{where} mixes whole numbers and decimals, {advice}')
        elif len(kinds) > 1:
            self.faults.append(f'{where} mixes {" and ".join(sorted(kinds))} in one list')
