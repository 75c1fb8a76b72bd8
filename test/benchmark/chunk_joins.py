# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""How far joints step where one chunk follows another, for each way to join them, on the same noisy policy.

No clock is read: a control period is a step of the loop, an inference ends as many of them later as the stub
policy says.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from flashrt_core.types import ActionPrefix, Observation
from flashrt_ros.chunk_player import Chunk, ChunkPlayer, Command, Mark, player_settings
from flashrt_ros.parameters import Parameters
from flashrt_ros.soak.configuration import ARM, REST, soak_parameters, soak_values
from flashrt_ros.stub_policy import StubPolicy, StubSettings

SETTINGS = StubSettings(horizon=16, latency_ms=150.0, jitter_ms=50.0, noise=0.005, seed=7)
RATE_HZ = 20.0  # a row per control period: what is compared is the joining, not the interpolation
SECONDS = 600.0
WAYS = {
    'naive replacement': {},
    'skip': {'chunk__mode': 'skip'},
    'blend': {'chunk__mode': 'blend'},
    'fusion': {'chunk__mode': 'fusion'},
    'rtc guided': {
        'chunk__mode': 'rtc',
        'chunk__rtc_schedule': 'exp',
        'chunk__rtc_execution_horizon': 10,
        'chunk__rtc_max_weight': 5.0,
    },
    'rtc hard': {'chunk__mode': 'rtc', 'chunk__rtc': 'hard'},
}


@dataclass(frozen=True)
class Joins:
    """Steps of the arm from one command to the next, largest joint of each, in rad per 50 ms."""

    way: str
    chunks: int
    at_join_p50: float  # of the commands that begin another chunk
    at_join_max: float
    elsewhere_max: float  # inside a chunk the policy itself moves that fast


class Player(Protocol):
    def mark(self) -> Mark: ...

    def prefix(self, mark: Mark) -> ActionPrefix | None: ...

    def accept(self, chunk: Chunk, mark: Mark) -> bool: ...

    def peek(self) -> Command | None: ...

    def advance(self) -> None: ...


class NaivePlayer:
    """Replaces the chunk in play by the new one, from its first row: what a node without a player does."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._chunk: Chunk | None = None
        self._row = 0

    def mark(self) -> Mark:
        return Mark(0, 0.0)

    def prefix(self, mark: Mark) -> None:
        return None

    def accept(self, chunk: Chunk, mark: Mark) -> bool:
        self._chunk, self._row = chunk, 0
        return True

    def peek(self) -> Command | None:
        if self._chunk is None or self._row >= len(self._chunk.actions):
            return None
        rows = self._chunk.actions[self._row :]
        due_s = self._period_s * np.arange(1, len(rows) + 1)
        return Command(rows, due_s, self._chunk.chunk_id, self._chunk.prompt_id)

    def advance(self) -> None:
        self._row += 1


@dataclass(frozen=True)
class _Running:
    """An inference, whose result is known to nobody until it ends."""

    chunk: Chunk
    mark: Mark
    end_tick: int


def measure_joins(seconds: float = SECONDS) -> list[Joins]:
    return [_measure(way, changes, seconds) for way, changes in WAYS.items()]


def _measure(way: str, changes: dict[str, object], seconds: float) -> Joins:
    parameters = soak_parameters(soak_values(control_rate_hz=RATE_HZ, **changes))
    rows, chunk_ids = _play(parameters, _player(way, parameters), round(seconds * RATE_HZ))
    steps = np.abs(np.diff(rows[:, : len(ARM)], axis=0)).max(axis=1)
    is_join = np.diff(chunk_ids) != 0
    return Joins(
        way,
        int(chunk_ids[-1]),
        float(np.median(steps[is_join])),
        float(steps[is_join].max()),
        float(steps[~is_join].max()),
    )


def _player(way: str, parameters: Parameters) -> Player:
    if way == 'naive replacement':
        return NaivePlayer(1 / RATE_HZ)
    player = ChunkPlayer(player_settings(parameters, SETTINGS.horizon, SETTINGS.horizon - 1))
    player.start()
    return player


def _play(
    parameters: Parameters, player: Player, ticks: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """[commands, joints] first rows, [commands] chunk of each, of a robot that is where it was sent."""
    waited: list[float] = []
    policy = StubPolicy(parameters, SETTINGS, waited.append)
    prompt_id = policy.set_prompt(parameters.prompt)
    state, rows, chunk_ids = np.array(REST), [], []
    running: _Running | None = None
    chunk_id = 0
    for tick in range(ticks):
        if running and tick >= running.end_tick:
            player.accept(running.chunk, running.mark)
            running = None
        if running is None:
            mark = player.mark()
            stamps = {name: round((1 + tick / RATE_HZ) * 1e9) for name in parameters.camera_names}
            images = dict.fromkeys(parameters.camera_names, np.zeros((2, 2, 3), np.uint8))
            observation = Observation(images, state, stamps, prompt_id)
            answer = policy.infer(observation, prefix=player.prefix(mark))
            chunk_id += 1
            chunk = Chunk(chunk_id, prompt_id, answer.actions, answer.model_actions, state)
            running = _Running(chunk, mark, tick + math.ceil(waited[-1] * RATE_HZ))
        if (command := player.peek()) is not None:
            player.advance()
            state = command.rows[0]
            rows.append(state)
            chunk_ids.append(command.chunk_id)
    return np.array(rows), np.array(chunk_ids)
