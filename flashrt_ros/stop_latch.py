# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The stop button of the robot as the node keeps it: latched until somebody resets it."""

import math
import threading

_NOTHING_HEARD = 'no message has come on the stop topic, which is required'


class StopLatch:
    """Latches on a pressed button and, where the stop topic is required, on its silence.

    Only `reset` unlatches: a released button and a topic that speaks again do not. A required stop begins
    latched, as a safety relay does after power-up, because nothing has been heard yet. All times are seconds
    of one steady clock. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_pressed = False
        self._reason = ''
        self.configure(is_required=False, timeout_s=math.inf)

    def configure(self, is_required: bool, timeout_s: float) -> None:
        """Begins to listen anew; what is latched stays latched, and what was pressed stays pressed."""
        with self._lock:
            self._is_required = is_required
            self._timeout_s = timeout_s
            self._has_publisher = True
            self._heard_s: float | None = None  # when the last message came
            self._latch(_NOTHING_HEARD if is_required else '')

    @property
    def is_latched(self) -> bool:
        return bool(self._reason)

    @property
    def is_pressed(self) -> bool:
        """What the last message said."""
        return self._is_pressed

    @property
    def reason(self) -> str:
        """Why it latched; empty when it is not latched."""
        return self._reason

    def message(self, is_pressed: bool, now_s: float) -> bool:
        """Takes a message of the stop topic; True when it latches now: pressed, or after a silence."""
        with self._lock:
            reason = 'the stop was pressed' if is_pressed else self._silence(now_s)
            self._is_pressed = is_pressed
            self._heard_s = now_s
            return self._latch(reason)

    def check(self, now_s: float, has_publisher: bool) -> bool:
        """To be called every control period; True when the silence of a required topic latches now."""
        with self._lock:
            self._has_publisher = has_publisher
            return self._latch(self._silence(now_s))

    def reset(self, now_s: float) -> str:
        """Unlatches and returns ''; while the stop is pressed or silent it returns why it does not."""
        with self._lock:
            if self._is_pressed:
                return 'the stop is still pressed: release it first'
            silence = self._silence(now_s)
            if not silence:
                self._reason = ''
            return silence

    def _latch(self, reason: str) -> bool:
        """True when a reason is given and there was none: the first one is kept."""
        if self._reason or not reason:
            return False
        self._reason = reason
        return True

    def _silence(self, now_s: float) -> str:
        """What a required topic lacks, in words; '' where nothing is lacking."""
        if not self._is_required:
            return ''
        if not self._has_publisher:
            return 'the stop topic, which is required, has no publisher'
        if self._heard_s is None:
            return _NOTHING_HEARD
        silent_s = now_s - self._heard_s
        # A message may come between the reading of the clock and this line, so a negative time is no fault.
        if not silent_s <= self._timeout_s:
            return (
                f'the required stop topic has been silent for {silent_s:.2f} s, limit {self._timeout_s:g} s'
            )
        return ''
