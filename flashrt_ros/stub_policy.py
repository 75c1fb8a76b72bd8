# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""A policy without a model: smooth motion, noise that shows where chunks join, and faults on demand.

It stands in for a checkpoint wherever behaviour in time is the question: latency, joins of chunks, reactions.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error
from flashrt_core.prompt import check_prompt
from flashrt_core.rtc import prefix_weights
from flashrt_core.types import ActionChunk, ActionPrefix, CameraFrame, Observation, PolicySpec
from flashrt_ros.grippers import GripperMap
from flashrt_ros.parameters import Parameters

FAULTS = ('throw', 'spike', 'nan', 'outside')  # what inject() knows
_IMAGE_SIDE = 32  # pixels; model_images only
_MODEL_COLUMNS = 32  # of normalised actions, more where the robot has more joints
_SLOWER = 0.15  # each joint moves this much slower than the one before, so that no two move alike
_RETURN_S = 0.5  # time constant with which a chunk leads from the observed state to the planned motion
_FAR = 2.0  # ranges; where the rows of fault 'outside' lie beyond the limit
_EXECUTION_HORIZON = 10  # rows; as the reference, where chunk.rtc_execution_horizon leaves it open
_SCHEDULE = 'linear'


@dataclass(frozen=True)
class StubSettings:
    """What the stub does; sizes of motion and noise are parts of each joint's range."""

    horizon: int = 16  # rows of a chunk
    latency_ms: float = 60.0
    jitter_ms: float = 5.0  # each inference takes up to this much less or more
    motion: float = 0.08  # amplitude
    period_s: float = 6.0  # of the first joint
    noise: float = 0.005  # standard deviation between chunks
    seed: int = 0

    def __post_init__(self) -> None:
        if self.horizon < 1 or self.period_s <= 0:
            raise Error(
                f'stub policy: horizon is {self.horizon} and period_s {self.period_s}, needed above 0'
            )
        if not 0 <= self.jitter_ms <= self.latency_ms:
            raise Error(
                f'stub policy: jitter_ms is {self.jitter_ms}, needed 0 to latency_ms ({self.latency_ms})'
            )
        if not (0 <= self.motion <= 0.5 and self.noise >= 0):
            raise Error(
                f'stub policy: motion is {self.motion} and noise {self.noise}, needed 0 to 0.5 and 0 or more'
            )


