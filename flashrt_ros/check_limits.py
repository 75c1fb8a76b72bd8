# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Whether the limits in the parameters are those of the robot, as its description on the network tells."""

from collections.abc import Iterator

from flashrt_ros.check_findings import Finding, fail, ok, skip, warn
from flashrt_ros.joint_limits import JointLimits, limits_of
from flashrt_ros.parameters import Parameters
from flashrt_ros.robot_description import RobotDescriptionError, parse_joint_limits

_SUBJECT = 'limits'
_ROUNDING = 1e-4  # rad or m, and per second: how far rounded decimals of one number may differ


def check_limits(parameters: Parameters, topic: str, description: str | None) -> Iterator[Finding]:
    """description: the URDF that came on `topic`; None where nothing came."""
    is_source = parameters.joint_limits == 'robot_description'
    if description is None:
        if is_source:
            yield fail(
                _SUBJECT,
                f'joints.limits is robot_description, but nothing came on {topic}; start '
                'robot_state_publisher',
            )
        else:
            yield skip(
                _SUBJECT, f'nothing came on {topic} to compare joints.lower, upper and max_velocity with'
            )
        return
    names = [parameters.joint_prefix + name for name in parameters.commanded_joints]
    try:
        described = parse_joint_limits(description, names)
    except RobotDescriptionError as fault:
        # Limits that are given in the parameters do not depend on it.
        yield (fail if is_source else warn)(_SUBJECT, f'on {topic}: {fault}')
        return
    if is_source:
        yield ok(_SUBJECT, f'{len(names)} joints, from {topic}: {", ".join(_listed(described))}')
        return
    yield from _compare(limits_of(parameters), described, topic)


def _compare(given: JointLimits, described: JointLimits, topic: str) -> Iterator[Finding]:
    wider, narrower = [], []
    for key, sign in (('lower', -1), ('upper', 1), ('max_velocity', 1)):
        for i, name in enumerate(described.names):
            own, robots = getattr(given, key)[i], getattr(described, key)[i]
            if abs(own - robots) > _ROUNDING:
                text = f'{name} {own:g} instead of {robots:g}'
                (wider if sign * (own - robots) > 0 else narrower).append(f'joints.{key} of {text}')
    if wider:
        yield warn(_SUBJECT, f'wider than the robot allows on {topic}: {"; ".join(wider)}')
    if narrower:
        yield ok(_SUBJECT, f'narrower than the robot allows on {topic}: {"; ".join(narrower)}')
    if not wider and not narrower:
        yield ok(_SUBJECT, f'those of the robot on {topic}')


def _listed(limits: JointLimits) -> Iterator[str]:
    for name, low, high, speed in zip(
        limits.names, limits.lower, limits.upper, limits.max_velocity, strict=True
    ):
        yield f'{name} {low:g} to {high:g} at {speed:g}/s'
