# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""A stand-in for the native module, which keeps what it is given and answers with what a test wants."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np


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
