# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The policy of a checkpoint without its weights: what comes before and after the model, in a second.

It is the same policy with an engine that computes nothing, so pictures, prompts and refusals are those of the
node.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from flashrt_core.engine import Core, native_core
from flashrt_core.errors import Error
from flashrt_core.policy import FlashPolicy, load_policy
from flashrt_ros.load import policy_settings
from flashrt_ros.parameters import Parameters


def policy_without_weights(parameters: Parameters) -> FlashPolicy:
    """Reads config.json, statistics and tokenizer, and refuses what the node would refuse of them."""
    settings = replace(policy_settings(parameters), calibration=None, packed=None)  # they are for weights
    return load_policy(settings, CoreWithoutWeights(native_core()))


class CoreWithoutWeights:
    """The native module, except for its engine."""

    def __init__(self, core: Core) -> None:
        self.read_model_config = core.read_model_config
        self.Frame = core.Frame
        self.FrameOptions = core.FrameOptions
        self.Guidance = core.Guidance

    def Engine(  # noqa: N802 - the name of the class in the native module
        self, checkpoint: str, *, steps: int, horizon: int, **unused: object
    ) -> '_EngineWithoutWeights':
        return _EngineWithoutWeights(steps, horizon or self.read_model_config(checkpoint).horizon)


@dataclass(frozen=True)
class _NoDevice:
    name: str = 'none'
    versions: str = 'the weights were not read'


@dataclass(frozen=True)
class _EngineWithoutWeights:
    steps: int
    horizon: int
    weights_digest: str = 'not read'
    device: _NoDevice = _NoDevice()

    def infer(self, *inputs: Sequence) -> NoReturn:
        raise Error('infer: this policy was loaded without its weights')

    def observe(self, *inputs: Sequence) -> NoReturn:
        self.infer()
