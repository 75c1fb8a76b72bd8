# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Playing chunks on counted ticks: splice, standstill, trajectories, starvation (R-39 to R-41, R-45)."""

import numpy as np
import pytest
from fake_policy import ARM, CASES, VELOCITY, parameters

from flashrt_ros.actions import ActionPlayer, Command, Mark, OutputMap


def chunk(name: str) -> np.ndarray:
    return np.load(CASES / 'chunks' / f'{name}.npy')[:, :7].astype(np.float64)


def player(row_period_s: float = 0.05, control_period_s: float = 0.05, is_velocity=None) -> ActionPlayer:
    result = ActionPlayer(
        row_period_s, control_period_s, np.zeros(7, bool) if is_velocity is None else is_velocity
    )
    result.start()
    return result


def play(it: ActionPlayer, ticks: int) -> list[Command]:
    return [it.step() for _ in range(ticks)]


def test_first_chunk_begins_at_row_0_however_long_it_took():
    it = player()
    mark = it.mark()
    assert play(it, 100) == [None] * 100
    assert it.accept(1, chunk('ok'), mark)
    np.testing.assert_array_equal(it.step().rows, chunk('ok'))
    assert it.skipped_rows == 0


def test_next_chunk_goes_on_where_its_rows_are_due():
    it = player()
    it.accept(1, chunk('splice_old'), it.mark())
    sent = [command.rows[0] for command in play(it, 4)]  # rows 0 to 3
    mark = it.mark()
    sent += [command.rows[0] for command in play(it, 3)]  # rows 4 to 6
    assert it.accept(2, chunk('splice_new'), mark)
    assert it.skipped_rows == 3
    first = it.step()
    np.testing.assert_array_equal(first.rows, chunk('splice_new')[3:])
    assert first.chunk_id == 2
    sent += [first.rows[0], *(command.rows[0] for command in play(it, 6))]
    steps = np.diff(np.array(sent)[:, 0])
    assert steps.min() >= 0
    assert steps.max() == pytest.approx(0.054, abs=5e-4)


@pytest.mark.parametrize(
    ('row_period_s', 'rows'), [(0.05, [0, 1, 2, 3, 4]), (0.1, [0, 0, 1, 1, 2]), (0.025, [0, 2, 4, 6, 8])]
)
def test_rows_follow_time_whatever_the_control_rate(row_period_s: float, rows: list[int]):
    it = player(row_period_s)
    it.accept(1, chunk('ok'), it.mark())
    sent = [command.rows[0] for command in play(it, 5)]
    np.testing.assert_array_equal(sent, chunk('ok')[rows])


def test_due_times_count_from_the_send_time():
    it = player(row_period_s=0.05, control_period_s=0.02)
    mark = it.mark()
    it.accept(1, chunk('ok'), mark)
    play(it, 3)  # 0.06 s of motion while the next chunk is computed
    it.accept(2, chunk('ok'), mark)
    command = it.step()
    np.testing.assert_array_equal(command.rows, chunk('ok')[1:])  # row 0 is past, nine remain
    np.testing.assert_allclose(command.due_s, 0.04 + 0.05 * np.arange(9))


def test_due_times_in_whole_steps():
    it = player()
    mark = it.mark()
    it.accept(1, chunk('ok'), mark)
    it.step()
    it.accept(2, chunk('ok'), mark)
    np.testing.assert_allclose(it.step().due_s, 0.05 * np.arange(1, 10))


def test_chunk_whose_rows_are_all_past_is_counted_and_not_played():
    it = player()
    it.accept(1, np.tile(chunk('ok'), (2, 1)), it.mark())
    mark = Mark(it.mark().run, 0)
    play(it, 14)  # 0.7 s of motion
    assert not it.accept(2, chunk('ok'), mark)
    assert it.counters.chunks_all_past == 1
    assert it.step().chunk_id == 1


