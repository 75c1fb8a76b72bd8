# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Joint limits out of a URDF: read by name, nothing filled in, nothing expanded and nothing fetched."""

from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.robot_description import MAX_CHARACTERS, RobotDescriptionError, parse_joint_limits

ARM = ('joint_1', 'joint_2', 'gripper')
LIMITS = {'lower': '-2.0', 'upper': '2.0', 'velocity': '1.5', 'effort': '10'}
NAMES = st.text(
    st.characters(blacklist_categories=('Cs', 'Cc'), blacklist_characters='\ufffe\uffff'), min_size=1
)


def joint(name: str, kind: str = 'revolute', limit: dict[str, str] | None = LIMITS, inside: str = '') -> str:
    if limit is not None:
        inside += f'<limit {" ".join(f"{key}={quoteattr(value)}" for key, value in limit.items())}/>'
    return f'<joint name={quoteattr(name)} type="{kind}">{inside}</joint>'


def urdf(*joints: str) -> str:
    return f'<?xml version="1.0"?><robot name="bench">{"".join(joints)}</robot>'


def arm(**replaced: str) -> str:
    """Three joints, some of them written otherwise."""
    gripper = joint('gripper', 'prismatic', {'lower': '0', 'upper': '0.08', 'velocity': '0.2'})
    usual = {'joint_1': joint('joint_1'), 'joint_2': joint('joint_2'), 'gripper': gripper}
    return urdf(*(usual | replaced).values())


def fault(text: str, names: tuple[str, ...] = ARM) -> str:
    with pytest.raises(RobotDescriptionError) as raised:
        parse_joint_limits(text, names)
    return str(raised.value)


def test_limits_come_by_name_in_the_order_asked_for():
    limits = parse_joint_limits(arm(), ('gripper', 'joint_2'))
    assert limits.names == ('gripper', 'joint_2')
    assert limits.lower.tolist() == [0.0, -2.0]
    assert limits.upper.tolist() == [0.08, 2.0]
    assert limits.max_velocity.tolist() == [0.2, 1.5]
    assert {array.dtype for array in (limits.lower, limits.upper, limits.max_velocity)} == {
        np.dtype('float64')
    }


@given(
    st.dictionaries(
        NAMES,
        st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(0, 1e6, exclude_min=True)).filter(
            lambda values: values[0] < values[1]
        ),
        min_size=1,
        max_size=8,
    )
)
def test_every_value_arrives_exactly(joints):
    text = urdf(
        *(
            joint(name, limit=dict(zip(('lower', 'upper', 'velocity'), map(repr, values), strict=True)))
            for name, values in joints.items()
        )
    )
    limits = parse_joint_limits(text, tuple(joints))
    read = np.stack([limits.lower, limits.upper, limits.max_velocity], axis=1)
    assert read.tolist() == [list(values) for values in joints.values()]


@given(st.text())
def test_no_text_ends_in_anything_but_its_own_error(text):
    assert fault(text).startswith('robot description: ')


@given(st.sampled_from(('lower', 'upper', 'velocity')), st.text())
def test_no_value_ends_in_anything_but_finite_limits_or_its_own_error(attribute, value):
    value = ''.join(c for c in value if c.isprintable())
    try:
        limits = parse_joint_limits(arm(joint_1=joint('joint_1', limit=LIMITS | {attribute: value})), ARM)
    except RobotDescriptionError as error:
        assert 'joint_1' in str(error)  # noqa: PT017 - both ends are right
    else:
        assert np.isfinite([limits.lower, limits.upper, limits.max_velocity]).all()
        assert (limits.lower < limits.upper).all()
        assert (limits.max_velocity > 0).all()


@pytest.mark.parametrize('attribute', ['lower', 'upper', 'velocity'])
def test_a_missing_attribute_is_named_and_not_taken_for_zero(attribute):
    rest = {key: value for key, value in LIMITS.items() if key != attribute}
    assert f"{attribute} of joint 'joint_2' is missing" in fault(arm(joint_2=joint('joint_2', limit=rest)))


def test_a_joint_without_limits_is_named():
    assert "joint 'joint_2' has no <limit>" in fault(arm(joint_2=joint('joint_2', limit=None)))


