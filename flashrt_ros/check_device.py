# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Whether the model can run here: a tiny one of its family is run where the parameters say."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from flashrt_core.engine import Device, native_core
from flashrt_ros import computer
from flashrt_ros.check_findings import Finding, fail, ok, size
from flashrt_ros.demo_checkpoint import Sizes, write_demo_checkpoint
from flashrt_ros.groot_demo_checkpoint import IMAGE_TOKEN, GrootSizes, write_groot_demo_checkpoint
from flashrt_ros.parameter_table import ParameterFaults
from flashrt_ros.parameters import FAMILIES, GROOT, PI, Parameters

# Bytes of one weight, at least: what a recipe leaves in a wider type comes on top.
_LEAST_BYTES = {'f32': 4, 'bf16': 2, 'fp8': 1, 'fp8_f16': 1, 'fp8_mixed': 1}
_JOINTS = 14  # of the demo checkpoints


@dataclass(frozen=True, eq=False)
class _TinyModel:
    """A checkpoint in a second, how its engine is compiled, and what it is given."""

    write: Callable[[Path], None]
    options: Mapping[str, object]
    inputs: tuple


def _tiny_pi() -> _TinyModel:
    sizes = Sizes(image=28, vision_layers=1, layers=1, horizon=10, steps=1, prompt_capacity=8)
    states = np.zeros((2 * sizes.horizon, _JOINTS))
    image = np.zeros((1, sizes.image, sizes.image, 3), np.uint8)
    noise = np.zeros((sizes.horizon, sizes.action_dim), np.float32)
    return _TinyModel(
        lambda folder: write_demo_checkpoint(folder, states, sizes), {}, (image, np.ones(1, np.int32), noise)
    )


def _tiny_groot() -> _TinyModel:
    sizes = GrootSizes(vision_layers=1, layers=1, model_rows=10, horizon=4, steps=1)
    states = np.zeros((2 * sizes.horizon, _JOINTS))
    side = 2 * sizes.patch  # becomes one token
    image = np.zeros((1, side, side, 3), np.uint8)
    noise = np.zeros((sizes.model_rows, sizes.action_dim), np.float32)
    conversation = np.array([1, IMAGE_TOKEN, 1], np.int32)
    options = {
        'prompt_capacity': 1,
        'image_sizes': [(side, side)],
        'markup_rows': [1],
        'embodiment_slot': sizes.slot,
    }
    return _TinyModel(
        lambda folder: write_groot_demo_checkpoint(folder, states, sizes),
        options,
        (image, conversation, noise, np.zeros(sizes.state_dim, np.float32)),
    )


_TINY_MODELS = {PI: _tiny_pi, GROOT: _tiny_groot}


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
    model = f'a tiny {FAMILIES[parameters.model_config]} model'
    yield ok('device', f'{where}; {model} ran on it; {free}{takes}')


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
        tiny = _TINY_MODELS[FAMILIES[parameters.model_config]]()
        tiny.write(checkpoint)
        engine = native_core().Engine(
            checkpoint,
            cameras=1,
            backend=parameters.backend,
            device=parameters.device,
            threads=parameters.threads,
            **tiny.options,
        )
        engine.infer(*tiny.inputs)
        return engine.device
