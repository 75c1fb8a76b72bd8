# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The status in words: the first unmet condition, in the order in which a user has to meet them."""

import pytest

from flashrt_ros.health import Situation, Throttle, words
from flashrt_ros.status import _without_numbers

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
        (
            ACTIVE | {'stopped_because': 'x', 'is_stopped_by_fault': True},
            'error',
            'stopped: x',
        ),
        (ACTIVE | {'is_commanding': True, 'first_command': 'x'}, 'warn', 'not moving: x'),
        (
            ACTIVE | {'stop_latched': 'the stop was pressed', 'waiting': 'y'},
            'error',
            'the stop was pressed: release it, call ~/estop_reset, then ~/start',
        ),
        (
            ACTIVE | {'stop_connection': 'stop topic estop: QoS incompatible'},
            'error',
            'stop topic estop: QoS incompatible',
        ),
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


@pytest.mark.parametrize(
    ('before', 'after', 'is_news'),
    [
        ('no action to play for 0.30 s', 'no action to play for 12.35 s', False),
        ("camera 'base' is 0.312 s old, limit 0.25 s", "camera 'base' is 0.512 s old, limit 0.25 s", False),
        ('stamp is (0.1 s, 3 rows) behind', 'stamp is (0.2 s, 14 rows) behind', False),
        ("no picture from camera 'cam1' on a", "no picture from camera 'cam2' on a", True),
        ('no value of joint_1', 'no value of joint_2', True),
        ('on /left_1/image_raw', 'on /left_2/image_raw', True),
        ("camera 'base' is 0.312 s old", "camera 'wrist' is 0.312 s old", True),
    ],
)
def test_age_that_grows_is_no_news_and_another_name_is(before: str, after: str, is_news: bool):
    assert (_without_numbers(before) != _without_numbers(after)) == is_news
