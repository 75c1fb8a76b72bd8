# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The node with a policy that looks back: what was before a start or a new prompt is not looked back on."""

from dataclasses import replace

import pytest
from fake_policy import FakePolicy
from robot_bench import Bench
from ros_spinner import Spinner, eventually

from flashrt_core.types import Observation, PastPicture
from flashrt_ros.parameters import Parameters

ROW_S = 0.05  # as its pictures follow each other
ROWS = 10
NS = 1_000_000_000


class LooksBack(FakePolicy):
    """Wants to know both what the base camera showed and what the joints were so many rows ago."""

    def __init__(self, settings: Parameters, rows: int) -> None:
        super().__init__(settings)
        past = {'base@then': PastPicture('base', rows)}
        self.spec = replace(
            self.spec, cameras=('base@then', 'base', 'wrist'), past_cameras=past, past_states=(rows,)
        )


@pytest.fixture
def bench(ros: Spinner) -> Bench:
    it = Bench(ros, actions__row_period_s=ROW_S)
    it.load = lambda given: it.policies.append(LooksBack(given, ROWS)) or it.policy
    it.activate()
    it.feed()
    eventually(lambda: it.chunks, 'a chunk')
    return it


def now_ns(bench: Bench) -> int:
    return bench.robot.get_clock().now().nanoseconds


def seen(bench: Bench) -> list[Observation]:
    return [observation for observation in bench.policy.observations if not observation.is_trial]


def test_the_past_is_given_to_the_policy(bench):
    observation = seen(bench)[0]
    assert set(observation.images) == {'base@then', 'base', 'wrist'}
    assert observation.past_states.shape == (1, 7)


def test_a_start_begins_without_a_past(bench):
    before_ns = now_ns(bench)
    assert bench.service('start').success
    begun_ns = now_ns(bench)
    earliest_ns = before_ns + round((ROWS * ROW_S - ROW_S) * NS)  # of what follows, as near as is tolerated

    def later() -> list[int]:
        stamps = [observation.stamps_ns['base'] for observation in seen(bench)]
        return [stamp for stamp in stamps if stamp > begun_ns]

    eventually(later, 'an observation after the start')
    assert min(later()) >= earliest_ns
    bench.commanding()
    count = len(later())
    assert bench.service('start').success  # a run under way goes on, and with it the past
    eventually(lambda: len(later()) > count, 'the next observation')


def test_a_new_prompt_begins_without_a_past(bench):
    before_ns = now_ns(bench)
    bench.set_prompt('open the drawer')
    eventually(lambda: bench.chunks[-1].prompt == 'open the drawer', 'a chunk of the new prompt')
    newest = bench.chunks[-1].prompt_id
    stamps = [item.stamps_ns['base'] for item in seen(bench) if item.prompt_id == newest]
    assert min(stamps) >= before_ns + round((ROWS * ROW_S - ROW_S) * NS)


def test_the_status_says_that_the_past_is_too_short(ros: Spinner):
    it = Bench(ros, actions__row_period_s=ROW_S)
    it.load = lambda given: it.policies.append(LooksBack(given, 1000)) or it.policy
    it.activate()
    it.feed()
    status = it.status('the policy looks back, and nothing is known within 0.05 s')
    assert 'of 50 s ago' in status.message
    assert not seen(it)
