# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The table of parameters as ROS parameters of a node: declared, described, read, and guarded."""

from collections.abc import Callable
from typing import Any

from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from flashrt_ros.parameter_table import REQUIRED
from flashrt_ros.parameters import static_keys

_OF_ROS = ('use_sim_time', 'start_type_description_service', 'qos_overrides.')


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
        """Name -> value of every parameter that has one; those that every ROS node has are left out."""
        values: dict[str, object] = dict.fromkeys(self._empty_lists)
        for name, parameter in self._node.get_parameters_by_prefix('').items():
            if parameter.type_ != Parameter.Type.NOT_SET and not name.startswith(_OF_ROS):
                values[name] = parameter.value
        return values

    def guard(self, state: Callable[[], str], set_prompt: Callable[[str], None]) -> None:
        """From configure on only the prompt may be set, and not before the node is configured."""

        def on_set(parameters: list[Parameter]) -> SetParametersResult:
            if (now := state()) in ('unconfigured', 'finalized'):
                return SetParametersResult(successful=True)
            for parameter in parameters:
                name, value = parameter.name, parameter.value
                if name.startswith(_OF_ROS):
                    continue
                if name != 'prompt':
                    reason = f'{name} is read at configure; run cleanup, set it, and configure again'
                    return SetParametersResult(successful=False, reason=reason)
                if now == 'configuring':
                    reason = 'the parameters have been read; set the prompt when the node is configured'
                    return SetParametersResult(successful=False, reason=reason)
                if not isinstance(value, str) or not value.strip():
                    return SetParametersResult(successful=False, reason=f'prompt is {value!r}, wanted a text')
            for parameter in parameters:
                if parameter.name == 'prompt':
                    set_prompt(parameter.value)
            return SetParametersResult(successful=True)

        self._node.add_on_set_parameters_callback(on_set)
