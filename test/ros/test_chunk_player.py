# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Playing chunks on counted periods: joins, standstill, trajectories, delay, prefixes (R-39 to R-41)."""

import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fake_policy import CASES, parameters
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

from flashrt_core.errors import Error
from flashrt_core.rtc import prefix_weights
from flashrt_core.types import ActionPrefix
from flashrt_ros.chunk_player import Chunk, ChunkPlayer, Command, PlayerSettings, player_settings

GOLDEN = Path(__file__).resolve().parent.parent / 'golden' / 'rtc'
MODES = ('skip', 'blend', 'fusion', 'rtc')
SETTINGS = PlayerSettings(
    row_period_s=0.05,
    control_period_s=0.05,
    mode='skip',
    blend_rows=4,
    fusion_decay=0.01,
    rtc='guided',
    request_rows=0,
    delay_percentile=90.0,
    max_delay_rows=9,
)
LADDER = np.arange(10.0)[:, np.newaxis]  # row i is [i]


def actions_of(name: str) -> np.ndarray:
    return np.load(CASES / 'chunks' / f'{name}.npy')[:, :7].astype(np.float64)


def chunk(actions: np.ndarray | str, chunk_id: int = 1, prompt_id: int = 1) -> Chunk:
    """In model space the same numbers, from the state [chunk_id]."""
    if isinstance(actions, str):
        actions = actions_of(actions)
    return Chunk(chunk_id, prompt_id, actions, actions.astype(np.float32), np.array([float(chunk_id)]))


def player(**changes: object) -> ChunkPlayer:
    result = ChunkPlayer(replace(SETTINGS, **changes))
    result.start()
    return result


def send(it: ChunkPlayer, count: int = 1) -> list[Command]:
    """Sends as many commands as there are, `count` at most."""
    commands = []
    for _ in range(count):
        if (command := it.peek()) is not None:
            it.advance()
            commands.append(command)
    return commands


def first_rows(commands: list[Command]) -> list[float]:
    return [command.rows[0, 0] for command in commands]


# Where play begins and goes on


def test_first_chunk_begins_at_row_0_however_long_it_took():
    it = player()
    mark = it.mark()
    assert send(it, 100) == []
    assert it.accept(chunk('ok'), mark)
    np.testing.assert_array_equal(it.peek().rows, actions_of('ok'))
    assert it.counters.skipped_rows == 0


def test_next_chunk_goes_on_where_its_rows_are_due():
    it = player()
    it.accept(chunk('splice_old'), it.mark())
    sent = send(it, 4)  # rows 0 to 3
    mark = it.mark()
    sent += send(it, 3)  # rows 4 to 6
    assert it.accept(chunk('splice_new', 2), mark)
    assert it.counters.skipped_rows == 3
    first = it.peek()
    np.testing.assert_array_equal(first.rows, actions_of('splice_new')[3:])
    assert first.chunk_id == 2
    steps = np.diff(first_rows(sent + send(it, 7)))
    assert steps.min() >= 0
    assert steps.max() == pytest.approx(0.054, abs=5e-4)


def test_chunk_whose_rows_are_all_past_is_counted_and_not_played():
    it = player()
    it.accept(chunk(np.tile(actions_of('ok'), (2, 1))), it.mark())
    mark = it.mark()
    send(it, 14)  # 0.7 s of motion
    assert not it.accept(chunk('ok', 2), mark)
    assert (it.counters.chunks_all_past, it.counters.skipped_rows) == (1, 10)
    assert it.peek().chunk_id == 1


def test_nothing_is_played_after_the_last_row_and_no_time_passes():
    it = player()
    it.accept(chunk('ok'), it.mark())
    send(it, 9)
    mark = it.mark()
    assert len(send(it, 6)) == 1  # the last row
    assert it.peek() is None
    assert it.accept(chunk('ok', 2), mark)
    assert it.counters.skipped_rows == 1


