# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Observation to action chunk: the protocol of a policy, and the policy that runs a checkpoint."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flashrt_core.engine import Core, Engine, Guidance, ModelConfig, native_core
from flashrt_core.errors import Error
from flashrt_core.groot.parts import groot_parts
from flashrt_core.groot.settings import GrootSettings
from flashrt_core.model_pictures import EngineImages
from flashrt_core.parts import PolicyParts
from flashrt_core.pi import pi_parts
from flashrt_core.pipeline import StateForms
from flashrt_core.prompt import check_prompt
from flashrt_core.rtc import guidance_scale, prefix_weights
from flashrt_core.settings import CheckpointSettings, GuidanceSettings, PolicySettings
from flashrt_core.types import ActionChunk, ActionPrefix, Observation, OutOfRange, PolicySpec

if TYPE_CHECKING:
    from flashrt_core._core import Equalisation

__all__ = [
    'FlashPolicy',
    'GrootSettings',
    'GuidanceSettings',
    'ModelInput',
    'Policy',
    'PolicySettings',
    'load_policy',
]


class Policy(Protocol):
    """Turns observations into action chunks; all calls come from one thread at a time."""

    @property
    def spec(self) -> PolicySpec: ...

    def set_prompt(self, text: str) -> int: ...

    def infer(
        self,
        observation: Observation,
        *,
        noise: NDArray[np.float32] | None = None,
        seed: int | None = None,
        prefix: ActionPrefix | None = None,
    ) -> ActionChunk: ...

    def model_images(self, observation: Observation) -> NDArray[np.uint8]: ...

    def warm_up(self) -> None: ...

    def reset(self) -> None: ...

    def action_range(self) -> NDArray[np.float64] | None: ...

    def info(self) -> Mapping[str, str]: ...


@dataclass(frozen=True, eq=False)
class ModelInput:
    """An observation as the engine takes it, and what the way back to the robot needs."""

    images: EngineImages
    tokens: NDArray[np.int32]
    noise: NDArray[np.float32]
    model_state: NDArray[np.float32] | None  # of models that take one
    state: StateForms
    seed: int | None  # of the noise; None when the caller gave it
    out_of_range: tuple[OutOfRange, ...]

    @property
    def inputs(self) -> tuple:
        """As Engine.infer takes them."""
        return self.images, self.tokens, self.noise, self.model_state