def test_position_is_held_when_nothing_follows():
    it = player()
    it.accept(1, chunk('ok'), it.mark())
    play(it, 10)
    assert it.starved_s == 0
    for command in play(it, 100):
        np.testing.assert_array_equal(command.rows, chunk('ok')[-1:])
        np.testing.assert_allclose(command.due_s, [0.05])
        assert command.chunk_id == 0
    assert it.starved_s == pytest.approx(5.0)
    assert (it.counters.underruns, it.counters.longest_underrun_s) == (1, pytest.approx(5.0))


def test_velocity_becomes_zero_and_the_gripper_stays():
    is_velocity = OutputMap(parameters(**VELOCITY)).is_velocity
    assert is_velocity.tolist() == [True] * 6 + [False]
    it = player(is_velocity=is_velocity)
    it.accept(1, chunk('ok'), it.mark())
    play(it, 10)
    np.testing.assert_array_equal(it.step().rows, [[0.0] * 6 + [chunk('ok')[-1, 6]]])


def test_hold_counts_no_steps():
    it = player()
    it.accept(1, chunk('ok'), it.mark())
    play(it, 9)
    mark = it.mark()
    play(it, 6)  # one row, then five holds
    it.accept(2, chunk('ok'), mark)
    assert it.skipped_rows == 1
    assert it.starved_s > 0
    it.step()
    assert it.starved_s == 0


def test_dropped_chunk_sends_no_further_row():
    it = player()
    it.accept(1, chunk('ok'), it.mark())
    play(it, 3)
    it.drop_chunk()
    np.testing.assert_array_equal(it.step().rows, chunk('ok')[2:3])


def test_stop_answers_with_the_safe_reaction_and_ends_the_run():
    it = player()
    assert it.stop() is None  # nothing was sent, so there is nothing to hold
    it.start()
    mark = it.mark()
    it.accept(1, chunk('ok'), mark)
    play(it, 4)
    np.testing.assert_array_equal(it.stop().rows, chunk('ok')[3:4])
    assert it.step() is None
    it.start()
    assert not it.accept(2, chunk('ok'), mark)  # asked for in the run before
    assert it.counters.chunks_of_old_run == 1
    assert it.step() is None


# Outputs


def test_trajectory_reaches_no_further_than_the_horizon():
    outputs = OutputMap(parameters(output__max_horizon_s=0.2))
    (part,) = outputs.split(Command(chunk('ok'), 0.05 * np.arange(1, 11), 1))
    np.testing.assert_allclose(part.due_s, [0.05, 0.1, 0.15, 0.2])
    np.testing.assert_array_equal(part.rows, chunk('ok')[:4])


def test_first_row_is_sent_even_when_it_lies_beyond_the_horizon():
    (part,) = OutputMap(parameters(output__max_horizon_s=0.01)).split(
        Command(chunk('ok'), 0.05 * np.arange(1, 11), 1)
    )
    assert len(part.rows) == 1


def test_each_controller_gets_its_joints_in_its_order_and_with_the_prefix():
    changes = VELOCITY | {'outputs__arm__joints': ARM[::-1], 'joints__prefix': 'left_'}
    arm, hand = OutputMap(parameters(**changes)).split(Command(chunk('ok'), 0.05 * np.arange(1, 11), 1))
    assert arm.joints == tuple(f'left_{joint}' for joint in ARM[::-1])
    np.testing.assert_array_equal(arm.rows[0], chunk('ok')[0, 5::-1])
    np.testing.assert_array_equal(hand.rows[0], chunk('ok')[0, 6:7])


def test_trajectory_of_velocities_ends_at_rest():
    arm, hand = OutputMap(parameters(**VELOCITY)).split(Command(chunk('ok'), 0.05 * np.arange(1, 11), 1))
    assert len(arm.rows) == 9  # 0.4 s ahead is 8 rows
    np.testing.assert_array_equal(arm.rows[-1], np.zeros(6))
    assert np.diff(arm.due_s).min() > 0.04
    assert len(hand.rows) == 8
