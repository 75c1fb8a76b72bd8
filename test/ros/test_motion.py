# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""All rules between a chunk and the robot together, on counted ticks (R-21, R-36, R-38, R-42 to R-46)."""

import json

import numpy as np
import pytest
from fake_policy import CASES, VELOCITY, FakePolicy, parameters

from flashrt_ros.chunk_player import Chunk, Command
from flashrt_ros.joint_limits import limits_of
from flashrt_ros.motion import Inputs, Motion
from flashrt_ros.stop_latch import StopLatch

PERIOD_S = 0.05
REST = np.array([0.1, -0.2, 0.3, -0.4, 0.5, -0.6, 0.04])


def chunk(name: str) -> np.ndarray:
    return np.load(CASES / 'chunks' / f'{name}.npy')[:, :7].astype(np.float64)


class Rig:
    """A motion, its clock, and a robot that is where it was sent."""

    def __init__(self, **changes: object) -> None:
        settings = parameters(**changes)
        self.reports: list[str] = []
        latch = StopLatch()
        latch.configure(settings.estop_required, settings.estop_timeout_s)
        self.motion = Motion(
            settings,
            limits_of(settings),
            FakePolicy(settings).spec,
            latch,
            lambda *report: self.reports.append(report[-1]),
            lambda: self.now_s,
        )
        self.now_s, self.measured, self.chunks = 0.0, REST, 0
        self.has_publisher = False

    def start(self, actions: np.ndarray | None = None) -> 'Rig':
        assert self.motion.start() == ''
        if actions is not None:
            assert self.give(actions)
        return self

    def give(self, actions: np.ndarray, prompt_id: int = 1, mark=None) -> bool:
        self.chunks += 1
        model_actions = np.zeros((len(actions), 32), np.float32)
        ready = Chunk(self.chunks, prompt_id, np.asarray(actions, np.float64), model_actions)
        return self.motion.accept(ready, mark or self.motion.mark())

    def tick(self, lost: str = '') -> Command | None:
        self.now_s += PERIOD_S
        command = self.motion.tick(self.now_s, Inputs(lost, self.measured, self.has_publisher))
        if command is not None:
            self.measured = command.rows[0]
        return command

    def play(self, ticks: int) -> list[Command | None]:
        return [self.tick() for _ in range(ticks)]

    def press(self, is_pressed: bool = True) -> Command | None:
        return self.motion.press_stop(is_pressed, self.now_s)


def is_hold(command: Command, row: np.ndarray) -> bool:
    return command.chunk_id == 0 and command.rows.shape[0] == 1 and np.array_equal(command.rows[0], row)


def test_chunk_within_all_limits_passes_unchanged():
    it = Rig().start(chunk('ok'))
    first = it.tick()
    np.testing.assert_array_equal(first.rows, chunk('ok'))
    assert (first.chunk_id, first.prompt_id) == (1, 1)
    rows = [first.rows[0], *(command.rows[0] for command in it.play(9))]
    np.testing.assert_array_equal(rows, chunk('ok'))
    assert it.motion.counters.commands == 10
    assert not it.motion.counters.position_clamps.any()


def test_nothing_is_sent_before_start_nor_before_the_first_chunk():
    it = Rig()
    it.give(chunk('ok'))
    assert it.play(3) == [None] * 3
    it.start()
    assert it.play(3) == [None] * 3  # the chunk was of no run


# Stop


def test_stop_drops_the_chunk_and_holds_at_once_and_release_alone_does_nothing():
    it = Rig().start(chunk('ok'))
    sent = it.play(4)[-1].rows[0]  # row 3 is out
    mark = it.motion.mark()  # an inference is in flight
    assert is_hold(it.press(), sent)
    assert it.play(20) == [None] * 20
    assert not it.give(chunk('ok'), mark=mark)
    assert it.press(False) is None
    assert it.play(20) == [None] * 20
    assert 'reset' in it.motion.start()
    it.motion.latch.reset(it.now_s)
    assert it.play(20) == [None] * 20  # reset is not start
    assert not it.give(chunk('ok'), mark=mark)
    it.start()
    far = it.measured + np.array([0.8, 0, 0, 0, 0, 0, 0])
    it.give(np.tile(far, (10, 1)))
    assert it.tick() is None
    assert 'joint_1' in it.motion.refusal  # the first command is checked again


