# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The policy moves the simulated robot, on the time of the simulation: an inference takes as long as told.

Everything between a picture and a command is what the node has: the observation buffer, the policy, the
player, the gate, the limits. Nothing depends on how fast this machine is.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error
from flashrt_core.types import ActionChunk, CameraFrame, Observation
from flashrt_ros.chunk_player import Chunk, Mark
from flashrt_ros.conversions import JointSample
from flashrt_ros.grippers import GripperMap
from flashrt_ros.history import LookBack
from flashrt_ros.inputs import Moment
from flashrt_ros.joint_limits import limits_of
from flashrt_ros.motion import Inputs, Motion
from flashrt_ros.observations import NotReady, ObservationBuffer, Observed
from flashrt_ros.outputs import OutputMap
from flashrt_ros.parameters import Parameters
from flashrt_ros.stop_latch import StopLatch
from flashrt_ros.tabletop.arm import ARM_JOINTS, JOINTS
from flashrt_ros.tabletop.command_jumps import CommandJumps
from flashrt_ros.tabletop.connections import connect
from flashrt_ros.tabletop.evaluation import BLOCK, MODES, NAIVE
from flashrt_ros.tabletop.robot import TICK_S, SimulatedRobot
from flashrt_ros.tabletop.variation import CAMERA_RATE_HZ

if TYPE_CHECKING:
    from flashrt_core.policy import Policy

_BEGIN_NS = 1_000_000_000  # a stamp of 0 would be none
_TICK_NS = round(TICK_S * 1e9)

Look = Callable[[], NDArray[np.uint8]]  # [cameras, height, width, 3] as the policy is to see them
Watch = Callable[[str, Observation], None]  # prompt and observation, before each inference


@dataclass(frozen=True)
class Pace:
    """How time passes; all but the mode in ticks of the robot."""

    mode: str
    delay: int  # what an inference takes
    command: int  # from one command to the next
    camera: int  # from one picture to the next
    inference: int  # from the begin of an inference to the next, at least
    row: int

    @classmethod
    def of(cls, parameters: Parameters, mode: str, delay_s: float) -> 'Pace':
        if mode not in MODES:
            raise Error(f"mode '{mode}', known are {', '.join(MODES)}")
        rate_hz = parameters.inference_rate_hz
        return cls(
            mode,
            _ticks('the delay', delay_s),
            _ticks('the period of commands (control_rate_hz)', 1 / parameters.control_rate_hz),
            _ticks('the period of pictures', 1 / CAMERA_RATE_HZ),
            _ticks('the period of inference (inference_rate_hz)', 1 / rate_hz if rate_hz else 0.0),
            _ticks('actions.row_period_s', parameters.row_period_s),
        )

    @property
    def block_rows(self) -> int:
        """In mode block: rows played of a chunk before the next picture is looked at."""
        return max(1, round(max(self.camera, self.inference) / self.row))


def _ticks(what: str, duration_s: float) -> int:
    ticks = round(duration_s / TICK_S)
    if duration_s < 0 or abs(ticks * TICK_S - duration_s) > 1e-6:
        raise Error(f'{what} is {duration_s:g} s; the simulation needs multiples of {TICK_S:g} s')
    return ticks


@dataclass(frozen=True)
class _Running:
    """An inference, whose result is known to nobody until it ends."""

    chunk: ActionChunk
    observed: Observed
    mark: Mark
    end: int  # tick


