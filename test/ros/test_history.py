# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Policies that look back: the right pictures and joints of the past, a bounded memory, and when it waits."""

from dataclasses import replace

import numpy as np
import pytest
from fake_policy import CASES, NODE, FakePolicy, groot_values
from hypothesis import given, settings
from hypothesis import strategies as st

from flashrt_core.types import CameraFrame, PastPicture, PolicySpec
from flashrt_ros.compressed_images import CompressedFrame
from flashrt_ros.conversions import Frame, JointSample
from flashrt_ros.history import History, LookBack
from flashrt_ros.inputs import Moment
from flashrt_ros.observations import NotReady, ObservationBuffer
from flashrt_ros.parameters import Parameters, read_parameters

ROW_S = 0.02
PICTURE_MS = 30
NAMES = [f'joint_{i}' for i in range(1, 7)] + ['gripper']
MS = 1_000_000


def robot(**changes: object) -> Parameters:
    return read_parameters(groot_values(actions__row_period_s=ROW_S, **changes), NODE)[0]


def spec(given: Parameters) -> PolicySpec:
    """Both cameras now, the base as it was 5 and 10 rows ago, and states of 3 and 10 rows ago."""
    return replace(
        FakePolicy(given).spec,
        cameras=('base@-10', 'base@-5', 'base', 'wrist'),
        past_cameras={f'base@-{rows}': PastPicture('base', rows) for rows in (10, 5)},
        past_states=(10, 3),
    )


def moment(at_ms: int) -> Moment:
    return Moment((1000 + at_ms) * MS, (1000 + at_ms) * MS)


def frame(value: int) -> CameraFrame:
    return CameraFrame(bytes([value % 256] * 12), 'rgb8', 2, 2, 6)


class Stream:
    """A robot whose pictures and joints say when they were made: pictures in 1 ms, joints in s."""

    def __init__(self, **changes: object) -> None:
        self.settings = robot(**changes)
        self.reports: list[str] = []
        look_back = LookBack.of(spec(self.settings), self.settings)
        self.buffer = ObservationBuffer(
            self.settings, lambda *report: self.reports.append(report[2]), look_back
        )

    def picture(self, slot: str, at_ms: int, content: Frame | None = None) -> None:
        assert self.buffer.add_frame(slot, content or frame(at_ms), moment(at_ms).ros_ns, moment(at_ms))

    def joints(self, at_ms: int, value: float | None = None) -> None:
        positions = dict.fromkeys(NAMES, at_ms / 1e3 if value is None else value)
        stamp = moment(at_ms).ros_ns
        assert self.buffer.add_joints('joint_states', JointSample(positions), stamp, moment(at_ms))

    def run(self, begin_ms: int, end_ms: int) -> None:
        for at_ms in range(begin_ms, end_ms + 1):
            if at_ms % 10 == 0:
                self.joints(at_ms)
            if at_ms % PICTURE_MS == 0:
                self.picture('base', at_ms)
                self.picture('wrist', at_ms)

    def form(self, at_ms: int):
        return self.buffer.form(lambda: moment(at_ms), 1).observation

    def why_not(self, at_ms: int) -> NotReady:
        with pytest.raises(NotReady) as reason:
            self.form(at_ms)
        return reason.value


# What is given to the policy


def test_pictures_and_states_are_as_old_as_the_policy_wants_them():
    it = Stream()
    it.run(0, 240)
    seen = it.form(245)
    assert set(seen.images) == {'base@-10', 'base@-5', 'base', 'wrist'}
    shown = {name: int(picture[0, 0, 0]) for name, picture in seen.images.items()}
    # 200 and 100 ms before 240: the nearest of the pictures that come every 30 ms.
    assert shown == {'base@-10': 30, 'base@-5': 150, 'base': 240, 'wrist': 240}
    np.testing.assert_allclose(seen.past_states[:, :6], [[0.04] * 6, [0.18] * 6])
    np.testing.assert_allclose(seen.state[:6], 0.24)


def test_ages_of_inputs_are_those_of_the_present():
    it = Stream()
    it.run(0, 240)
    observed = it.buffer.form(lambda: moment(245), 1)
    assert observed.stamp_ns == moment(240).ros_ns
    assert set(observed.observation.stamps_ns) == {'base', 'wrist', 'joint_states'}


def test_grippers_of_the_past_are_in_the_unit_of_the_model():
    given_ = {'grippers__model_one': ['open'], 'grippers__open': [2.0], 'grippers__closed': [0.0]}
    it = Stream(**given_)
    it.run(0, 240)
    np.testing.assert_allclose(it.form(245).past_states[:, 6], [0.02, 0.09])


