# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What is sent at each control tick: the only way from a chunk to a command, live and in offline replay."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from flashrt_core.types import ActionPrefix, PolicySpec
from flashrt_ros.chunk_player import Chunk, ChunkPlayer, Command, Mark, player_settings
from flashrt_ros.command_limits import ChunkRefused, CommandLimits
from flashrt_ros.first_command_gate import FirstCommandGate
from flashrt_ros.inputs import Moment
from flashrt_ros.joint_limits import JointLimits
from flashrt_ros.observations import ObservationBuffer, Report
from flashrt_ros.outputs import OutputMap
from flashrt_ros.parameters import Parameters
from flashrt_ros.stop_latch import StopLatch

_MISSED_TICKS = 2  # control periods; until then a trajectory is no farther than the rate limit allows
_MAX_HARD_REFUSALS = 5  # in a row: the policy is slower than it can be conditioned on


@dataclass(frozen=True)
class MotionCounters:
    """What happened since the node was configured, beside what the player counts."""

    commands: int = 0
    stops: int = 0
    underruns: int = 0  # times that nothing followed the last row
    longest_underrun_s: float = 0.0
    first_commands_refused: int = 0
    chunks_refused: int = 0
    position_clamps: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  # [joints]
    step_clamps: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  # [joints]


@dataclass(frozen=True)
class Inputs:
    """What a control tick has to know of the world."""

    lost: str = ''  # why no observation could be formed now, or nothing
    measured: NDArray[np.float64] | None = None  # [joints], fresh positions
    has_stop_publisher: bool = False

    @classmethod
    def read(cls, observations: ObservationBuffer, now: Moment, has_stop_publisher: bool = False) -> 'Inputs':
        reason = observations.check(now)
        is_lost = reason is not None and reason.condition != 'spread'  # apart in time, but each is there
        return cls(str(reason) if is_lost else '', observations.positions(now), has_stop_publisher)


@dataclass(frozen=True, eq=False)
class _Ahead:
    """The rows that were handed out last."""

    rows: NDArray[np.float64]  # [rows, joints]
    due_s: NDArray[np.float64]  # [rows], from begun_s
    begun_s: float  # on the clock of the ticks

    def at(self, passed_s: float) -> NDArray[np.float64]:
        """[joints] where a controller is that follows them; at rest at the last."""
        return np.array([np.interp(passed_s, self.due_s, column) for column in self.rows.T])