def test_after_nothing_play_goes_on_from_the_row_sent_last():
    it = player(control_period_s=0.0125)
    it.accept(chunk(LADDER[:2]), it.mark())
    send(it, 9)
    assert it.accept(chunk(LADDER + 5, 2), it.mark())
    assert first_rows(send(it, 5)) == [2, 3, 4, 5, 5.25]


def test_dropped_chunk_sends_no_further_row_and_the_next_begins_at_row_0():
    it = player(control_period_s=0.0125)
    it.accept(chunk(LADDER), it.mark())
    send(it, 3)
    it.drop_chunk()
    assert it.peek() is None
    assert it.accept(chunk(LADDER + 5, 2), it.mark())
    assert first_rows(send(it, 2)) == [5, 5.25]


def test_chunk_that_was_being_computed_at_the_drop_is_not_played():
    it = player()
    it.accept(chunk('ok'), it.mark())
    send(it, 3)
    mark = it.mark()
    it.drop_chunk()
    assert not it.accept(chunk('ok', 2), mark)
    assert it.counters.chunks_of_old_run == 1
    assert it.accept(chunk('ok', 3), it.mark())


def test_stop_ends_the_run_with_what_is_being_computed_in_it():
    it = player()
    mark = it.mark()
    it.accept(chunk('ok'), mark)
    send(it, 4)
    it.stop()
    assert (it.is_running, it.peek()) == (False, None)
    assert not it.accept(chunk('ok', 2), mark)
    it.start()
    assert not it.accept(chunk('ok', 3), mark)
    assert it.counters.chunks_of_old_run == 2
    assert it.peek() is None


def test_without_a_run_chunks_are_neither_played_nor_counted():
    it = ChunkPlayer(SETTINGS)
    assert it.wants_chunk()
    assert not it.accept(chunk('ok'), it.mark())
    assert it.peek() is None
    assert it.counters.chunks_of_old_run == 0
    mark = it.mark()
    it.start()  # what was seen before the start is no beginning
    assert not it.accept(chunk('ok'), mark)
    assert it.counters.chunks_of_old_run == 1


def test_peeking_changes_nothing():
    it = player()
    it.accept(chunk('ok'), it.mark())
    for _ in range(5):
        np.testing.assert_array_equal(it.peek().rows, actions_of('ok'))
    assert it.mark().rows == 0


def test_what_was_peeked_at_counts_as_sent_although_a_chunk_came_between():
    it = player(control_period_s=0.0125)
    it.accept(chunk(LADDER), it.mark())
    send(it, 5)
    mark = it.mark()
    it.peek()  # row 0.5 of the first chunk
    it.accept(chunk(LADDER + 5, 2), mark)
    it.advance()
    assert it.mark().rows == 2.25
    assert first_rows(send(it, 3)) == [2.5, 3.75, 5]


def test_a_stop_between_peek_and_advance_is_the_last_word():
    it = player()
    it.accept(chunk('ok'), it.mark())
    it.peek()
    it.stop()
    it.advance()
    assert it.mark().rows == 0


# Rates and due times


@pytest.mark.parametrize(
    ('row_period_s', 'rows'), [(0.05, [0, 1, 2, 3, 4]), (0.1, [0, 0.5, 1, 1.5, 2]), (0.025, [0, 2, 4, 6, 8])]
)
def test_rows_follow_time_whatever_the_control_rate(row_period_s: float, rows: list[float]):
    it = player(row_period_s=row_period_s)
    it.accept(chunk(LADDER), it.mark())
    assert first_rows(send(it, 5)) == rows


@pytest.mark.parametrize('multiplier', [1, 2, 3])
def test_rates_above_that_of_the_policy_are_those_of_the_original(multiplier: int):
    golden = load_file(GOLDEN / 'interpolation.safetensors')
    it = player(control_period_s=0.05 / multiplier)
    it.accept(chunk(golden[f'x{multiplier}.actions'].astype(np.float64)), it.mark())
    sent = [command.rows[0] for command in send(it, 100)]
    np.testing.assert_allclose(sent, golden[f'x{multiplier}.output'], rtol=0, atol=1e-6)


