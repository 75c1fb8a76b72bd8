# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`flashrt show-input`: what the model gets at a moment of a recording, as a picture, numbers and text."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from PIL import Image
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flashrt_core.errors import Error
from flashrt_core.policy import FlashPolicy
from flashrt_core.prompt import state_bins
from flashrt_ros.bag import Bag, BagError, select_topics
from flashrt_ros.bag_inputs import BagInputs, input_types, is_known, once_per_reason
from flashrt_ros.history import NO_PAST, LookBack
from flashrt_ros.input_picture import draw_views
from flashrt_ros.observations import NotReady, Observed
from flashrt_ros.parameters import Parameters
from flashrt_ros.replay_setup import OnProgress, Warnings, checked_parameters, progress_bar
from flashrt_ros.without_weights import policy_without_weights

FAULTY = 2  # exit code


def run(
    bag: Annotated[Path, typer.Argument(help='rosbag2 recording: a folder, or a .db3 or .mcap file')],
    params: Annotated[Path, typer.Option(help='parameter file of the policy node')],
    at: Annotated[
        float | None,
        typer.Option(min=0.0, help='seconds from the beginning of the recording; else the first observation'),
    ] = None,
    out: Annotated[Path, typer.Option(help='the picture to write, a PNG')] = Path('out/model_input.png'),
) -> None:
    """Show what the model gets at a moment of a recording: pictures, state and prompt.

    The pictures have passed rotation, resize and bars exactly as in the node. No weights are read;
    neither a GPU nor ROS is needed.

    Exit code: 0, or 2 where there is no observation at that moment or a file is refused.
    """
    console = Console()
    try:
        _show(bag, params, at, out, console)
    except Error as error:
        Console(stderr=True).print(str(error), style='red', markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(FAULTY) from None


@dataclass(frozen=True, eq=False)
class ShownInput:
    """One observation as the model gets it."""

    observed: Observed
    slots: tuple[str, ...]
    images: NDArray[np.uint8]  # [cameras, size, size, 3], in the order of the model
    normalised: NDArray  # [joints]
    bins: NDArray[np.int64] | None  # [joints]; None where the prompt holds no state
    text: str  # of the prompt, all its pieces
    tokens: int
    beyond_training: frozenset[str]  # joints whose normalised value lies outside of the training data


def shown_input(policy: FlashPolicy, parameters: Parameters, observed: Observed) -> ShownInput:
    """Asks the policy; its prompt must be the one of the observation."""
    noise = np.zeros(policy.spec.noise_shape, np.float32)
    given = policy.model_input(observed.observation, noise=noise)
    normalised = given.state.normalised
    return ShownInput(
        observed=observed,
        slots=policy.spec.cameras,
        images=policy.model_images(observed.observation),
        normalised=normalised,
        bins=state_bins(normalised) if policy.prompt.uses_state else None,
        text=policy.prompt.text(parameters.prompt, normalised),
        tokens=policy.prompt.counted(given.tokens),
        beyond_training=frozenset(item.name for item in given.out_of_range),
    )


def observe(
    bag: Bag,
    parameters: Parameters,
    prompt_id: int,
    at_s: float | None,
    warn: Callable[[str], None],
    progress: OnProgress = lambda _: None,
    look_back: LookBack = NO_PAST,
) -> Observed:
    """The newest observation at that moment, formed when its last picture came; without it, the first."""
    inputs = BagInputs(parameters, once_per_reason(warn), look_back=look_back)
    end_ns = bag.end_ns if at_s is None else bag.start_ns + round(at_s * 1e9)
    if end_ns > bag.end_ns:
        length_s = (bag.end_ns - bag.start_ns) / 1e9
        raise BagError(f'--at {at_s:g}: the recording {bag.path} is {length_s:.3f} s long')
    # Pictures that came earlier are stale at that moment: they need not be decoded.
    window_s = parameters.camera_max_age_s + parameters.max_clock_skew_s
    earliest_ns = 0 if at_s is None else end_ns - round(window_s * 1e9)
    newest = None
    for message in bag.messages():
        if message.log_ns > end_ns:
            break
        progress(message.log_ns)
        if not inputs.take(message) or message.log_ns < earliest_ns:
            continue
        now = inputs.moment(message.log_ns)
        try:
            newest = inputs.buffer.form(lambda now=now: now, prompt_id)
        except NotReady:
            continue
        if at_s is None:
            return newest
    reason = inputs.buffer.check(inputs.moment(end_ns)) or inputs.buffer.check_past()
    if newest is None or reason is not None:
        when = 'no observation in the whole recording; at its end' if at_s is None else f'at {at_s:g} s'
        raise BagError(f'{bag.path}: {when}: {reason or "no picture could be decoded"}')
    return newest


def _show(bag_path: Path, params: Path, at_s: float | None, out: Path, console: Console) -> None:
    warnings = Warnings(console)
    parameters = checked_parameters(params, warnings, None)
    policy = policy_without_weights(parameters)
    prompt_id = policy.set_prompt(parameters.prompt)
    with Bag(bag_path, warnings) as bag:
        select_topics(bag, input_types(parameters), is_known, warnings)
        with progress_bar(console, 'reading', bag) as progress:
            observed = observe(
                bag, parameters, prompt_id, at_s, warnings, progress, LookBack.of(policy.spec, parameters)
            )
        shown = shown_input(policy, parameters, observed)
        formed_s = (shown.observed.ready.ros_ns - bag.start_ns) / 1e9
    _write(draw_views(shown.slots, shown.images), out)
    _print_state(shown, parameters, console)
    capacity = policy.spec.prompt_capacity
    console.print(
        f'prompt, {shown.tokens} of {capacity} tokens: {shown.text!r}', markup=False, soft_wrap=True
    )
    console.print(
        f'formed {formed_s:.3f} s after the beginning of the recording, from inputs of which the oldest is '
        f'{(shown.observed.ready.ros_ns - shown.observed.stamp_ns) / 1e9:.3f} s old',
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    console.print(f'wrote {out}: {", ".join(shown.slots)}', markup=False, highlight=False, soft_wrap=True)


def _print_state(shown: ShownInput, parameters: Parameters, console: Console) -> None:
    columns = ['joint', 'state', 'normalised', *(['bin'] if shown.bins is not None else []), '']
    table = Table(*columns, box=box.SIMPLE)
    state = shown.observed.observation.state
    for i, name in enumerate(parameters.joint_names):
        row = [escape(name), f'{state[i]:.4f}', f'{shown.normalised[i]:.4f}']
        row += [] if shown.bins is None else [str(shown.bins[i])]
        table.add_row(*row, 'outside of the training data' if name in shown.beyond_training else '')
    console.print(table)


def _write(picture: NDArray[np.uint8], out: Path) -> None:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(out, format='PNG')
    except OSError as fault:
        raise Error(f'--out {out} cannot be written: {fault}') from None