class FlashPolicy:
    """Runs one checkpoint: its pipeline around an engine, one prompt at a time."""

    def __init__(
        self,
        *,
        settings: CheckpointSettings,
        spec: PolicySpec,
        parts: PolicyParts,
        config: ModelConfig,
        core: Core,
        engine: Engine,
    ) -> None:
        self.spec = spec
        self.pipeline = parts.pipeline
        self.prompt = parts.prompt
        self.engine = engine
        self._pictures = parts.pictures
        self._settings = settings
        self._config = config
        self._core = core
        self._times = parts.times
        self._names = parts.state_names
        device = engine.device
        self._device = f'{device.name}, {device.versions}'
        self._prompt_id = 0
        self._task = ''
        self._fixed_tokens: NDArray[np.int32] | None = None  # of a prompt without state
        self._tick = 0

    def set_prompt(self, text: str) -> int:
        """Takes a new instruction and returns its id; a refused one leaves the prompt in use as it was.

        With the state in the prompt its length is checked for the longest possible state text.
        """
        task = check_prompt(text)
        longest = self.longest_prompt(task)
        count = self.prompt.counted(longest)
        if count > self.spec.prompt_capacity:
            message = f'prompt: needs {count} tokens, the capacity is {self.spec.prompt_capacity}'
            if self.prompt.uses_state:
                without = self.prompt.counted(self.prompt.tokens(task, np.empty(0)))
                message += f' ({without} for the text, {count - without} for the longest state text)'
            raise Error(f'{message}; shorten it or raise prompt_capacity. The prompt in use stays')
        if longest.max() >= self._config.vocab_size:
            raise Error(
                f'prompt: token {longest.max()} is beyond the {self._config.vocab_size} tokens of the model; '
                f'the tokenizer {self.prompt.path} does not belong to this checkpoint'
            )
        self._task = task
        self._fixed_tokens = None if self.prompt.uses_state else longest
        self._prompt_id += 1
        return self._prompt_id

    def longest_prompt(self, task: str) -> NDArray[np.int32]:
        """Tokens of an instruction with the longest possible state text."""
        return self.prompt.longest(task, self.spec.state_dim)

    def infer(
        self,
        observation: Observation,
        *,
        noise: NDArray[np.float32] | None = None,
        seed: int | None = None,
        prefix: ActionPrefix | None = None,
    ) -> ActionChunk:
        """noise: of the shape spec.noise_shape; without it, drawn from (seed or settings.seed, tick)."""
        start = time.perf_counter()
        guidance = None if prefix is None else self._guidance(prefix, observation)
        given = self.model_input(observation, noise=noise, seed=seed)

        ready = time.perf_counter()
        model_actions = self.engine.infer(*given.inputs, guidance)
        done = time.perf_counter()

        if not np.isfinite(model_actions).all():
            row, column = np.argwhere(~np.isfinite(model_actions))[0]
            raise Error(f'infer: the model gave {model_actions[row, column]} in row {row}, column {column}')
        actions = self.pipeline.robot_actions(model_actions, given.state)
        end = time.perf_counter()
        return ActionChunk(
            actions=actions,
            model_actions=model_actions,
            stamps_ns=dict(observation.stamps_ns),
            prompt_id=self._prompt_id,
            seed=given.seed,
            timings={
                'preprocess': (ready - start) * 1e3,
                'engine': (done - ready) * 1e3,
                'postprocess': (end - done) * 1e3,
            },
            out_of_range=given.out_of_range,
        )

    def model_input(
        self,
        observation: Observation,
        *,
        noise: NDArray[np.float32] | None = None,
        seed: int | None = None,
    ) -> ModelInput:
        """What `infer` gives to the engine; a tick passes where the noise is drawn."""
        if noise is not None and seed is not None:
            raise Error(f'infer: noise and seed {seed} were both given; give one')
        if not self._prompt_id or observation.prompt_id != self._prompt_id:
            raise Error(
                f'infer: the observation has prompt_id {observation.prompt_id}, the prompt in use has '
                f'{self._prompt_id or "none; call set_prompt first"}'
            )
        state = self.pipeline.state_forms(self._checked_state(observation.state))
        past = [self.pipeline.state_forms(row) for row in self._checked_past(observation)]
        out_of_range = self._check_range(state.normalised, observation.is_trial)
        images = self._pictures.of(observation)
        tokens = self._fixed_tokens
        if tokens is None:
            tokens = self.prompt.tokens(self._task, state.normalised)
        if noise is None:
            seed = self._settings.seed if seed is None else seed
            noise = self._draw(seed)
        return ModelInput(
            images=images,
            tokens=tokens,
            noise=self._checked_noise(noise),
            model_state=self.pipeline.model_state([*past, state]),
            state=state,
            seed=seed,
            out_of_range=out_of_range,
        )

    def warm_up(self) -> None:
        """Runs the engine on black pictures with the shortest and the longest prompt; no tick passes."""
        images = self._pictures.black()
        noise = np.zeros(self.spec.noise_shape, np.float32)
        unknown = np.zeros(self.spec.state_dim)
        moments = [self.pipeline.state_forms(unknown)] * (1 + len(self.spec.past_states))
        state = self.pipeline.model_state(moments)
        for length in (1, self.spec.prompt_capacity):
            actions = self.engine.infer(images, self.prompt.filler(length), noise, state, None)
            if actions.shape != noise.shape:
                raise Error(f'warm-up: the model gives actions {actions.shape}, needed {noise.shape}')

    def reset(self) -> None:
        """Starts the sequence of noise again; the prompt stays."""
        self._tick = 0

    def action_range(self) -> NDArray[np.float64] | None:
        """[2, action_dim] in robot units, what the checkpoint was trained on; see Pipeline.action_range."""
        return self.pipeline.action_range(self.spec.model_action_dim)

    def model_images(self, observation: Observation) -> NDArray[np.uint8]:
        """[cameras, height, width, 3]: what the model sees, in its order; floats are rounded to bytes."""
        return self._pictures.seen(observation)

    def info(self) -> Mapping[str, str]:
        """What is loaded, for status and reports."""
        return {
            'checkpoint': str(self._settings.checkpoint),
            'model': self._config.model_type,
            'weights_digest': self.engine.weights_digest,
            'backend': self._settings.backend,
            'device': self._device,
            'recipe': self._settings.recipe,
            'calibration': str(self._settings.calibration or ''),
            'tokenizer': str(self.prompt.path),
            'tokenizer_sha256': self.prompt.sha256,
            **self.pipeline.sources,
            'prompt': self.prompt.read(self._task),
            'warnings': '; '.join(self.pipeline.warnings),
        }

    def _draw(self, seed: int) -> NDArray[np.float32]:
        """Philox from (seed, tick), so that every backend gets the same noise."""
        if not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
            raise Error(f'infer: seed is {seed}, needed a whole number from 0 to 2^64 - 1')
        generator = np.random.Generator(np.random.Philox(key=np.array([seed, self._tick], np.uint64)))
        self._tick += 1
        return generator.standard_normal(self.spec.noise_shape, np.float32)

    def _checked_noise(self, noise: NDArray) -> NDArray[np.float32]:
        with np.errstate(over='ignore'):
            noise = np.ascontiguousarray(noise, np.float32)
        needed = self.spec.noise_shape
        if noise.shape != needed:
            raise Error(f'infer: noise has shape {noise.shape}, needed {needed}')
        if not np.isfinite(noise).all():
            row, column = np.argwhere(~np.isfinite(noise))[0]
            raise Error(f'infer: noise is {noise[row, column]} in row {row}, column {column}')
        return noise

    def _checked_state(self, given: ArrayLike) -> NDArray[np.float64]:
        try:
            state = np.asarray(given, np.float64)
        except (TypeError, ValueError) as fault:
            raise Error(f'infer: the state is {given!r}, needed numbers') from fault
        if state.shape != (self.spec.state_dim,):
            raise Error(f'infer: the state has shape {state.shape}, needed ({self.spec.state_dim},)')
        faulty = np.flatnonzero(~np.isfinite(state))
        if faulty.size:
            listed = ', '.join(f'{self._names[i]} = {state[i]}' for i in faulty)
            raise Error(f'infer: the state is not finite: {listed}')
        return state

    def _checked_past(self, observation: Observation) -> list[NDArray[np.float64]]:
        """States of the moments that the policy looks back on, oldest first."""
        wanted = self.spec.past_states
        given = () if observation.past_states is None else observation.past_states
        if len(given) != len(wanted):
            when = f', those of {", ".join(map(str, wanted))} rows ago' if wanted else ''
            raise Error(
                f'infer: the observation holds {len(given)} states of the past, needed {len(wanted)}{when}'
            )
        return [self._checked_state(row) for row in given]

    def _check_range(self, normalised: NDArray, is_trial: bool) -> tuple[OutOfRange, ...]:
        """Reports columns beyond the training data; refuses beyond the limit of the settings."""
        limit = None if is_trial else self._settings.state_limit
        found = tuple(
            OutOfRange(i, self._names[i], value)
            for i, (value, beyond) in enumerate(
                zip(normalised.tolist(), self.pipeline.state_range().tolist(), strict=True)
            )
            if not abs(value) <= (beyond if limit is None else min(beyond, limit))
        )
        refused = [item for item in found if limit is not None and not abs(item.normalised) <= limit]
        if refused:
            listed = ', '.join(f'{item.name} = {item.normalised:.4g}' for item in refused)
            raise Error(f'infer: normalised state beyond state_limit {limit:g}: {listed}')
        return found

    def _guidance(self, prefix: ActionPrefix, observation: Observation) -> Guidance | None:
        """What holds the new chunk to the prefix; nothing is held where no row is left."""
        if not self._settings.real_time_chunking:
            raise Error('infer: a prefix was given, but the policy was loaded without real_time_chunking')
        rows, columns = np.shape(prefix.model_actions)
        horizon, width = self.spec.horizon, self.spec.model_action_dim
        if rows > horizon or columns > width or not np.isfinite(prefix.model_actions).all():
            raise Error(
                f'infer: prefix of {rows} rows and {columns} columns, needed finite values and at most '
                f'{horizon} and {width}'
            )
        known = self._prefix_rows(prefix, observation)
        previous = np.zeros((horizon, width), np.float32)
        previous[:rows, : known.shape[1]] = known
        if prefix.mode == 'hard':
            longest = min(self.pipeline.max_hard_delay, horizon - 1, rows)
            if prefix.delay > longest:
                raise Error(
                    f'infer: hard prefix with delay {prefix.delay}; the checkpoint was trained for '
                    f'{self.pipeline.max_hard_delay} rows, the chunk has {horizon}, the prefix {rows}'
                )
            nothing = np.zeros(horizon, np.float32), np.zeros(len(self._times), np.float32)
            return self._core.Guidance(previous, *nothing, prefix.delay)
        guidance = self.pipeline.guidance
        if guidance is None:
            raise Error(
                "policy settings: 'guidance' is needed for a prefix of mode 'guided'; the checkpoint has no "
                'rtc_config'
            )
        if not rows:
            return None
        weights = prefix_weights(guidance.schedule, prefix.delay, guidance.execution_horizon, rows, horizon)
        return self._core.Guidance(previous, weights, guidance_scale(self._times, guidance.max_weight), 0)

    def _prefix_rows(self, prefix: ActionPrefix, observation: Observation) -> NDArray:
        """[rows, columns without padding] as they would have been inferred from the new observation.

        Padding counts as zero, as in training.
        """
        actions = np.asarray(prefix.model_actions, np.float32)[:, : self.spec.action_dim]
        if self.pipeline.reanchor is None:
            return actions
        if prefix.state is None or actions.shape[1] < self.spec.action_dim:
            raise Error(
                f'infer: the prefix has {actions.shape[1]} columns and '
                f'{"no state" if prefix.state is None else "a state"}; the actions of this checkpoint count '
                f'from the state, so it needs all {self.spec.action_dim} columns and the state they were '
                'inferred from'
            )
        states = prefix.state, observation.state
        old, new = (self.pipeline.state_forms(self._checked_state(state)) for state in states)
        return self.pipeline.reanchor(actions, old, new)


