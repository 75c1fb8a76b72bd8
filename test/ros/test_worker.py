# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The inference thread: newest observation first, prompts in between, results of a past run dropped."""

import threading
import time

import numpy as np
import pytest
from fake_policy import PATIENT, FakePolicy, parameters

from flashrt_core.types import CameraFrame
from flashrt_ros.chunk_player import Mark
from flashrt_ros.conversions import JointSample
from flashrt_ros.grippers import GripperMap
from flashrt_ros.inputs import Moment
from flashrt_ros.latency import STAGES, LatencyRecorder
from flashrt_ros.observations import ObservationBuffer
from flashrt_ros.worker import InferenceResult, InferenceWorker, WorkerSeams

PATIENCE_S = 20.0


def now() -> Moment:
    return Moment(time.time_ns(), time.monotonic_ns())


class Rig:
    """A worker over a fake policy, fed by hand."""

    def __init__(self, **changes: object) -> None:
        settings = parameters(**(PATIENT | changes))
        self.policy = FakePolicy(settings)
        self.buffer = ObservationBuffer(settings, lambda *report: None)
        self.results: list[InferenceResult] = []
        self.errors: list[str] = []
        self.deliver = self.results.append
        self.wants_chunk = True
        self.prefix = None
        self.changes = 0  # of the prompt
        seams = WorkerSeams(
            now=now,
            wants_chunk=lambda: self.wants_chunk,
            mark=lambda: Mark(0, 0),
            prefix=lambda mark: self.prefix,
            prompt_changed=self._count_change,
            deliver=lambda result: self.deliver(result),
            log_error=self.errors.append,
        )
        self.worker = InferenceWorker(
            self.policy, self.buffer, GripperMap(settings), seams, settings, prompt_id=1
        )
        self.names = settings.joint_names

    def _count_change(self) -> None:
        self.changes += 1

    def feed(self, value: int = 0) -> None:
        stamp, receive = time.time_ns(), now()
        self.buffer.add_joints('joint_states', JointSample(dict.fromkeys(self.names, 0.5)), stamp, receive)
        for slot in ('base', 'wrist'):
            self.buffer.add_frame(slot, CameraFrame(bytes([value] * 12), 'rgb8', 2, 2, 6), stamp, receive)
        self.worker.notify()

    def wait(self, claim) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not claim():
            assert time.monotonic() < deadline, 'waited in vain'
            time.sleep(0.002)


@pytest.fixture
def rig():
    made: list[Rig] = []

    def make(**changes: object) -> Rig:
        made.append(Rig(**changes))
        return made[-1]

    yield make
    for one in made:
        one.policy.gate.set()
        assert one.worker.close(PATIENCE_S)


def test_inference_runs_in_one_thread_of_its_own(rig):
    it = rig()
    it.worker.activate()
    for count in range(1, 4):
        it.feed()
        it.wait(lambda count=count: len(it.results) == count)
    assert it.policy.threads == {'inference'}
    assert [result.chunk_id for result in it.results] == [1, 2, 3]


def test_newest_observation_wins_while_one_is_computed(rig):
    it = rig()
    it.policy.gate.clear()
    it.worker.activate()
    it.feed(1)
    it.wait(lambda: it.policy.observations)
    for value in (2, 3, 4):
        it.feed(value)
    it.policy.gate.set()
    it.wait(lambda: len(it.results) == 2)
    assert [o.images['base'][0, 0, 0] for o in it.policy.observations] == [1, 4]


def test_nothing_is_inferred_while_inactive(rig):
    it = rig()
    it.feed()
    it.worker.request_prompt('another task')  # is handled all the same
    it.wait(lambda: it.worker.prompt == 'another task')
    assert it.policy.observations == []


def test_result_of_a_past_run_is_dropped(rig):
    it = rig()
    it.policy.gate.clear()
    it.worker.activate()
    it.feed()
    it.wait(lambda: it.policy.observations)
    it.worker.deactivate()
    it.policy.gate.set()
    it.worker.activate()
    it.wait(lambda: it.policy.resets == 2)
    assert it.results == []
    it.feed()
    it.wait(lambda: it.results)
    assert it.results[0].chunk_id == 1


@pytest.mark.parametrize('way', ['deactivate', 'reset'])
def test_result_that_is_being_delivered_is_out_before_the_run_ends(rig, way: str):
    """Else one chunk of the old run would follow the end of it."""
    it = rig()
    events: list[str] = []
    ending: list[threading.Thread] = []

    def end() -> None:
        getattr(it.worker, way)()
        events.append('ended')

    def deliver(result: InferenceResult) -> None:
        ending.append(threading.Thread(target=end))
        ending[0].start()
        ending[0].join(0.2)  # time enough to end the run meanwhile
        events.append('delivered')

    it.deliver = deliver
    it.worker.activate()
    it.feed()
    it.wait(lambda: len(events) == 2)
    ending[0].join()
    assert events == ['delivered', 'ended']


def test_prompt_is_set_between_inferences_and_a_refused_one_changes_nothing(rig):
    it = rig()
    it.worker.activate()
    it.worker.request_prompt('stack the cups')
    it.feed()
    it.wait(lambda: it.results)
    assert (it.results[0].prompt, it.results[0].chunk.prompt_id) == ('stack the cups', it.worker.prompt_id)
    before = it.worker.prompt_id
    it.worker.request_prompt('x' * 300)
    it.wait(lambda: it.worker.prompt_fault)
    assert it.worker.prompt_fault == 'prompt refused: prompt of 300 characters does not fit'
    assert (it.worker.prompt, it.worker.prompt_id) == ('stack the cups', before)
    it.worker.request_prompt('sort the screws')
    it.wait(lambda: it.worker.prompt == 'sort the screws')
    assert it.worker.prompt_fault == ''


