# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Runs a recording through observations, policy and player on the time of the recording, without ROS.

Nothing waits and nothing depends on how fast this machine is: an inference takes a fixed time on the clock of
the recording, so two runs give the same chunks and the same commands, bit for bit.
"""

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from safetensors.numpy import save

from flashrt_core.policy import Policy
from flashrt_core.types import ActionChunk, ActionPrefix
from flashrt_ros.bag import Bag, select_topics
from flashrt_ros.bag_inputs import BagInputs, input_types, is_known, once_per_reason
from flashrt_ros.chunk_player import Chunk, Command, Mark
from flashrt_ros.grippers import GripperMap
from flashrt_ros.history import LookBack
from flashrt_ros.inputs import Moment
from flashrt_ros.joint_limits import limits_of
from flashrt_ros.latency import Percentiles
from flashrt_ros.load import LoadPolicy, load_policy, prepare
from flashrt_ros.motion import Inputs, Motion
from flashrt_ros.observations import NotReady, Observed
from flashrt_ros.parameter_table import ParameterFaults
from flashrt_ros.parameters import Parameters
from flashrt_ros.replay_setup import OnProgress, Warnings, checked_parameters, progress_bar
from flashrt_ros.report import ChunkTiming, Report, StreamCounts, percentiles
from flashrt_ros.stop_latch import StopLatch

CHUNK_FORMAT = 'flashrt_ros.chunks/1'
GATED_STAGE = 'stamp_to_chunk'


@dataclass
class OfflineRun:
    """What came out; the lists grow while the recording is read."""

    chunks: list[ActionChunk] = field(default_factory=list)
    robot_actions: list[NDArray[np.float64]] = field(default_factory=list)
    timings: list[ChunkTiming] = field(default_factory=list)  # on the time of the recording
    measured_ms: dict[str, list[float]] = field(default_factory=dict)  # stage -> real time on this machine
    commands: list[NDArray[np.float64]] = field(default_factory=list)  # the row sent at each control tick
    command_ns: list[int] = field(default_factory=list)

    def stages(self) -> dict[str, Percentiles]:
        return {stage: percentiles(values) for stage, values in self.measured_ms.items()}

    def tensors(self) -> bytes:
        """Chunks and commands as safetensors, the same bytes for the same values."""
        empty = np.zeros((0, 0), np.float64)
        return save(
            {
                'actions': np.array(self.robot_actions),
                'model_actions': np.array([chunk.model_actions for chunk in self.chunks]),
                'stamp_ns': np.array([timing.stamp_ns for timing in self.timings], np.int64),
                'inference_start_ns': np.array([timing.start_ns for timing in self.timings], np.int64),
                'commands': np.array(self.commands) if self.commands else empty,
                'command_ns': np.array(self.command_ns, np.int64),
            },
            metadata={'format': CHUNK_FORMAT},
        )

    def write(self, path: Path) -> str:
        """Writes the chunks and returns the digest of the file."""
        content = self.tensors()
        path.write_bytes(content)
        return 'sha256:' + hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class _Running:
    """The inference that is under way on the clock of the recording."""

    observed: Observed
    mark: Mark | None
    prefix: ActionPrefix | None
    start: Moment
    end_ns: int  # log time


class OfflineReplay:
    """One pass over one recording; make a new one for the next."""

    def __init__(
        self,
        parameters: Parameters,
        policy: Policy,
        prompt_id: int,
        inference_s: float,
        warn: Callable[[str], None],
    ) -> None:
        self._policy = policy
        self._prompt_id = prompt_id
        self._warn = warn
        self._inference_ns = round(max(inference_s, _period_s(parameters.inference_rate_hz)) * 1e9)
        self._tick_ns = round(1e9 / parameters.control_rate_hz)
        self._inputs = BagInputs(
            parameters, once_per_reason(warn), self._begin_afresh, LookBack.of(policy.spec, parameters)
        )
        self._grippers = GripperMap(parameters)
        is_played = parameters.representation != 'end_effector'  # else it is computed and not played
        self._motion = self._make_motion(parameters, policy) if is_played else None
        self._running: _Running | None = None
        self._next_tick_ns = 0
        self._run = OfflineRun()

    def _make_motion(self, parameters: Parameters, policy: Policy) -> Motion:
        if parameters.joint_limits == 'robot_description':
            raise ParameterFaults(
                'offline replay',
                [
                    'joints.limits is robot_description, which nobody publishes here; give joints.lower, '
                    'joints.upper and joints.max_velocity'
                ],
            )
        return Motion(
            parameters,
            limits_of(parameters),
            policy.spec,
            StopLatch(),  # nobody presses the stop of a recording
            once_per_reason(self._warn),
            lambda: self._next_tick_ns / 1e9,
        )

    def run(self, bag: Bag, progress: OnProgress = lambda _: None) -> OfflineRun:
        self._policy.reset()
        self._next_tick_ns = bag.start_ns
        if self._motion:
            self._motion.start()
        for message in bag.messages():
            self._advance(message.log_ns)
            if self._inputs.take(message) and self._running is None:
                self._begin(message.log_ns)
            progress(message.log_ns)
        while self._running:
            self._advance(self._running.end_ns + 1)
        return self._run

    @property
    def messages(self) -> int:
        """Of the recording, that were of interest."""
        return self._inputs.messages

    def play_counters(self) -> dict[str, float]:
        if self._motion is None:
            return {}
        motion = vars(self._motion.counters) | {
            'position_clamps': int(self._motion.counters.position_clamps.sum()),
            'step_clamps': int(self._motion.counters.step_clamps.sum()),
        }
        return vars(self._motion.player.counters) | motion

    def stream_counts(self, now_ns: int) -> dict[str, StreamCounts]:
        return self._inputs.counts(now_ns)

    def _advance(self, to_ns: int) -> None:
        """Ends inferences and plays control ticks that are due before `to_ns`, in the order of time."""
        while True:
            end_ns = self._running.end_ns if self._running else to_ns
            if end_ns < to_ns and end_ns <= self._next_tick_ns:
                self._finish()
                self._begin(end_ns)
            elif self._next_tick_ns < to_ns:
                self._play(self._next_tick_ns)
                self._next_tick_ns += self._tick_ns
            else:
                return

    def _begin(self, now_ns: int) -> None:
        motion = self._motion
        if motion and not motion.wants_chunk():
            return
        mark = motion.mark() if motion else None
        prefix = motion.prefix(mark) if motion else None
        now = self._inputs.moment(now_ns)
        begun = time.perf_counter()
        try:
            observed = self._inputs.buffer.form(lambda: now, self._prompt_id)
        except NotReady:
            return
        self._measure('decode', (time.perf_counter() - begun) * 1e3)
        self._running = _Running(observed, mark, prefix, now, now_ns + self._inference_ns)

    def _finish(self) -> None:
        running, self._running = self._running, None
        begun = time.perf_counter()
        chunk = self._policy.infer(running.observed.observation, prefix=running.prefix)
        inference_ms = (time.perf_counter() - begun) * 1e3
        actions = self._grippers.to_robot(chunk.actions) if self._motion else chunk.actions
        chunk_id = len(self._run.chunks) + 1
        if self._motion:
            state = running.observed.observation.state
            to_play = Chunk(chunk_id, chunk.prompt_id, actions, chunk.model_actions, state)
            self._motion.accept(to_play, running.mark)
        self._run.chunks.append(chunk)
        self._run.robot_actions.append(actions)
        stamp = running.observed.stamp_ns
        start_ns = running.start.ros_ns
        self._run.timings.append(ChunkTiming(chunk_id, stamp, start_ns, start_ns + self._inference_ns))
        waited_ms = (start_ns - stamp) / 1e6
        for stage, milliseconds in chunk.timings.items():
            self._measure(stage, milliseconds)
        self._measure('inference', inference_ms)
        self._measure('stamp_to_inference', waited_ms)
        decode_ms = self._run.measured_ms['decode'][-1]
        self._measure(GATED_STAGE, waited_ms + decode_ms + inference_ms)

    def _play(self, now_ns: int) -> None:
        """One control tick, as in the node; a run that ends here would need ~/start there."""
        if self._motion is None:
            return
        now = self._inputs.moment(now_ns)
        inputs = Inputs.read(self._inputs.buffer, now)
        self._record(self._motion.tick(now.steady_s, inputs), now_ns)

    def _record(self, command: Command | None, now_ns: int) -> None:
        if command is not None:
            self._run.commands.append(command.rows[0])
            self._run.command_ns.append(now_ns)

    def _begin_afresh(self, jump_s: float, now_ns: int) -> None:
        """The recorded clock jumped: as in the node, nothing from before it is used any more."""
        self._warn(f'the clock jumped by {jump_s:.3f} s; starting afresh')
        self._running = None
        self._policy.reset()
        if self._motion and self._motion.is_running:
            self._record(self._motion.stop(), now_ns)
            self._motion.start()

    def _measure(self, stage: str, milliseconds: float) -> None:
        self._run.measured_ms.setdefault(stage, []).append(milliseconds)


def replay_offline(
    bag_path: Path,
    params: Path,
    out: Path,
    console: Console,
    *,
    inference_s: float = 0.05,
    overrides: Mapping[str, object] | None = None,
    load: LoadPolicy = load_policy,
) -> Report:
    """Runs without ROS and writes the chunks to `out`/chunks.safetensors."""
    warnings = Warnings(console)
    parameters = checked_parameters(params, warnings, overrides)
    with Bag(bag_path, warnings) as bag:
        select_topics(bag, input_types(parameters), is_known, warnings)
        policy = load(parameters)
        prompt_id = prepare_offline(policy, parameters)
        replay = OfflineReplay(parameters, policy, prompt_id, inference_s, warnings)
        with progress_bar(console, 'offline', bag) as progress:
            result = replay.run(bag, progress)
        out.mkdir(parents=True, exist_ok=True)
        return Report(
            mode='offline',
            clock='stamps on the time of the recording, computation as measured here',
            bag=str(bag_path),
            parameters=str(params),
            messages=replay.messages,
            duration_s=(bag.end_ns - bag.start_ns) / 1e9,
            stages=result.stages(),
            gated_stage=GATED_STAGE,
            chunks=tuple(result.timings),
            streams=replay.stream_counts(bag.end_ns),
            play=replay.play_counters(),
            policy=dict(policy.info()),
            warnings=tuple(warnings.texts),
            digest=result.write(out / 'chunks.safetensors'),
        )


def prepare_offline(policy: Policy, parameters: Parameters) -> int:
    """As the node prepares it, except that actions other than joint commands are welcome."""
    if parameters.representation != 'end_effector':
        return prepare(policy, parameters)
    policy.warm_up()
    return policy.set_prompt(parameters.prompt)


def _period_s(rate_hz: float) -> float:
    return 1 / rate_hz if rate_hz else 0.0