def test_stop_that_is_pressed_again_and_again_sends_one_override():
    it = Rig().start(chunk('ok'))
    it.play(2)
    assert it.press() is not None
    assert [it.press() for _ in range(5)] == [None] * 5
    assert it.motion.counters.stops == 1


def test_lost_stop_topic_that_is_required_acts_like_a_stop():
    it = Rig(estop__required=True)
    it.has_publisher = True
    assert it.motion.start() != ''  # nothing was heard yet
    it.press(False)
    assert it.motion.latch.reset(it.now_s) == ''
    it.start(chunk('ok'))
    sent = it.tick().rows[0]
    commands = it.play(12)  # 0.6 s of silence, the limit is 0.5 s
    stop = next(i for i, command in enumerate(commands) if command is not None and command.chunk_id == 0)
    assert stop in (8, 9)  # until row 9 of the chunk, 0.5 s
    assert commands[stop + 1 :] == [None] * (11 - stop)
    assert not it.motion.is_running
    assert sent is not None
    assert it.motion.is_stopped_by_fault


def test_stop_override_of_velocities_is_rest_and_grippers_hold():
    it = Rig(**VELOCITY)
    moving = np.tile([0.3, 0, 0, 0, 0, 0, 0.04], (10, 1))
    it.start(moving)
    assert it.motion.tick(0.05, Inputs(measured=REST)).rows[0][0] == 0.3
    np.testing.assert_array_equal(it.press().rows, [[0, 0, 0, 0, 0, 0, 0.04]])


# Chunks that must not be played


@pytest.mark.parametrize(('name', 'joint', 'row'), [('nan_in_row_4', 'joint_3', 4), ('inf_in_row_7', '', 7)])
def test_chunk_that_is_not_finite_is_refused_as_a_whole_and_the_robot_holds(name: str, joint: str, row: int):
    it = Rig().start(chunk('ok'))
    sent = it.play(2)[-1].rows[0]
    assert not it.give(chunk(name))
    assert joint in it.reports[-1]
    assert f'row {row}' in it.reports[-1]
    assert is_hold(it.tick(), sent)
    assert it.motion.is_running
    assert it.motion.counters.chunks_refused == 1
    assert it.give(np.tile(sent, (10, 1)))
    assert it.tick().chunk_id == 3


def test_refused_chunks_in_a_row_end_commanding():
    it = Rig(safety__max_bad_chunks=3).start(chunk('ok'))
    sent = it.play(2)[-1].rows[0]
    for _ in range(2):
        assert not it.give(chunk('nan_in_row_4'))
    assert is_hold(it.tick(), sent)
    assert not it.give(chunk('inf_in_row_7'))
    assert is_hold(it.tick(), sent)
    assert not it.motion.is_running
    assert it.motion.is_stopped_by_fault
    assert '3 chunks in a row' in it.motion.stopped_because
    assert it.play(3) == [None] * 3


def test_good_chunk_between_bad_ones_begins_the_count_again():
    it = Rig(safety__max_bad_chunks=2).start(chunk('ok'))
    for _ in range(4):
        it.give(chunk('nan_in_row_4'))
        it.give(chunk('ok'))
    it.tick()
    assert it.motion.is_running


def test_positions_and_steps_beyond_the_limits_are_clamped_and_counted():
    it = Rig().start(chunk('beyond_limits'))
    rows = np.array([REST, *(command.rows[0] for command in it.play(10))])
    assert rows[:, 1].min() >= -2.0
    assert np.abs(np.diff(rows[:, 1])).max() <= 0.075 + 1e-12
    counters = it.motion.counters
    assert counters.position_clamps[1] > 0
    assert counters.step_clamps[1] > 0