@pytest.mark.parametrize(
    ('kind', 'why'),
    [
        ('continuous', 'turns without end'),
        ('fixed', 'cannot move'),
        ('floating', 'no axis'),
        ('planar', 'no single axis'),
        ('screw', 'no kind of joint that has limits'),
    ],
)
def test_a_kind_of_joint_that_has_no_limits_is_named(kind, why):
    text = fault(arm(joint_2=joint('joint_2', kind)))
    assert f"joint 'joint_2' is {kind}: it" in text
    assert why in text
    assert 'joints.limits: parameters' in text


def test_an_unknown_joint_is_told_with_those_that_exist():
    text = fault(arm(), ('joint_3',))
    assert "no joint 'joint_3'; its joints are joint_1, joint_2, gripper" in text
    assert 'its joints are none' in fault(urdf(), ('joint_1',))
    assert 'and 60 more' in fault(urdf(*(joint(f'j{i}') for i in range(100))), ('joint_1',))


@pytest.mark.parametrize('value', ['nan', 'inf', '-inf', '1e999', '', '2,0', '1_0', '\u0662', 'two'])
@pytest.mark.parametrize('attribute', ['lower', 'upper', 'velocity'])
def test_what_is_no_finite_number_is_shown(attribute, value):
    text = fault(arm(joint_1=joint('joint_1', limit=LIMITS | {attribute: value})))
    assert f"{attribute} of joint 'joint_1' is '{value}', needed a finite number" in text


@pytest.mark.parametrize('upper', ['-2.0', '-2.5'])
def test_swapped_and_equal_limits_are_refused(upper):
    text = fault(arm(joint_1=joint('joint_1', limit=LIMITS | {'upper': upper})))
    assert f"lower limit -2 of joint 'joint_1' is not below its upper limit {float(upper):g}" in text


@pytest.mark.parametrize('velocity', ['0', '-1'])
def test_a_speed_that_allows_no_motion_is_refused(velocity):
    assert f'is {velocity}, needed more than 0' in fault(
        arm(joint_1=joint('joint_1', limit=LIMITS | {'velocity': velocity}))
    )


def test_all_faults_come_at_once():
    text = fault(arm(joint_1=joint('joint_1', 'fixed'), joint_2=joint('joint_2', limit={'lower': 'x'})))
    assert "'joint_1' is fixed" in text
    assert "lower of joint 'joint_2' is 'x'" in text
    assert "upper of joint 'joint_2' is missing" in text
    assert 'gripper' not in text


def test_joints_elsewhere_in_the_document_are_other_things():
    transmission = '<transmission name="t"><joint name="joint_1"/></transmission>'
    control = '<ros2_control name="arm" type="system"><joint name="joint_1"/></ros2_control>'
    text = urdf(transmission, joint('joint_1'), control)
    assert parse_joint_limits(text, ('joint_1',)).upper.tolist() == [2.0]
    assert "no joint 'joint_2'" in fault(
        urdf('<transmission name="t">' + joint('joint_2') + '</transmission>', joint('joint_1')),
        ('joint_2',),
    )


def test_a_joint_described_twice_is_refused():
    assert "joint 'joint_1' is described twice" in fault(urdf(joint('joint_1'), joint('joint_1')))


def test_other_documents_are_refused():
    assert 'begins with <sdf>' in fault('<sdf version="1.9"/>')
    assert 'is no XML' in fault('')
    assert 'is no XML' in fault(arm()[:-10])
    assert 'is no XML' in fault('\ud800')


def test_a_document_that_is_too_large_is_not_parsed():
    text = fault('<' * (MAX_CHARACTERS + 1))
    assert f'{MAX_CHARACTERS + 1} characters' in text


def test_no_entity_is_expanded_or_fetched(tmp_path: Path):
    secret = tmp_path / 'secret'
    secret.write_text('2.0')
    bomb = '<!DOCTYPE robot [<!ENTITY a "aaaaaaaa">' + ''.join(
        f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 10}">' for i in range(12)
    )
    external = f'<!DOCTYPE robot [<!ENTITY a SYSTEM "file://{secret}">'
    remote_type = f'<!DOCTYPE robot SYSTEM "file://{secret}" ['
    for declaration in (bomb, external, remote_type):
        text = f'{declaration}]>' + arm(joint_1=joint('joint_1', inside='&a;')).removeprefix(
            '<?xml version="1.0"?>'
        )
        assert 'document type declaration (robot)' in fault(text)


def test_deep_nesting_is_no_danger():
    depth = 100_000
    assert "no joint 'joint_1'" in fault(f'<robot>{"<a>" * depth}{"</a>" * depth}</robot>', ('joint_1',))