def test_due_times_count_from_the_send_time():
    it = player(control_period_s=0.02)
    it.accept(chunk('ok'), it.mark())
    send(it, 1)
    mark = it.mark()
    send(it, 3)  # 0.06 s of motion while the next chunk is computed
    it.accept(chunk('ok', 2), mark)
    command = it.peek()
    expected = actions_of('ok')
    np.testing.assert_array_equal(command.rows[1:], expected[1:])  # row 0 is past, nine remain
    np.testing.assert_allclose(command.due_s, [0.02, *(0.04 + 0.05 * np.arange(9))])
    np.testing.assert_allclose(command.rows[0], expected[0] + 0.6 * (expected[1] - expected[0]))


def test_due_times_in_whole_steps():
    it = player()
    it.accept(chunk('ok'), it.mark())
    send(it, 1)
    mark = it.mark()
    send(it, 1)
    it.accept(chunk('ok', 2), mark)
    command = it.peek()
    np.testing.assert_array_equal(command.rows, actions_of('ok')[1:])
    np.testing.assert_allclose(command.due_s, 0.05 * np.arange(1, 10))


def test_the_last_row_stays_until_its_period_is_over():
    it = player(control_period_s=0.04)
    it.accept(chunk(LADDER[:3]), it.mark())
    commands = send(it, 10)
    np.testing.assert_allclose(first_rows(commands), [0, 0.8, 1.6, 2])
    np.testing.assert_allclose(commands[-1].due_s, [0.04])


# Whole runs on a world that does what it is told


Policy = Callable[[float, ActionPrefix | None], np.ndarray]  # position -> the column of a chunk


class World:
    """A policy whose chunks take some commands to compute, and a robot that follows at once."""

    def __init__(self, it: ChunkPlayer, policy: Policy) -> None:
        self.player = it
        self._policy = policy
        self.position = 0.0
        self.sent: list[Command] = []
        self.joins: list[int] = []  # index of the first command after each join

    def inference(self, delay: int) -> None:
        """One observation, `delay` commands, one chunk."""
        mark = self.player.mark()
        prefix = self.player.prefix(mark)
        position = self.position
        self.play(delay)
        actions = self._policy(position, prefix)[:, np.newaxis]
        if self.player.accept(chunk(actions, len(self.joins) + 1), mark):
            self.joins.append(len(self.sent))

    def play(self, count: int) -> None:
        self.sent += send(self.player, count)
        self.position = self.sent[-1].rows[0, 0] if self.sent else 0.0


delays = st.lists(st.integers(0, 12), min_size=1, max_size=12)
rates = st.sampled_from([0.2, 0.25, 1 / 3, 0.4, 0.5, 0.7, 0.8, 1.0, 1.5, 2.0])  # rows per control period


@pytest.mark.parametrize('rtc', ['guided', 'hard'])
@pytest.mark.parametrize('mode', MODES)
@given(delays=delays, rate=rates, level=st.floats(-3, 3))
def test_equal_constant_chunks_are_sent_as_they_are(mode: str, rtc: str, delays, rate: float, level: float):
    world = World(
        player(mode=mode, rtc=rtc, control_period_s=0.05 * rate), lambda position, prefix: np.full(10, level)
    )
    for delay in delays:
        world.inference(delay)
    world.play(100)
    assert world.sent
    for command in world.sent:
        assert (command.rows == level).all()


def moving_on(rows: int) -> Policy:
    """Wants to move by 1 per row from where it sees the robot."""
    return lambda position, prefix: position + 1 + np.arange(float(rows))


