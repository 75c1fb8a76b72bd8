# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""A stop stays latched until somebody resets it, whatever the topic says or does not say (R-38)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.stop_latch import StopLatch

TIMEOUT_S = 0.5
NO_MESSAGE = 'no message has come on the stop topic, which is required'


def configured(is_required: bool) -> StopLatch:
    latch = StopLatch()
    latch.configure(is_required, TIMEOUT_S)
    return latch


def released(is_required: bool = True) -> StopLatch:
    """A latch that was reset at time 0."""
    latch = configured(is_required)
    latch.message(False, 0.0)
    assert latch.reset(0.0) == ''
    assert not latch.is_latched
    return latch


def test_pressed_then_released():
    latch = configured(False)
    assert not latch.is_latched
    assert latch.message(True, 1.0)
    assert (latch.is_latched, latch.is_pressed, latch.reason) == (True, True, 'the stop was pressed')
    assert latch.reset(1.1) == 'the stop is still pressed: release it first'
    assert not latch.message(True, 2.0)  # it is latched already
    assert not latch.message(False, 6.0)  # 5 s later
    assert (latch.is_latched, latch.is_pressed) == (True, False)
    assert latch.reset(6.1) == ''
    assert (latch.is_latched, latch.reason) == (False, '')
    assert latch.message(True, 7.0)  # and again


def test_a_required_stop_begins_latched():
    latch = configured(True)
    assert (latch.is_latched, latch.reason) == (True, NO_MESSAGE)
    assert latch.reset(0.0) == NO_MESSAGE
    assert not latch.check(0.0, has_publisher=True)
    assert not latch.message(False, 0.1)
    assert latch.is_latched
    assert latch.reset(0.2) == ''
    assert not latch.is_latched


def test_a_new_configuration_forgets_no_stop():
    latch = StopLatch()
    assert not latch.is_latched
    latch.message(True, 1.0)
    latch.configure(is_required=False, timeout_s=TIMEOUT_S)
    assert (latch.is_latched, latch.is_pressed) == (True, True)
    assert latch.reset(1.1) == 'the stop is still pressed: release it first'
    latch.message(False, 1.2)
    latch.configure(is_required=True, timeout_s=TIMEOUT_S)
    assert latch.is_latched
    assert latch.reset(1.3) == NO_MESSAGE  # what the topic said before does not count


def test_a_required_stop_is_latched_by_its_configuration():
    latch = released()
    latch.configure(is_required=True, timeout_s=TIMEOUT_S)
    assert latch.reason == NO_MESSAGE
    assert not latch.message(False, 0.1)
    assert latch.reset(0.2) == ''
    latch.configure(is_required=False, timeout_s=TIMEOUT_S)
    assert not latch.is_latched


@pytest.mark.parametrize(
    ('now_s', 'has_publisher', 'reason'),
    [
        (0.5, True, ''),
        (-0.001, True, ''),  # the message came while the clock was read
        (0.51, True, 'the required stop topic has been silent for 0.51 s, limit 0.5 s'),
        (math.nan, True, 'the required stop topic has been silent for nan s, limit 0.5 s'),
        (0.1, False, 'the stop topic, which is required, has no publisher'),
    ],
)
def test_silence_of_a_required_topic(now_s: float, has_publisher: bool, reason: str):
    latch = released()
    assert latch.check(now_s, has_publisher) == bool(reason)
    assert latch.is_latched == bool(reason)
    assert latch.reason == reason
    assert not latch.check(now_s, has_publisher)  # once


def test_first_message_after_a_silence_does_not_unlatch():
    latch = released()
    assert latch.check(3.0, has_publisher=False)
    assert not latch.message(False, 3.1)
    assert not latch.check(3.2, has_publisher=True)
    assert latch.is_latched
    assert latch.reset(3.3) == ''


def test_reset_is_refused_in_silence():
    latch = released()
    latch.check(0.51, has_publisher=True)
    assert latch.reset(0.6) == 'the required stop topic has been silent for 0.60 s, limit 0.5 s'
    latch.message(False, 0.7)
    latch.check(0.71, has_publisher=False)
    assert latch.reset(0.72) == 'the stop topic, which is required, has no publisher'
    assert latch.is_latched


def test_a_silence_between_two_checks_counts():
    latch = released()
    assert not latch.check(0.499, has_publisher=True)
    assert latch.message(False, 0.501)
    assert latch.reason == 'the required stop topic has been silent for 0.50 s, limit 0.5 s'


def test_a_topic_that_is_not_required_may_be_silent():
    latch = configured(False)
    assert not latch.check(1e6, has_publisher=False)
    assert latch.message(True, 1e6)
    assert not latch.message(False, 2e6)
    assert latch.reset(3e6) == ''


def test_the_first_reason_is_kept():
    latch = released()
    assert latch.check(1.0, has_publisher=True)
    assert not latch.message(True, 1.1)
    assert latch.reason.startswith('the required stop topic has been silent')
    assert latch.is_pressed
    assert latch.reset(1.2) == 'the stop is still pressed: release it first'


events = st.lists(
    st.tuples(
        st.sampled_from(['press', 'release', 'reset', 'check', 'check without publisher']),
        st.floats(0, 2 * TIMEOUT_S),  # after the event before
    )
)


@given(events, st.booleans())
def test_any_sequence(sequence, is_required):
    latch = configured(is_required)
    assert latch.is_latched == is_required
    now_s, pressed, heard_s, has_publisher = 10.0, False, -math.inf, True
    for event, wait_s in sequence:
        now_s += wait_s
        was_latched = latch.is_latched
        if event.startswith('check'):
            has_publisher = event == 'check'
        is_silent = is_required and not (has_publisher and now_s - heard_s <= TIMEOUT_S)
        if event == 'reset':
            # Nothing else unlatches, and this does not while the stop is pressed or silent.
            assert (latch.reset(now_s) == '') == (not pressed and not is_silent)
            assert latch.is_latched == (was_latched and (pressed or is_silent))
            continue
        if event.startswith('check'):
            latches_now = latch.check(now_s, has_publisher)
        else:
            pressed, heard_s = event == 'press', now_s
            latches_now = latch.message(pressed, now_s)
        assert latch.is_latched == (was_latched or is_silent or (pressed and not event.startswith('check')))
        assert latches_now == (latch.is_latched and not was_latched)
        assert latch.is_pressed == pressed
        assert bool(latch.reason) == latch.is_latched
        assert latch.is_latched or not pressed
