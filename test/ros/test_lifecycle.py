# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Configuring that takes long, fails, is repeated; runs that begin afresh (R-34, R-35, R-37, R-40, R-46)."""

import gc
import itertools
import json
import os
import threading
import time
import weakref
from dataclasses import dataclass
from pathlib import Path

import pytest
from fake_policy import VELOCITY, FakePolicy
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.publisher import Publisher
from robot_bench import Bench, key_values
from ros_spinner import Spinner, eventually

from flashrt_core.errors import Error
from flashrt_ros.load import load_policy

WARM_UP = 10  # rounds
OWN_TOPICS = {'/policy/action_chunk', '/policy/model_input', '/policy/prompt'}


def topics_of(bench: Bench) -> set[str]:
    listings = (
        bench.robot.get_publisher_names_and_types_by_node,
        bench.robot.get_subscriber_names_and_types_by_node,
    )
    return {topic for listing in listings for topic, _ in listing('policy', '/')}


def test_status_and_state_answer_while_configure_loads_and_a_second_request_is_refused(ros: Spinner):
    bench = Bench(ros)
    may_finish = threading.Event()
    loads = []

    def slow_load(parameters):
        loads.append(parameters)
        may_finish.wait()
        return FakePolicy(parameters)

    bench.load = slow_load
    request = ChangeState.Request(transition=Transition(id=Transition.TRANSITION_CONFIGURE))
    eventually(bench.change_client.service_is_ready, 'service')
    first = bench.change_client.call_async(request)
    assert bench.status('loading').message == 'configuring: loading /data/checkpoints/bench_arm'
    assert bench.state() == 'configuring'
    assert not bench.call(bench.change_client, request).success
    assert not first.done()
    assert len(loads) == 1
    assert 'set prompt when the node is configured' in bench.set_parameter('prompt', 'open the drawer')
    may_finish.set()
    eventually(first.done, 'the first configure')
    assert first.result().success
    assert bench.state() == 'inactive'


def test_failed_configure_leaves_nothing_and_can_be_repeated(ros: Spinner, tmp_path: Path):
    bench = Bench(ros, model__checkpoint=str(tmp_path / 'nothing'))

    def load(parameters):
        if not Path(parameters.checkpoint).exists():
            raise Error(f'checkpoint {parameters.checkpoint} does not exist')
        return FakePolicy(parameters)

    bench.load = load
    assert not bench.change('configure')
    assert bench.state() == 'unconfigured'
    assert f'checkpoint {tmp_path}/nothing does not exist' in bench.status('configure failed').message
    assert not topics_of(bench) & OWN_TOPICS
    assert not inference_threads()  # none was begun
    assert bench.set_parameter('model.checkpoint', str(tmp_path)) == ''
    bench.activate()
    eventually(lambda: topics_of(bench) >= OWN_TOPICS, 'own topics')


@pytest.fixture
def tiny_model(tmp_path: Path) -> dict[str, object]:
    """Parameters of a real model, small enough for the test."""
    golden = Path(__file__).resolve().parents[1] / 'golden'
    columns = {'mean': [0.0] * 7, 'std': [1.0] * 7, 'q01': [-1.0] * 7, 'q99': [1.0] * 7}
    statistics = tmp_path / 'norm_stats.json'
    statistics.write_text(json.dumps({'norm_stats': {'state': columns, 'actions': columns}}))
    slots = {'base_0_rgb': 'cam_base/image_raw', 'left_wrist_0_rgb': 'cam_wrist/image_raw'}
    return {
        'model__checkpoint': str(golden / 'pi05_tiny'),
        'model__tokenizer': str(golden / 'pi_tokenizer' / 'tiny_spm.model'),
        'model__statistics': str(statistics),
        'model__denoise_steps': 1,
        'model__threads': 1,
        'cameras__names': list(slots),
        **{f'cameras__{slot}__topic': topic for slot, topic in slots.items()},
        **{f'cameras__{slot}__rotation': 0 for slot in slots},
    }


def test_backend_that_is_not_there_is_named_and_another_can_be_chosen(
    ros: Spinner, tiny_model: dict, no_gpu: str
):
    if not no_gpu:
        pytest.skip('there is a GPU')
    bench = Bench(ros, model__backend='cuda', **tiny_model)
    bench.load = load_policy
    assert not bench.change('configure')
    message = bench.status('configure failed').message
    assert message.startswith("configure failed: backend 'cuda' "), message
    assert bench.state() == 'unconfigured'
    assert bench.set_parameter('model.backend', 'cpu') == ''
    assert bench.change('configure'), bench.words
    assert bench.state() == 'inactive'