@pytest.mark.parametrize('rtc', ['guided', 'hard'])
@pytest.mark.parametrize('mode', MODES)
@given(delays=delays, rate=rates)
def test_rows_are_sent_when_they_are_due(mode: str, rtc: str, delays: list[int], rate: float):
    """Chunks that all want the same motion and do not end: everything sent is that motion, rows ahead too."""
    world = World(player(mode=mode, rtc=rtc, control_period_s=0.05 * rate), moving_on(320))
    for delay in delays:
        world.inference(delay)
    world.play(5)
    rows = first_rows(world.sent)
    np.testing.assert_allclose(rows, 1 + rate * np.arange(len(rows)), atol=1e-6)
    for row, command in zip(rows, world.sent, strict=True):
        assert command.due_s[0] == 0.05 * rate
        np.testing.assert_allclose(command.rows[:, 0], row + command.due_s / 0.05 - rate, atol=1e-6)


@pytest.mark.parametrize('rtc', ['guided', 'hard'])
@pytest.mark.parametrize('mode', MODES)
@given(delays=delays, rate=rates)
def test_rows_never_go_back(mode: str, rtc: str, delays: list[int], rate: float):
    """Nor ahead of their time, where chunks end before the next one is there."""
    world = World(player(mode=mode, rtc=rtc, control_period_s=0.05 * rate), moving_on(6))
    for delay in delays:
        world.inference(delay)
        assert world.position == pytest.approx(world.player.mark().rows)
    world.play(100)
    assert np.diff(first_rows(world.sent)).min(initial=0) > -1e-6
    for command in world.sent:
        assert np.diff(command.rows[:, 0]).min(initial=0) > -1e-6
        assert np.diff(command.due_s).min(initial=1) > 0


def noisy_policy(seed: int) -> Policy:
    """A motion of 0.02 per row, each chunk beside it by its own error.

    Guided, a chunk is drawn towards the prefix; hard, it begins with the prefix and leaves it gradually.
    """
    random = np.random.default_rng(seed)

    def infer(position: float, prefix: ActionPrefix | None) -> np.ndarray:
        fresh = position + 0.02 * np.arange(1, 21) + random.normal(0, 0.1) + random.normal(0, 0.002, 20)
        if prefix is None:
            return fresh
        held = np.zeros(20)
        held[: len(prefix.model_actions)] = prefix.model_actions[:, 0]
        if prefix.mode == 'guided':
            weights = prefix_weights('linear', prefix.delay, 12, len(prefix.model_actions), 20)
            return weights * held + (1 - weights) * fresh
        known = prefix.delay
        error = held[known - 1] - fresh[known - 1] if known else 0.0
        fresh[known:] += error * np.linspace(1, 0, 20)[: 20 - known]
        return np.concatenate([held[:known], fresh[known:]])

    return infer


def largest_join(seed: int, rate: float, **changes: object) -> float:
    """Of 60 chunks, each there after three rows; over the two commands around a join, per control period."""
    world = World(player(control_period_s=0.05 * rate, max_delay_rows=19, **changes), noisy_policy(seed))
    for _ in range(60):
        world.inference(round(3 / rate))
        world.play(round(3 / rate))
    rows = np.array(first_rows(world.sent))
    return max(abs(rows[join] - rows[join - 1]) for join in world.joins[1:])


def largest_join_naive(seed: int, rate: float) -> float:
    """Every chunk is played from its row 0 as soon as it is there."""
    policy = noisy_policy(seed)
    position, steps, rest = 0.0, [], []
    for _ in range(60):
        actions = policy(position, None)
        if rest:
            sent = rest[: round(3 / rate)]
            steps.append(abs(actions[0] - sent[-1]))
        places = np.arange(0, 19 + 1e-9, rate)
        rest = list(np.interp(places, np.arange(20), actions))
        position, rest = rest[round(3 / rate) - 1], rest[round(3 / rate) :]
    return max(steps)


@pytest.mark.parametrize('rate', [1.0, 0.5, 0.25])
@pytest.mark.parametrize('seed', [1, 2, 3])
def test_joins_of_a_noisy_policy_are_smaller_than_by_replacement(seed: int, rate: float):
    replaced = largest_join_naive(seed, rate), largest_join(seed, rate, mode='skip')
    joins = {
        'blend': largest_join(seed, rate, mode='blend'),
        'fusion': largest_join(seed, rate, mode='fusion'),
        'guided': largest_join(seed, rate, mode='rtc'),
        'hard': largest_join(seed, rate, mode='rtc', rtc='hard'),
    }
    assert max(joins.values()) < 0.6 * min(replaced), (joins, replaced)


