# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What `flashrt check` says of a robot that was seen: topics, joints, stop, controllers and limits."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from fake_policy import ARM, VELOCITY, parameters
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.check_controller import ControlledOutput, check_controller, is_controller
from flashrt_ros.check_findings import Finding
from flashrt_ros.check_graph import check_graph
from flashrt_ros.check_inputs import check_joint_names
from flashrt_ros.check_limits import check_limits
from flashrt_ros.graph_view import Endpoint, GraphView, InputView, OutputView

JOINTS = (*ARM, 'gripper')
NOW_NS = 1_700_000_000_000_000_000
IMAGE, JOINT_STATE, BOOL = 'sensor_msgs/msg/Image', 'sensor_msgs/msg/JointState', 'std_msgs/msg/Bool'
TRAJECTORY = 'trajectory_msgs/msg/JointTrajectory'
TOPIC = '/robot_description'


def header(age_s: float = 0.02) -> SimpleNamespace:
    sec, nanosec = divmod(NOW_NS - round(age_s * 1e9), 10**9)
    return SimpleNamespace(stamp=SimpleNamespace(sec=sec, nanosec=nanosec))


def image(encoding: str = 'rgb8', **changes: object) -> SimpleNamespace:
    picture = {
        'height': 2,
        'width': 4,
        'encoding': encoding,
        'step': 12,
        'is_bigendian': 0,
        'data': bytes(24),
    }
    return SimpleNamespace(**({'header': header()} | picture | changes))


def joint_state(**changes: object) -> SimpleNamespace:
    positions = {'name': list(JOINTS), 'position': [0.0] * 7, 'velocity': [], 'effort': []}
    return SimpleNamespace(**({'header': header()} | positions | changes))


def camera(slot: str, **changes: object) -> InputView:
    usual = InputView(
        f'/cam_{slot}/image_raw',
        'camera',
        slot,
        IMAGE,
        (Endpoint('/driver', IMAGE),),
        30,
        1.0,
        (image(),),
        NOW_NS,
    )
    return replace(usual, **changes)


def joints(**changes: object) -> InputView:
    ends = (Endpoint('/joint_state_broadcaster', JOINT_STATE),)
    usual = InputView(
        '/joint_states', 'joints', 'joint_states', JOINT_STATE, ends, 100, 1.0, (joint_state(),), NOW_NS
    )
    return replace(usual, **changes)


def stop(**changes: object) -> InputView:
    recent = (SimpleNamespace(data=False),)
    usual = InputView('/estop', 'estop', 'estop', BOOL, (Endpoint('/button', BOOL),), 10, 1.0, recent, NOW_NS)
    return replace(usual, **changes)


def output(**changes: object) -> OutputView:
    usual = OutputView(
        '/arm_controller/joint_trajectory', 'arm', TRAJECTORY, (Endpoint('/arm_controller', TRAJECTORY),),
        (), {'/arm_controller': trajectory_controller()},
    )  # fmt: skip
    return replace(usual, **changes)


def trajectory_controller(**changes: object) -> dict[str, object]:
    usual = {
        'joints': list(JOINTS),
        'command_interfaces': ['position'],
        'interpolation_method': 'splines',
        'allow_nonzero_velocity_at_trajectory_end': False,
        'allow_partial_joints_goal': False,
        'allow_integration_in_goal_trajectories': False,
        'interpolate_from_desired_state': True,
        'cmd_timeout': 0.5,
        'constraints.goal_time': 0.0,
    }
    return usual | {name.replace('__', '.'): value for name, value in changes.items()}


def urdf(upper: float = 2.0, kind: str = 'revolute') -> str:
    arm = ''.join(
        f'<joint name="{name}" type="{kind}"><limit lower="-2.0" upper="{upper}" velocity="1.5"/></joint>'
        for name in ARM
    )
    hand = '<joint name="gripper" type="prismatic"><limit lower="0" upper="0.08" velocity="0.2"/></joint>'
    return f'<robot name="bench">{arm}{hand}</robot>'


