# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The status in words: the first unmet condition, in the order in which a user has to meet them."""

import pytest

from flashrt_ros.health import Situation, Throttle, words

ACTIVE = {'state': 'active'}


@pytest.mark.parametrize(
    ('situation', 'level', 'text'),
    [
        ({'state': 'unconfigured'}, 'ok', 'not configured'),
        ({'state': 'unconfigured', 'fault': 'configure failed: x'}, 'error', 'configure failed: x'),
        ({'state': 'inactive', 'fault': 'activate failed: x'}, 'error', 'activate failed: x'),
        ({'state': 'configuring', 'progress': 'loading /m'}, 'ok', 'configuring: loading /m'),
        ({'state': 'inactive'}, 'ok', 'inactive: activate to receive and infer'),
        (ACTIVE, 'ok', 'inferring, not commanding: call ~/start'),
        (ACTIVE | {'is_commanding': True}, 'ok', 'commanding (dry run: nothing is sent)'),
        (ACTIVE | {'is_commanding': True, 'is_dry_run': False}, 'ok', 'commanding'),
        (ACTIVE | {'is_commanding': True, 'starved_s': 0.3}, 'warn', 'starved: no action to play for 0.30 s'),
        (ACTIVE | {'stopped_because': 'x', 'starved_s': 0.3}, 'warn', 'stopped: x'),
        (ACTIVE | {'prompt_fault': 'prompt refused', 'stopped_because': 'x'}, 'warn', 'prompt refused'),
        (ACTIVE | {'waiting': 'y', 'prompt_fault': 'x'}, 'warn', 'no observation: y'),
        (ACTIVE | {'inference_error': 'z', 'waiting': 'y'}, 'error', 'z'),
        (
            ACTIVE | {'is_waiting_for_clock': True, 'inference_error': 'z'},
            'warn',
            'waiting for clock: use_sim_time is true and nothing publishes /clock',
        ),
    ],
)
def test_first_unmet_condition(situation: dict, level: str, text: str):
    assert words(Situation(**situation)) == (level, text)


def test_cause_passes_once_and_again_after_a_while():
    throttle = Throttle(5.0)
    assert throttle.passes('a', 0.0)
    assert throttle.passes('b', 1.0)
    assert not throttle.passes('a', 4.9)
    assert throttle.passes('a', 5.0)
    assert not throttle.passes('a', 9.9)