def test_too_many_clamped_rows_refuse_and_stop():
    it = Rig(safety__max_clamped_rows=2).start(chunk('ok'))
    sent = it.play(2)[-1].rows[0]
    assert not it.give(chunk('beyond_limits'))
    assert is_hold(it.tick(), sent)
    assert not it.motion.is_running
    assert 'joint_2' in it.motion.stopped_because


def test_step_inside_a_chunk_is_limited():
    it = Rig().start(chunk('step_inside_chunk'))
    rows = np.array([REST, *(command.rows[0] for command in it.play(10))])
    limit = np.array([1.5] * 6 + [0.2]) * PERIOD_S
    assert (np.abs(np.diff(rows, axis=0)) <= limit + 1e-12).all()


# First command


def test_first_command_far_from_the_robot_is_refused_with_joint_and_gap():
    it = Rig().start(chunk('first_row_far_from_robot'))
    assert it.tick() is None
    assert 'joint_' in it.motion.refusal
    assert '0.8' in it.motion.refusal
    assert it.motion.counters.first_commands_refused == 1
    assert it.give(chunk('ok'))
    np.testing.assert_array_equal(it.tick().rows, chunk('ok'))  # from row 0: nothing was sent meanwhile
    assert it.motion.refusal == ''


def test_first_command_far_from_the_robot_is_approached_where_that_is_chosen():
    it = Rig(safety__first_command='approach').start(chunk('first_row_far_from_robot'))
    rows = np.array([REST, *(command.rows[0] for command in it.play(5))])
    steps = np.abs(np.diff(rows, axis=0))
    assert steps.max() == pytest.approx(0.075)
    assert (steps <= np.array([1.5] * 6 + [0.2]) * PERIOD_S + 1e-12).all()


@pytest.mark.parametrize('why', ['start', 'stale', 'refused chunk', 'prompt'])
def test_first_command_is_checked_again_after(why: str):
    it = Rig().start(chunk('ok'))
    it.play(3)
    if why == 'start':
        it.motion.stop()
        it.start()
    elif why == 'stale':
        it.tick(lost='camera wrist is 0.300 s old')
    elif why == 'refused chunk':
        it.give(chunk('nan_in_row_4'))
    else:
        it.motion.prompt_changed()
    assert it.give(np.tile(it.measured + 0.5, (10, 1)), prompt_id=2 if why == 'prompt' else 1)
    command = it.tick()
    assert command is None or command.chunk_id == 0
    assert {'start': 'a start', 'stale': 'a lost input', 'prompt': 'a new prompt'}.get(
        why, 'a refused chunk'
    ) in it.motion.refusal


def test_prompt_change_drop_holds_until_the_new_chunk():
    it = Rig().start(chunk('ok'))
    sent = it.play(3)[-1].rows[0]
    it.motion.prompt_changed()
    assert is_hold(it.tick(), sent)
    assert it.give(np.tile(sent, (10, 1)), prompt_id=2)
    assert it.tick().prompt_id == 2


def test_prompt_change_finish_plays_on_until_the_new_chunk():
    it = Rig(prompt_change='finish').start(chunk('ok'))
    it.play(3)
    it.motion.prompt_changed()
    command = it.tick()
    assert (command.chunk_id, command.prompt_id) == (1, 1)
    assert it.give(np.tile(it.measured, (10, 1)), prompt_id=2)
    assert it.tick().prompt_id == 2
    assert it.give(np.tile(it.measured + 0.5, (10, 1)), prompt_id=3)
    assert is_hold(it.tick(), it.measured)
    assert 'a new prompt' in it.motion.refusal


# Lost inputs and starvation


def test_lost_input_holds_and_a_result_from_before_it_is_not_played():
    it = Rig().start(chunk('ok'))
    sent = it.play(3)[-1].rows[0]
    mark = it.motion.mark()
    assert is_hold(it.tick(lost='joint_4 is not finite'), sent)
    assert not it.give(chunk('ok'), mark=mark)
    assert is_hold(it.tick(), sent)