def view(*inputs: InputView, **changes: object) -> GraphView:
    """A robot on which all is well, except for the given inputs."""
    usual = {item.stream: item for item in (camera('base'), camera('wrist'), joints(), stop())}
    usual |= {item.stream: item for item in inputs}
    whole = GraphView('rmw', 0, ('/driver',), tuple(usual.values()), (output(),), TOPIC, urdf(), False)
    return replace(whole, **changes)


def findings(seen: GraphView, **changes: object) -> dict[str, list[Finding]]:
    """By level."""
    given = parameters(**({'dry_run': False} | changes))
    result: dict[str, list[Finding]] = {'OK': [], 'WARN': [], 'FAIL': [], 'SKIP': []}
    for finding in check_graph(seen, given):
        result[finding.level].append(finding)
    return result


def only(level: str, seen: GraphView, **changes: object) -> Finding:
    """The one finding of this level; the robot is well otherwise."""
    found = findings(seen, **changes)
    others = {'WARN', 'FAIL', 'SKIP'} - {level}
    assert not any(found[other] for other in others), found
    [finding] = found[level]
    return finding


def test_a_robot_on_which_all_is_well():
    found = findings(view())
    assert [level for level in found if found[level]] == ['OK'], found
    said = {finding.subject: finding.text for finding in found['OK']}
    assert said['camera base'] == '/cam_base/image_raw: 4x2 rgb8, 30.0 Hz, from /driver'
    assert said['joint names'] == 'all 7 came, with finite positions'
    assert 'heard by /arm_controller' in said['output arm']
    assert '7 joints in this order, commands position, interpolation splines' in said['controller arm']
    assert said['limits'] == f'those of the robot on {TOPIC}'


def test_an_empty_graph_asks_for_the_domain():
    assert 'ROS_DOMAIN_ID' in only('WARN', view(nodes=())).text


RELIABILITY = 'Best effort publisher and reliable subscription'  # as rclpy says it


@pytest.mark.parametrize(
    ('changes', 'words'),
    [
        (
            {'publishers': ()},
            'no publisher on /cam_base/image_raw; start its driver, or correct cameras.base.topic',
        ),
        (
            {'publishers': (Endpoint('/driver', 'sensor_msgs/msg/PointCloud2'),)},
            'publisher present, but /driver sends sensor_msgs/msg/PointCloud2',
        ),
        (
            {'publishers': (Endpoint('/driver', IMAGE, RELIABILITY),)},
            'publisher present, QoS incompatible on /cam_base/image_raw: Best effort publisher',
        ),
        ({'recent': (), 'messages': 0}, 'publisher present, but nothing came in 1.0 s; look at /driver'),
        ({'recent': (image(header=header(NOW_NS / 1e9)),)}, 'set cameras.base.stamp: receive'),
        ({'recent': (image(header=header(0.5)),)}, 'its stamp is 0.500 s old when it comes, limit 0.25'),
        ({'recent': (image(header=header(-0.5)),)}, 'its stamp is 0.500 s ahead of this computer, limit 0.1'),
        ({'recent': (image('32FC1'),)}, 'the picture is refused'),
        ({'recent': (image(data=bytes(23)),)}, 'the picture is refused'),
    ],
)
def test_a_camera_that_cannot_be_used_fails(changes, words):
    finding = only('FAIL', view(camera('base', **changes)))
    assert finding.subject == 'camera base'
    assert words in finding.text


def test_a_qos_fault_names_the_setting_that_helps():
    ends = (Endpoint('/driver', IMAGE, RELIABILITY),)
    finding = only('FAIL', view(camera('base', publishers=ends)), cameras__base__reliability='reliable')
    assert finding.text.endswith('set cameras.base.reliability: best_effort')


def test_one_publisher_that_can_be_heard_is_enough():
    ends = (Endpoint('/other', IMAGE, RELIABILITY), Endpoint('/driver', IMAGE))
    assert not findings(view(camera('base', publishers=ends)))['FAIL']


