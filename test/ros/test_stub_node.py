# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The arguments of the program with the stub policy; test_soak.py runs it, with faults at run time."""

import pytest

from flashrt_core.errors import Error
from flashrt_ros.stub_node import parse, read_fault, stub_arguments
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
