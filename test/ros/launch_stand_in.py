# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Stands in for launch and launch_ros where they are not installed; rejects what they do not have.

Only the classes of TABLE exist, with the arguments that they have in Jazzy and in Kilted. Substitutions are
performed, so that a launch file runs as far as the list of what would be started.
"""

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

_ACTION = (
    'package',
    'executable',
    'name',
    'namespace',
    'parameters',
    'remappings',
    'arguments',
    'ros_arguments',
    'output',
    'emulate_tty',
    'respawn',
    'on_exit',
    'condition',
)
_PROCESS = (
    'cmd',
    'name',
    'cwd',
    'env',
    'additional_env',
    'output',
    'shell',
    'on_exit',
    'sigterm_timeout',
    'sigkill_timeout',
    'condition',
)
_TRANSITION = ('target_lifecycle_node', 'start_state', 'goal_state', 'transition', 'entities', 'handle_once')

# Module -> class -> (positional arguments, keyword arguments)
TABLE: dict[str, dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    'launch': {
        'LaunchContext': ((), ()),
        'LaunchDescription': (('initial_entities',), ()),
        'LaunchDescriptionEntity': ((), ()),
    },
    'launch.actions': {
        'DeclareLaunchArgument': (('name',), ('default_value', 'description', 'choices', 'condition')),
        'EmitEvent': ((), ('event', 'condition')),
        'ExecuteProcess': ((), _PROCESS),
        'IncludeLaunchDescription': (('launch_description_source',), ()),
        'LogInfo': ((), ('msg', 'condition')),
        'OpaqueFunction': ((), ('function', 'args', 'kwargs', 'condition')),
        'RegisterEventHandler': (('event_handler',), ('condition',)),
        'Shutdown': ((), ('reason', 'condition')),
    },
    'launch.conditions': {
        'IfCondition': (('predicate_expression',), ()),
        'UnlessCondition': (('predicate_expression',), ()),
    },
    'launch.events': {'matches_action': (('target_action',), ())},
    'launch.events.process': {'ProcessExited': ((), ('action', 'returncode'))},
    'launch.launch_description_sources': {'PythonLaunchDescriptionSource': (('launch_file_path',), ())},
    'launch.substitutions': {
        'EnvironmentVariable': (('name',), ('default_value',)),
        'LaunchConfiguration': (('variable_name',), ('default',)),
        'PathJoinSubstitution': (('substitutions',), ()),
    },
    'launch_ros': {},
    'launch_ros.actions': {'LifecycleNode': ((), _ACTION), 'Node': ((), _ACTION)},
    'launch_ros.event_handlers': {'OnStateTransition': ((), _TRANSITION)},
    'launch_ros.events': {},
    'launch_ros.events.lifecycle': {'ChangeState': ((), ('lifecycle_node_matcher', 'transition_id'))},
    'launch_ros.parameter_descriptions': {'ParameterValue': (('value',), ('value_type', 'description'))},
    'launch_ros.substitutions': {'FindPackageShare': (('package',), ())},
}  # fmt: skip
_TEXTS = ('EnvironmentVariable', 'LaunchConfiguration', 'PathJoinSubstitution')


@dataclass
class Recorded:
    """What a launch file made: the name of the class and every argument by name."""

    kind: str
    arguments: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.arguments[name]
        except KeyError:
            raise AttributeError(f'{self.kind} was made without {name}') from None

    def perform(self, context: 'Context') -> str:
        if self.kind == 'LaunchConfiguration':
            return context.configuration(self.variable_name)
        if self.kind == 'EnvironmentVariable':
            return os.environ.get(self.name, self.default_value)
        if self.kind == 'FindPackageShare':
            return str(context.share)
        if self.kind == 'PathJoinSubstitution':
            return str(Path(*(perform(part, context) for part in self.substitutions)))
        raise TypeError(f'{self.kind} is no substitution')


@dataclass
class Context:
    """Values of the launch arguments; asking for one that is not declared is an error, as in launch."""

    share: Path
    values: dict[str, str] = field(default_factory=dict)

    def configuration(self, name: str) -> str:
        if name not in self.values:
            raise LookupError(f"launch configuration '{name}' does not exist: the argument is not declared")
        return self.values[name]


def perform(value: Any, context: Context) -> str:
    return value.perform(context) if isinstance(value, Recorded) else str(value)


def run_launch_file(path: Path, share: Path, given: dict[str, str]) -> list[Recorded]:
    """What the file would start, OpaqueFunctions included, with the launch arguments `given`."""
    context = Context(share)
    with _installed():
        started = list(_entities(path, context, given))
    unknown = set(given) - set(context.values)
    if unknown:
        raise LookupError(f'{path.name} declares no argument {sorted(unknown)}')
    started = [entity for entity in started if _holds(entity.arguments.get('condition'), context)]
    for entity in started:
        _perform_all(entity, context)
    return started


def _entities(path: Path, context: Context, given: dict[str, str]) -> Iterator[Recorded]:
    """Of a launch file and of those that it includes, which see the same launch arguments."""
    spec = importlib.util.spec_from_file_location(f'launch_file_{path.stem}', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for entity in module.generate_launch_description().initial_entities:
        if entity.kind == 'DeclareLaunchArgument':
            _declare(entity, context, given)
        elif entity.kind == 'OpaqueFunction':
            yield from entity.function(context)
        elif entity.kind == 'IncludeLaunchDescription':
            included = Path(entity.launch_description_source.launch_file_path)
            yield from _entities(included, context, given)
        else:
            yield entity


def _holds(condition: Recorded | None, context: Context) -> bool:
    if condition is None:
        return True
    value = perform(condition.predicate_expression, context)
    if value not in ('true', 'false'):
        raise ValueError(f"condition is '{value}', wanted true or false")
    return (value == 'true') == (condition.kind == 'IfCondition')


def _declare(entity: Recorded, context: Context, given: dict[str, str]) -> None:
    if entity.name in given:
        context.values[entity.name] = given[entity.name]
    elif entity.name not in context.values:  # declared again, it keeps its value, as in launch
        if 'default_value' not in entity.arguments:
            raise LookupError(f'launch argument {entity.name} is required')
        context.values[entity.name] = perform(entity.default_value, context)


def _perform_all(value: Any, context: Context) -> None:
    """Replaces every substitution inside by its text, which fails where an argument is not declared."""
    if isinstance(value, Recorded):
        for name, item in value.arguments.items():
            if isinstance(item, Recorded) and item.kind in _TEXTS:
                value.arguments[name] = item.perform(context)
            elif name != 'lifecycle_node_matcher':  # leads back to the node
                _perform_all(item, context)
    elif isinstance(value, dict | list):
        for i, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(item, Recorded) and item.kind in _TEXTS:
                value[i] = item.perform(context)
            else:
                _perform_all(item, context)


def _recorder(kind: str, positional: tuple[str, ...], keywords: tuple[str, ...]) -> Callable[..., Recorded]:
    def make(*values: Any, **named: Any) -> Recorded:
        if len(values) > len(positional):
            raise TypeError(f'{kind} takes {len(positional)} positional arguments, {len(values)} were given')
        arguments = dict(zip(positional, values, strict=False))
        for name, value in named.items():
            if name in arguments or name not in positional + keywords:
                raise TypeError(f"{kind} got an unexpected argument '{name}'")
            arguments[name] = value
        return Recorded(kind, arguments)

    return make


@contextmanager
def _installed() -> Iterator[None]:
    """The stand-in as importable modules, for as long as the launch file runs."""
    before = {name: sys.modules.get(name) for name in TABLE}
    for name, classes in TABLE.items():
        module = ModuleType(name)
        module.__path__ = []  # a package
        for kind, (positional, keywords) in classes.items():
            setattr(module, kind, _recorder(kind, positional, keywords))
        sys.modules[name] = module
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