def test_a_camera_that_is_slower_than_its_limit_is_a_warning():
    assert '2.0 Hz is slow for cameras.max_age_s 0.25' in only('WARN', view(camera('base', messages=2))).text


def test_the_time_of_receipt_needs_no_stamp():
    assert not findings(
        view(camera('base', recent=(image(header=header(9.0)),))), cameras__base__stamp='receive'
    )['FAIL']


def test_ages_are_not_compared_across_clocks():
    seen = view(camera('base', recent=(image(header=header(9.0)),)), has_clock=True)
    assert only('SKIP', seen).subject == 'age of stamps'


@pytest.mark.parametrize(
    ('changes', 'words'),
    [
        ({'name': list(ARM), 'position': [0.0] * 6}, 'no value of gripper; names that came: joint_1'),
        ({'position': [0.0, float('nan'), *[0.0] * 5]}, 'position of joint_2 (nan) is not a finite number'),
        ({'position': [0.0] * 6}, '7 names and 6 positions'),
    ],
)
def test_joints_that_do_not_fit_fail_by_name(changes, words):
    finding = only('FAIL', view(joints(recent=(joint_state(**changes),))))
    assert finding.subject == 'joint names'
    assert words in finding.text


def test_joints_of_several_messages_and_topics_come_together():
    arm = joint_state(name=list(ARM), position=[0.0] * 6)
    hand = joint_state(name=['gripper'], position=[0.0])
    given = parameters()
    for topics in ([joints(recent=(arm, hand))], [joints(recent=(arm,)), joints(recent=(hand,))]):
        [finding] = check_joint_names(topics, given)
        assert finding.level == 'OK'


def test_a_joint_prefix_belongs_to_the_names():
    names = [f'left_{name}' for name in JOINTS]
    seen = view(joints(recent=(joint_state(name=names),)), outputs=(), description=None)
    assert not findings(seen, joints__prefix='left_')['FAIL']
    assert 'correct joints.names, joints.prefix' in findings(seen)['FAIL'][0].text


@pytest.mark.parametrize(
    ('changes', 'is_required', 'level', 'words'),
    [
        ({'publishers': ()}, False, 'WARN', 'nothing stops the node by topic'),
        ({'publishers': ()}, True, 'FAIL', 'no publisher on /estop'),
        ({'publishers': (Endpoint('/b', 'std_msgs/msg/Int8'),)}, False, 'FAIL', 'sends std_msgs/msg/Int8'),
        ({'publishers': (Endpoint('/b', BOOL, 'deadline'),)}, False, 'FAIL', 'QoS incompatible'),
        ({'messages': 0, 'recent': ()}, True, 'FAIL', 'silent for 1.0 s'),
        ({'recent': (SimpleNamespace(data=True),)}, False, 'WARN', 'the stop is pressed'),
    ],
)
def test_the_stop_topic(changes, is_required, level, words):
    finding = only(level, view(stop(**changes)), estop__required=is_required)
    assert finding.subject == 'estop'
    assert words in finding.text


def test_a_stop_topic_may_be_silent_unless_it_is_required():
    assert not findings(view(stop(messages=0, recent=())))['FAIL']


@pytest.mark.parametrize(
    ('changes', 'words'),
    [
        ({'subscribers': ()}, 'nobody subscribes to /arm_controller/joint_trajectory; start its controller'),
        (
            {'subscribers': (Endpoint('/arm', 'std_msgs/msg/Float64MultiArray'),)},
            f'wants std_msgs/msg/Float64MultiArray, the node would send {TRAJECTORY}; set outputs.arm.type',
        ),
        ({'subscribers': (Endpoint('/arm', TRAJECTORY, 'durability'),)}, 'QoS incompatible: durability'),
    ],
)
def test_an_output_that_nobody_takes(changes, words):
    seen = view(outputs=(output(**changes),))
    [failed] = findings(seen)['FAIL']
    assert failed.subject == 'output arm'
    assert words in failed.text
    in_dry_run = findings(seen, dry_run=True)
    assert not in_dry_run['FAIL']
    assert 'a dry run sends nothing' in in_dry_run['WARN'][0].text


