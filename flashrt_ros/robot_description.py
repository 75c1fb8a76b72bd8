# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Reads the limits of named joints out of a URDF, which comes from the network and is not trusted.

The parser is the one of Python's standard library, on expat. It opens no file and no address by itself, and a
document type declaration, the only place where entities can be declared, is refused: nothing can grow by
expansion, and nothing can be fetched.
"""

import math
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

import numpy as np

from flashrt_core.errors import Error
from flashrt_ros.joint_limits import JointLimits

MAX_CHARACTERS = 16 << 20  # hundred times the description of a two-armed robot with its meshes named
_MAX_NAMES_SHOWN = 40
# Kinds of joints that cannot have what is asked for, and what is wrong with them.
_WITHOUT_LIMITS = {
    'continuous': 'turns without end and has no position limits',
    'fixed': 'cannot move',
    'floating': 'has no axis',
    'planar': 'has no single axis',
}
_REMEDY = 'correct the description, or set joints.limits: parameters and give the limits there'


class RobotDescriptionError(Error):
    """A description that does not give the limits that were asked for; every fault is in the text."""


def parse_joint_limits(urdf_text: str, names: Sequence[str]) -> JointLimits:
    """Position limits [rad or m] and the highest speed [rad/s or m/s] of `names`, in their order.

    names: as the robot spells them. Nothing is filled in: what the URDF leaves out is refused, also where
    its specification has a default of 0. Soft limits of a <safety_controller> are not read.
    """
    joints = _joints(_parse(urdf_text))
    faults: list[str] = []
    lower, upper, velocity = (np.zeros(len(names)) for _ in range(3))
    for i, name in enumerate(names):
        try:
            lower[i], upper[i], velocity[i] = _limits(name, joints)
        except RobotDescriptionError as fault:
            faults.append(str(fault))
    if faults:
        raise RobotDescriptionError(f'robot description: {"; ".join(faults)}; {_REMEDY}')
    return JointLimits(tuple(names), lower, upper, velocity)


class _WithoutDoctype(ElementTree.TreeBuilder):
    """expat calls doctype() before it reads what the declaration declares."""

    def doctype(self, name: str, public_id: str | None, system_id: str | None) -> None:
        raise RobotDescriptionError(
            f'robot description: has a document type declaration ({name}); a URDF needs none, and entities '
            'could be declared in it'
        )


def _parse(text: str) -> ElementTree.Element:
    if len(text) > MAX_CHARACTERS:
        raise RobotDescriptionError(
            f'robot description: {len(text)} characters, at most {MAX_CHARACTERS} are read'
        )
    parser = ElementTree.XMLParser(target=_WithoutDoctype())
    try:
        parser.feed(text)
        root = parser.close()
    except (ElementTree.ParseError, ValueError) as fault:  # ValueError: lone surrogates
        raise RobotDescriptionError(f'robot description: is no XML: {fault}') from None
    if root.tag != 'robot':
        raise RobotDescriptionError(
            f'robot description: begins with <{root.tag:.80}>, a URDF begins with <robot>'
        )
    return root


def _joints(root: ElementTree.Element) -> dict[str, ElementTree.Element]:
    """By name. Only children of <robot>: transmissions and controllers refer to joints by the same tag."""
    joints: dict[str, ElementTree.Element] = {}
    for joint in root.iterfind('joint'):
        name = joint.get('name', '')
        if name in joints:
            raise RobotDescriptionError(f"robot description: joint '{name:.80}' is described twice")
        joints[name] = joint
    return joints


def _limits(name: str, joints: dict[str, ElementTree.Element]) -> tuple[float, float, float]:
    """Lower, upper, velocity."""
    if name not in joints:
        listed = ', '.join(list(joints)[:_MAX_NAMES_SHOWN]) or 'none'
        more = len(joints) - _MAX_NAMES_SHOWN
        raise RobotDescriptionError(
            f"there is no joint '{name}'; its joints are {listed}" + (f' and {more} more' if more > 0 else '')
        )
    joint = joints[name]
    kind = joint.get('type', 'without type')
    if kind not in ('revolute', 'prismatic'):
        why = _WITHOUT_LIMITS.get(kind, 'is no kind of joint that has limits')
        raise RobotDescriptionError(f"joint '{name}' is {kind:.80}: it {why}")
    limit = joint.find('limit')
    if limit is None:
        raise RobotDescriptionError(f"joint '{name}' has no <limit>")
    faults = []
    values = {}
    for attribute in ('lower', 'upper', 'velocity'):
        try:
            values[attribute] = _number(limit.get(attribute))
        except ValueError as fault:
            faults.append(f"{attribute} of joint '{name}' {fault}")
    faults = faults or list(_contradictions(name, **values))
    if faults:
        raise RobotDescriptionError('; '.join(faults))
    return values['lower'], values['upper'], values['velocity']


def _number(text: str | None) -> float:
    if text is None:
        raise ValueError('is missing')
    try:
        value = float(text) if text.isascii() and '_' not in text else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"is '{text:.80}', needed a finite number")
    return value


def _contradictions(name: str, lower: float, upper: float, velocity: float) -> Iterator[str]:
    if not lower < upper:
        yield f"lower limit {lower:g} of joint '{name}' is not below its upper limit {upper:g}"
    if not velocity > 0:
        yield f"velocity of joint '{name}' is {velocity:g}, needed more than 0"
