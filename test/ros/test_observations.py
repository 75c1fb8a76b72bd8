# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Observations on a fake clock: joints by name, ages, stamps, spread, bad samples (R-02, R-07 to R-22)."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
from fake_policy import CASES, parameters

from flashrt_core.types import CameraFrame
from flashrt_ros.bag_inputs import stream_counts
from flashrt_ros.compressed_images import CompressedFrame
from flashrt_ros.conversions import decode_frame, joint_sample
from flashrt_ros.inputs import Moment, Rejected
from flashrt_ros.observations import NotReady, ObservationBuffer, Observed

EPOCH_S = 1_700_000_000  # the cases count from zero
TOPICS = {'base': 'base', 'wrist': 'wrist', 'joints': 'joint_states'}
NAMES = [f'joint_{i}' for i in range(1, 7)] + ['gripper']
REST = [0.1, -0.2, 0.3, -0.4, 0.5, -0.6, 0.04]


def ns(seconds: float) -> int:
    return EPOCH_S * 1_000_000_000 + round(seconds * 1e9)


def moment(seconds: float) -> Moment:
    return Moment(ns(seconds), ns(seconds))


def frame(value: int = 0) -> CameraFrame:
    return CameraFrame(bytes([value] * 12), 'rgb8', 2, 2, 6)


def damaged() -> CompressedFrame:
    return CompressedFrame((CASES / 'compressed' / 'scrambled_middle.jpg').read_bytes(), 'jpeg')


@dataclass
class Reports:
    texts: list[tuple[str, str, str]] = field(default_factory=list)

    def __call__(self, stream: str, reason: str, text: str) -> None:
        self.texts.append((stream, reason, text))


class Robot:
    """A buffer and what a test feeds it."""

    def __init__(self, **changes: object) -> None:
        self.reports = Reports()
        self.buffer = ObservationBuffer(parameters(**changes), self.reports)

    def camera(self, slot: str, stamp_s: float, receive_s: float | None = None, content=None) -> bool:
        receive = moment(stamp_s if receive_s is None else receive_s)
        return self.buffer.add_frame(slot, content or frame(), ns(stamp_s), receive)

    def joints(self, stamp_s: float, names=NAMES, positions=REST, topic='joint_states') -> bool:
        message = SimpleNamespace(name=names, position=positions)
        return self.buffer.add_joints(topic, joint_sample(message), ns(stamp_s), moment(stamp_s))

    def all(self, stamp_s: float) -> None:
        self.camera('base', stamp_s)
        self.camera('wrist', stamp_s)
        self.joints(stamp_s)

    def form(self, at_s: float) -> Observed:
        return self.buffer.form(lambda: moment(at_s), 1)

    def attempt(self, at_s: float) -> str:
        """The condition that was not met, or nothing."""
        try:
            self.form(at_s)
        except NotReady as reason:
            return reason.condition
        return ''

    def why_not(self, at_s: float) -> NotReady:
        with pytest.raises(NotReady) as reason:
            self.form(at_s)
        return reason.value

    def counters(self, stream: str) -> dict[str, int]:
        return next(h.counters for h in self.buffer.health(moment(0)) if h.name == stream)


def messages(name: str) -> Iterator[tuple[float, SimpleNamespace]]:
    for item in json.loads((CASES / 'joints' / f'{name}.json').read_text())['messages']:
        yield item['receive_time_s'], SimpleNamespace(**item)


def feed_joints(robot: Robot, name: str, until_s: float = 9.0) -> None:
    for receive_s, message in messages(name):
        if receive_s <= until_s:
            stamp_s = message.header['stamp_s']
            robot.buffer.add_joints('joint_states', joint_sample(message), ns(stamp_s), moment(receive_s))


def play(robot: Robot, name: str, zero_stamps: tuple[str, ...] = ()) -> Iterator[float]:
    """Feeds a timing case and yields the receive time after each event."""
    for event in json.loads((CASES / 'timing' / f'{name}.json').read_text())['events']:
        topic, receive, stamp_s = event['topic'], moment(event['receive_s']), event['stamp_s']
        stamp = 0 if topic in zero_stamps else ns(stamp_s)
        if topic == 'joints':
            message = SimpleNamespace(name=NAMES, position=REST)
            robot.buffer.add_joints('joint_states', joint_sample(message), stamp, receive)
        elif topic != 'clock':
            robot.buffer.add_frame(topic, frame(), stamp, receive)
        yield event['receive_s']


