# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Shared by the tests of the policy: where reference data lie, and a stand-in for the native module."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

GOLDEN = Path(__file__).parents[1] / 'golden'


@dataclass
class FakeConfig:
    """Sizes of pi05_tiny, which the reference data of whole policies were made with."""

    model_type: str = 'pi05'
    image_size: int = 56
    action_dim: int = 32
    horizon: int = 10
    state_dim: int = 0
    steps: int = 10
    prompt_capacity: int = 0
    vocab_size: int = 712
    image_token: int = 0
    embodiments: int = 0


@dataclass
class FakeGuidance:
    previous: np.ndarray
    weights: np.ndarray
    guidance: np.ndarray
    committed_rows: int


@dataclass
class FakeFrame:
    data: bytes
    encoding: str
    height: int
    width: int
    step: int


@dataclass
class FakeFrameOptions:
    fit: str
    rotation: int
    bars: float


@dataclass
class FakeDevice:
    name: str = 'abacus'
    versions: str = 'beads 7'


@dataclass
class FakeEngine:
    """Keeps what it is given and answers with what the test wants."""

    options: dict
    horizon: int
    steps: int
    weights_digest: str = 'digest-of-weights'
    device: FakeDevice = field(default_factory=FakeDevice)
    calls: list[dict] = field(default_factory=list)
    answer: Callable[[np.ndarray], np.ndarray] = lambda noise: noise

    def infer(self, images, tokens, noise, state=None, guidance=None):
        self.calls.append(
            {'images': images, 'tokens': tokens, 'noise': noise, 'state': state, 'guidance': guidance}
        )
        return self.answer(noise)


@dataclass
class FakeCore:
    """Stands for the native module; `config` says what the checkpoint is."""

    config: FakeConfig = field(default_factory=FakeConfig)
    Guidance: type = FakeGuidance
    Frame: type = FakeFrame
    FrameOptions: type = FakeFrameOptions

    def read_model_config(self, checkpoint):
        return self.config

    def Engine(self, checkpoint, **options):  # noqa: N802
        return FakeEngine(options, options['horizon'] or self.config.horizon, options['steps'])


@pytest.fixture(scope='session')
def golden() -> Path:
    return GOLDEN


@pytest.fixture
def fake_core() -> FakeCore:
    return FakeCore()


@pytest.fixture
def write_stats(tmp_path) -> Callable[..., Path]:
    """Writes a norm_stats.json with the same numbers in every column."""

    def write(state_dim: int, action_dim: int, low=-1.0, high=1.0, **state_columns) -> Path:
        def group(columns):
            return {
                'mean': [(low + high) / 2] * columns,
                'std': [(high - low) / 2] * columns,
                'q01': [low] * columns,
                'q99': [high] * columns,
            }

        state = group(state_dim) | state_columns
        path = tmp_path / 'norm_stats.json'
        path.write_text(json.dumps({'norm_stats': {'state': state, 'actions': group(action_dim)}}))
        return path

    return write


@pytest.fixture(scope='session')
def swinging_arms() -> np.ndarray:
    """Two arms that swing, for 4 s at 50 Hz; one joint does not move."""
    t = np.arange(200)[:, np.newaxis] / 50
    rows = 0.4 + 0.3 * np.sin(t * np.linspace(1, 3, 14))
    rows[:, 2] = 0.5
    return rows