def test_a_policy_that_does_not_look_back_keeps_nothing():
    given_ = robot()
    buffer = ObservationBuffer(given_, lambda *_: None, LookBack.of(FakePolicy(given_).spec, given_))
    for at_ms in range(0, 300, 30):
        for slot in ('base', 'wrist'):
            buffer.add_frame(slot, frame(at_ms), moment(at_ms).ros_ns, moment(at_ms))
        stamp = moment(at_ms).ros_ns
        buffer.add_joints('joint_states', JointSample(dict.fromkeys(NAMES, 0.1)), stamp, moment(at_ms))
    assert buffer.check_past() is None
    assert buffer.form(lambda: moment(275), 1).observation.past_states is None
    assert {len(camera.history) for camera in buffer._cameras.values()} == {0}


# When it waits


def test_nothing_is_formed_before_the_history_is_long_enough():
    it = Stream()
    it.run(0, 150)
    reason = it.why_not(155)
    assert reason.condition == 'history'
    assert str(reason) == (
        "camera 'base': the policy looks back, and nothing is known within 0.02 s (history.tolerance_s) "
        'of 0.2 s ago; 0.150 s are known'
    )
    assert it.buffer.check(moment(155)) is None  # no input is lost: a chunk in play goes on
    assert str(it.buffer.check_past()) == str(reason)
    it.run(151, 240)
    assert it.buffer.check_past() is None
    it.form(245)


def test_a_gap_in_the_past_is_waited_for():
    it = Stream()
    it.run(0, 0)
    it.run(100, 240)  # 200 ms before it there is none
    assert 'within 0.02 s (history.tolerance_s) of 0.2 s ago; 0.240 s are known' in str(it.why_not(245))
    wide = Stream(history__tolerance_s=0.08)
    wide.run(0, 0)
    wide.run(100, 240)
    assert int(wide.form(245).images['base@-10'][0, 0, 0]) in (0, 120)


def test_joints_lack_their_past_by_name():
    it = Stream()
    for at_ms in range(0, 241, PICTURE_MS):
        it.picture('base', at_ms)
        it.picture('wrist', at_ms)
    it.joints(235)
    reason = it.why_not(245)
    assert (reason.condition, str(reason)[:17]) == ('history', "joint 'joint_1': ")
    assert '0.2 s ago; 0.000 s are known' in str(reason)


def test_values_that_are_no_numbers_are_not_remembered():
    it = Stream()
    it.run(0, 30)
    it.joints(40, float('nan'))
    it.run(41, 240)
    np.testing.assert_allclose(it.form(245).past_states[0, :6], 0.03)


@pytest.mark.parametrize('how', ['forget_past', 'reset'])
def test_a_new_run_begins_without_a_past(how):
    it = Stream()
    it.run(0, 240)
    getattr(it.buffer, how)()
    it.run(241, 420)
    assert it.why_not(425).condition == 'history'
    it.run(421, 480)
    shown = {name: int(picture[0, 0, 0]) for name, picture in it.form(485).images.items()}
    assert shown['base@-10'] == 270 % 256


def test_a_damaged_picture_of_the_past_gives_way_to_the_one_beside_it():
    it = Stream()
    broken = CompressedFrame((CASES / 'compressed' / 'scrambled_middle.jpg').read_bytes(), 'jpeg')
    for at_ms in range(0, 250, 10):
        it.joints(at_ms)
        it.picture('base', at_ms, broken if at_ms == 40 else None)
        it.picture('wrist', at_ms)
    assert int(it.form(245).images['base@-10'][0, 0, 0]) in (30, 50)
    assert len(it.reports) == 1
    assert 'base' in it.reports[0]
    assert 'in the past' in it.reports[0]
    counters = next(health.counters for health in it.buffer.health(moment(245)) if health.name == 'base')
    assert counters['received'] == counters['used'] + counters['superseded'] + counters['waiting']


# The memory


STAMPS = st.lists(st.integers(1, 400), min_size=1, max_size=200).map(np.cumsum)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(STAMPS, st.integers(1, 2000), st.integers(2, 300), st.data())
def test_what_is_found_is_near_and_what_was_near_enough_is_found(stamps, longest, tolerance, data):
    history: History[int] = History(longest, tolerance)
    for stamp in map(int, stamps):
        history.add(stamp, stamp)
        assert len(history) <= (longest + 2 * tolerance) / (tolerance / 2) + 2
    now = int(stamps[-1])
    wanted = now - data.draw(st.integers(0, longest))
    found = history.nearest(wanted, now)
    closest = min(abs(int(stamp) - wanted) for stamp in stamps)
    if found is not None:
        assert found[0] == found[1] <= now
        assert closest <= abs(found[0] - wanted) <= tolerance
    assert found is not None or closest > tolerance / 2


def test_none_is_from_after_the_present():
    history: History[str] = History(100, 50)
    history.add(0, 'then')
    history.add(100, 'now')
    history.add(130, 'later')
    assert history.nearest(120, 100) == (100, 'now')
    history.drop(100)
    assert history.nearest(120, 100) is None
    history.clear()
    assert (len(history), history.nearest(0, 200), history.span_ns(200)) == (0, None, 0)