# Joints


@pytest.mark.parametrize('name', ['permuted_names', 'extra_joints', 'velocity_absent', 'velocity_shorter',
                                  'velocity_nan_only'])  # fmt: skip
def test_positions_are_taken_by_exact_name(name: str):
    robot = Robot()
    robot.camera('base', 0.0)
    robot.camera('wrist', 0.0)
    feed_joints(robot, name)
    np.testing.assert_array_equal(robot.form(0.0).observation.state, REST)
    assert robot.reports.texts == []


def test_missing_joint_is_named_with_the_names_that_arrived():
    robot = Robot()
    robot.camera('base', 0.0)
    robot.camera('wrist', 0.0)
    feed_joints(robot, 'missing_joint')
    reason = robot.why_not(0.0)
    assert reason.condition == 'missing'
    assert 'no value of gripper on joint_states' in str(reason)
    assert 'joint_1, joint_2' in str(reason)


def test_arm_and_gripper_on_one_topic():
    for until_s, at_s, expected in ((0.04, 0.04, None), (0.06, 0.06, 0.042), (0.10, 0.10, 0.044)):
        robot = Robot()
        robot.camera('base', at_s)
        robot.camera('wrist', at_s)
        feed_joints(robot, 'arm_and_gripper_apart', until_s)
        if expected is None:
            assert 'gripper' in str(robot.why_not(at_s))
            continue
        state = robot.form(at_s).observation.state
        arm = [m.position for s, m in messages('arm_and_gripper_apart') if s <= until_s and len(m.name) == 6]
        np.testing.assert_array_equal(state, [*arm[-1], expected])
    robot = Robot()
    robot.camera('base', 0.2)
    robot.camera('wrist', 0.2)
    feed_joints(robot, 'arm_and_gripper_apart', 0.2)
    assert str(robot.why_not(0.2)) == "joint 'gripper' is 0.115 s old, limit 0.1 s"


def test_oldest_joint_decides_the_age_of_the_state():
    robot = Robot()
    robot.all(1.0)
    robot.joints(1.03, NAMES[:6], REST[:6])
    observed = robot.form(1.05)
    assert observed.observation.stamps_ns == {'base': ns(1.0), 'wrist': ns(1.0), 'joint_states': ns(1.0)}
    assert observed.stamp_ns == ns(1.0)
    health = next(h for h in robot.buffer.health(moment(1.05)) if h.name == 'joint_states')
    assert health.details['gripper'] == pytest.approx(0.05)
    assert health.details['joint_1'] == pytest.approx(0.02)
    assert health.age_s == pytest.approx(0.05)


def test_two_joint_topics_are_merged():
    robot = Robot(joints__topics=['arm/joint_states', 'hand/joint_states'])
    robot.camera('base', 0.0)
    robot.camera('wrist', 0.0)
    robot.joints(0.0, NAMES[:6], REST[:6], topic='arm/joint_states')
    robot.joints(0.0, NAMES[6:], REST[6:], topic='hand/joint_states')
    np.testing.assert_array_equal(robot.form(0.0).observation.state, REST)


@pytest.mark.parametrize(('name', 'joint'), [('position_nan', 'joint_4'), ('position_inf', 'joint_2')])
def test_position_that_is_no_number_is_named(name: str, joint: str):
    robot = Robot()
    robot.camera('base', 0.0)
    robot.camera('wrist', 0.0)
    feed_joints(robot, name)
    reason = robot.why_not(0.0)
    assert reason.condition == 'not_finite'
    assert joint in str(reason)


def test_prefix_is_only_used_when_it_is_configured():
    plain = Robot()
    plain.camera('base', 0.0)
    plain.camera('wrist', 0.0)
    feed_joints(plain, 'prefixed_names')
    assert 'names that arrived: left_joint_1' in str(plain.why_not(0.0))
    prefixed = Robot(joints__prefix='left_')
    prefixed.camera('base', 0.0)
    prefixed.camera('wrist', 0.0)
    feed_joints(prefixed, 'prefixed_names')
    np.testing.assert_array_equal(prefixed.form(0.0).observation.state, REST)