# Blend


def test_blend_mixes_rows_of_the_same_time():
    it = player(mode='blend', blend_rows=3)
    it.accept(chunk(np.zeros((10, 1))), it.mark())
    send(it, 2)
    mark = it.mark()
    send(it, 2)
    it.accept(chunk(np.full((10, 1), 8.0), 2), mark)
    command = it.peek()
    assert command.rows[:, 0].tolist() == [2, 4, 6, 8, 8, 8, 8, 8]
    assert command.chunk_id == 2


def test_blend_of_a_blend_begins_with_the_mixture_in_play():
    it = player(mode='blend', blend_rows=3)
    for chunk_id, level in enumerate((0.0, 8.0)):
        it.accept(chunk(np.full((10, 1), level), chunk_id), it.mark())
        send(it, 2)
    it.accept(chunk(np.full((10, 1), -8.0), 3), it.mark())
    # The mixture goes on with 6, 8, 8, 8; the new chunk has a quarter of the first of them.
    assert it.peek().rows[:5, 0].tolist() == [2.5, 0, -4, -8, -8]


# Fusion


def test_fusion_at_whole_rows_is_the_ensemble_of_the_original():
    golden = load_file(GOLDEN / 'temporal_ensemble.safetensors')
    for group in ('a', 'b', 'c'):
        it = player(mode='fusion', fusion_decay=float(golden[f'{group}.coeff'][0]))
        sent = []
        for actions in golden[f'{group}.chunks'].astype(np.float64):
            it.accept(chunk(actions), it.mark())
            sent += [command.rows[0] for command in send(it)]
        np.testing.assert_allclose(sent, golden[f'{group}.actions'], rtol=0, atol=1e-6)


def test_fusion_knows_nothing_of_another_task():
    it = player(mode='fusion')
    it.accept(chunk(LADDER), it.mark())
    send(it, 2)
    it.accept(chunk(LADDER + 50, 2, prompt_id=2), it.mark())
    np.testing.assert_array_equal(it.peek().rows, LADDER + 50)
    assert it.peek().prompt_id == 2


def test_fusion_keeps_no_chunk_that_has_ended():
    it = player(mode='fusion')
    actions = LADDER.copy()
    kept = weakref.ref(actions)
    it.accept(chunk(actions), it.mark())
    del actions
    for chunk_id in range(2, 14):
        assert (kept() is not None) == (chunk_id < 12)  # while one of its ten rows is to come
        send(it)
        it.accept(chunk(LADDER, chunk_id), it.mark())


@pytest.mark.parametrize('mode', ['blend', 'fusion'])
def test_what_was_never_sent_is_no_part_of_what_follows(mode: str):
    it = player(mode=mode)
    it.accept(chunk(LADDER), it.mark())
    it.accept(chunk(LADDER + 5, 2), it.mark())
    np.testing.assert_array_equal(it.peek().rows, LADDER + 5)
    send(it, 2)
    it.drop_chunk()
    it.accept(chunk(LADDER, 3), it.mark())
    np.testing.assert_array_equal(it.peek().rows, LADDER)


# Real-time chunking


def test_prefix_is_what_is_left_at_the_mark():
    it = player(mode='rtc')
    assert it.prefix(it.mark()) is None  # nothing is in play
    it.accept(chunk(LADDER, 7), it.mark())
    send(it, 4)
    mark = it.mark()
    send(it, 1)  # a command of another thread, between mark and prefix
    prefix = it.prefix(mark)
    np.testing.assert_array_equal(prefix.model_actions, LADDER[4:])
    assert prefix.model_actions.dtype == np.float32
    assert (prefix.mode, prefix.delay, prefix.state.tolist()) == ('guided', 6, [7])
    send(it, 10)
    assert it.prefix(it.mark()) is None  # nothing is left
    assert player().prefix(mark) is None  # another mode


