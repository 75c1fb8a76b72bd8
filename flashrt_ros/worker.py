# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The one thread that talks to the policy: prompts, resets and inference, newest observation first."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from flashrt_core.types import ActionChunk, ActionPrefix
from flashrt_ros.chunk_player import Chunk, Mark
from flashrt_ros.grippers import GripperMap
from flashrt_ros.inputs import Moment
from flashrt_ros.observations import NotReady, ObservationBuffer, Observed
from flashrt_ros.parameters import Parameters

if TYPE_CHECKING:
    from flashrt_core.policy import Policy


@dataclass(frozen=True)
class InferenceResult:
    """A chunk with everything that is known about how it came to be."""

    chunk_id: int
    chunk: ActionChunk
    actions: NDArray[np.float64]  # [rows, joints], robot units
    prompt: str
    observed: Observed
    start: Moment
    end: Moment
    mark: Mark

    def to_play(self) -> Chunk:
        state = self.observed.observation.state
        return Chunk(self.chunk_id, self.chunk.prompt_id, self.actions, self.chunk.model_actions, state)


@dataclass(frozen=True)
class WorkerSeams:
    """What the worker needs from outside; plain functions, so that it runs without ROS."""

    now: Callable[[], Moment]
    wants_chunk: Callable[[], bool]
    mark: Callable[[], Mark]
    prefix: Callable[[Mark], ActionPrefix | None]  # what the chunk of an observation at the mark continues
    prompt_changed: Callable[[], None]
    deliver: Callable[[InferenceResult], None]  # must wait for nobody who resets or deactivates the worker
    log_error: Callable[[str], None]


class InferenceWorker:
    """Runs the policy in its own thread; everybody else only leaves requests and goes on."""

    def __init__(
        self,
        policy: 'Policy',
        observations: ObservationBuffer,
        grippers: GripperMap,
        seams: WorkerSeams,
        parameters: Parameters,
        prompt_id: int,  # of parameters.prompt
    ) -> None:
        self._policy = policy
        self._observations = observations
        self._grippers = grippers
        self._seams = seams
        rate_hz = parameters.inference_rate_hz
        self._min_interval_s = 1 / rate_hz if rate_hz else 0.0  # 0: as fast as the policy answers
        # Held from the check of the run until the result is delivered; taken before _wake, never after it.
        self._delivery = threading.RLock()
        self._wake = threading.Condition()
        self._is_active = False
        self._has_news = False
        self._is_reset = False
        self._is_closed = False
        self._wanted_prompt: str | None = None
        self._last_request = parameters.prompt
        self._run = 0
        self._chunk_id = 0
        self._last_error = ''
        self.prompt = parameters.prompt  # in use
        self.prompt_id = prompt_id
        self.prompt_fault = ''  # why the last one was refused
        self.errors = 0
        self.last_chunk: ActionChunk | None = None
        self._thread = threading.Thread(target=self._loop, name='inference', daemon=True)
        self._thread.start()

    def activate(self) -> None:
        """Begins to infer, with a fresh run."""
        with self._delivery, self._wake:
            self._is_active = True
            self.reset()

    def reset(self) -> None:
        """A fresh run: random state and chunk numbers start again, a result in flight is dropped."""
        with self._delivery, self._wake:
            self._run += 1
            self._chunk_id = 0
            self._is_reset = True
            self._last_error = ''
            self._wake.notify()

    def deactivate(self) -> None:
        """No further result is delivered, not even the one being computed; waits for one under way."""
        with self._delivery, self._wake:
            self._run += 1
            self._is_active = False

    def notify(self) -> None:
        """Something new has arrived."""
        with self._wake:
            self._has_news = True
            self._wake.notify()

    def request_prompt(self, text: str) -> None:
        """Takes effect between two inferences; the text of the last request is no news."""
        with self._wake:
            if text != self._last_request:
                self._wanted_prompt = self._last_request = text
                self._wake.notify()

    def close(self, timeout_s: float) -> bool:
        """Ends the thread; False when an inference is still running after `timeout_s`."""
        with self._wake:
            self._run += 1
            self._is_active, self._is_closed = False, True
            self._wake.notify()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _loop(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(self._has_work)
                if self._is_closed:
                    return
                is_reset, self._is_reset = self._is_reset, False
                prompt, self._wanted_prompt = self._wanted_prompt, None
                is_active, run = self._is_active, self._run
                self._has_news = False
            if is_reset:
                self._policy.reset()
            if prompt is not None:
                self._set_prompt(prompt)
            started_s = time.monotonic()
            if is_active and self._infer(run):
                with self._wake:
                    rest_s = started_s + self._min_interval_s - time.monotonic()
                    self._wake.wait_for(lambda: self._is_closed, timeout=max(0.0, rest_s))

    def _has_work(self) -> bool:
        has_request = self._is_closed or self._is_reset or self._wanted_prompt is not None
        return has_request or (self._is_active and self._has_news)

    def _set_prompt(self, text: str) -> None:
        try:
            self.prompt_id = self._policy.set_prompt(text)
        except Exception as error:  # whatever it is, the prompt in use stays
            self.prompt_fault = f'prompt refused: {error}'
            self._seams.log_error(self.prompt_fault)
            return
        self.prompt, self.prompt_fault = text, ''
        self._observations.forget_past()
        self._seams.prompt_changed()

    def _infer(self, run: int) -> bool:
        if not self._seams.wants_chunk():
            return False
        mark = self._seams.mark()
        prefix = self._seams.prefix(mark)
        try:
            observed = self._observations.form(self._seams.now, self.prompt_id)
            start = self._seams.now()
            chunk = self._policy.infer(observed.observation, prefix=prefix)
            self._hand_over(run, mark, observed, start, chunk)
        except NotReady:  # the status asks the observations for the reason
            return False
        except Exception as error:  # the thread and the node go on, with the last safe behaviour
            self._note_error(run, f'inference failed: {error or type(error).__name__}')
        return True

    def _hand_over(self, run: int, mark: Mark, observed: Observed, start: Moment, chunk: ActionChunk) -> None:
        actions = self._grippers.to_robot(chunk.actions)
        with self._delivery:
            with self._wake:
                if run != self._run:
                    return
                self._chunk_id += 1
                chunk_id = self._chunk_id
            self.last_chunk = chunk
            self._seams.deliver(
                InferenceResult(
                    chunk_id, chunk, actions, self.prompt, observed, start, self._seams.now(), mark
                )
            )
            self._last_error = ''

    def _note_error(self, run: int, text: str) -> None:
        with self._wake:
            self.errors += 1
            is_news = text != self._last_error  # once per cause
            if run == self._run:  # of a past run it is no state of this one
                self._last_error = text
        if is_news:
            self._seams.log_error(text)

    @property
    def last_error(self) -> str:
        """Of the newest inference; empty when it succeeded."""
        return self._last_error