def test_starvation_is_counted_and_ends_commanding():
    it = Rig(actions__starvation_limit_s=1.0).start(chunk('ok'))
    it.play(10)
    last = chunk('ok')[-1]
    commands = it.play(20)
    assert all(is_hold(command, last) for command in commands)
    assert it.motion.starved_s == pytest.approx(1.0)
    assert is_hold(it.tick(), last)
    assert it.play(5) == [None] * 5
    assert it.motion.counters.underruns == 1
    assert it.motion.counters.longest_underrun_s == pytest.approx(1.05)
    assert 'no action to play' in it.motion.stopped_because
    assert not it.motion.is_stopped_by_fault


def test_velocity_is_zero_within_one_period_when_nothing_follows():
    it = Rig(**VELOCITY)
    it.start(np.tile([0.3, 0, 0, 0, 0, 0, 0.04], (10, 1)))
    for _ in range(10):
        it.now_s += PERIOD_S
        it.motion.tick(it.now_s, Inputs(measured=REST))
    command = it.motion.tick(it.now_s + PERIOD_S, Inputs(measured=REST))
    np.testing.assert_array_equal(command.rows, [[0, 0, 0, 0, 0, 0, 0.04]])


def test_stop_publishing_overrides_once_and_is_silent_then():
    it = Rig(safety__reaction='stop_publishing').start(chunk('ok'))
    it.play(10)
    assert is_hold(it.tick(), chunk('ok')[-1])
    assert it.play(5) == [None] * 5
    assert it.motion.is_running
    it.give(np.tile(it.measured, (10, 1)))
    assert it.tick().chunk_id == 2


def test_stop_publishing_stays_silent_to_the_end_of_the_run():
    it = Rig(safety__reaction='stop_publishing', actions__starvation_limit_s=0.2).start(chunk('ok'))
    it.play(10)
    assert it.tick() is not None
    assert it.play(10) == [None] * 10
    assert not it.motion.is_running  # and whoever moved the robot meanwhile was not overridden


def test_stop_publishing_overrides_once_where_no_starvation_is_allowed():
    it = Rig(safety__reaction='stop_publishing', actions__starvation_limit_s=0.0).start(chunk('ok'))
    it.play(10)
    assert is_hold(it.tick(), chunk('ok')[-1])
    assert not it.motion.is_running


def test_command_that_was_refused_before_publishing_is_not_what_the_override_holds():
    it = Rig().start(chunk('ok'))
    sent = it.tick().rows[0]
    it.tick()  # which does not leave the node
    assert is_hold(it.motion.refuse('joint_1 is 5'), sent)
    assert it.motion.is_stopped_by_fault
    assert it.motion.refuse('again') is None


@pytest.mark.parametrize('name', ['nan_in_row_4', 'beyond_limits'])
def test_refused_chunk_of_an_ended_run_does_not_stop_the_next_one(name: str):
    it = Rig(safety__max_bad_chunks=1, safety__max_clamped_rows=2).start(chunk('ok'))
    mark = it.motion.mark()
    it.motion.stop()
    it.start(chunk('ok'))
    assert not it.give(chunk(name), mark=mark)
    assert it.tick().chunk_id == 2


# Control ticks that do not come


FAST = [0.07, 0, 0, 0, 0, 0, 0]  # rad per row, of 0.075 that are allowed


def test_hold_after_missed_ticks_is_where_the_trajectory_is():
    it = Rig(output__max_horizon_s=0.3)
    ramp = REST + np.outer(np.arange(10), FAST)
    it.start(ramp).tick()
    it.now_s += 3.5 * PERIOD_S  # row 0 was due after one of them
    np.testing.assert_allclose(it.press().rows, [REST + 2.5 * np.array(FAST)])
    it = Rig(output__max_horizon_s=0.3).start(ramp)
    it.tick()
    it.now_s += 60
    np.testing.assert_allclose(it.press().rows, [ramp[5]])  # the last row that was handed out, 0.3 s