def test_a_second_source_of_commands_is_a_warning():
    finding = only('WARN', view(outputs=(output(other_publishers=('/teleop',)),)))
    assert '/teleop publishes on /arm_controller/joint_trajectory, too' in finding.text


def test_a_controller_that_tells_nothing_is_not_called_right():
    seen = view(outputs=(output(parameters={'/arm_controller': {}}),))
    assert only('SKIP', seen).subject == 'controller arm'


def test_a_recorder_beside_the_controller_does_no_harm():
    ends = (Endpoint('/rosbag2_recorder', TRAJECTORY), Endpoint('/arm_controller', TRAJECTORY))
    told = {'/rosbag2_recorder': {}, '/arm_controller': trajectory_controller()}
    found = findings(view(outputs=(output(subscribers=ends, parameters=told),)))
    assert [level for level in found if found[level]] == ['OK'], found


# Controllers


def controlled(kind: str = 'joint_trajectory', quantity: str = 'position') -> ControlledOutput:
    return ControlledOutput('arm', kind, quantity, JOINTS)


def verdict(values: dict[str, object], seen: ControlledOutput | None = None) -> dict[str, str]:
    """Level -> all texts of it."""
    result: dict[str, str] = {}
    for finding in check_controller(seen or controlled(), '/arm_controller', values):
        result[finding.level] = f'{result.get(finding.level, "")}{finding.text}\n'
    return result


@pytest.mark.parametrize(
    ('changes', 'words'),
    [
        ({'joints': list(ARM)}, 'has no joint gripper, which outputs.arm.joints names'),
        ({'joints': [*JOINTS, 'lift']}, 'also has lift and refuses trajectories without them'),
        ({'command_joints': ['a', 'b']}, 'its joints are a, b'),
    ],
)
def test_joints_that_disagree_fail_by_name(changes, words):
    assert words in verdict(trajectory_controller(**changes))['FAIL']


def test_joints_of_a_trajectory_may_be_in_another_order_or_some_of_them():
    assert 'in another order' in verdict(trajectory_controller(joints=list(reversed(JOINTS))))['OK']
    values = trajectory_controller(joints=[*JOINTS, 'lift'], allow_partial_joints_goal=True)
    assert 'FAIL' not in verdict(values)


@given(st.permutations(JOINTS))
def test_numbers_without_names_need_the_same_order(order):
    values = {'joints': order, 'interface_name': 'position'}
    found = verdict(values, controlled('float64_multi_array'))
    assert ('FAIL' in found) == (tuple(order) != JOINTS)
    assert 'FAIL' not in found or 'bring them into the same order' in found['FAIL']


@pytest.mark.parametrize(
    ('values', 'seen', 'words'),
    [
        (
            {'interface_name': 'velocity'}, controlled('float64_multi_array'),
            'commands velocity, but outputs.arm.quantity is position',
        ),
        ({'interface_name': 'position'}, controlled(), 'takes no trajectories; set outputs.arm.type'),
        (
            trajectory_controller(), controlled('float64_multi_array'),
            'takes trajectories; set outputs.arm.type: joint_trajectory',
        ),
        (
            trajectory_controller(), controlled(quantity='velocity'),
            'allow_integration_in_goal_trajectories: true',
        ),
    ],
)  # fmt: skip
def test_a_controller_of_another_kind_fails(values, seen, words):
    assert words in verdict({'joints': list(JOINTS)} | values, seen)['FAIL']


