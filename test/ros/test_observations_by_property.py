# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Joints in any order, company and number of messages, stamps in any order (R-11 to R-16, R-18 to R-22)."""

import itertools
import math
import re
from functools import cache
from types import SimpleNamespace

import fake_policy
import numpy as np
import pytest
import test_observations
from hypothesis import given, settings
from hypothesis import strategies as st
from test_observations import EPOCH_S, NAMES, REST, Reports, frame, moment, ns

from flashrt_ros.conversions import joint_sample
from flashrt_ros.inputs import Moment, Rejected
from flashrt_ros.observations import NotReady, ObservationBuffer, Observed

many = settings(max_examples=100, deadline=None, derandomize=True)
few = settings(max_examples=50, deadline=None, derandomize=True)
VALUES = dict(zip(NAMES, REST, strict=True))
NOT_FINITE = st.sampled_from([math.nan, math.inf, -math.inf])
POSITIONS = st.floats(-10, 10)
# What resembles a wanted name without being one.
OTHERS = st.sampled_from(
    [f'{name}_mimic' for name in NAMES] + [f'left_{name}' for name in NAMES] + [f' {name}' for name in NAMES]
    + [name.upper() for name in NAMES] + ['joint_', 'joint_10', 'joint', 'wheel', '', 'gripper/joint_1']
)  # fmt: skip


NEVER = -(10**12)  # milliseconds

parameters = cache(fake_policy.parameters)


class Robot(test_observations.Robot):
    """The same, without reading the parameter file each time."""

    def __init__(self, **changes: object) -> None:
        self.reports = Reports()
        self.buffer = ObservationBuffer(parameters(**changes), self.reports)


def ready(**changes: object) -> Robot:
    """Both cameras have a fresh picture, the joints have none."""
    robot = Robot(**changes)
    robot.camera('base', 0.0)
    robot.camera('wrist', 0.0)
    return robot


def message(pairs: list[tuple[str, float]], **rest: object) -> SimpleNamespace:
    return SimpleNamespace(name=[name for name, _ in pairs], position=[value for _, value in pairs], **rest)


def send(robot: Robot, content: SimpleNamespace, stamp_s: float = 0.0) -> bool:
    return robot.buffer.add_joints('joint_states', joint_sample(content), ns(stamp_s), moment(stamp_s))


# Joints


@many
@given(
    st.permutations(NAMES),
    st.dictionaries(OTHERS, POSITIONS | NOT_FINITE, max_size=8),
    st.randoms(use_true_random=False),
    st.lists(POSITIONS | NOT_FINITE, max_size=20),
)
def test_any_order_and_company_gives_the_same_state(names, others, random, velocity):
    pairs = [(name, VALUES[name]) for name in names] + list(others.items())
    random.shuffle(pairs)
    robot = ready()
    send(robot, message(pairs, velocity=velocity, effort=velocity))
    np.testing.assert_array_equal(robot.form(0.0).observation.state, REST)
    assert robot.reports.texts == []


@many
@given(st.lists(st.sampled_from(NAMES), unique=True), st.lists(OTHERS, unique=True, max_size=4))
def test_exactly_the_missing_joints_are_named(present, others):
    robot = ready()
    send(robot, message([(name, 0.0) for name in [*present, *others]]))
    missing = [name for name in NAMES if name not in present]
    if not missing:
        robot.form(0.0)
        return
    reason = robot.why_not(0.0)
    assert reason.condition == 'missing'
    named, arrived = str(reason).split('; names that arrived: ')
    assert named == f'no value of {", ".join(missing)} on joint_states'
    assert arrived == (', '.join([*present, *others]) or 'none')


@many
@given(st.permutations(NAMES), st.lists(st.integers(1, 6), unique=True), st.data())
def test_joints_of_any_number_of_messages_form_one_state(names, cuts, data):
    """The state is complete with the last message and not before, and as old as its oldest joint."""
    cuts = [0, *sorted(cuts), len(names)]
    stamps = sorted(data.draw(st.lists(st.integers(0, 90), min_size=len(cuts) - 1, max_size=len(cuts) - 1)))
    robot = ready()
    for number, (begin, end) in enumerate(itertools.pairwise(cuts)):
        assert robot.attempt(0.09) == 'missing'
        pairs = [(name, VALUES[name]) for name in names[begin:end]]
        send(robot, message(pairs), stamps[number] / 1000)
    observed = robot.form(0.09)
    np.testing.assert_array_equal(observed.observation.state, REST)
    assert observed.observation.stamps_ns['joint_states'] == ns(stamps[0] / 1000)