class ClosedLoop:
    """One run of the policy on the robot, from a start to whenever `play` is no longer called."""

    def __init__(
        self,
        parameters: Parameters,
        policy: 'Policy',
        robot: SimulatedRobot,
        pace: Pace,
        look: Look,
        watch: Watch = lambda *_: None,
    ) -> None:
        self._policy, self._robot, self._pace, self._look, self._watch = policy, robot, pace, look, watch
        self._connections = connect(parameters)
        self._slots = [camera.slot for camera in parameters.cameras]
        self._outputs = OutputMap(parameters)
        self._grippers = GripperMap(parameters)
        self._buffer = ObservationBuffer(parameters, self._report, LookBack.of(policy.spec, parameters))
        self._tick = 0
        limits = limits_of(parameters)
        self.motion = Motion(
            parameters, limits, policy.spec, StopLatch(), self._report, lambda: self._now.steady_s
        )
        self.jumps = CommandJumps(1 / parameters.control_rate_hz, len(ARM_JOINTS))
        self.inference_ms: list[float] = []  # on this machine; no part of the result
        self._running: _Running | None = None
        self._next_inference = 0  # tick
        self._prompt, self._prompt_id = '', 0
        self._wanted_prompt = ''
        self.reports: dict[str, str] = {}  # what the node would log: reason -> its first text
        policy.reset()
        self.motion.start()

    @property
    def chunks(self) -> int:
        return len(self.inference_ms)

    def ask(self, prompt: str) -> None:
        """From the next inference on."""
        self._wanted_prompt = prompt

    def play(self) -> None:
        """One tick of the robot."""
        if self._tick % self._pace.camera == 0:
            self._see()
        self._feel()
        while self._finish() or self._begin():
            pass
        if self._tick % self._pace.command == 0:
            self._command()
        self._robot.advance(1)
        self._tick += 1

    @property
    def _now(self) -> Moment:
        now_ns = _BEGIN_NS + self._tick * _TICK_NS
        return Moment(now_ns, now_ns)

    def _report(self, stream: str, reason: str, text: str) -> None:
        self.reports.setdefault(reason, f'{stream}: {text}')

    def _see(self) -> None:
        now, views = self._now, self._look()
        for slot, view in zip(self._slots, self._connections.views, strict=True):
            height, width, channels = views[view].shape
            frame = CameraFrame(views[view].tobytes(), 'rgb8', height, width, width * channels)
            self._buffer.add_frame(slot, frame, now.ros_ns, now)

    def _feel(self) -> None:
        now = self._now
        positions = dict(zip(JOINTS, self._robot.world.measured().tolist(), strict=True))
        self._buffer.add_joints(self._connections.joint_topic, JointSample(positions), now.ros_ns, now)

    def _begin(self) -> bool:
        """Starts an inference; False when it is not the time for one."""
        if self._running:
            return False
        if self._wanted_prompt:
            self._set_prompt()
        if self._tick < self._next_inference or not self.motion.wants_chunk():
            return False
        if self._pace.mode == BLOCK and not self._is_at_rest():
            return False
        mark = self.motion.mark()
        prefix = self.motion.prefix(mark)
        try:
            observed = self._buffer.form(lambda: self._now, self._prompt_id)
        except NotReady:
            return False
        self._watch(self._prompt, observed.observation)
        begun_s = time.perf_counter()
        chunk = self._policy.infer(observed.observation, prefix=prefix)
        self.inference_ms.append((time.perf_counter() - begun_s) * 1e3)
        self._running = _Running(chunk, observed, mark, self._tick + self._pace.delay)
        self._next_inference = self._tick + self._pace.inference
        return True

    def _is_at_rest(self) -> bool:
        """Whether the last row has been reached; a loop that waits takes its picture then, not before."""
        if self._tick % self._pace.command or self.motion.player.peek() is not None:
            return False
        if self._tick % self._pace.camera:
            self._see()
        return True

    def _set_prompt(self) -> None:
        """As the node does it: between two inferences."""
        self._prompt, self._wanted_prompt = self._wanted_prompt, ''
        is_first = not self._prompt_id
        self._prompt_id = self._policy.set_prompt(self._prompt)
        if not is_first:
            self._buffer.forget_past()
            self.motion.prompt_changed()

    def _finish(self) -> bool:
        """Hands over the chunk that is ready; False when none is."""
        running = self._running
        if running is None or self._tick < running.end:
            return False
        self._running = None
        actions, mark = self._grippers.to_robot(running.chunk.actions), running.mark
        if self._pace.mode in (NAIVE, BLOCK):  # row 0 is for now, whenever its observation was
            mark = Mark(mark.run, self.motion.mark().rows)
        if self._pace.mode == BLOCK:
            actions = actions[: self._pace.block_rows]
        state = running.observed.observation.state
        chunk = running.chunk
        self.motion.accept(Chunk(self.chunks, chunk.prompt_id, actions, chunk.model_actions, state), mark)
        return True

    def _command(self) -> None:
        now = self._now
        command = self.motion.tick(now.steady_s, Inputs.read(self._buffer, now))
        if command is None:
            return
        self.jumps.see(now.steady_s, command)
        for part in self._outputs.split(command):
            self._connections.send(self._robot, part)