def test_prefix_between_rows_is_on_the_line():
    it = player(mode='rtc', rtc='hard', control_period_s=0.02, max_delay_rows=2)
    it.accept(chunk(LADDER), it.mark())
    send(it, 4)  # rows 0, 0.4, 0.8, 1.2
    prefix = it.prefix(it.mark())
    np.testing.assert_allclose(prefix.model_actions[:, 0], 2.2 + np.arange(7), rtol=1e-6)
    assert (prefix.mode, prefix.delay) == ('hard', 2)


def test_prefix_of_an_old_run_is_none():
    it = player(mode='rtc')
    mark = it.mark()
    it.start()
    it.accept(chunk(LADDER), it.mark())
    assert it.prefix(mark) is None


def conditioned(it: ChunkPlayer, delay: int, chunk_id: int = 2) -> bool:
    """A chunk that continues the one in play, there after `delay` rows."""
    mark = it.mark()
    assert it.prefix(mark) is not None
    send(it, delay)
    return it.accept(chunk(LADDER + 100 * chunk_id, chunk_id), mark)


def test_guided_chunk_that_is_late_is_played_on_and_counted():
    it = player(mode='rtc', max_delay_rows=2)
    it.accept(chunk(LADDER), it.mark())
    assert conditioned(it, 2)
    assert it.counters.late_chunks == 0
    assert conditioned(it, 3, 3)
    assert first_rows(send(it)) == [303]
    assert (it.counters.late_chunks, it.counters.hard_refusals) == (1, 0)


def test_hard_chunk_that_is_late_is_refused_and_counted():
    it = player(mode='rtc', rtc='hard', max_delay_rows=2)
    it.accept(chunk(LADDER), it.mark())
    send(it, 1)
    assert not conditioned(it, 3)
    assert first_rows(send(it)) == [4]  # the chunk in play goes on
    assert not conditioned(it, 3, 3)
    assert (it.counters.late_chunks, it.counters.hard_refusals, it.hard_refusals_in_a_row) == (2, 2, 2)
    send(it, 5)
    assert it.prefix(it.mark()) is None
    assert it.accept(chunk(LADDER, 4), it.mark())  # nothing to continue: says nothing about lateness
    assert it.hard_refusals_in_a_row == 2
    assert conditioned(it, 2, 5)
    assert (it.counters.hard_refusals, it.hard_refusals_in_a_row) == (2, 0)


def test_hard_chunk_is_conditioned_on_no_more_rows_than_are_left():
    it = player(mode='rtc', rtc='hard', max_delay_rows=4)
    it.accept(chunk(LADDER), it.mark())
    send(it, 8)
    assert it.prefix(it.mark()).delay == 2
    assert conditioned(it, 6)  # two rows are left, so two were sent
    assert first_rows(send(it)) == [202]


def test_part_of_a_row_counts_as_a_row_of_delay():
    it = player(mode='rtc', rtc='hard', control_period_s=0.02, max_delay_rows=1)
    it.accept(chunk(LADDER), it.mark())
    send(it, 1)
    assert conditioned(it, 2)  # 0.8 rows
    assert not conditioned(it, 3)  # 1.2 rows


# Delay estimate


def test_delay_is_what_was_sent_while_moving():
    it = player()
    assert it.delay_rows == 9  # nothing is known
    it.accept(chunk(LADDER), it.mark())
    assert it.delay_rows == 9  # from a standstill nothing was sent
    for chunk_id in range(2, 6):
        mark = it.mark()
        send(it, 3)
        it.accept(chunk(LADDER, chunk_id), mark)
    assert it.delay_rows == 3
    it.stop()
    it.start()
    assert it.delay_rows == 9  # each run measures afresh