@many
@given(st.dictionaries(st.sampled_from(NAMES), NOT_FINITE, min_size=1))
def test_exactly_the_positions_that_are_no_numbers_are_named(broken):
    robot = ready()
    send(robot, message(list((VALUES | broken).items())))
    reason = robot.why_not(0.0)
    assert reason.condition == 'not_finite'
    listed = ', '.join(f'{name} ({broken[name]})' for name in NAMES if name in broken)
    assert str(reason) == f'position of {listed} is not a finite number'
    send(robot, message(list(VALUES.items())), 0.01)  # a drive that is homed again
    np.testing.assert_array_equal(robot.form(0.01).observation.state, REST)


@many
@given(st.lists(st.sampled_from(NAMES), max_size=9), st.lists(POSITIONS, max_size=9))
def test_names_and_positions_pair_up_or_the_message_is_refused(names, positions):
    content = SimpleNamespace(name=names, position=positions)
    if len(names) == len(positions) and len(set(names)) == len(names):
        assert joint_sample(content).positions == dict(zip(names, positions, strict=True))
        return
    with pytest.raises(Rejected) as refusal:
        joint_sample(content)
    assert refusal.value.reason == ('bad_size' if len(names) != len(positions) else 'doubled_name')


@few
@given(st.text(min_size=1, max_size=6), st.permutations(NAMES))
def test_prefix_is_exact(prefix, names):
    content = message([(prefix + name, VALUES[name]) for name in names])
    plain, prefixed = ready(), ready(joints__prefix=prefix)
    send(plain, content)
    send(prefixed, content)
    np.testing.assert_array_equal(prefixed.form(0.0).observation.state, REST)
    assert plain.why_not(0.0).condition == 'missing'


# Time


@st.composite
def events(draw, streams: tuple[str, ...]) -> list[tuple[str, int, int]]:
    """(stream, receive time, stamp) in milliseconds; the clock goes on, stamps go anywhere."""
    result, now_ms = [], 1000
    for _ in range(draw(st.integers(1, 25))):
        now_ms += draw(st.integers(0, 120))
        offset = st.integers(-400, 400) | st.integers(-5, 105) | st.sampled_from([-(10**9), 10**9])
        stamp_ms = None if draw(st.integers(0, 9)) == 0 else now_ms + draw(offset)
        result.append((draw(st.sampled_from(streams)), now_ms, stamp_ms))
    return result


def at(ms: int | None) -> int:
    """Nanoseconds; a stamp of None is zero."""
    return 0 if ms is None else EPOCH_S * 1_000_000_000 + ms * 1_000_000


def instant(ms: int) -> Moment:
    return Moment(at(ms), at(ms))


def is_usable(stamp_ms: int | None, now_ms: int) -> bool:
    return stamp_ms is not None and stamp_ms - now_ms <= 100


@many
@given(events(('base', 'wrist')))
def test_the_newest_usable_frame_is_in_use_and_no_age_is_negative(history):
    robot = Robot()
    newest: dict[str, int] = {}
    for slot, now_ms, stamp_ms in history:
        send(robot, message(list(VALUES.items())), now_ms / 1000)
        taken = robot.buffer.add_frame(slot, frame(), at(stamp_ms), instant(now_ms))
        assert taken == (is_usable(stamp_ms, now_ms) and stamp_ms > newest.get(slot, NEVER))
        if taken:
            newest[slot] = stamp_ms
        ages = [health.age_s for health in robot.buffer.health(instant(now_ms))]
        assert all(age is None or age >= 0 for age in ages)
        reason = robot.buffer.check(instant(now_ms))
        assert (reason.condition if reason else '') == condition_of(newest, now_ms)
        condition, observed = formed(robot, now_ms)
        if observed is None:
            assert condition in ('nothing_new', condition_of(newest, now_ms))
            continue
        assert observed.observation.stamps_ns == {
            **{name: at(ms) for name, ms in newest.items()},
            'joint_states': at(now_ms),
        }
    for slot in ('base', 'wrist'):
        counters = dict(robot.counters(slot))
        assert counters.pop('received', 0) == sum(counters.values())


