# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""A policy without a model, and the parameters of the reference robot of test/cases."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error
from flashrt_core.types import ActionChunk, ActionPrefix, Observation, PolicySpec
from flashrt_ros.parameter_file import read_parameter_file
from flashrt_ros.parameters import Parameters, read_parameters

CASES = Path(__file__).resolve().parent.parent / 'cases'
NODE = '/policy'
# For tests that run in time: a pause of the machine makes no input too old and ends no run.
PATIENT = {
    'cameras__max_age_s': 10.0,
    'cameras__max_spread_s': 10.0,
    'joints__max_age_s': 10.0,
    'actions__starvation_limit_s': 60.0,
}
ARM = [f'joint_{i}' for i in range(1, 7)]
# A checkpoint of joint velocities with a gripper position.
VELOCITY = {
    'actions__representation': 'joint_velocity',
    'safety__reaction': 'zero_velocity',
    'outputs__names': ['arm', 'hand'],
    'outputs__arm__joints': ARM,
    'outputs__arm__quantity': 'velocity',
    'outputs__hand__topic': 'hand/commands',
    'outputs__hand__joints': ['gripper'],
    'outputs__hand__quantity': 'position',
    'outputs__hand__type': 'float64_multi_array',
}


def values(**changes: object) -> dict[str, object]:
    """Flat parameters of the reference robot; changes use '__' for the dots of a name."""
    result = read_parameter_file(CASES / 'params' / 'ok.yaml', NODE)
    for name, value in changes.items():
        result[name.replace('__', '.')] = value
    return result


# What the reference robot needs to run a checkpoint of GR00T.
GROOT_MODEL = {
    'model.config': 'groot_n16',
    'model.checkpoint': '/data/checkpoints/bench_groot',
    'model.tokenizer': '/data/tokenizers/qwen3',
    'model.embodiment_tag': 'bench',
    'model.prompt_capacity': 64,
}


def groot_values(**changes: object) -> dict[str, object]:
    """As `values`, with GR00T in place of a Pi model."""
    robot = {name: value for name, value in values().items() if not name.startswith('model.')}
    del robot['actions.delta_mask']
    return robot | GROOT_MODEL | {name.replace('__', '.'): value for name, value in changes.items()}


def parameters(**changes: object) -> Parameters:
    return read_parameters(values(**changes), NODE)[0]


class FakePolicy:
    """Answers with a chunk of the test's choice; remembers what it was asked."""

    def __init__(
        self,
        settings: Parameters,
        answer: Callable[[Observation], NDArray] | None = None,
        seconds: float = 0.0,
        horizon: int = 10,
        action_dim: int | None = None,
        cameras: tuple[str, ...] | None = None,
        model: str = 'pi05',
    ) -> None:
        joints = len(settings.joint_names)
        self.settings = settings
        self._model = model
        self.spec = PolicySpec(
            cameras=cameras or settings.camera_names,
            image_size=8,
            state_dim=joints,
            action_dim=joints if action_dim is None else action_dim,
            horizon=horizon,
            model_action_dim=32,
            prompt_capacity=200,
            actions=settings.representation,
        )
        self._answer = answer or self._state_then_up
        self.seconds = seconds
        self.failure = ''
        self.observations: list[Observation] = []
        self.prefixes: list[ActionPrefix | None] = []
        self.range: NDArray[np.float64] | None = None  # [2, joints], of the training data
        self.threads: set[str] = set()
        self.prompts: list[str] = []
        self.trial_thread = ''  # of the first inference, which configuring makes
        self.warm_ups = self.resets = self.views = 0
        self.gate = threading.Event()  # closed: inference waits
        self.gate.set()
        self.hangs = False

    def _state_then_up(self, observation: Observation) -> NDArray:
        """Row i is the state plus (i + 1) / 100."""
        return observation.state + 0.01 * np.arange(1, self.spec.horizon + 1)[:, np.newaxis]

    def warm_up(self) -> None:
        self.warm_ups += 1

    def reset(self) -> None:
        self.resets += 1

    def set_prompt(self, text: str) -> int:
        if not text.strip() or len(text) > 200:
            raise Error(f'prompt of {len(text)} characters does not fit')
        self.prompts.append(text)
        return len(self.prompts) + 1

    def action_range(self) -> NDArray[np.float64] | None:
        return self.range

    def infer(self, observation: Observation, *, prefix: ActionPrefix | None = None) -> ActionChunk:
        self.observations.append(observation)
        self.prefixes.append(prefix)
        self.threads.add(threading.current_thread().name)
        self.trial_thread = self.trial_thread or threading.current_thread().name
        if self.failure:
            raise Error(self.failure)
        time.sleep(self.seconds)
        while not self.gate.wait(0.01):
            self.hangs = True
        self.hangs = False
        actions = np.asarray(self._answer(observation), np.float64)
        return ActionChunk(
            actions=actions,
            model_actions=np.zeros((len(actions), 32), np.float32),
            stamps_ns=observation.stamps_ns,
            prompt_id=observation.prompt_id,
            seed=0,
            timings={'preprocess': 0.0, 'engine': 0.0, 'postprocess': 0.0},
        )

    def model_images(self, observation: Observation) -> NDArray[np.uint8]:
        """[N, 8, 8, 3]: the first pixel of each picture, all over."""
        self.views += 1
        views = [np.broadcast_to(observation.images[slot][0, 0], (8, 8, 3)) for slot in self.spec.cameras]
        return np.stack(views).astype(np.uint8)

    def info(self) -> dict[str, str]:
        return {'model': self._model, 'backend': 'fake', 'weights_digest': 'none'}