def load_policy(
    settings: CheckpointSettings,
    core: Core | None = None,
    *,
    float_activations: bool = False,
    equalisation: 'Equalisation | None' = None,
) -> FlashPolicy:
    """Reads the checkpoint's files, checks them against the settings, and compiles the engine.

    settings: PolicySettings or GrootSettings, as the model needs. core: a stand-in for the native module.
    To calibrate: float_activations, what the recipe quantises is held in float; equalisation, of the
    calibration to come.
    """
    core = core or native_core()
    _refuse_missing('calibration', settings.calibration, '`flashrt calibrate` writes it')
    _refuse_missing('packed weights', settings.packed, '`flashrt pack` writes them')
    checkpoint = str(settings.checkpoint)
    config = core.read_model_config(checkpoint)
    steps = _setting_or_checkpoint(settings, config, 'steps')
    capacity = _setting_or_checkpoint(settings, config, 'prompt_capacity')
    parts = _parts(settings, config, steps, core)
    pipeline = parts.pipeline
    if pipeline.action_dim > config.action_dim:
        raise Error(
            f'the robot has {pipeline.action_dim} action columns, the model gives {config.action_dim}'
        )
    engine = core.Engine(
        checkpoint,
        cameras=len(pipeline.cameras),
        prompt_capacity=capacity,
        steps=steps,
        recipe=settings.recipe,
        calibration=_path(settings.calibration),
        float_activations=float_activations,
        **({} if equalisation is None else {'equalisation': equalisation}),
        packed=_path(settings.packed),
        backend=settings.backend,
        threads=settings.threads,
        device=settings.device,
        tuning=_path(settings.tuning),
        **parts.engine_options,
    )
    spec = PolicySpec(
        cameras=tuple(camera.name for camera in pipeline.cameras),
        image_size=max(max(size) for size in parts.pictures.sizes),
        state_dim=pipeline.state_dim,
        action_dim=pipeline.action_dim,
        horizon=parts.horizon or engine.horizon,
        model_action_dim=config.action_dim,
        prompt_capacity=capacity,
        actions=settings.actions,
        max_hard_delay=pipeline.max_hard_delay,
        model_rows=engine.horizon,
        picture_sizes=parts.picture_sizes,
        state_columns=parts.state_columns,
        action_columns=parts.action_columns,
        past_cameras=parts.past_cameras,
        past_states=parts.past_states,
    )
    return FlashPolicy(settings=settings, spec=spec, parts=parts, config=config, core=core, engine=engine)