def formed(robot: Robot, now_ms: int) -> tuple[str, Observed | None]:
    """The condition that was not met, or an observation."""
    try:
        return '', robot.buffer.form(lambda: instant(now_ms), 1)
    except NotReady as reason:
        return reason.condition, None


def condition_of(newest: dict[str, int], now_ms: int) -> str:
    """What the reference robot says of its cameras, which it looks at in their order."""
    for slot in ('base', 'wrist'):
        if slot not in newest:
            return 'missing'
        if now_ms - newest[slot] > 250:
            return 'stale'
    return 'spread' if abs(newest['base'] - newest['wrist']) > 100 else ''


@many
@given(events(tuple(NAMES)), st.data())
def test_each_joint_keeps_its_newest_value_and_the_oldest_decides(history, data):
    robot = Robot()
    newest = dict.fromkeys(NAMES, (1000, 0.0))  # stamp, position
    send(robot, message([(name, 0.0) for name in NAMES]), 1.0)
    for number, (name, now_ms, stamp_ms) in enumerate(history):
        names = {name, *data.draw(st.lists(st.sampled_from(NAMES), max_size=3))}
        sample = joint_sample(message([(each, float(number)) for each in names]))
        taken = robot.buffer.add_joints('joint_states', sample, at(stamp_ms), instant(now_ms))
        on_time = [each for each in names if is_usable(stamp_ms, now_ms) and stamp_ms >= newest[each][0]]
        assert taken == bool(on_time)
        newest |= dict.fromkeys(on_time, (stamp_ms, float(number)))
        robot.camera('base', now_ms / 1000)
        robot.camera('wrist', now_ms / 1000)
        health = next(h for h in robot.buffer.health(instant(now_ms)) if h.name == 'joint_states')
        ages = {each: max(0, now_ms - stamp) / 1000 for each, (stamp, _) in newest.items()}
        assert health.details == pytest.approx(ages)
        assert health.age_s == pytest.approx(max(ages.values()))
        reason = robot.buffer.check(instant(now_ms))
        if max(ages.values()) > 0.1:
            oldest = min(newest.values())[0]
            named = re.match(r"joint '(\w+)' is (.*) s old, limit 0.1 s", str(reason))
            assert newest[named[1]][0] == oldest
            assert float(named[2]) == pytest.approx((now_ms - oldest) / 1000, abs=1e-3)
        else:
            assert reason is None


@few
@given(events(('base',)), st.sampled_from(['cameras.base.stamp', 'joints.stamp']))
def test_time_of_receipt_does_not_look_at_the_stamp(history, setting):
    robot = Robot(**{setting.replace('.', '__'): 'receive'})
    for number, (_, now_ms, stamp_ms) in enumerate(history):
        now_ms += number  # no two arrive at once
        if setting == 'joints.stamp':
            content = joint_sample(message(list(VALUES.items())))
            assert robot.buffer.add_joints('joint_states', content, at(stamp_ms), instant(now_ms))
        else:
            assert robot.buffer.add_frame('base', frame(), at(stamp_ms), instant(now_ms))
        [age_s] = {health.age_s for health in robot.buffer.health(instant(now_ms + 7))} - {None}
        assert age_s == pytest.approx(0.007)


@few
@given(events(('base', 'wrist')), st.integers(900, 3000))
def test_nothing_that_is_older_than_a_reset_is_used(history, reset_ms):
    robot = Robot()
    robot.all(0.9)
    robot.buffer.reset(not_before_ns=at(reset_ms))
    for slot, now_ms, stamp_ms in history:
        taken = robot.buffer.add_frame(slot, frame(), at(stamp_ms), instant(now_ms))
        assert not taken or stamp_ms >= reset_ms
        assert formed(robot, now_ms)[1] is None  # the joints are older, too
    counters = robot.counters('base')
    assert counters['received'] == 1 + sum(slot == 'base' for slot, _, _ in history)
