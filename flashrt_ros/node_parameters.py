# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The table of parameters as ROS parameters of a node: declared, described, read, and guarded."""

from collections.abc import Callable, Mapping
from typing import Any

from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from flashrt_ros.parameter_table import REQUIRED, checked
from flashrt_ros.parameters import OF_ROS, live_keys, static_keys


class NodeParameters:
    """Declares the table without types: a wrong type is then named with the other faults."""

    def __init__(self, node: Node) -> None:
        self._node = node
        # There is no public way to see overrides that are not declared, such as misspelled ones.
        overrides = node._parameter_overrides
        # '[]' has no type; ROS delivers it as a parameter without value.
        self._empty_lists = {name for name, override in overrides.items() if override.value is None}
        for row in static_keys():
            default = None if row.default is REQUIRED else row.default
            self._declare(row.name, list(default) if isinstance(default, tuple) else default, row.text)
        for name in overrides:
            if not node.has_parameter(name):
                self._declare(name, None, '')

    def _declare(self, name: str, default: Any, text: str) -> None:
        self._node.declare_parameter(
            name, default, ParameterDescriptor(description=text, dynamic_typing=True)
        )

    def values(self) -> dict[str, object]:
        """Name -> value of every parameter that has one."""
        values: dict[str, object] = dict.fromkeys(self._empty_lists)
        for name, parameter in self._node.get_parameters_by_prefix('').items():
            if parameter.type_ != Parameter.Type.NOT_SET:
                values[name] = parameter.value
        return values

    def guard(self, state: Callable[[], str], setters: Mapping[str, Callable[[Any], None]]) -> None:
        """From configure on only live keys may be set, through `setters`, and not while it configures."""
        live = live_keys()
        if setters.keys() != live.keys():
            raise ValueError(f'live keys are {sorted(live)}, but {sorted(setters)} can be set')

        def refusal(parameter: Parameter, now: str) -> str:
            name = parameter.name
            if name not in live:
                return f'{name} is read at configure; run cleanup, set it, and configure again'
            if now == 'configuring':
                return f'the parameters have been read; set {name} when the node is configured'
            row, kind = live[name]
            try:
                checked(name, parameter.value, kind, row)
            except ValueError as fault:
                return str(fault)
            return ''

        def on_set(parameters: list[Parameter]) -> SetParametersResult:
            if (now := state()) in ('unconfigured', 'finalized'):
                return SetParametersResult(successful=True)
            own = [parameter for parameter in parameters if not parameter.name.startswith(OF_ROS)]
            for parameter in own:
                if reason := refusal(parameter, now):
                    return SetParametersResult(successful=False, reason=reason)
            for parameter in own:
                row, kind = live[parameter.name]
                setters[parameter.name](checked(parameter.name, parameter.value, kind, row))
            return SetParametersResult(successful=True)

        self._node.add_on_set_parameters_callback(on_set)