class StubPolicy:
    """Implements flashrt_core.policy.Policy; the same observations in the same order give the same chunks.

    Each joint swings around the state of the first observation after reset(). A chunk begins at the observed
    state, returns to that motion, and is off it by an error of its own, as the chunks of a model are.
    """

    def __init__(
        self,
        parameters: Parameters,
        settings: StubSettings,
        wait: Callable[[float], None] = time.sleep,  # seconds; where time is computed, waits for nothing
    ) -> None:
        joints = len(parameters.joint_names)
        if parameters.representation == 'end_effector':
            raise Error('stub policy: actions.representation is end_effector, it moves joints only')
        if parameters.action_joints:
            raise Error('stub policy: actions.joints is given, it moves the joints that it reads')
        if not len(parameters.joint_lower) == len(parameters.joint_upper) == joints:
            raise Error(
                'stub policy: it moves inside joints.lower and joints.upper; set joints.limits: parameters'
            )
        self.spec = PolicySpec(
            cameras=parameters.camera_names,
            image_size=_IMAGE_SIDE,
            state_dim=joints,
            action_dim=joints,
            horizon=settings.horizon,
            model_action_dim=max(_MODEL_COLUMNS, joints),
            prompt_capacity=parameters.prompt_capacity,
            actions=parameters.representation,
            max_hard_delay=settings.horizon - 1,
        )
        self._settings = settings
        self._wait = wait
        self._model = parameters.model_config
        self._row_period_s = parameters.row_period_s
        self._schedule = parameters.chunk_rtc_schedule or _SCHEDULE
        self._execution_horizon = parameters.chunk_rtc_execution_horizon or _EXECUTION_HORIZON
        to_model = GripperMap(parameters).to_model
        limits = np.sort([to_model(parameters.joint_lower), to_model(parameters.joint_upper)], axis=0)
        self._lower, self._upper = limits  # [joints], as the model means them
        is_gripper = np.isin(parameters.joint_names, parameters.gripper_names)
        self._is_velocity = (parameters.representation == 'joint_velocity') & ~is_gripper
        self._prompt_id = 0
        self._lock = threading.Lock()
        self._faults: deque[tuple[str, float]] = deque()
        self.reset()

    def inject(self, fault: str, count: int = 1, seconds: float = 0.0) -> None:
        """The next `count` inferences fail: throw, take `seconds` longer, hold NaN, or lead outside limits.

        From any thread. A later call begins when the faults of the earlier ones are over; count 0 ends all.
        """
        if fault not in FAULTS:
            raise Error(f"stub policy: fault '{fault}' is not known; known: {', '.join(FAULTS)}")
        if count < 0 or seconds < 0 or (seconds > 0) != (fault == 'spike'):
            raise Error(
                f'stub policy: fault {fault} with count {count} and seconds {seconds}; the count is 0 or '
                'more, a spike has seconds above 0, no other fault has any'
            )
        with self._lock:
            if count:
                self._faults.extend([(fault, seconds)] * count)
            else:
                self._faults.clear()

    def set_prompt(self, text: str) -> int:
        """Prompts are counted; one with more words than the prompt capacity is refused."""
        words = len(check_prompt(text).split())
        if words > self.spec.prompt_capacity:
            raise Error(f'prompt: needs {words} words, the capacity is {self.spec.prompt_capacity}')
        self._prompt_id += 1
        return self._prompt_id

    def infer(
        self,
        observation: Observation,
        *,
        noise: NDArray[np.float32] | None = None,
        seed: int | None = None,
        prefix: ActionPrefix | None = None,
    ) -> ActionChunk:
        """noise: [horizon, model_action_dim], else drawn from (seed or that of the settings, tick)."""
        begin = time.perf_counter()
        state = self._checked_state(observation)
        if noise is not None and seed is not None:
            raise Error(f'infer: noise and seed {seed} were both given; give one')
        seed = self._settings.seed if seed is None and noise is None else seed
        generator = np.random.Generator(np.random.Philox(key=np.array([seed or 0, self._tick], np.uint64)))
        self._tick += 1
        jitter = generator.uniform(-1, 1)
        if noise is None:
            noise = generator.standard_normal((self.spec.horizon, self.spec.model_action_dim), np.float32)
        # The trial of configuring has no stamps: nobody waits for it to fail.
        fault, extra_s = self._next_fault() if observation.stamps_ns else ('', 0.0)
        self._wait((self._settings.latency_ms + jitter * self._settings.jitter_ms) / 1e3 + extra_s)
        if fault == 'throw':
            raise Error('stub policy: this inference was told to fail')
        model_actions = self._normalise(self._plan(observation, state, noise))
        if prefix is not None:
            model_actions = self._continue(prefix, model_actions)
        actions = self._denormalise(model_actions)
        _damage(actions, fault, self._lower, self._upper)
        return ActionChunk(
            actions=actions,
            model_actions=model_actions,
            stamps_ns=dict(observation.stamps_ns),
            prompt_id=self._prompt_id,
            seed=seed,
            timings={
                'preprocess': 0.0,
                'engine': (time.perf_counter() - begin) * 1e3,
                'postprocess': 0.0,
            },
        )

    def action_range(self) -> None:
        """It was trained on nothing."""

    def model_images(self, observation: Observation) -> NDArray[np.uint8]:
        """[cameras, side, side, 3]: every so many pixels of each picture."""
        views = []
        for slot in self.spec.cameras:
            image = observation.images[slot]
            image = image.rgb() if isinstance(image, CameraFrame) else image
            rows, columns = (np.arange(_IMAGE_SIDE) * side // _IMAGE_SIDE for side in image.shape[:2])
            views.append(image[rows[:, np.newaxis], columns])
        return np.stack(views)

    def warm_up(self) -> None:
        """There is nothing to warm up."""

    def reset(self) -> None:
        """The next observation is the middle of the motion; the sequence of noise starts again."""
        self._tick = 0
        self._middle: NDArray[np.float64] | None = None
        self._begin_ns = 0

    def info(self) -> Mapping[str, str]:
        return {'model': self._model, 'backend': 'stub', 'device': 'none', 'weights_digest': 'none'}

    def _checked_state(self, observation: Observation) -> NDArray[np.float64]:
        if not self._prompt_id or observation.prompt_id != self._prompt_id:
            raise Error(
                f'infer: the observation has prompt_id {observation.prompt_id}, the prompt in use has '
                f'{self._prompt_id or "none; call set_prompt first"}'
            )
        missing = [slot for slot in self.spec.cameras if slot not in observation.images]
        state = np.asarray(observation.state, np.float64)
        if missing or state.shape != (self.spec.state_dim,) or not np.isfinite(state).all():
            raise Error(
                f'infer: cameras missing: {missing}, state {state.tolist()}; needed every camera of '
                f'{list(self.spec.cameras)} and {self.spec.state_dim} finite values'
            )
        return state

    def _next_fault(self) -> tuple[str, float]:
        with self._lock:
            return self._faults.popleft() if self._faults else ('', 0.0)

    def _plan(
        self, observation: Observation, state: NDArray[np.float64], noise: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        """[horizon, joints] actions: positions, or the velocities between them."""
        now_ns = max(observation.stamps_ns.values(), default=0)
        reach = self._settings.motion * (self._upper - self._lower)
        if self._middle is None or not self._begin_ns:
            self._middle = np.clip(state, self._lower + reach, self._upper - reach)
            self._begin_ns = now_ns
        ahead_s = self._row_period_s * np.arange(1, self.spec.horizon + 1)[:, np.newaxis]
        passed_s = (now_ns - self._begin_ns) / 1e9
        slowness = 1 + _SLOWER * np.arange(len(state))

        def planned(at_s: NDArray[np.float64] | float) -> NDArray[np.float64]:
            swing = np.sin(2 * np.pi * at_s / (self._settings.period_s * slowness))
            return self._middle + reach * swing

        # An offset that comes within the first rows, and a drift along the chunk.
        joints = slice(0, len(state))
        fading = np.exp(-ahead_s / _RETURN_S)
        error = noise[0, joints] + noise[-1, joints] * np.linspace(0, 1, self.spec.horizon)[:, np.newaxis]
        error = self._settings.noise * (self._upper - self._lower) * error
        rows = planned(passed_s + ahead_s) + fading * (state - planned(passed_s)) + error
        rows = np.clip(rows, self._lower, self._upper)
        velocities = np.diff(rows, axis=0, prepend=state[np.newaxis]) / self._row_period_s
        return np.where(self._is_velocity, velocities, rows)

    def _normalise(self, actions: NDArray[np.float64]) -> NDArray[np.float32]:
        """Positions: -1 and 1 are the limits; velocities: the whole range in a second."""
        scale = (self._upper - self._lower) / 2
        middle = np.where(self._is_velocity, 0.0, (self._lower + self._upper) / 2)
        result = np.zeros((self.spec.horizon, self.spec.model_action_dim), np.float32)
        result[:, : self.spec.action_dim] = (actions - middle) / scale
        return result

    def _denormalise(self, model_actions: NDArray[np.float32]) -> NDArray[np.float64]:
        scale = (self._upper - self._lower) / 2
        middle = np.where(self._is_velocity, 0.0, (self._lower + self._upper) / 2)
        actions = middle + scale * model_actions[:, : self.spec.action_dim].astype(np.float64)
        return np.where(self._is_velocity, actions, np.clip(actions, self._lower, self._upper))

    def _continue(self, prefix: ActionPrefix, fresh: NDArray[np.float32]) -> NDArray[np.float32]:
        """Holds the chunk to the rows that are committed already, as real-time chunking does.

        guided: a blend with the weights of the guidance. hard: the first rows are those of the prefix, and
        the step to the rows after them fades.
        """
        rows, columns = np.shape(prefix.model_actions)
        if rows > self.spec.horizon or columns > self.spec.model_action_dim or prefix.delay > rows:
            raise Error(
                f'infer: prefix of {rows} rows and {columns} columns with delay {prefix.delay}, needed at '
                f'most {self.spec.horizon} rows, {self.spec.model_action_dim} columns, and delay <= rows'
            )
        result = fresh.copy()
        if prefix.mode == 'guided':
            weights = prefix_weights(
                self._schedule, prefix.delay, self._execution_horizon, rows, self.spec.horizon
            )[:rows, np.newaxis]
            result[:rows, :columns] += weights * (prefix.model_actions - fresh[:rows, :columns])
        elif prefix.delay:
            last = prefix.delay - 1
            step = prefix.model_actions[last] - fresh[last, :columns]
            fading = np.linspace(1, 0, self.spec.horizon - prefix.delay, endpoint=False)[:, np.newaxis]
            result[prefix.delay :, :columns] += fading * step
            result[: prefix.delay, :columns] = prefix.model_actions[: prefix.delay]
        return result


def _damage(
    actions: NDArray[np.float64], fault: str, lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> None:
    """The middle of a chunk: one value that is no number, or a quarter of the rows far beyond the limits."""
    middle = len(actions) // 2
    if fault == 'nan':
        actions[middle, -1] = np.nan
    elif fault == 'outside':
        actions[middle : middle + max(1, len(actions) // 4)] = upper + _FAR * (upper - lower)