def _parts(settings: CheckpointSettings, config: ModelConfig, steps: int, core: Core) -> PolicyParts:
    """By the family of the settings, which must be that of the model."""
    is_groot = config.model_type.startswith('groot')
    if isinstance(settings, GrootSettings) and is_groot:
        return groot_parts(settings, config)
    if isinstance(settings, PolicySettings) and not is_groot:
        return pi_parts(settings, config, steps, core)
    raise Error(
        f'{settings.checkpoint} holds a {config.model_type}, and the settings are {type(settings).__name__}; '
        'GR00T takes GrootSettings, Pi0.5 and Pi0 PolicySettings'
    )


def _refuse_missing(what: str, path: str | os.PathLike | None, remedy: str) -> None:
    """Before the weights are read, which takes long."""
    if path is not None and not Path(path).exists():
        raise Error(f'{what} {path} does not exist; {remedy}')


def _path(path: str | os.PathLike | None) -> str | None:
    return None if path is None else os.fspath(path)


def _setting_or_checkpoint(settings: CheckpointSettings, config: ModelConfig, name: str) -> int:
    value = getattr(settings, name) or getattr(config, name)
    if not value:
        raise Error(
            f"policy settings: '{name}' is needed; {settings.checkpoint}/config.json does not give it"
        )
    return value