def test_trajectory_begins_when_it_leaves_the_node():
    """A busy machine may stop the thread between the tick and the middleware."""
    it = Rig(output__max_horizon_s=0.3).start(REST + np.outer(np.arange(10), FAST))
    it.tick()
    it.now_s += 2 * PERIOD_S
    it.motion.note_sent()
    it.now_s += 3.5 * PERIOD_S
    np.testing.assert_allclose(it.press().rows, [REST + 2.5 * np.array(FAST)])
    it.motion.note_sent()  # of the override, after which nothing is ahead


def test_missed_ticks_do_not_send_the_robot_back_faster_than_its_limit():
    it = Rig(output__max_horizon_s=0.5, joints__max_age_s=0.25).start(REST + np.outer(np.arange(10), FAST))
    it.tick()
    it.now_s += 3 * PERIOD_S
    reached = REST + 3 * np.array(FAST)  # when the next tick comes
    command = it.tick()
    assert command.chunk_id == 1
    assert np.abs(command.rows[0] - reached).max() <= 1.5 * PERIOD_S + 1e-12


def test_hold_after_missed_ticks_of_rows_that_were_not_handed_out_is_the_row_sent_last():
    values = {'outputs__arm__type': 'float64_multi_array', 'outputs__arm__topic': 'arm/commands'}
    it = Rig(**values).start(REST + np.outer(np.arange(10), FAST))
    sent = it.tick().rows[0]
    it.now_s += 1
    assert is_hold(it.press(), sent)


def test_chunk_of_before_a_pause_is_not_played_and_the_gate_is_armed():
    it = Rig(output__max_horizon_s=0.05).start(chunk('ok'))
    sent = it.play(3)[-1].rows[0]
    mark = it.motion.mark()
    it.now_s += 10  # the process was frozen; its inputs are fresh again before the first tick
    assert is_hold(it.tick(), sent)
    assert it.motion.is_running
    assert not it.give(chunk('ok'), mark=mark)
    it.give(np.tile(sent + 0.5, (10, 1)))
    assert is_hold(it.tick(), sent)
    assert 'a pause of the node' in it.motion.refusal


def test_profile_of_the_cases_is_that_of_these_tests():
    profile = json.loads((CASES / 'robot_profile.json').read_text())
    limits = limits_of(parameters())
    assert list(limits.names) == profile['joint_order_of_the_model']
    assert set(limits.max_velocity[:6]) == {profile['max_velocity']['joint_1..joint_6']}
    assert limits.max_velocity[6] == profile['max_velocity']['gripper']


def test_after_a_hold_steps_count_from_the_hold_and_not_from_a_robot_that_lags():
    it = Rig().start(chunk('ok'))
    held = it.play(3)[-1].rows[0]
    it.tick(lost='camera wrist is 0.300 s old')
    it.measured = held - 0.09  # within the gap
    it.give(np.tile(held + 0.005, (10, 1)))
    np.testing.assert_allclose(it.tick().rows[0], held + 0.005)


def test_after_a_hold_steps_count_from_a_robot_that_was_moved_away():
    it = Rig().start(chunk('ok'))
    held = it.play(3)[-1].rows[0]
    it.tick(lost='camera wrist is 0.300 s old')
    it.measured = held + np.array([0.25, 0, 0, 0, 0, 0, 0])
    it.give(np.tile(it.measured, (10, 1)))
    np.testing.assert_allclose(it.tick().rows[0], held + np.array([0.25, 0, 0, 0, 0, 0, 0]))


def test_after_silence_steps_count_from_the_robot():
    it = Rig(safety__reaction='stop_publishing').start(chunk('ok'))
    held = it.play(3)[-1].rows[0]
    it.play(1)
    it.tick(lost='camera wrist is 0.300 s old')
    assert it.tick(lost='camera wrist is 0.350 s old') is None
    it.measured = held - np.array([0.09] * 6 + [0.01])
    it.give(np.tile(held + 0.005, (10, 1)))
    step = it.tick().rows[0] - it.measured  # of the robot, which the rig moves to the command
    first = it.motion.anchor
    np.testing.assert_allclose(first, held - np.array([0.09] * 6 + [0.01]))
    assert np.abs(step).max() == 0
