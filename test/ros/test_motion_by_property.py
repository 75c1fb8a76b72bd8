# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Whatever happens in whatever order, no command breaks a rule (R-38, R-42 to R-44)."""

from typing import ClassVar

import numpy as np
import pytest
from fake_policy import VELOCITY, FakePolicy, parameters
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from reference_robot import AT_REST, LIMITS

from flashrt_ros.chunk_player import Chunk, Command, Mark
from flashrt_ros.motion import Inputs, Motion
from flashrt_ros.outputs import OutputMap
from flashrt_ros.stop_latch import StopLatch

HORIZON = 10
EPS = 1e-12  # rad; some roundings of positions below 10 rad
rates = st.sampled_from([20.0, 50.0, 13.0])
offsets = st.tuples(st.integers(0, 6), st.floats(-0.3, 0.3))


class AnyOrder(RuleBasedStateMachine):
    """A robot that follows its commands with a lag, and everything that can happen to it."""

    changes: ClassVar[dict[str, object]] = {}

    @initialize(
        rate_hz=rates,
        mode=st.sampled_from(['skip', 'blend', 'fusion']),
        first=st.sampled_from(['refuse', 'approach']),
        is_required=st.booleans(),
        prompt_change=st.sampled_from(['drop', 'finish']),
    )
    def begin(self, rate_hz: float, mode: str, first: str, is_required: bool, prompt_change: str):
        chosen = parameters(
            control_rate_hz=rate_hz,
            chunk__mode=mode,
            safety__first_command=first,
            estop__required=is_required,
            prompt_change=prompt_change,
            **self.changes,
        )
        self.period_s = 1 / rate_hz
        self.is_velocity = OutputMap(chosen).is_velocity
        self.latch = StopLatch()
        self.latch.configure(chosen.estop_required, chosen.estop_timeout_s)
        self.horizon_s = chosen.output_max_horizon_s
        self.motion = Motion(
            chosen, LIMITS, FakePolicy(chosen).spec, self.latch, lambda *_: None, lambda: self.now_s
        )
        self.is_required = is_required
        self.now_s, self.measured, self.chunks, self.prompt_id = 0.0, AT_REST.copy(), 0, 1
        self.marks = [self.motion.mark()]
        self.sent: np.ndarray | None = None  # the row published last
        self.last: tuple[Command, float] | None = None  # the command published last, and when
        self.gap = np.full(7, chosen.max_first_gap[0])
        self.has_sent = False  # in this run

    # What comes in

    @rule(ticks=st.integers(1, 12), slope=st.sampled_from([-0.01, 0.002, 0.01]))
    def go(self, ticks: int, slope: float):
        """All that commanding needs; the other rules come in between."""
        self.release()
        self.reset()
        self.start()
        self.observe()
        self._give(self._rows(slope), self.marks[-1])
        self.ticks(ticks)

    @rule(
        fault=st.sampled_from(['', '', 'far', 'fast', 'beyond', 'huge', 'nan', 'inf', 'empty']),
        joint=st.integers(0, 6),
        row=st.integers(1, HORIZON - 1),
        age=st.integers(1, 4),
    )
    def chunk(self, fault: str, joint: int, row: int, age: int):
        rows = self._rows(0.01)
        if fault == 'far':
            rows[:, joint] += 0.3 if row % 2 else -1.5
        elif fault == 'fast':
            rows[row:, joint] += 0.5
        elif fault == 'beyond':
            rows[row:, joint] = 100.0
        elif fault == 'huge':  # finite, but not their difference
            rows[row:, joint] = 1.7e308 * (-1.0) ** np.arange(HORIZON - row)
        elif fault in ('nan', 'inf'):
            rows[row, joint] = float(fault)
        elif fault == 'empty':
            rows = rows[:0]
        is_accepted = self._give(rows, self.marks[max(0, len(self.marks) - age)])
        assert not (is_accepted and fault in ('nan', 'inf', 'empty'))

    def _rows(self, slope: float) -> np.ndarray:
        """A chunk that begins where the robot is; velocities alike, which are slow ones then."""
        rows = self.measured + slope * np.arange(HORIZON)[:, np.newaxis]
        rows[:, 6] = self.measured[6]
        return rows

    def _give(self, rows: np.ndarray, mark: Mark) -> bool:
        self.chunks += 1
        model_actions = np.zeros((len(rows), 32), np.float32)
        return self.motion.accept(Chunk(self.chunks, self.prompt_id, rows, model_actions), mark)

    @rule()
    def observe(self):
        self.marks.append(self.motion.mark())

    @rule()
    def change_prompt(self):
        self.prompt_id += 1
        self.motion.prompt_changed()

    @rule(pushed=offsets)
    def push(self, pushed: tuple[int, float]):
        """The robot is moved by something else."""
        joint, by = pushed
        self.measured[joint] = np.clip(self.measured[joint] + by, LIMITS.lower[joint], LIMITS.upper[joint])

    @rule()
    def start(self):
        was_latched, was_running = self.latch.is_latched, self.motion.is_running
        refusal = self.motion.start()
        assert bool(refusal) == was_latched
        self.has_sent &= was_running
        if not refusal and self.sent is None:
            assert self.motion.gate.is_armed

    @rule()
    def stop(self):
        was_running = self.motion.is_running
        self._is_override(self.motion.stop(), was_running)
        assert not self.motion.is_running

    @rule()
    def press(self):
        was_running = self.motion.is_running
        self._is_override(self.motion.press_stop(True, self.now_s), was_running)
        assert self.latch.is_latched

    @rule()
    def release(self):
        was_latched = self.latch.is_latched
        was_running = self.motion.is_running
        self._is_override(self.motion.press_stop(False, self.now_s), was_running)
        assert self.latch.is_latched >= was_latched

    @rule()
    def reset(self):
        was_running = self.motion.is_running
        self.latch.reset(self.now_s)
        assert self.motion.is_running == was_running  # a reset starts nothing

    # Control ticks

    @rule(lag=st.floats(0, 1), has_publisher=st.booleans())
    def tick(self, lag: float, has_publisher: bool):
        self._tick(Inputs('', self.measured.copy(), has_publisher))
        self._follow(lag)

    @rule(ticks=st.integers(1, 12))
    def ticks(self, ticks: int):
        for _ in range(ticks):
            self.release()
            self._tick(Inputs('', self.measured.copy(), True))
            self._follow(0.9)

    @rule(is_measured=st.booleans())
    def lose_an_input(self, is_measured: bool):
        self._tick(Inputs('camera wrist is old', self.measured.copy() if is_measured else None, True))

    @rule()
    def lose_the_measured_joints(self):
        """Another fault may hide why."""
        self._tick(Inputs('', None, True))

    @precondition(lambda self: self.is_required)
    @rule()
    def silence(self):
        """No message for longer than the timeout."""
        self.now_s += 1.0
        self._tick(Inputs('', self.measured.copy(), True))
        assert self.latch.is_latched
        assert not self.motion.is_running

    @rule(periods=st.floats(0, 30))
    def miss_ticks(self, periods: float):
        """A stalled computer, while the controllers go on."""
        self.now_s += periods * self.period_s

    def _reached(self) -> np.ndarray | None:
        """The row published last; after missed ticks that of the trajectory, which went on."""
        if self.last is None or self.now_s - self.last[1] <= 2 * self.period_s:
            return self.sent
        command, begun_s = self.last
        points = [
            (due_s, row)
            for i, (due_s, row) in enumerate(zip(command.due_s, command.rows, strict=True))
            if i == 0 or due_s <= self.horizon_s + 1e-9
        ]
        due_s, rows = (np.array(part) for part in zip(*points, strict=True))
        reached = [np.interp(self.now_s - begun_s, due_s, column) for column in rows.T]
        return np.where(self.is_velocity.any(), self.sent, reached)  # the gripper of those has no trajectory

    def _tick(self, inputs: Inputs):
        self.now_s += self.period_s
        was_armed, was_running = self.motion.gate.is_armed, self.motion.is_running
        command = self.motion.tick(self.now_s, inputs)
        assert was_running or command is None
        if command is None:
            return
        if command.chunk_id == 0:
            if was_armed and not self.motion.gate.is_armed:  # it passed, and was refused after that
                self.sent, self.last = self._standing(inputs.measured), None
            self._is_override(command, True)
            return
        assert not self.latch.is_latched
        assert not inputs.lost
        assert inputs.measured is not None
        self._obeys(command, self._standing(inputs.measured) if was_armed else self._reached())
        self.sent, self.last, self.has_sent = command.rows[0], (command, self.now_s), True

    def _standing(self, measured: np.ndarray) -> np.ndarray:
        """The hold where the robot is near it, otherwise the robot."""
        if not self.has_sent:
            return measured
        return np.where(np.abs(self._reached() - measured) <= self.gap, self._reached(), measured)

    def _follow(self, lag: float):
        if self.sent is not None and self.motion.is_running:
            goal = np.where(self.is_velocity, self.measured + self.sent * self.period_s, self.sent)
            self.measured = self.measured + lag * (goal - self.measured)

    def _obeys(self, command: Command, begin: np.ndarray):
        rows, held = command.rows, ~self.is_velocity
        assert np.isfinite(rows).all()
        assert (np.abs(rows[:, self.is_velocity]) <= LIMITS.max_velocity[self.is_velocity]).all()
        assert (rows[:, held] >= LIMITS.lower[held]).all()
        assert (rows[:, held] <= LIMITS.upper[held]).all()
        largest = LIMITS.max_velocity * np.diff(command.due_s, prepend=0.0)[:, np.newaxis]
        steps = np.abs(np.diff(np.vstack([begin, rows]), axis=0))
        assert (steps <= largest + EPS)[:, held].all()

    def _is_override(self, command: Command | None, was_running: bool):
        """Positions as they were sent last, velocities zero, and nothing where nothing was sent."""
        if command is None:
            return
        assert was_running
        assert command.chunk_id == 0
        self.sent, self.last = self._reached(), None
        row = np.where(self.is_velocity, 0.0, self.sent)
        np.testing.assert_array_equal(command.rows, row[np.newaxis])

    @invariant()
    def never_runs_while_latched(self):
        assert not (self.motion.is_running and self.latch.is_latched)

    @invariant()
    def never_released_while_pressed(self):
        assert self.latch.is_latched or not self.latch.is_pressed