def test_prompt_in_use_is_no_news(rig):
    it = rig()
    for _ in range(3):
        it.worker.request_prompt('stack the cups')
    it.wait(lambda: it.worker.prompt == 'stack the cups')
    it.worker.request_prompt('stack the cups')
    it.worker.request_prompt('end')
    it.wait(lambda: it.worker.prompt == 'end')
    assert it.policy.prompts == ['stack the cups', 'end']


def test_error_is_logged_once_per_cause_and_work_goes_on(rig):
    it = rig()
    it.policy.failure = 'the model gave NaN'
    it.worker.activate()
    for count in range(1, 4):
        it.feed()
        it.wait(lambda count=count: it.worker.errors == count)
    assert it.errors == ['inference failed: the model gave NaN']
    assert it.worker.last_error == 'inference failed: the model gave NaN'
    it.policy.failure = ''
    it.feed()
    it.wait(lambda: it.results)
    assert it.worker.last_error == ''


def test_nothing_that_goes_wrong_ends_the_thread(rig, monkeypatch):
    it = rig()
    it.worker.activate()
    monkeypatch.setattr('flashrt_ros.observations.decode_frame', lambda *_: 1 / 0)
    it.feed()
    it.wait(lambda: it.worker.errors == 1)
    monkeypatch.undo()
    it.deliver = lambda result: 1 / 0
    it.feed()
    it.wait(lambda: it.worker.errors == 2)
    assert it.errors == ['inference failed: division by zero']
    it.deliver = it.results.append
    it.feed()
    it.wait(lambda: it.results)


def test_error_of_a_past_run_is_forgotten(rig):
    it = rig()
    it.policy.failure = 'the model gave NaN'
    it.worker.activate()
    it.feed()
    it.wait(lambda: it.worker.last_error)
    it.worker.deactivate()
    it.worker.activate()
    assert it.worker.last_error == ''


def test_request_while_the_same_prompt_is_being_set_is_no_news(rig):
    """Two subscriptions deliver each prompt twice."""
    it = rig()
    set_prompt, is_setting, may_go_on = it.policy.set_prompt, threading.Event(), threading.Event()

    def slow(text: str) -> int:
        is_setting.set()
        may_go_on.wait(PATIENCE_S)
        return set_prompt(text)

    it.policy.set_prompt = slow
    it.worker.request_prompt('stack the cups')
    assert is_setting.wait(PATIENCE_S)
    it.worker.request_prompt('stack the cups')
    may_go_on.set()
    it.worker.activate()
    it.feed()
    it.wait(lambda: it.results)
    it.worker.request_prompt('end')
    it.wait(lambda: it.worker.prompt == 'end')
    assert it.policy.prompts == ['stack the cups', 'end']


def test_refused_prompt_is_forgotten_when_the_one_in_use_is_asked_for_again(rig):
    it = rig()
    it.worker.request_prompt('x' * 300)
    it.wait(lambda: it.worker.prompt_fault)
    it.worker.request_prompt(it.worker.prompt)
    it.wait(lambda: it.worker.prompt_fault == '')


def test_rate_is_limited(rig):
    """Counted from before the first one: a pause within one makes the time to the next one short."""
    it = rig(inference_rate_hz=20.0)
    begin_s = now().steady_s
    it.worker.activate()
    while len(it.results) < 8:
        it.feed()
        time.sleep(0.002)
    for number, result in enumerate(it.results):
        assert result.start.steady_s - begin_s >= 0.99 * number * 0.05


def test_gripper_of_the_chunk_is_in_robot_units(rig):
    it = rig(grippers__model_one=['open'])
    it.worker.activate()
    it.feed()
    it.wait(lambda: it.results)
    result = it.results[0]
    np.testing.assert_allclose(result.actions[:, 6], 0.08 * result.chunk.actions[:, 6])
    np.testing.assert_array_equal(result.actions[:, :6], result.chunk.actions[:, :6])


def test_close_does_not_wait_for_ever(rig):
    it = rig()
    it.policy.gate.clear()
    it.worker.activate()
    it.feed()
    it.wait(lambda: it.policy.observations)
    assert not it.worker.close(0.05)


def test_latency_stages_add_up(rig):
    it = rig()
    it.policy.seconds = 0.01
    recorder = LatencyRecorder()
    it.worker.activate()
    it.feed()
    it.wait(lambda: it.results)
    recorder.note_result(it.results[0])
    assert set(recorder.summary()) == set(STAGES) - {'inference_to_command', 'stamp_to_command'}
    recorder.note_command(1, now())
    recorder.note_command(1, now())
    recorder.note_command(0, now())
    summary = recorder.summary()
    assert {stage: p.count for stage, p in summary.items()} == dict.fromkeys(STAGES, 1)
    assert summary['inference'].p50_ms >= 10
    parts = sum(summary[stage].p50_ms for stage in STAGES if stage != 'stamp_to_command')
    assert summary['stamp_to_command'].p50_ms == pytest.approx(parts, abs=1e-3)