def test_joint_message_that_does_not_pair_up_is_refused():
    with pytest.raises(Rejected, match='2 names and 1 positions'):
        joint_sample(SimpleNamespace(name=['a', 'b'], position=[1.0]))
    with pytest.raises(Rejected, match='a more than once'):
        joint_sample(SimpleNamespace(name=['a', 'b', 'a'], position=[1.0, 2.0, 3.0]))


def test_gripper_reaches_the_policy_in_its_own_unit():
    robot = Robot(grippers__model_one=['closed'])
    robot.all(0.0)
    np.testing.assert_allclose(robot.form(0.0).observation.state[6], 0.5)


# Time


def test_steady_streams_give_observations_without_a_warning():
    robot = Robot()
    formed = 0
    for at_s in play(robot, 'steady'):
        if at_s >= 0.02:
            assert robot.buffer.check(moment(at_s)) is None, at_s
        condition = robot.attempt(at_s)
        formed += condition == ''
        assert condition in ('', 'nothing_new') or at_s < 0.02
    assert formed > 20
    assert robot.reports.texts == []


@pytest.mark.parametrize(
    ('case', 'stream', 'end_s'),
    [('wrist_stops', "camera 'wrist'", 0.93), ('joints_stop', "joint 'joint_1'", 0.88)],
)
def test_stream_that_stops_is_named_from_its_limit_on(case: str, stream: str, end_s: float):
    robot = Robot()
    times = set(play(robot, case))
    assert max(times) > end_s
    robot = Robot()
    for at_s in play(robot, case):
        reason = robot.buffer.check(moment(at_s))
        if 0.02 <= at_s <= end_s - 0.001:
            assert reason is None or reason.condition == 'spread'
        if at_s > end_s + 0.001:
            assert reason.condition == 'stale'
            assert stream in str(reason)


def test_zero_stamp_is_refused_with_the_setting_that_helps():
    robot = Robot()
    for _ in play(robot, 'base_stamp_zero', zero_stamps=('base',)):
        pass
    assert robot.counters('base') == {'received': 20, 'zero_stamp': 20, 'waiting': 0}
    assert 'set cameras.base.stamp: receive' in robot.reports.texts[0][2]
    assert 'cam_base/image_raw' in robot.reports.texts[0][2]
    assert "camera 'base'" in str(robot.why_not(1.98))


def test_receive_time_can_be_chosen_per_stream():
    robot = Robot(cameras__base__stamp='receive')
    for _ in play(robot, 'base_stamp_zero', zero_stamps=('base',)):
        pass
    observed = robot.form(1.95)
    assert observed.observation.stamps_ns['base'] == ns(1.9)
    age_s = next(h.age_s for h in robot.buffer.health(moment(1.98)) if h.name == 'base')
    assert age_s == pytest.approx(0.08)


def test_cameras_too_far_apart_are_named_with_the_gap():
    robot = Robot()
    gaps = set()
    for at_s in play(robot, 'cameras_apart'):
        reason = robot.buffer.check(moment(at_s))
        if at_s >= 0.02:
            assert reason.condition == 'spread'
            assert "'base' and 'wrist'" in str(reason)
            gaps.add(str(reason).split(' are ')[1][:5])
    assert gaps == {'0.105', '0.205'}


def test_older_frame_after_a_newer_one_is_dropped():
    robot = Robot()
    in_use = []
    for at_s in play(robot, 'stamps_out_of_order'):
        try:
            in_use.append(robot.form(at_s).observation.stamps_ns['base'])
        except NotReady:
            continue
    assert in_use == sorted(in_use)
    assert robot.counters('base')['out_of_order'] == 10
    assert robot.reports.texts[0][:2] == ('base', 'out_of_order')


def test_older_joint_value_after_a_newer_one_is_dropped():
    robot = Robot()
    robot.all(1.0)
    assert not robot.joints(0.95, NAMES[:1], [9.0])
    assert robot.form(1.0).observation.state[0] == REST[0]
    assert robot.counters('joint_states')['out_of_order'] == 1