def test_calibration_that_is_not_made_yet_is_named_with_the_command(ros: Spinner, tiny_model: dict):
    calibration = {'model__recipe': 'fp8', 'model__calibration': '/nowhere/scales.json'}
    bench = Bench(ros, **tiny_model, **calibration)
    bench.load = load_policy
    assert not bench.change('configure')
    message = bench.status('configure failed').message
    assert 'calibration /nowhere/scales.json does not exist; `flashrt calibrate` writes it' in message


def test_all_faults_are_in_the_status(ros: Spinner):
    bench = Bench(ros, prompt=False, control_rate_hz=0.0, safety__reaction='zero_velocity')
    assert not bench.change('configure')
    message = bench.status('configure failed').message
    for fault in (
        'prompt is a boolean',
        'control_rate_hz is 0.0',
        'safety.reaction is zero_velocity',
        'parameters of /policy',
    ):
        assert fault in message


@pytest.mark.parametrize('refused', ['~/model_input', 'hand/commands'])
def test_publisher_that_cannot_be_made_leaves_nothing(ros: Spinner, monkeypatch, refused: str):
    bench = Bench(ros, dry_run=False, **VELOCITY)
    create = bench.node.create_publisher

    def create_or_refuse(kind: type, topic: str, *arguments: object, **options: object) -> Publisher:
        if topic == refused:
            raise RuntimeError(f'no room for {topic}')
        return create(kind, topic, *arguments, **options)

    monkeypatch.setattr(bench.node, 'create_publisher', create_or_refuse)
    assert not bench.change('configure')
    assert f'no room for {refused}' in bench.status('configure failed').message
    left = {'/cam_base/image_raw', '/arm_controller/joint_trajectory'}
    eventually(lambda: not topics_of(bench) & (OWN_TOPICS | left), lambda: f'an end of {topics_of(bench)}')
    eventually(lambda: not inference_threads(), 'an end of the inference thread')
    monkeypatch.undo()
    assert bench.change('configure'), bench.words


def test_activation_that_fails_leaves_the_node_inactive_and_says_why(ros: Spinner, monkeypatch):
    bench = Bench(ros, start_on_activate=True)
    assert bench.change('configure')
    with monkeypatch.context() as patch:
        patch.setattr(bench.node._parts.motion, 'start', lambda: 1 / 0)
        assert not bench.change('activate')
    assert bench.state() == 'inactive'
    assert bench.status('division by zero').message == 'activate failed: division by zero'
    bench.feed()
    assert bench.change('activate')
    bench.commanding()


def test_deactivation_that_fails_frees_everything_and_says_why(ros: Spinner, monkeypatch):
    bench = Bench(ros)
    bench.activate()
    monkeypatch.setattr(bench.node._parts.worker, 'deactivate', lambda: 1 / 0)
    assert not bench.change('deactivate')
    assert bench.state() == 'unconfigured'
    assert bench.status('division by zero').message == 'deactivate failed: division by zero'
    eventually(lambda: not inference_threads(), 'an end of the inference thread')
    bench.activate()
    assert bench.change('deactivate')
    assert bench.change('cleanup')
    bench.status('not configured')


@dataclass(frozen=True)
class Level:
    """What the process holds between two rounds."""

    resident_bytes: int
    descriptors: int
    threads: int  # of the system, those of the engine and of DDS included

    @classmethod
    def now(cls) -> 'Level':
        pages = int(Path('/proc/self/statm').read_text().split()[1])
        process = Path('/proc/self')
        counts = (len(list((process / folder).iterdir())) for folder in ('fd', 'task'))
        return cls(pages * os.sysconf('SC_PAGE_SIZE'), *counts)


