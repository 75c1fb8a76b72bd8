# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`make replay`: a recorded robot through the policy node over DDS, on a tiny model made on the spot.

Fails loudly when too few chunks came, a message went missing, a picture reached the model changed, or the
chunks do not depend on their inputs.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from flashrt_core.errors import Error
from flashrt_core.types import Observation
from flashrt_ros.bag import Bag, BagError
from flashrt_ros.bag_inputs import observations
from flashrt_ros.demo_checkpoint import TOKENIZER, write_demo_checkpoint
from flashrt_ros.dependence import dependences
from flashrt_ros.groot_demo_checkpoint import write_groot_demo_checkpoint
from flashrt_ros.load import load_policy, prepare
from flashrt_ros.package_files import package_folder
from flashrt_ros.parameters import Parameters
from flashrt_ros.replay import publish
from flashrt_ros.replay_setup import NODE_NAME, Warnings, checked_parameters, live_replay
from flashrt_ros.report import Report

BUSY = (
    'Pictures and joint states are sent best effort: a node that gets no processor for a third of a second, '
    'as long as its queues last, loses some. Run the demo while the machine does nothing else.'
)
OTHER_PROMPT = 'fold the towel'
# Grey levels. Decoders may round differently by one; a wrong resize or channel order differs by far more.
LARGEST_DIFFERENCE = 3


@dataclass(frozen=True)
class DemoModel:
    """A tiny model that can be made on the spot."""

    name: str  # for people
    params: str  # in config/
    model_input: str  # beside the recording: what it must see of the last pictures, one PNG per slot
    tokenizer: str  # in the folder of the checkpoint; empty: the folder itself
    fewest_chunks: int  # of 8 s of recording, on two cores
    write: Callable[[Path, NDArray[np.float64]], None]  # to a folder, for the [samples, joints] of a robot


MODELS = {
    'pi05': DemoModel(
        'Pi0.5', 'pi05_demo.yaml', 'aloha_sim_model_input', TOKENIZER, 50, write_demo_checkpoint
    ),
    # Its pictures take longer than its model: they are scaled four times, and twice to be looked at.
    'groot': DemoModel(
        'GR00T N1.6', 'groot_demo.yaml', 'aloha_sim_groot_model_input', '', 25, write_groot_demo_checkpoint
    ),
}


@dataclass(frozen=True)
class DemoData:
    """What the demo reads."""

    bag: Path
    model_input: Path
    params: Path


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog='flashrt_ros.replay_demo', description=__doc__.splitlines()[0])
    parser.add_argument('--model', default='pi05', help=f'one of: {", ".join(MODELS)}')
    parser.add_argument('--out', type=Path, default=Path('out/replay'), help='folder of all results')
    parser.add_argument('--clock', action='store_true', help='run the node on simulated time')
    options = parser.parse_args(arguments)
    if options.model not in MODELS:
        parser.error(f"model '{options.model}' is not known; known: {', '.join(MODELS)}")
    console = Console()
    try:
        faults = run_demo(MODELS[options.model], options.out, console, simulated_time=options.clock)
    except Error as error:
        faults = [str(error)]
    for fault in faults:
        Console(stderr=True).print(f'FAILED: {fault}', style='bold red', markup=False, highlight=False)
    return 1 if faults else 0


