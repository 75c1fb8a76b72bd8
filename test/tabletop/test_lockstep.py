# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""When simulated time waits, and for what: pictures every 100 ms, commands every 50 ms, times in ms."""

from flashrt_ros.tabletop.lockstep import ANSWER, COMMANDS, Lockstep


class InMs:
    """The same in ms."""

    def __init__(self, delay: int = 0) -> None:
        self.lockstep = Lockstep(50_000_000, 100_000_000, delay * 1_000_000)

    def expect(self, controller: str, now: int) -> None:
        self.lockstep.expect(controller, now * 1_000_000)

    def commanded(self, controller: str, now: int) -> None:
        self.lockstep.commanded(controller, now * 1_000_000)

    def observed(self, now: int) -> None:
        self.lockstep.observed(now * 1_000_000)

    def answered(self, stamp: int, now: int) -> None:
        self.lockstep.answered(stamp * 1_000_000, now * 1_000_000)

    def waits_for(self, now: int) -> str:
        return self.lockstep.waits_for(now * 1_000_000)

    def give_up(self, now: int) -> str:
        return self.lockstep.give_up(now * 1_000_000)

    @property
    def delays(self) -> list[int]:
        return [delay // 1_000_000 for delay in self.lockstep.delays_ns]


def test_nothing_is_waited_for_before_somebody_was_heard():
    time = InMs()
    time.observed(100)
    assert time.waits_for(5000) == ''
    assert not time.lockstep.is_engaged


def test_every_controller_is_waited_for_when_its_period_has_passed():
    time = InMs()
    time.commanded('arm', 1000)
    time.expect('hand', 1000)
    assert time.waits_for(1000) == COMMANDS
    time.commanded('hand', 1000)
    assert [time.waits_for(now) for now in (1000, 1040, 1050)] == ['', '', COMMANDS]
    time.commanded('arm', 1050)
    assert time.waits_for(1050) == COMMANDS
    time.commanded('hand', 1050)
    assert time.waits_for(1090) == ''
    time.expect('hand', 1060)  # waited for already
    assert time.waits_for(1060) == ''


def test_a_controller_that_falls_silent_is_given_up_until_it_is_heard_again():
    time = InMs()
    time.commanded('arm', 1000)
    time.commanded('hand', 1030)
    assert time.give_up(1060) == 'no command of arm'
    assert time.waits_for(1070) == ''
    assert time.waits_for(1080) == COMMANDS
    assert time.give_up(1080) == 'no command of hand'
    assert not time.lockstep.is_engaged
    time.commanded('arm', 2000)
    assert time.waits_for(2050) == COMMANDS


def test_without_delay_time_stands_still_until_the_chunk_is_there():
    time = InMs()
    time.observed(1000)
    time.answered(1000, 1030)  # the first one engages
    assert time.waits_for(1090) == ''
    time.observed(1100)
    assert time.waits_for(1100) == ANSWER
    time.answered(1100, 1100)
    assert time.waits_for(1190) == ''
    assert time.delays == [0]


def test_with_a_delay_time_passes_and_then_stands_still():
    """As with an inference of 200 ms: it begins with the newest pictures of the moment it is free."""
    time = InMs(delay=200)
    time.observed(1000)
    time.answered(1000, 1000)
    time.observed(1100)
    time.observed(1200)
    assert time.waits_for(1290) == ''
    time.observed(1300)
    assert time.waits_for(1300) == ANSWER
    time.answered(1100, 1300)  # it goes on with the pictures of 1300
    assert time.waits_for(1490) == ''
    time.observed(1400)
    assert time.waits_for(1500) == ANSWER
    time.answered(1290, 1500)  # pictures of 1300, seen by a clock that lags
    assert time.delays == [200, 200]
    assert time.lockstep.answers == 3


def test_a_chunk_that_comes_early_is_seen_in_the_delays():
    time = InMs(delay=200)
    time.observed(1000)
    time.answered(1000, 1000)
    time.observed(1100)
    time.answered(1100, 1150)
    assert time.delays == [50]


def test_a_chunk_of_pictures_that_have_just_been_replaced_is_an_answer():
    """The newest ones were on their way when the policy began; it goes on with them."""
    time = InMs(delay=100)
    time.observed(1000)
    time.answered(1000, 1000)
    time.observed(1100)
    time.observed(1200)
    time.answered(1100, 1200)  # and the policy, which has not got those of 1200, takes those of 1100 again
    time.observed(1300)
    time.answered(1100, 1300)
    assert time.delays == [100, 100]
    assert time.waits_for(1390) == ''
    assert time.waits_for(1400) == ANSWER


def test_a_policy_that_falls_silent_is_given_up_until_it_is_heard_again():
    time = InMs()
    time.observed(1000)
    time.answered(1000, 1000)
    time.observed(1100)
    assert time.waits_for(1100) == ANSWER
    assert time.give_up(1100) == 'no chunk that answers the newest pictures'
    time.observed(1200)
    assert time.waits_for(1300) == ''
    time.answered(1200, 1300)
    time.observed(1300)
    assert time.waits_for(1300) == ANSWER


def test_what_was_on_its_way_at_a_reset_is_not_waited_for():
    time = InMs()
    time.observed(1000)
    time.answered(1000, 1000)
    time.lockstep.reset()
    time.answered(1000, 1010)
    time.observed(1100)
    time.answered(1000, 1110)
    assert not time.lockstep.is_engaged
