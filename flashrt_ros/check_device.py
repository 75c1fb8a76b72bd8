# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Whether the model can run here: a tiny model is run on the backend and device of the parameters."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from flashrt_core.engine import Device, native_core
from flashrt_ros import computer
from flashrt_ros.check_findings import Finding, fail, ok, size
from flashrt_ros.demo_checkpoint import Sizes, write_demo_checkpoint
from flashrt_ros.parameter_table import ParameterFaults
from flashrt_ros.parameters import Parameters

# Bytes of one weight, at least: what a recipe leaves in a wider type comes on top.
_LEAST_BYTES = {'f32': 4, 'bf16': 2, 'fp8': 1, 'fp8_f16': 1, 'fp8_mixed': 1}
_TINY = Sizes(image=28, vision_layers=1, layers=1, horizon=10, steps=1, prompt_capacity=8)


def check_device(parameters: Parameters, weights: int | None) -> Iterator[Finding]:
    """weights: how many numbers the model has, None where the checkpoint could not be read."""
    device = _device_that_runs(parameters)
    where = f'{parameters.backend}: {device.name}, {device.versions}'
    free = f'{size(device.free_bytes)} of {size(device.total_bytes)} free'
    needed = (weights or 0) * _LEAST_BYTES.get(parameters.recipe, 0)
    if needed > device.free_bytes:
        yield fail(
            'device',
            f'{where}: {free}, but the weights alone take {size(needed)} with model.recipe '
            f'{parameters.recipe}; end what else uses this memory, or choose a narrower recipe',
        )
        return
    takes = f', the weights take at least {size(needed)}' if needed else ''
    yield ok('device', f'{where}; a tiny model ran on it; {free}{takes}')


def check_computer(parameters: Parameters) -> Iterator[Finding]:
    """Whether this process may do what the node would be asked to; run as the user that starts the node."""
    try:
        computer.check(parameters, computer.Rights.of_process())
    except ParameterFaults as faults:
        for fault in faults.faults:
            yield fail('computer', fault)
        return
    wishes = [
        f'priority {parameters.priority}' if parameters.priority else 'ordinary priority',
        f'cores {", ".join(map(str, parameters.affinity))}' if parameters.affinity else 'all cores',
        'memory locked' if parameters.lock_memory else 'memory not locked',
    ]
    yield ok('computer', f'{", ".join(wishes)}: this user may do that')


def _device_that_runs(parameters: Parameters) -> Device:
    """Raises Error with the words of the engine where the backend or the device is not there."""
    with TemporaryDirectory() as folder:
        checkpoint = Path(folder) / 'tiny'
        write_demo_checkpoint(checkpoint, np.zeros((2 * _TINY.horizon, 14)), _TINY)
        engine = native_core().Engine(
            checkpoint,
            cameras=1,
            backend=parameters.backend,
            device=parameters.device,
            threads=parameters.threads,
        )
        engine.infer(
            np.zeros((1, _TINY.image, _TINY.image, 3), np.uint8),
            np.ones(1, np.int32),
            np.zeros((_TINY.horizon, _TINY.action_dim), np.float32),
        )
        return engine.device