class AnyOrderOfVelocities(AnyOrder):
    changes: ClassVar[dict[str, object]] = {**VELOCITY, 'safety__reaction': 'zero_velocity'}


@pytest.mark.parametrize('mode', ['skip', 'blend', 'fusion'])
@pytest.mark.parametrize('rate_hz', [20.0, 50.0])
@pytest.mark.filterwarnings('ignore:overflow', 'ignore:invalid value')
def test_finite_rows_whose_difference_is_not_finite_stop_the_robot(mode: str, rate_hz: float):
    chosen = parameters(control_rate_hz=rate_hz, chunk__mode=mode)
    motion = Motion(
        chosen, LIMITS, FakePolicy(chosen).spec, StopLatch(), lambda *_: None, lambda: tick / rate_hz
    )
    tick = 0
    motion.start()
    rows = np.tile(AT_REST, (HORIZON, 1))
    rows[1:, 0] = 1.7e308 * (-1.0) ** np.arange(HORIZON - 1)
    made = [Chunk(i, 1, (-1) ** i * rows, np.zeros((HORIZON, 32), np.float32)) for i in (2, 3)]
    mark = motion.mark()
    motion.accept(made[0], mark)
    commands = []
    for tick in range(12):
        if tick == 3:
            motion.accept(made[1], mark)
        commands.append(motion.tick(tick / rate_hz, Inputs(measured=AT_REST)))
    sent = [command.rows[0] for command in commands if command is not None]
    assert np.isfinite(sent).all()
    steps = np.abs(np.diff([AT_REST, *sent], axis=0))
    assert (steps <= LIMITS.max_velocity / rate_hz + EPS).all()


TestPositions = AnyOrder.TestCase
TestVelocities = AnyOrderOfVelocities.TestCase
TestPositions.settings = TestVelocities.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None
)
