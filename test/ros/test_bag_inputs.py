# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Recorded messages whose bytes are not what their type says: refused and counted, in bounded memory."""

import struct
import tracemalloc
from functools import cache

import numpy as np
import pytest
from fake_policy import parameters
from hypothesis import given, settings
from hypothesis import strategies as st
from rosbags.typesys import Stores, get_typestore

from flashrt_ros.bag import BagMessage
from flashrt_ros.bag_inputs import CLOCK_TOPIC, CLOCK_TYPE, BagInputs
from flashrt_ros.inputs import Moment
from flashrt_ros.parameters import Parameters

STORE = get_typestore(Stores.ROS2_KILTED)
NOW_NS = 1_700_000_000_000_000_000
NAMES = [f'joint_{number}' for number in range(1, 7)] + ['gripper']
STREAMS = {'/cam_base/image_raw': 'base', '/cam_wrist/image_raw': 'wrist', '/joint_states': 'joint_states'}
many = settings(max_examples=300, deadline=None, derandomize=True)


@cache
def settings_of_the_robot() -> Parameters:
    """One raw camera and one compressed one."""
    return parameters(cameras__wrist__transport='compressed')


@cache
def whole(topic: str) -> tuple[str, bytes]:
    """Type and bytes of a good message."""

    def make(kind: str, *fields: object) -> tuple[str, bytes]:
        return kind, bytes(STORE.serialize_cdr(STORE.types[kind](*fields), kind))

    time = STORE.types['builtin_interfaces/msg/Time'](*divmod(NOW_NS, 10**9))
    header = STORE.types['std_msgs/msg/Header'](time, 'frame')
    pixels = np.arange(7 * 5 * 3, dtype=np.uint8)
    if topic == '/joint_states':
        zeros = np.zeros(7)
        return make('sensor_msgs/msg/JointState', header, NAMES, np.arange(7.0), zeros, zeros)
    if topic == '/cam_base/image_raw':
        return make('sensor_msgs/msg/Image', header, 5, 7, 'rgb8', 0, 21, pixels)
    return make('sensor_msgs/msg/CompressedImage', header, 'jpeg', pixels)


def feed(topic: str, cdr: bytes) -> dict[str, int]:
    """The counters of its stream; whatever is raised fails the test."""
    inputs = BagInputs(settings_of_the_robot(), lambda *_: None)
    taken = inputs.take(BagMessage(NOW_NS, topic, whole(topic)[0], cdr))
    counts = inputs.counts(NOW_NS)[STREAMS[topic]]
    assert (counts.recorded, counts.received) == (1, 1)
    assert counts.unexplained == 0
    assert taken != bool(counts.dropped)
    return dict(counts.dropped)


def test_good_messages_are_taken():
    assert feed('/joint_states', whole('/joint_states')[1]) == {}
    assert feed('/cam_base/image_raw', whole('/cam_base/image_raw')[1]) == {}
    assert feed('/cam_wrist/image_raw', whole('/cam_wrist/image_raw')[1]) == {'damaged': 1}  # no JPEG


@many
@given(st.sampled_from(sorted(STREAMS)), st.data())
def test_message_that_is_cut_or_changed_is_taken_or_counted(topic, data):
    content = bytearray(whole(topic)[1])
    changes = st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255))
    for at, value in data.draw(st.lists(changes, max_size=6), label='changes'):
        content[at] = value
    cut = data.draw(st.integers(0, len(content)) | st.just(len(content)), label='cut')
    feed(topic, bytes(content[:cut]))


@many
@given(st.sampled_from(sorted(STREAMS)), st.binary(max_size=80))
def test_any_bytes_are_refused_and_counted(topic, content):
    feed(topic, content)
    feed(topic, b'\0\1\0\0' + content)


@pytest.mark.parametrize('topic', sorted(STREAMS))
@pytest.mark.parametrize('count', [2**31 - 1, 2**32 - 1, 2**28])
def test_lengths_that_no_memory_holds_are_refused_before_anything_is_made(topic, count):
    """Each place of the message where a length may stand."""
    content = whole(topic)[1]
    tracemalloc.start()
    for at in range(4, len(content) - 4, 4):
        feed(topic, content[:at] + struct.pack('<I', count) + content[at + 4 :])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


# Simulated time


def clock(milliseconds: int) -> bytes:
    time = STORE.types['builtin_interfaces/msg/Time'](*divmod(milliseconds * 10**6, 10**9))
    return bytes(STORE.serialize_cdr(STORE.types[CLOCK_TYPE](time), CLOCK_TYPE))


@many
@given(st.lists(st.integers(0, 20_000) | st.integers(0, 2**31 * 1000 - 1), max_size=8))
def test_recorded_clock_is_the_time_and_its_jumps_are_told(times_ms):
    jumps = []
    inputs = BagInputs(settings_of_the_robot(), lambda *_: None, lambda *jump: jumps.append(jump))
    assert inputs.moment(NOW_NS) == Moment(NOW_NS, NOW_NS)
    expected = []
    for number, time_ms in enumerate(times_ms):
        assert not inputs.take(BagMessage(NOW_NS + number, CLOCK_TOPIC, CLOCK_TYPE, clock(time_ms)))
        assert inputs.moment(NOW_NS + number) == Moment(time_ms * 10**6, NOW_NS + number)
        jump_ms = time_ms - times_ms[number - 1] if number else 0
        if not 0 <= jump_ms <= 5000:
            expected.append((jump_ms * 10**6 / 1e9, NOW_NS + number))
    assert jumps == expected


@many
@given(st.binary(max_size=11))
def test_damaged_clock_is_reported_and_changes_nothing(content):
    reports = []
    inputs = BagInputs(settings_of_the_robot(), lambda *report: reports.append(report))
    inputs.take(BagMessage(NOW_NS, CLOCK_TOPIC, CLOCK_TYPE, content))
    assert inputs.moment(NOW_NS) == Moment(NOW_NS, NOW_NS)
    assert [report[:2] for report in reports] == [(CLOCK_TOPIC, 'damaged_message')]