@pytest.mark.parametrize('kind', ['fake policy', 'real engine'])
def test_twenty_rounds_free_everything(ros: Spinner, tiny_model: dict, kind: str):
    """Each with frames and a chunk, after ten which start threads and fill caches and the heaps of threads.

    Seventy rounds in a row grow by 3 % from the tenth to the thirtieth and by 1 % from there on.
    """
    bench = Bench(ros, **(tiny_model if kind == 'real engine' else {}))
    load = load_policy if kind == 'real engine' else bench.load
    policies = []

    def load_and_watch(parameters):
        policy = load(parameters)
        policies.append(weakref.ref(policy))
        return policy

    bench.load = load_and_watch
    bench.feed()
    levels = []
    for _ in range(WARM_UP + 20):
        bench.activate()
        eventually(lambda: bench.chunks, lambda: f'a chunk; {bench.words}')
        assert bench.change('deactivate')
        assert bench.change('cleanup')
        for received in (bench.policies, bench.chunks, bench.statuses, bench.diagnostics, bench.latencies):
            received.clear()
        gc.collect()
        levels.append(Level.now())
    assert len(policies) == WARM_UP + 20
    eventually(
        lambda: gc.collect() >= 0 and not any(policy() for policy in policies),
        lambda: (
            f'an end of the policies of the rounds {[i for i, policy in enumerate(policies) if policy()]}'
        ),
    )
    early, late = levels[WARM_UP : WARM_UP + 5], levels[-5:]
    assert min(level.resident_bytes for level in late) <= 1.05 * max(
        level.resident_bytes for level in early
    ), levels
    assert min(level.descriptors for level in late) <= max(level.descriptors for level in early), levels
    assert min(level.threads for level in late) <= max(level.threads for level in early), levels
    eventually(lambda: not topics_of(bench) & OWN_TOPICS, lambda: f'an end of {topics_of(bench)}')
    eventually(lambda: not inference_threads(), 'an end of the inference thread')


def inference_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == 'inference']


def test_no_chunk_before_frames_newer_than_activation(ros: Spinner):
    bench = Bench(ros)
    assert bench.change('configure')
    stamp = bench.robot.get_clock().now().to_msg()
    bench.feed()
    time.sleep(0.3)  # frames arrive while inactive
    bench.feed(False)
    assert bench.change('activate')
    for _ in range(5):
        bench.publish_once(stamp)
        time.sleep(0.02)
    assert bench.chunks == []
    status = eventually(
        lambda: bench.status_keys() >= {'base.before_activation'} and bench.statuses[-1], 'refused'
    )
    assert int(key_values(status)['base.before_activation']) >= 1
    bench.feed()
    eventually(lambda: bench.chunks, 'a chunk of fresh frames')


def test_each_run_starts_afresh_and_the_prompt_stays(ros: Spinner):
    bench = Bench(ros, start_on_activate=True)
    assert bench.change('configure')
    bench.feed()
    bench.set_prompt('open the drawer')
    eventually(lambda: 'open the drawer' in bench.policy.prompts, 'prompt')

    def numbers() -> list[int]:
        return [chunk.chunk_id for chunk in bench.chunks]

    for run in range(1, 6):
        resets = bench.policy.resets
        assert bench.change('activate')
        eventually(lambda run=run: numbers().count(1) == run and numbers()[-1] >= 2, 'chunks of the run')
        assert bench.policy.resets == resets + 1
        assert bench.change('deactivate')
    assert all(number in (1, before + 1) for before, number in itertools.pairwise([0, *numbers()]))
    assert {chunk.prompt for chunk in bench.chunks} == {'open the drawer'}


def test_warm_up_runs_at_configure_and_is_no_delay(ros: Spinner):
    bench = Bench(ros, start_on_activate=True)
    seconds = 1.5  # longer than any pause of a busy machine
    bench.policy_options = {'seconds': seconds}
    bench.activate()
    assert bench.policy.warm_ups == 1
    bench.policy.seconds = 0.0
    bench.feed()
    bench.commanding()
    latency = eventually(lambda: bench.latencies, 'latency')[-1]
    inference = next(status for status in latency.status if status.name.endswith('latency inference'))
    assert float(key_values(inference)['max_ms']) < 1000 * seconds


@pytest.mark.parametrize(
    ('options', 'text'),
    [
        ({'action_dim': 6}, 'joints.names has 7 names, the actions of the policy have 6 columns'),
        (
            {'answer': lambda observation: [[0.0] * 6]},
            'a chunk has shape [1, 6], needed at least 1 row and 7',
        ),
        ({'horizon': 0}, 'a chunk has shape [0, 7]'),
        ({'model': 'pi0'}, 'model.config is pi05, the checkpoint holds pi0'),
        ({'cameras': ('base', 'left_wrist')}, "the policy wants ['base', 'left_wrist']"),
    ],
)
def test_policy_that_does_not_fit_the_robot_is_refused_at_configure(ros: Spinner, options: dict, text: str):
    bench = Bench(ros)
    bench.policy_options = options
    assert not bench.change('configure')
    assert text in bench.status('configure failed').message


def test_end_effector_actions_are_refused_by_name(ros: Spinner):
    bench = Bench(ros, actions__representation='end_effector')
    assert not bench.change('configure')
    assert 'end_effector actions are no joint commands' in bench.status('configure failed').message