def run_demo(model: DemoModel, out: Path, console: Console, *, simulated_time: bool) -> list[str]:
    """What is wrong with the demo, in words; nothing if all is well."""
    # A domain of its own, unless the user chose one: two demos on one machine do not hear each other.
    os.environ.setdefault('ROS_DOMAIN_ID', str(1 + os.getpid() % 100))
    replay = live_replay()
    data = find_data(model)
    checkpoint = out.resolve() / 'checkpoint'
    overrides = {
        'model.checkpoint': os.fspath(checkpoint),
        'model.tokenizer': os.fspath(checkpoint / model.tokenizer),
    }
    warnings = Warnings(console)
    parameters = checked_parameters(data.params, warnings, overrides)
    with Bag(data.bag, warnings) as bag:
        observed = [item.observation for item in observations(bag, parameters, prompt_id=0)]
    if not observed:
        return [f'{data.bag} gives no observation under {data.params}']
    rows = np.array([item.state for item in _at_rate(observed, parameters.row_period_s)])
    model.write(checkpoint, rows)
    console.print(f'made a tiny {model.name} with random weights in {checkpoint}', highlight=False)

    seen = _ModelInput()
    report = replay(
        data.bag, data.params, out, console,
        simulated_time=simulated_time, overrides=overrides, observe=seen.subscribe,
    )  # fmt: skip
    publish(report, out, console)
    if report.missing:
        console.print(BUSY, highlight=False)
    return [
        *traffic_faults(report, model.fewest_chunks),
        *seen.faults(read_pictures(data.model_input, parameters.camera_names), console),
        *dependence_faults(parameters, observed[len(observed) // 2], console),
    ]


def find_data(model: DemoModel) -> DemoData:
    """In the source tree, or where the package is installed."""
    root = package_folder()
    for recordings in (root / 'test' / 'data', root / 'demo'):
        if (recordings / 'aloha_sim').is_dir():
            return DemoData(
                recordings / 'aloha_sim', recordings / model.model_input, root / 'config' / model.params
            )
    raise BagError(f'{root} holds no sample recording')


def traffic_faults(report: Report, fewest_chunks: int) -> Iterator[str]:
    if len(report.chunks) < fewest_chunks:
        yield f'{len(report.chunks)} chunks were published, at least {fewest_chunks} were expected'
    yield from report.missing


def dependence_faults(parameters: Parameters, observation: Observation, console: Console) -> list[str]:
    """Loads the policy once more, in this process, and changes one input at a time."""
    policy = load_policy(parameters)
    prepare(policy, parameters)
    found = dependences(policy, observation, parameters.joint_names, parameters.prompt, OTHER_PROMPT)
    changes = [item.change for item in found if item.is_wanted]
    console.print(
        f'{len(changes)} changes of one input moved the chunk by {min(changes):.2g} to {max(changes):.2g} '
        '(normalised units)',
        highlight=False,
    )
    return [
        f'the chunk changed by {item.change:.3g} when {item.what} changed'
        for item in found
        if not item.is_fine
    ]


def read_pictures(folder: Path, slots: tuple[str, ...]) -> dict[str, NDArray[np.uint8]]:
    pictures = {}
    for slot in slots:
        picture = cv2.imread(os.fspath(folder / f'{slot}.png'), cv2.IMREAD_COLOR)
        if picture is None:
            raise BagError(f'{folder / f"{slot}.png"} cannot be read')
        pictures[slot] = cv2.cvtColor(picture, cv2.COLOR_BGR2RGB)
    return pictures


class _ModelInput:
    """Keeps the newest ~/model_input: the node forms its last observation from the last pictures."""

    def __init__(self) -> None:
        self._picture: NDArray[np.uint8] | None = None

    def subscribe(self, node: object) -> None:
        from sensor_msgs.msg import Image

        node.create_subscription(Image, f'{NODE_NAME}/model_input', self._keep, 1)

    def _keep(self, message: object) -> None:
        rows = np.frombuffer(message.data, np.uint8).reshape(message.height, message.step)
        self._picture = rows[:, : 3 * message.width].reshape(message.height, message.width, 3)

    def faults(self, expected: Mapping[str, NDArray[np.uint8]], console: Console) -> Iterator[str]:
        """Compares the views, which lie side by side in the order of the slots."""
        if self._picture is None:
            yield f'{NODE_NAME}/model_input published nothing'
            return
        side = self._picture.shape[0]
        differences = {}
        for index, (slot, picture) in enumerate(expected.items()):
            view = self._picture[:, index * side : (index + 1) * side]
            if view.shape != picture.shape:
                yield f'the model sees {slot} as {view.shape}, the stored picture is {picture.shape}'
                continue
            differences[slot] = int(np.abs(view.astype(int) - picture).max())
            if differences[slot] > LARGEST_DIFFERENCE:
                yield (
                    f'what the model sees of {slot} differs from the stored picture by {differences[slot]} '
                    f'grey levels, allowed: {LARGEST_DIFFERENCE}'
                )
        if differences:
            console.print(
                f'the last pictures reached the model within {max(differences.values())} grey levels of the '
                'stored ones',
                highlight=False,
            )


def _at_rate(observed: list[Observation], period_s: float) -> Iterator[Observation]:
    """Those closest to a fixed rate, by the newest stamp of each."""
    stamps = np.array([max(item.stamps_ns.values()) for item in observed])
    for due in np.arange(stamps[0], stamps[-1], round(period_s * 1e9)):
        yield observed[int(np.abs(stamps - due).argmin())]


if __name__ == '__main__':
    sys.exit(main())
