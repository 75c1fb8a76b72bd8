# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The health of the node as plain values, and the first unmet condition in words."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from flashrt_ros.chunk_player import PlayCounters
from flashrt_ros.device_watch import DeviceState
from flashrt_ros.latency import Percentiles
from flashrt_ros.motion import MotionCounters
from flashrt_ros.observations import StreamHealth

CONNECTED = 'publisher present'
NO_PUBLISHER = 'no publisher'
REPEAT_S = 5.0  # a repeated warning is logged this often


@dataclass(frozen=True)
class Situation:
    """What the words of the status depend on."""

    state: str  # of the lifecycle
    progress: str = ''  # of configuring
    fault: str = ''  # of the last transition
    is_waiting_for_clock: bool = False
    inference_error: str = ''
    waiting: str = ''  # why no observation can be formed
    prompt_fault: str = ''
    is_commanding: bool = False
    stop_latched: str = ''  # why the stop is latched
    stop_connection: str = ''  # why a stop could not be heard
    stopped_because: str = ''
    is_stopped_by_fault: bool = False
    first_command: str = ''  # why it waits
    starved_s: float = 0.0
    is_dry_run: bool = True


@dataclass(frozen=True)
class Health:
    """Everything that is reported, gathered at one moment."""

    situation: Situation
    prompt: str = ''
    streams: tuple[StreamHealth, ...] = ()
    connections: Mapping[str, str] = field(default_factory=dict)  # stream -> publishers and QoS in words
    inference_errors: int = 0
    out_of_range: Mapping[str, float] = field(default_factory=dict)  # joint -> normalised value
    play: PlayCounters = field(default_factory=PlayCounters)
    motion: MotionCounters = field(default_factory=MotionCounters)
    joint_names: tuple[str, ...] = ()
    delay_rows: int = 0  # estimate for the next chunk
    prompt_id: int = 0
    policy: Mapping[str, str] = field(default_factory=dict)  # hashes, statistics file, recipe
    latency: Mapping[str, Percentiles] = field(default_factory=dict)
    device: DeviceState = field(default_factory=DeviceState)


def words(now: Situation) -> tuple[str, str]:
    """(level, sentence) of the first condition that keeps the robot from being commanded."""
    if now.state == 'configuring':
        return 'ok', f'configuring: {now.progress}'
    if now.state != 'active' and now.fault:
        return 'error', now.fault
    if now.state == 'unconfigured':
        return 'ok', 'not configured'
    if now.state != 'active':
        return 'ok', f'{now.state}: activate to receive and infer'
    if now.is_waiting_for_clock:
        return 'warn', 'waiting for clock: use_sim_time is true and nothing publishes /clock'
    if now.stop_latched:
        return 'error', f'{now.stop_latched}: release it, call ~/estop_reset, then ~/start'
    if now.stop_connection:
        return 'error', now.stop_connection
    if now.inference_error:
        return 'error', now.inference_error
    if now.waiting:
        return 'warn', f'no observation: {now.waiting}'
    if now.prompt_fault:
        return 'warn', now.prompt_fault
    if now.stopped_because:
        return 'error' if now.is_stopped_by_fault else 'warn', f'stopped: {now.stopped_because}'
    if not now.is_commanding:
        return 'ok', 'inferring, not commanding: call ~/start'
    if now.first_command:
        return 'warn', f'not moving: {now.first_command}'
    if now.starved_s > 0:
        return 'warn', f'starved: no action to play for {now.starved_s:.2f} s'
    return 'ok', 'commanding (dry run: nothing is sent)' if now.is_dry_run else 'commanding'


class Throttle:
    """Lets a cause through once, and again after a while."""

    def __init__(self, period_s: float = REPEAT_S) -> None:
        self._period_s = period_s
        self._next_s: dict[object, float] = {}

    def passes(self, cause: object, now_s: float) -> bool:
        if now_s < self._next_s.get(cause, float('-inf')):
            return False
        self._next_s[cause] = now_s + self._period_s
        return True
