# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Time in the live node: no simulated clock, one that jumps back, a system clock that is set (R-17, R-18)."""

import threading
import time

import pytest
from rclpy.node import Node
from robot_bench import JOINTS, REST, Bench, key_values, picture
from ros_spinner import Spinner, eventually
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState

from flashrt_ros.conversions import time_message
from flashrt_ros.inputs import Moment, StepWatch
from flashrt_ros.node_clock import NodeClock

HOUR_NS = 3600 * 1_000_000_000
RED, BLUE = (255, 0, 0), (0, 0, 255)


class Simulation:
    """A clock at 100 Hz and a robot that is stamped by it."""

    def __init__(self, bench: Bench, begin_s: float) -> None:
        self._bench = bench
        self._clock = bench.robot.create_publisher(Clock, '/clock', 10)
        self._tick = round(begin_s * 100)
        self._lock = threading.Lock()
        bench.robot.create_timer(0.01, self._step)

    def jump_to(self, seconds: float) -> None:
        with self._lock:
            self._tick = round(seconds * 100)

    def _step(self) -> None:
        with self._lock:
            self._tick += 1
            message = Clock()
            message.clock.sec, rest = divmod(self._tick, 100)
            message.clock.nanosec = rest * 10_000_000
            self._clock.publish(message)
            if self._tick % 5 == 0:
                state = JointState(name=JOINTS, position=REST)
                state.header.stamp = message.clock
                self._bench.joints.publish(state)
                self._bench.base.publish(picture(RED, message.clock))
                self._bench.wrist.publish(picture(BLUE, message.clock))


def test_missing_clock_is_named_and_nothing_is_commanded(ros: Spinner):
    bench = Bench(ros, use_sim_time=True, start_on_activate=True)
    bench.activate()
    bench.feed()  # stamped with real time
    bench.status('waiting for clock: use_sim_time is true and nothing publishes /clock')
    assert bench.chunks == []
    assert key_values(bench.statuses[-1])['play.commands'] == '0'
    Simulation(bench, 5.0)
    bench.feed(False)
    bench.commanding()


def test_clock_that_jumps_back_begins_afresh(ros: Spinner):
    bench = Bench(ros, use_sim_time=True, start_on_activate=True)
    simulation = Simulation(bench, 100.0)
    bench.activate()
    bench.commanding()
    eventually(lambda: len(bench.chunks) > 5, 'chunks')
    resets = bench.policy.resets
    simulation.jump_to(10.0)
    lap_2 = eventually(lambda: [c for c in bench.chunks if c.header.stamp.sec < 50], 'chunks of lap 2')
    assert bench.policy.resets == resets + 1
    assert lap_2[0].chunk_id == 1
    first = bench.chunks.index(lap_2[0])
    assert all(chunk.header.stamp.sec >= 100 for chunk in bench.chunks[:first])
    assert all(chunk.header.stamp.sec < 50 for chunk in bench.chunks[first:])
    assert all(age >= 0 for chunk in bench.chunks for age in chunk.oldest_ages)
    bench.commanding()


def test_system_clock_that_is_set_back_begins_afresh(ros: Spinner):
    """Else pictures from before would stay new, and all that follow would be out of order, for an hour."""
    bench = Bench(ros, start_on_activate=True)
    set_ns = 0
    bench.node._time.now = lambda: Moment(time.time_ns() + set_ns, time.monotonic_ns())
    bench.activate()
    bench.feed()
    eventually(lambda: bench.chunks, 'a chunk')
    bench.feed(False)
    resets, count = bench.policy.resets, len(bench.chunks)
    set_ns = -HOUR_NS
    eventually(lambda: bench.policy.resets == resets + 1, 'a fresh run')

    def chunk_of_the_new_time() -> bool:
        bench.publish_once(time_message(time.time_ns() + set_ns))
        return bench.chunks[-1].header.stamp.sec < time.time() - 3000

    eventually(chunk_of_the_new_time, 'a chunk of the new time')
    assert len(bench.chunks) > count
    assert bench.policy.resets == resets + 1


def test_pause_between_the_two_clocks_is_no_step(ros: Spinner):
    node = ros.add(Node('paused', context=ros.context))
    jumps_s: list[float] = []
    clock = NodeClock(node, jumps_s.append)
    now = clock.now
    pause_s, set_ns = 0.3, 0

    def paused() -> Moment:
        ros_ns = now().ros_ns + set_ns
        time.sleep(pause_s)
        return Moment(ros_ns, time.monotonic_ns())

    clock.now = paused
    clock.watch()
    assert jumps_s == []
    pause_s, set_ns = 0.0, -HOUR_NS
    eventually(lambda: clock.watch() or jumps_s, 'the step')  # unless the machine itself pauses
    assert jumps_s == [pytest.approx(-3600, abs=0.2)]


def test_steps_are_told_from_the_passing_of_time():
    second = 1_000_000_000
    watch = StepWatch(Moment(100 * second, 5 * second))
    assert watch.step_s(Moment(101 * second, 6 * second)) == 0.0
    assert watch.step_s(Moment(42 * second, 7 * second)) == -60.0
    assert watch.step_s(Moment(43 * second, 8 * second)) == 0.0