@pytest.mark.parametrize(
    ('latencies_s', 'delay_rows'), [([4.0, 0.9, 0.06, 0.06, 0.06], 2), ([4.0, 0.1, 0.1], 2)]
)
def test_first_chunk_and_one_slow_one_are_forgotten_within_five_chunks(latencies_s, delay_rows: int):
    """Every inference begins as soon as the one before is there, at 20 Hz rows and 50 Hz commands."""
    it = player(control_period_s=0.02)
    for chunk_id, latency_s in enumerate([4.0, 0.9, 0.06, 0.06, 0.06]):
        mark = it.mark()
        send(it, round(latency_s / 0.02))
        it.accept(chunk(LADDER, chunk_id), mark)
    assert it.delay_rows * 0.05 == pytest.approx(0.1)  # of 0.06, in whole rows


def test_waiting_for_the_first_command_is_no_delay():
    it = player()
    for chunk_id in range(5):
        it.accept(chunk(LADDER, chunk_id), it.mark())  # nothing may be sent yet
    assert it.delay_rows == 9
    send(it, 1)
    mark = it.mark()
    send(it, 4)
    it.accept(chunk(LADDER, 9), mark)
    assert it.delay_rows == 4


def test_rows_that_ran_out_are_no_delay_of_the_next_chunk():
    it = player()
    it.accept(chunk(LADDER), it.mark())
    send(it, 8)
    mark = it.mark()
    send(it, 20)  # two rows, then nothing
    it.accept(chunk(LADDER, 2), mark)
    assert it.delay_rows == 2
    send(it, 20)
    it.accept(chunk(LADDER, 3), it.mark())  # nothing was in play
    assert it.delay_rows == 2


# Requests


def test_without_a_number_of_rows_a_chunk_is_always_wanted():
    it = player()
    for _ in range(11):
        assert it.wants_chunk()
        it.accept(chunk(LADDER), it.mark())
        send(it)


def test_chunk_is_wanted_when_few_rows_are_left():
    it = player(request_rows=3, max_delay_rows=1)
    assert it.wants_chunk()  # nothing is in play
    it.accept(chunk(LADDER), it.mark())
    assert [it.wants_chunk() for _ in range(12) if send(it) or True] == [False] * 6 + [True] * 6


def test_chunk_is_wanted_earlier_when_inference_takes_longer():
    it = player(request_rows=3)
    it.accept(chunk(LADDER), it.mark())
    mark = it.mark()
    send(it, 5)
    it.accept(chunk(LADDER, 2), mark)  # five rows are left, five is the delay
    assert it.wants_chunk()
    it.drop_chunk()
    it.accept(chunk(LADDER, 3), it.mark())
    wanted = [it.wants_chunk() for _ in range(5) if send(it) or True]
    assert wanted == [False, False, False, True, True]  # from six rows on


# Settings


def test_settings_come_from_the_parameters():
    given = player_settings(
        parameters(chunk__mode='blend', chunk__blend_rows=7, chunk__request_rows=5), horizon=10
    )
    assert (given.mode, given.blend_rows, given.request_rows, given.max_delay_rows) == ('blend', 7, 5, 9)
    assert (given.row_period_s, given.control_period_s) == (0.05, 0.05)
    assert player_settings(parameters(chunk__max_delay_rows=4), 10).max_delay_rows == 4


def test_hard_prefix_only_as_far_as_the_checkpoint_was_trained():
    hard = {'chunk__mode': 'rtc', 'chunk__rtc': 'hard'}
    assert player_settings(parameters(**hard), 10, max_hard_delay=4).max_delay_rows == 4
    assert player_settings(parameters(**hard), 3, max_hard_delay=4).max_delay_rows == 2
    with pytest.raises(Error, match=r"chunk\.rtc is 'hard', but the checkpoint was not trained"):
        player_settings(parameters(**hard), 10)
    with pytest.raises(Error, match=r'chunk\.max_delay_rows is 5, but .* trained to take 4 .*at most 4'):
        player_settings(parameters(**hard, chunk__max_delay_rows=5), 10, max_hard_delay=4)
    with pytest.raises(Error, match=r'chunk\.max_delay_rows is 10, but a chunk has 10 rows; at most 9'):
        player_settings(parameters(chunk__max_delay_rows=10), 10)