class Motion:
    """Holds every rule between a chunk and the robot; each is one object, and this is their order.

    Commands leave through `tick` and the stops alone. Thread-safe: chunks come from the worker.
    """

    def __init__(
        self,
        parameters: Parameters,
        limits: JointLimits,
        spec: PolicySpec,
        latch: StopLatch,
        report: Report,
        clock: Callable[[], float],  # s, of what paces the control ticks
    ) -> None:
        outputs = OutputMap(parameters)
        is_velocity = outputs.is_velocity
        self.player = ChunkPlayer(player_settings(parameters, spec.horizon, spec.max_hard_delay))
        self._max_first_gap = _gaps(parameters)
        self.gate = FirstCommandGate(limits.names, self._max_first_gap, parameters.first_command, is_velocity)
        is_gripper = np.isin(parameters.commanded_joints, parameters.gripper_names)
        self.limits = CommandLimits(limits, is_velocity, parameters.max_clamped_rows, is_gripper)
        self.latch = latch
        self._is_velocity = is_velocity
        self._is_trajectory = outputs.is_trajectory
        self._is_handed_out = outputs.is_handed_out
        self._clock = clock
        self._row_period_s = parameters.row_period_s
        self._control_period_s = 1 / parameters.control_rate_hz
        self._longest_pause_s = max(
            _MISSED_TICKS * self._control_period_s,
            min(parameters.camera_max_age_s, parameters.joint_max_age_s),
        )
        self._starvation_limit_s = parameters.starvation_limit_s
        self._max_bad_chunks = parameters.max_bad_chunks
        self._drops_at_prompt = parameters.prompt_change == 'drop'
        self._is_silent_when_idle = parameters.reaction == 'stop_publishing'
        self._report = report
        self._lock = threading.RLock()
        joints = len(limits.names)
        self._counters = MotionCounters(
            position_clamps=np.zeros(joints, np.int64), step_clamps=np.zeros(joints, np.int64)
        )
        self._sent: NDArray[np.float64] | None = None  # [joints], the row sent last in this run
        # [joints], what the steps of the last command count from
        self.anchor: NDArray[np.float64] | None = None
        self._ahead: _Ahead | None = None  # None: no more than the row sent last
        self._ticked_s: float | None = None  # the last tick of this run
        self._is_silent = False  # the reaction was sent, and left the robot to its controller
        self._idle_ticks = 0  # since a row of a chunk was sent
        self._bad_chunks = 0  # in a row
        self._prompt_id = 0  # of the chunk in play
        self._must_stop = ''  # at the next tick
        self.refusal = ''  # why the first command waits
        self.stopped_because = ''
        self.is_stopped_by_fault = False

    @property
    def is_running(self) -> bool:
        return self.player.is_running

    @property
    def starved_s(self) -> float:
        """How long nothing has followed the last row."""
        return self._idle_ticks * self._control_period_s

    @property
    def counters(self) -> MotionCounters:
        return self._counters

    # From a request to a run, and its end

    def start(self) -> str:
        """Begins a run from standstill; returns why not, or nothing. A run under way goes on."""
        with self._lock:
            if self.latch.is_latched:
                return f'{self.latch.reason}; release it and call ~/estop_reset first'
            if not self.is_running:
                self._forget_run()
                self.stopped_because, self.is_stopped_by_fault = '', False
                self.gate.arm('a start')
                self.player.start()
            return ''

    def stop(self, because: str = '', is_fault: bool = False) -> Command | None:
        """Ends the run; what is returned overrides whatever was sent before. None when nothing was."""
        with self._lock:
            if not self.is_running:
                return None
            self._follow_trajectories()
            command = None if self._is_silent else self._override()
            self.player.stop()
            self._forget_run()
            self.stopped_because, self.is_stopped_by_fault = because, is_fault
            self._count(stops=1)
            return command

    def refuse(self, why: str) -> Command | None:
        """The command of this tick did not leave the node: ends the run with an override of those before."""
        with self._lock:
            if self.is_running:
                self._sent, self._ahead = self.anchor, None
            return self.stop(why, is_fault=True)

    def note_sent(self) -> None:
        """The command of this tick has left the node just now, and with it its trajectory begins."""
        with self._lock:
            if self._ahead is not None:
                self._ahead = replace(self._ahead, begun_s=self._clock())

    def press_stop(self, is_pressed: bool, now_s: float) -> Command | None:
        """A message of the stop topic: `true` ends the run and latches, `false` alone changes nothing."""
        with self._lock:
            if not self.latch.message(is_pressed, now_s):
                return None
            self._report('motion', 'stop_latched', self.latch.reason)
            return self.stop(self.latch.reason, is_fault=True)

    def _forget_run(self) -> None:
        self._sent, self._idle_ticks, self._bad_chunks, self._prompt_id = None, 0, 0, 0
        self._must_stop = self.refusal = ''
        self._ahead, self._ticked_s, self._is_silent = None, None, False

    # From the worker

    def mark(self) -> Mark:
        return self.player.mark()

    def wants_chunk(self) -> bool:
        return self.player.wants_chunk()

    def prefix(self, mark: Mark) -> ActionPrefix | None:
        """The rows already committed, which the next chunk has to continue; mode rtc."""
        return self.player.prefix(mark)

    def accept(self, chunk: Chunk, mark: Mark) -> bool:
        """Takes a chunk whose observation was formed at `mark`; False when it is refused or of no use."""
        with self._lock:
            try:
                self.limits.check_chunk(chunk.actions, self._row_period_s)
            except ChunkRefused as refused:
                self._note_refused(chunk, mark, refused)
                return False
            self._bad_chunks = 0
            is_accepted = self.player.accept(chunk, mark)
            if is_accepted:
                if self._prompt_id not in (0, chunk.prompt_id):
                    self.gate.arm('a new prompt')
                self._prompt_id = chunk.prompt_id
            elif self.player.hard_refusals_in_a_row >= _MAX_HARD_REFUSALS:
                self._must_stop = (
                    f'{_MAX_HARD_REFUSALS} chunks in a row took longer than the rows they were conditioned on'
                )
            return is_accepted

    def prompt_changed(self) -> None:
        """The next chunk answers another prompt."""
        with self._lock:
            if self._drops_at_prompt:
                self._interrupt('a new prompt')

    def _note_refused(self, chunk: Chunk, mark: Mark, refused: ChunkRefused) -> None:
        self._count(chunks_refused=1)
        self._report('motion', refused.reason, f'chunk {chunk.chunk_id} is refused: {refused}')
        if not self.is_running or not self.player.is_current(mark):  # it would not have been played
            return
        self._bad_chunks += 1
        self._interrupt('a refused chunk')
        if self._must_stop:  # more of them came before the tick that ends the run
            return
        if refused.reason == 'too_many_clamped':
            self._must_stop = f'chunk {chunk.chunk_id}: {refused}'
        elif self._bad_chunks >= self._max_bad_chunks:
            self._must_stop = f'{self._bad_chunks} chunks in a row were refused, the last one: {refused}'

    def _interrupt(self, why: str) -> None:
        """Nothing of the chunk in play is sent any more, and the next one begins as after a start."""
        self.player.drop_chunk()
        if not self.gate.is_armed:  # the first reason tells most
            self.gate.arm(why)

    # Control ticks

    def tick(self, now_s: float, inputs: Inputs) -> Command | None:
        """The command of this control period; None when nothing is to be sent. now_s: steady clock."""
        with self._lock:
            if self.latch.check(now_s, inputs.has_stop_publisher):
                self._report('motion', 'stop_latched', self.latch.reason)
                return self.stop(self.latch.reason, is_fault=True)
            if not self.is_running:
                return None
            if self._must_stop:
                self._report('motion', 'stopped', self._must_stop)
                return self.stop(self._must_stop, is_fault=True)
            self._follow_trajectories()
            if self._was_paused():
                self._interrupt('a pause of the node')
            if inputs.lost or inputs.measured is None:  # another fault may hide why
                self._interrupt('a lost input')
            wanted = self.player.peek()
            if wanted is None or not self._passes_gate(wanted, inputs.measured):
                return self._idle()
            return self._limited(wanted, inputs.measured)

    def _was_paused(self) -> bool:
        """Whether for so long that an input could be lost nobody has looked."""
        before_s, self._ticked_s = self._ticked_s, self._clock()
        return before_s is not None and self._ticked_s - before_s > self._longest_pause_s

    def _follow_trajectories(self) -> None:
        """After missed ticks: a trajectory goes on in its controller, so commands continue from there."""
        ahead = self._ahead
        if ahead is None:
            return
        passed_s = self._clock() - ahead.begun_s
        if passed_s > _MISSED_TICKS * self._control_period_s:
            self._sent = np.where(self._is_trajectory, ahead.at(passed_s), self._sent)

    def _passes_gate(self, wanted: Command, measured: NDArray[np.float64] | None) -> bool:
        if self.gate.is_armed:
            self.refusal = self.gate.check(wanted.rows[0], measured)
            if self.refusal:
                self._count(first_commands_refused=1)
                self.player.drop_chunk()
                return False
            self._sent = self._standing(measured)
        return True

    def _standing(self, measured: NDArray[np.float64]) -> NDArray[np.float64]:
        """[joints] where steps count from: the hold, if one stands and the robot is near it, or the robot."""
        if self._sent is None or self._is_silent:
            return measured
        return np.where(np.abs(self._sent - measured) <= self._max_first_gap, self._sent, measured)

    def _limited(self, wanted: Command, measured: NDArray[np.float64] | None) -> Command | None:
        try:
            limited = self.limits.limit(wanted.rows, wanted.due_s, self._sent, measured)
        except ChunkRefused as refused:  # such as a sum of two finite rows that is not finite
            self._report('motion', refused.reason, str(refused))
            return self.stop(f'command refused: {refused}', is_fault=True)
        self.player.advance()
        self.anchor, self._sent, self._idle_ticks = self._sent, limited.rows[0], 0
        ahead = self._is_handed_out(wanted.due_s)
        self._ahead = _Ahead(limited.rows[ahead], wanted.due_s[ahead], self._clock())
        self._is_silent = False
        self._count(commands=1, position_clamps=limited.position_clamps, step_clamps=limited.step_clamps)
        return replace(wanted, rows=limited.rows)

    def _idle(self) -> Command | None:
        """Nothing to play: the safe reaction, and an end when that lasts."""
        if self._sent is None:  # nothing of this run is to be held or overridden
            return None
        self._idle_ticks += 1
        self._count(underruns=int(self._idle_ticks == 1))
        longest_s = max(self._counters.longest_underrun_s, self.starved_s)
        self._counters = replace(self._counters, longest_underrun_s=longest_s)
        if self.starved_s > self._starvation_limit_s:
            why = f'no action to play for {self.starved_s:.2f} s'
            why += f' ({self.refusal})' if self.refusal else ''
            self._report('motion', 'starved', f'{why}; call ~/start')
            return self.stop(why)
        if self._is_silent:
            return None
        self._is_silent = self._is_silent_when_idle
        return self._override()

    def _override(self) -> Command | None:
        """Positions where they were sent last, velocities zero."""
        if self._sent is None:
            return None
        self._count(commands=1)
        self.anchor, self._ahead = self._sent, None
        row = np.where(self._is_velocity, 0.0, self._sent)
        return Command(row[np.newaxis], np.array([self._control_period_s]), chunk_id=0, prompt_id=0)

    def _count(self, **increments: int | NDArray[np.int64]) -> None:
        now = self._counters
        self._counters = replace(now, **{name: getattr(now, name) + n for name, n in increments.items()})


def _gaps(parameters: Parameters) -> NDArray[np.float64]:
    """[joints]"""
    return np.broadcast_to(np.array(parameters.max_first_gap), len(parameters.commanded_joints)).copy()
