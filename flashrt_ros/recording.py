# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""A recording as observations to calibrate on: assembled as the node does it, spread over its length."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from flashrt_core.types import Observation
from flashrt_ros.bag import Bag, BagError, select_topics
from flashrt_ros.bag_inputs import BagInputs, input_types, is_known, once_per_reason
from flashrt_ros.history import LookBack
from flashrt_ros.load import check_fit, policy_settings
from flashrt_ros.observations import NotReady
from flashrt_ros.parameters import Parameters
from flashrt_ros.replay_setup import checked_parameters

if TYPE_CHECKING:
    from flashrt_core.policy import Policy

Warn = Callable[[str], None]


@contextmanager
def open_recording(path: Path, params: Path, warn: Warn) -> Iterator['BagRecording']:
    """What `flashrt calibrate` reads; params: the parameter file of the node."""
    parameters = checked_parameters(params, warn, None)
    with Bag(path, warn) as bag:
        select_topics(bag, input_types(parameters), is_known, warn)
        yield BagRecording(bag, parameters, warn)


class BagRecording:
    """An open recording and the parameters that it is read with."""

    def __init__(self, bag: Bag, parameters: Parameters, warn: Warn) -> None:
        self.settings = policy_settings(parameters)
        self.joints = parameters.commanded_joints
        self._bag, self._parameters, self._warn = bag, parameters, warn

    def observations(self, policy: 'Policy', count: int) -> Iterator[tuple[str, Observation]]:
        """The recording is cut into `count` spans; each gives the first observation after its middle."""
        check_fit(policy, self._parameters)
        prompt_id = policy.set_prompt(self._parameters.prompt)
        look_back = LookBack.of(policy.spec, self._parameters)
        inputs = BagInputs(self._parameters, once_per_reason(self._warn), look_back=look_back)
        bag, start_ns = self._bag, self._bag.start_ns
        span_ns = max(1.0, (bag.end_ns - start_ns) / count)
        span = taken = 0
        why = 'it holds no message of the cameras and joints that they name'
        for message in bag.messages():
            time_ns = message.log_ns - start_ns
            if not inputs.take(message) or time_ns < (span + 0.5) * span_ns:
                continue
            now = inputs.moment(message.log_ns)
            try:
                observed = inputs.buffer.form(lambda now=now: now, prompt_id)
            except NotReady as reason:
                why = str(reason)
                continue
            yield f'{bag.path.name} at {time_ns / 1e9:.3f} s', observed.observation
            taken += 1
            span = int(time_ns / span_ns + 0.5)  # the first whose middle is still to come
        if not taken:
            raise BagError(f'{bag.path} gives no observation under these parameters: {why}')
        if taken < count:
            self._warn(f'{bag.path} gives {taken} observations, {count} were asked for')