@pytest.mark.parametrize(
    ('changes', 'words'),
    [
        ({'cmd_timeout': 0.0}, 'has no cmd_timeout: if the policy node is killed, it goes on'),
        ({'cmd_timeout': 0.5, 'constraints__goal_time': 0.5}, 'ignores its cmd_timeout of 0.5 s'),
        ({'interpolation_method': 'none'}, 'interpolation_method: splines'),
        ({'interpolate_from_desired_state': False}, 'interpolate_from_desired_state: true'),
        ({'interpolate_from_desired_state': False, 'open_loop_control': False}, 'from_desired_state: true'),
        ({'command_interfaces': ['velocity']}, 'commands velocity to the drives and follows a position'),
    ],
)
def test_what_works_and_should_be_looked_at_warns(changes, words):
    found = verdict(trajectory_controller(**changes))
    assert words in found['WARN']
    assert set(found) == {'OK', 'WARN'}


def test_an_older_controller_has_other_names():
    values = trajectory_controller(open_loop_control=True)
    del values['interpolate_from_desired_state']
    assert 'WARN' not in verdict(values)
    assert 'open_loop_control: true' in verdict(values | {'open_loop_control': False})['WARN']


def test_a_forward_controller_keeps_its_last_command():
    values = {'joints': list(JOINTS), 'interface_name': 'position'}
    assert 'keeps the last command for ever' in verdict(values, controlled('float64_multi_array'))['WARN']


def test_tolerances_are_told():
    assert (
        'constraints.joint_1.trajectory 0.1'
        in verdict(trajectory_controller(constraints__joint_1__trajectory=0.1))['OK']
    )


@pytest.mark.parametrize('joints_told', [None, [], 3, 'joint_1', [1, 2]])
def test_what_is_no_list_of_joints_is_no_controller(joints_told):
    assert not is_controller({'joints': joints_told})
    assert is_controller({'joints': joints_told, 'command_joints': ['joint_1']})


# Limits


def limits(description: str | None, **changes: object) -> Finding:
    [finding] = check_limits(parameters(**changes), TOPIC, description)
    return finding


def test_limits_wider_than_those_of_the_robot_warn_by_joint():
    finding = limits(urdf(upper=1.9))
    assert finding.level == 'WARN'
    assert 'joints.upper of joint_1 2 instead of 1.9' in finding.text
    assert 'gripper' not in finding.text


def test_narrower_limits_are_right_and_told():
    finding = limits(urdf(upper=2.5))
    assert (finding.level, 'joint_6 2 instead of 2.5' in finding.text) == ('OK', True)


def test_without_a_description_nothing_is_compared():
    assert limits(None).level == 'SKIP'


FROM_DESCRIPTION = {
    'joints__limits': 'robot_description',
    'joints__lower': (),
    'joints__upper': (),
    'joints__max_velocity': (),
}


def test_a_description_that_is_the_source_must_be_there_and_whole():
    assert limits(None, **FROM_DESCRIPTION).level == 'FAIL'
    assert limits(urdf(kind='continuous'), **FROM_DESCRIPTION).level == 'FAIL'
    assert limits('<robot/>', **FROM_DESCRIPTION).level == 'FAIL'
    good = limits(urdf(), **FROM_DESCRIPTION)
    assert (good.level, 'joint_1 -2 to 2 at 1.5/s' in good.text) == ('OK', True)


def test_a_description_that_tells_no_limits_is_a_warning_beside_limits_of_ones_own():
    finding = limits(urdf(kind='continuous'))
    assert finding.level == 'WARN'
    assert "joint 'joint_1' is continuous" in finding.text


def test_velocity_outputs_are_checked_as_such():
    """The parameters of a velocity policy pass through the same judge."""
    given = parameters(**VELOCITY)
    ends = {'arm': '/arm_controller/joint_trajectory', 'hand': '/hand/commands'}
    outputs = tuple(OutputView(ends[item.name], item.name, TRAJECTORY) for item in given.outputs)
    found = findings(view(outputs=outputs), **VELOCITY)
    assert [item.subject for item in found['FAIL']] == ['output arm', 'output hand']


def test_no_number_of_a_picture_ends_the_check():
    broken = image(height=2**32 - 1, width=0, data=np.zeros(3, np.uint8))
    assert 'refused' in only('FAIL', view(camera('base', recent=(broken,)))).text
