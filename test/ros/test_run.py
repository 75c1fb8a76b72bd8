# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The threads of the executor run each task once, however often it is offered before it begins."""

import threading

from flashrt_ros.run import OncePool


def test_a_task_that_is_offered_again_before_it_begins_runs_once():
    gate, ran = threading.Event(), []
    pool = OncePool(1)
    pool.submit(gate.wait)  # takes the only thread

    def task():
        ran.append(1)

    for _ in range(50):
        pool.submit(task)
    gate.set()
    pool.shutdown()
    assert ran == [1]


def test_a_task_may_come_again_after_it_ended():
    pool, ran, done = OncePool(1), [], threading.Semaphore(0)

    def task():
        ran.append(1)

    for expected in (1, 2):
        pool.submit(task)
        pool.submit(done.release)
        done.acquire()
        assert len(ran) == expected
    pool.shutdown()