def test_message_that_is_late_for_some_joints_is_taken_for_the_others():
    robot = Robot(joints__topics=['joint_states', 'arm_states'])
    robot.all(1.0)
    robot.joints(1.1, NAMES[:2], [8.0, 8.0], topic='arm_states')
    robot.camera('base', 1.05)
    robot.camera('wrist', 1.05)
    assert robot.joints(1.05, NAMES[1:3], [9.0, 9.0])  # True wakes the worker
    state = robot.form(1.1).observation.state
    np.testing.assert_array_equal(state[:3], [8.0, 8.0, 9.0])
    counters = robot.counters('joint_states')
    assert counters['partly_late'] == 1
    assert 'out_of_order' not in counters
    stream, reason, text = robot.reports.texts[-1]
    assert (stream, reason) == ('joint_states', 'partly_late')
    assert f'in use of {NAMES[1]}; the other joints were taken' in text
    assert not stream_counts('joint_states', 2, counters, is_camera=False).dropped


def test_work_goes_on_after_a_reset_for_a_jump_back():
    robot = Robot()
    robot.all(11.98)
    robot.form(11.98)
    robot.buffer.reset()
    assert robot.why_not(10.0).condition == 'missing'
    robot.all(10.0)
    assert robot.form(10.0).stamp_ns == ns(10.0)


def test_stamp_from_the_future_is_refused():
    robot = Robot()
    assert robot.camera('base', 1.05, receive_s=1.0)
    assert not robot.camera('wrist', 1.2, receive_s=1.0)
    assert 'stamp is 0.200 s ahead' in robot.reports.texts[0][2]


def test_nothing_from_before_activation_is_used():
    robot = Robot()
    robot.all(1.0)
    robot.buffer.reset(not_before_ns=ns(2.0))
    robot.all(1.99)
    assert robot.why_not(2.0).condition == 'missing'
    robot.all(2.01)
    assert robot.form(2.01).stamp_ns == ns(2.01)
    assert robot.counters('base')['before_activation'] == 1


# Frames


def test_same_pictures_are_not_used_twice_and_all_are_accounted_for():
    robot = Robot()
    robot.all(1.0)
    robot.all(1.02)
    robot.form(1.02)
    assert robot.why_not(1.03).condition == 'nothing_new'
    robot.camera('base', 1.04)
    robot.form(1.04)
    assert robot.counters('base') == {'received': 3, 'superseded': 1, 'used': 2, 'waiting': 0}
    assert robot.counters('wrist') == {'received': 2, 'superseded': 1, 'used': 1, 'waiting': 0}


def test_every_frame_is_accounted_for_at_any_moment():
    robot = Robot()
    random = np.random.default_rng(3)
    for step in range(400):
        at_s = 1.0 + 0.01 * step
        content = damaged() if random.random() < 0.3 else None
        if random.random() < 0.1:
            content = CameraFrame(bytes(11), 'rgb8', 2, 2, 6)
        robot.camera('base', at_s - (0.03 if random.random() < 0.2 else 0.0), receive_s=at_s, content=content)
        robot.camera('wrist', at_s)
        robot.joints(at_s)
        if random.random() < 0.4:
            assert robot.attempt(at_s) in ('', 'nothing_new', 'missing', 'spread')
        if step == 200:
            robot.buffer.reset()
        counters = dict(robot.counters('base'))
        assert counters.pop('received') == step + 1 == sum(counters.values())


@pytest.mark.parametrize('content', [CameraFrame(bytes(11), 'rgb8', 2, 2, 6), damaged()])
def test_bad_frame_does_not_replace_a_good_one(content):
    robot = Robot()
    robot.camera('base', 1.0, content=frame(7))
    robot.camera('wrist', 1.0)
    robot.joints(1.0)
    robot.form(1.0)
    robot.camera('base', 1.05, content=content)
    robot.camera('wrist', 1.05)
    robot.joints(1.05)
    observation = robot.form(1.05).observation
    assert observation.images['base'][0, 0, 0] == 7
    assert observation.stamps_ns['base'] == ns(1.0)
    counters = robot.counters('base')
    assert counters['received'] == 2
    assert counters.get('bad_size', 0) + counters.get('damaged', 0) == 1


def test_good_frame_that_was_never_used_survives_a_damaged_one():
    robot = Robot()
    robot.all(1.0)
    robot.camera('base', 1.01, content=damaged())
    assert robot.form(1.01).observation.stamps_ns['base'] == ns(1.0)


def test_damage_that_goes_on_ends_in_staleness():
    robot = Robot()
    robot.all(1.0)
    robot.form(1.0)
    for at_s in np.arange(1.05, 1.4, 0.05):
        robot.camera('base', at_s, content=damaged())
        robot.camera('wrist', at_s)
        robot.joints(at_s)
        try:
            robot.form(at_s)
        except NotReady:
            continue
    reason = robot.why_not(1.36)
    assert reason.condition == 'stale'
    assert "camera 'base'" in str(reason)
    assert 'last refused: damaged' in str(reason)


