# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Whether a ros2_control controller fits an output: judged from the parameters that the controller tells.

Known are joint_trajectory_controller and the forward command controllers (position, velocity, effort).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from flashrt_ros.check_findings import Finding, fail, ok, warn

# What is asked for; a controller has those of its kind and version.
PARAMETERS = (
    'joints',
    'command_joints',
    'interface_name',
    'command_interfaces',
    'interpolation_method',
    'allow_nonzero_velocity_at_trajectory_end',
    'allow_integration_in_goal_trajectories',
    'allow_partial_joints_goal',
    'open_loop_control',
    'interpolate_from_desired_state',
    'cmd_timeout',
)
CONSTRAINTS = 'constraints.'  # prefix of tolerances, some of them per joint
# Old and new name of one thing: a new trajectory goes on from where the last one had been followed to.
_BEGINS_AT_COMMAND = ('open_loop_control', 'interpolate_from_desired_state')


@dataclass(frozen=True)
class ControlledOutput:
    """One output of the node as its controller sees it."""

    name: str  # in outputs.names
    type: str
    quantity: str  # position | velocity
    joints: tuple[str, ...]  # as the robot spells them


def is_controller(values: Mapping[str, object]) -> bool:
    return bool(_joints(values))


def check_controller(output: ControlledOutput, node: str, values: Mapping[str, object]) -> Iterator[Finding]:
    """values: parameters of the controller node, those that it has; is_controller() of them is true."""
    subject = f'controller {output.name}'
    joints = _joints(values)
    faults = [
        *_joint_faults(output, node, joints, values),
        *_interface_faults(output, node, values),
    ]
    for text in faults:
        yield fail(subject, text)
    doubts = list(_doubts(output, node, values))
    for text in doubts:
        yield warn(subject, text)
    if not faults:
        yield ok(subject, f'{node}: {", ".join(_facts(output, joints, values))}')


def _joint_faults(
    output: ControlledOutput, node: str, joints: Sequence[str], values: Mapping[str, object]
) -> Iterator[str]:
    unknown = [joint for joint in output.joints if joint not in joints]
    left_out = [joint for joint in joints if joint not in output.joints]
    key = f'outputs.{output.name}.joints'
    if unknown:
        yield (
            f'{node} has no joint {", ".join(unknown)}, which {key} names; its joints are {", ".join(joints)}'
        )
    if output.type == 'float64_multi_array':  # numbers without names: the order is all that tells them apart
        if not unknown and tuple(joints) != output.joints:
            yield (
                f'{node} reads its numbers as {", ".join(joints)}, but {key} sends '
                f'{", ".join(output.joints)}; bring them into the same order'
            )
    elif left_out and not values.get('allow_partial_joints_goal'):
        yield (
            f'{node} also has {", ".join(left_out)} and refuses trajectories without them; add them to '
            f'{key}, or set allow_partial_joints_goal of the controller'
        )


def _interface_faults(output: ControlledOutput, node: str, values: Mapping[str, object]) -> Iterator[str]:
    interface = values.get('interface_name')
    if interface and interface != output.quantity:
        yield (
            f'{node} commands {interface}, but outputs.{output.name}.quantity is {output.quantity}; use a '
            f'controller of {output.quantity}'
        )
    is_trajectory = _is_trajectory_controller(values)
    if output.type == 'joint_trajectory' and interface:
        yield f'{node} forwards numbers and takes no trajectories; set outputs.{output.name}.type'
    if output.type == 'float64_multi_array' and is_trajectory:
        yield f'{node} takes trajectories; set outputs.{output.name}.type: joint_trajectory'
    if output.quantity == 'velocity' and is_trajectory:
        if values.get('allow_integration_in_goal_trajectories') is False:
            yield (
                f'{node} refuses trajectories of velocities alone; set its parameter '
                'allow_integration_in_goal_trajectories: true'
            )


def _doubts(output: ControlledOutput, node: str, values: Mapping[str, object]) -> Iterator[str]:
    if values.get('interpolation_method') == 'none':
        yield f'{node} jumps from row to row; set its parameter interpolation_method: splines'
    interfaces = values.get('command_interfaces')
    if interfaces and output.quantity not in interfaces:
        yield (
            f'{node} commands {", ".join(interfaces)} to the drives and follows a {output.quantity} with its '
            'own gains, whose lag adds to that of the policy'
        )
    loop = [values[name] for name in _BEGINS_AT_COMMAND if name in values]
    if loop and not any(loop):
        yield (
            f'{node} begins each trajectory at the measured state, which lags behind what was commanded: the '
            'arm may stutter as trajectories replace each other; set its parameter '
            f'{[name for name in _BEGINS_AT_COMMAND if name in values][-1]}: true'
        )
    timeout_s = _number(values.get('cmd_timeout'))
    goal_time_s = _number(values.get(f'{CONSTRAINTS}goal_time'))
    if not timeout_s:
        what = (
            'goes on to the end of its trajectory and holds'
            if _is_trajectory_controller(values)
            else ('keeps the last command for ever')
        )
        remedy = '; set its parameter cmd_timeout' if 'cmd_timeout' in values else ''
        yield f'{node} has no cmd_timeout: if the policy node is killed, it {what}{remedy}'
    elif timeout_s <= goal_time_s:
        yield (
            f'{node} ignores its cmd_timeout of {timeout_s:g} s, because constraints.goal_time is '
            f'{goal_time_s:g} s; make cmd_timeout the larger one'
        )


def _facts(output: ControlledOutput, joints: Sequence[str], values: Mapping[str, object]) -> Iterator[str]:
    order = 'in this order' if tuple(joints) == output.joints else 'in another order, matched by name'
    yield f'{len(output.joints)} joints {order}'
    interfaces = values.get('command_interfaces') or [values.get('interface_name') or output.quantity]
    yield f'commands {" and ".join(interfaces)}'
    if 'interpolation_method' in values:
        yield f'interpolation {values["interpolation_method"]}'
    if _number(values.get('cmd_timeout')):
        yield f'cmd_timeout {values["cmd_timeout"]:g} s'
    if 'allow_nonzero_velocity_at_trajectory_end' in values:
        allowed = values['allow_nonzero_velocity_at_trajectory_end']
        yield f'may {"" if allowed else "not "}end in motion (those of the policy node end at rest)'
    tolerances = {name: value for name, value in values.items() if name.startswith(CONSTRAINTS) and value}
    for name, value in tolerances.items():
        yield f'{name} {value}'


def _joints(values: Mapping[str, object]) -> Sequence[str]:
    """Empty where the node has no such parameter, or another kind of it."""
    for name in ('command_joints', 'joints'):
        joints = values.get(name)
        if isinstance(joints, list) and joints and all(isinstance(joint, str) for joint in joints):
            return joints
    return ()


def _is_trajectory_controller(values: Mapping[str, object]) -> bool:
    return 'command_interfaces' in values


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
