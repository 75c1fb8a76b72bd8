# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The arguments of the program with the stub policy, and faults in words; test_soak.py runs it."""

import pytest
from rclpy.node import Node
from ros_spinner import Spinner, eventually
from std_msgs.msg import String

from flashrt_core.errors import Error
from flashrt_ros.stub_node import StubNode, parse, read_fault, stub_arguments
from flashrt_ros.stub_policy import StubSettings

SETTINGS = StubSettings(horizon=12, latency_ms=50, jitter_ms=10)


def test_the_arguments_of_the_program_give_the_settings_back():
    assert parse([*stub_arguments(SETTINGS), '--ros-args', '-p', 'x:=1']) == SETTINGS


def test_a_fault_in_words():
    assert read_fault('throw') == ('throw', 1, 0.0)
    assert read_fault(' nan  3 ') == ('nan', 3, 0.0)
    assert read_fault('spike 2 0.8') == ('spike', 2, 0.8)
    for text in ('', 'nan three', 'spike 2 0.8 1', 'nan -1'):
        with pytest.raises(Error, match='such as'):
            read_fault(text)


@pytest.mark.parametrize(
    ('words', 'answer'),
    [('throw', 'the node is not configured'), ('jump over', 'such as: spike 2 0.8')],
)
def test_a_fault_that_cannot_be_is_logged_and_the_node_lives(
    ros: Spinner, capfd: pytest.CaptureFixture, words: str, answer: str
):
    ros.add(StubNode(SETTINGS, context=ros.context))
    talker = ros.add(Node('talker', context=ros.context))
    publisher = talker.create_publisher(String, 'policy/stub_fault', 10)
    eventually(publisher.get_subscription_count, 'the subscription')
    publisher.publish(String(data=words))
    logged = ''

    def is_logged() -> bool:
        nonlocal logged
        logged += capfd.readouterr().err
        return f"~/stub_fault '{words}'" in logged and answer in logged

    eventually(is_logged, lambda: f'{answer} in {logged}')