def test_orientation_tag_is_reported_once():
    robot = Robot()
    robot.joints(1.0)
    for at_s in (1.0, 1.01, 1.02):
        data = (CASES / 'compressed' / 'exif_orientation_6.jpg').read_bytes()
        robot.camera('base', at_s, content=CompressedFrame(data, 'jpeg'))
        robot.camera('wrist', at_s)
        assert robot.form(at_s).observation.images['base'].shape == (48, 64, 3)
    (report,) = [text for _, reason, text in robot.reports.texts if reason == 'orientation_ignored']
    assert 'orientation 6' in report


def test_views_go_to_their_slots_in_any_order_of_names_and_arrival():
    robot = Robot(
        cameras__names=['zed_base', 'alpha_wrist'],
        cameras__zed_base__topic='z', cameras__zed_base__rotation=0,
        cameras__alpha_wrist__topic='a', cameras__alpha_wrist__rotation=0,
    )  # fmt: skip
    robot.camera('alpha_wrist', 1.0, content=frame(2))
    robot.camera('zed_base', 1.0, content=frame(1))
    robot.joints(1.0)
    images = robot.form(1.0).observation.images
    assert list(images) == ['zed_base', 'alpha_wrist']
    assert (images['zed_base'][0, 0, 0], images['alpha_wrist'][0, 0, 0]) == (1, 2)


def test_frames_that_arrive_during_decoding_do_not_starve_the_observation(monkeypatch):
    robot = Robot()
    robot.all(1.0)

    def slow(content, order):
        for slot in ('base', 'wrist'):
            for _ in range(3):
                robot.at_s += 0.001
                robot.camera(slot, robot.at_s)
        return np.zeros((2, 2, 3), np.uint8)

    robot.at_s = 1.0
    monkeypatch.setattr('flashrt_ros.observations.decode_frame', slow)
    stamps = []
    for _ in range(3):
        robot.joints(robot.at_s)
        observed = robot.buffer.form(lambda: moment(robot.at_s), 1)
        stamps.append(observed.observation.stamps_ns['base'])
    assert stamps == sorted(set(stamps))


@pytest.mark.parametrize('has_good', [False, True])
def test_frame_that_arrives_during_decoding_does_not_vouch_for_the_one_in_use(monkeypatch, has_good: bool):
    robot = Robot()
    if has_good:
        robot.all(1.0)
        robot.form(1.0)
    robot.camera('base', 9.0, content=damaged())
    robot.camera('wrist', 9.0)
    robot.joints(9.0)

    def decode(content, order):
        monkeypatch.undo()
        robot.camera('base', 9.01)
        return decode_frame(content, order)

    monkeypatch.setattr('flashrt_ros.observations.decode_frame', decode)
    assert robot.why_not(9.02).condition == ('stale' if has_good else 'missing')
    assert robot.form(9.02).observation.stamps_ns['base'] == ns(9.01)


# Frames for an engine that resizes them


def test_frames_of_whole_bytes_reach_such_an_engine_as_they_came():
    robot = Robot(cameras__max_image_bytes=12)
    robot.all(1.0)
    images = robot.form(1.0).observation.images
    assert images == {'base': frame(), 'wrist': frame()}
    yuyv = CameraFrame(bytes([90, 128] * 4), 'yuyv', 2, 2, 4)
    robot.camera('base', 1.01, content=yuyv)
    assert robot.form(1.01).observation.images['base'].shape == (2, 2, 3)


@pytest.mark.parametrize('content', [frame(), CameraFrame(bytes(8), 'yuyv', 2, 2, 4)])
def test_frames_with_more_bytes_than_such_an_engine_takes_are_refused(content):
    robot = Robot(cameras__max_image_bytes=11)
    robot.camera('base', 1.0, content=content)
    robot.camera('wrist', 1.0, content=CameraFrame(bytes(3), 'rgb8', 1, 1, 3))
    robot.joints(1.0)
    assert 'too_large: 12 bytes, cameras.max_image_bytes is 11' in str(robot.why_not(1.0))
    assert robot.counters('base')['too_large'] == 1
