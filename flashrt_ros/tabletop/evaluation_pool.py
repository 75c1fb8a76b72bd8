# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Episodes on several processes: which of them plays one changes nothing about it."""

import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

from flashrt_core.errors import Error
from flashrt_ros.tabletop.episode import Calibrations, EpisodePlayer, Values
from flashrt_ros.tabletop.evaluation import Assignment, Condition, Episode

_settings: tuple[Values, Calibrations] = ({}, {})  # of this process, as the next
_player: EpisodePlayer | None = None


def play_all(
    conditions: Sequence[Condition],
    assigned: Sequence[Assignment],
    values: Values,
    calibrations: Calibrations,
    workers: int,
) -> Iterator[tuple[Condition, Episode]]:
    """Each assignment under each condition, in the order in which they end; close it to stop early."""
    context = multiprocessing.get_context('spawn')  # a forked child would share threads and OpenGL
    pool = ProcessPoolExecutor(workers, context, initializer=_start, initargs=(values, calibrations))
    try:
        futures = {
            pool.submit(_play, condition, assignment): condition
            for condition in conditions
            for assignment in assigned
        }
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool as fault:
        raise Error(f'a process that plays episodes has ended; its last words are above ({fault})') from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _start(values: Values, calibrations: Calibrations) -> None:
    global _settings
    os.environ.setdefault('LP_NUM_THREADS', '1')  # of Mesa: each process has its own core
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    _settings = values, calibrations


def _play(condition: Condition, assignment: Assignment) -> Episode:
    global _player
    if _player is None:  # here, so that what is missing is reported to the parent
        _player = EpisodePlayer(*_settings)
    return _player.play(condition, assignment)
