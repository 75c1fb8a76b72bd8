# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Brings one fault after the other about, waits until the node is in motion again, and writes down when."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from flashrt_core.errors import Error
from flashrt_ros.soak.faults import Fault
from flashrt_ros.soak.journal import Entry, Happening
from flashrt_ros.soak.rig import LiveRig

_SAMPLE_S = 0.5
_STOPS_S, _RESUMES_S = 5.0, 10.0
_SETTLE_S = 1.0  # in motion between two faults


class Campaign:
    """Runs faults on a rig; what happened goes to `write`."""

    def __init__(self, rig: LiveRig, write: Callable[[Entry], None]) -> None:
        self._rig = rig
        self._write = write

    def run(self, faults: Sequence[Fault], seconds: float, progress: Callable[[str], None]) -> None:
        """All of them once, and again as long as there is time."""
        end_s = time.monotonic() + seconds
        with self._sampling():
            time.sleep(_SETTLE_S)
            for number in itertools.count(1):
                for fault in faults:
                    if number > 1 and time.monotonic() > end_s:
                        return
                    progress(f'round {number}: {fault.name}')
                    self._bring_about(fault)
                if time.monotonic() > end_s:
                    return

    def _bring_about(self, fault: Fault) -> None:
        rig = self._rig
        self._note(fault.begin(rig), 'begin', fault.name)
        time.sleep(fault.seconds)
        self._note(fault.end(rig), 'end', fault.name)
        self._recover(fault)
        time.sleep(_SETTLE_S)

    def _recover(self, fault: Fault) -> None:
        """Does what the rules ask for, and writes down if more is needed: the checker is the judge."""
        rig = self._rig
        if fault.is_stopping and rig.comes_true(lambda: not rig.is_commanding, _STOPS_S):
            if fault.is_latching:
                rig.insist('estop_reset')
            self._start(fault)
        if not rig.comes_true(lambda: rig.is_in_motion, _RESUMES_S) and not rig.is_commanding:
            self._start(fault)
            rig.comes_true(lambda: rig.is_in_motion, _RESUMES_S)

    def _start(self, fault: Fault) -> None:
        try:
            self._note(self._rig.insist('start'), 'start', fault.name)
        except Error:
            self._rig.node.check_alive()  # that it does not move again is for the checker to say

    def _note(self, at_ns: int, what: str, fault: str) -> None:
        self._write(Happening(at_ns, what, fault))

    @contextmanager
    def _sampling(self) -> Iterator[None]:
        """Memory and descriptors of the node, as long as it lives."""
        is_done = threading.Event()

        def sample() -> None:
            while not is_done.wait(_SAMPLE_S):
                try:
                    self._write(self._rig.usage())
                except OSError:  # it has ended
                    return

        thread = threading.Thread(target=sample, name='usage', daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_done.set()
            thread.join()
