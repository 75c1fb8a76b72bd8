# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The policy node with a fake policy over real DDS: data, services, reports."""

import array
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from fake_policy import CASES, VELOCITY
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.srv import SetParameters
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile, ReliabilityPolicy, qos_profile_sensor_data
from robot_bench import BLUE, JOINTS, LATCHED, RED, REST, Bench, holds, key_values, picture
from ros_spinner import Spinner, eventually
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from flashrt_ros.inputs import Moment
from flashrt_ros.latency import STAGES
from flashrt_ros.node_parameters import NodeParameters
from flashrt_ros.observations import ObservationBuffer
from flashrt_ros.outputs import OutputCommand
from flashrt_ros.parameters import live_keys, static_keys


def test_observation_becomes_chunk_and_dry_run_publishes_no_command(ros: Spinner):
    bench = Bench(ros)
    bench.activate()
    bench.feed()
    eventually(lambda: len(bench.chunks) >= 3, 'three chunks')
    chunk = bench.chunks[0]
    assert (chunk.chunk_id, chunk.rows, chunk.row_period) == (1, 10, 0.05)
    assert (chunk.prompt, chunk.representation) == ('pick up the red block', 'joint_position')
    assert chunk.joint_names == JOINTS
    expected = np.array(REST) + 0.01 * np.arange(1, 11)[:, np.newaxis]
    np.testing.assert_allclose(np.reshape(chunk.actions, (10, 7)), expected)
    assert bench.service('start').success
    status = bench.status('commanding (dry run')
    assert int(key_values(status)['base.used']) >= 1
    eventually(lambda: int(key_values(bench.statuses[-1])['play.commands']) > 3, 'commands counted')
    topics = dict(bench.robot.get_topic_names_and_types())
    assert '/arm_controller/joint_trajectory' not in topics


def test_command_path_ends_in_the_safe_reaction(ros: Spinner):
    """A published 3.0 would be a padding column."""
    chunk = np.load(CASES / 'chunks' / 'padding_columns_not_zero.npy').astype(np.float64)
    assert (chunk[:, 7:] == 3.0).all()
    bench = Bench(ros, dry_run=False)
    bench.policy_options = {'answer': lambda observation: chunk[:, :7]}
    received: list[JointTrajectory] = []
    bench.robot.create_subscription(JointTrajectory, 'arm_controller/joint_trajectory', received.append, 50)
    bench.activate()
    bench.feed()
    eventually(lambda: bench.chunks, 'a chunk')
    assert received == []  # active is not commanding
    assert bench.service('start').success
    eventually(lambda: len(received) > 5, 'commands')
    assert received[0].joint_names == JOINTS
    np.testing.assert_array_equal(received[0].points[0].positions, chunk[0, :7])
    bench.node.release()
    hold = eventually(lambda: len(received[-1].points) == 1 and received[-1], 'the safe reaction')
    assert holds(hold, received[-2])
    assert hold.points[0].time_from_start.nanosec == 50_000_000
    for command in received:
        assert all(len(point.positions) == 7 and 3.0 not in point.positions for point in command.points)


def test_last_command_has_time_to_arrive_before_its_publisher_is_destroyed(ros: Spinner, monkeypatch):
    bench = Bench(ros, **VELOCITY, dry_run=False)
    events: list[tuple[str, str]] = []
    wait, destroy = Publisher.wait_for_all_acked, bench.node.destroy_publisher

    def note_wait(publisher: Publisher, timeout: Duration) -> bool:
        assert timeout.nanoseconds <= 100_000_000
        events.append(('wait', publisher.topic_name))
        return wait(publisher, timeout)

    def note_destroy(publisher: Publisher) -> bool:
        events.append(('destroy', publisher.topic_name))
        return destroy(publisher)

    assert bench.change('configure'), bench.words
    monkeypatch.setattr(Publisher, 'wait_for_all_acked', note_wait)
    monkeypatch.setattr(bench.node, 'destroy_publisher', note_destroy)
    assert bench.change('cleanup')
    controllers = ['/arm_controller/joint_trajectory', '/hand/commands']
    assert [event for event in events if event[1] in controllers] == [
        *(('wait', topic) for topic in controllers),
        *(('destroy', topic) for topic in controllers),
    ]


@pytest.mark.parametrize(
    ('output_type', 'kind', 'read'),
    [
        ('float64_multi_array', Float64MultiArray, lambda message: message.data),
        ('joint_state', JointState, lambda message: message.position),
    ],
)
def test_row_outputs_follow_the_output_rate(ros: Spinner, output_type: str, kind: type, read: Callable):
    bench = Bench(ros, dry_run=False, start_on_activate=True, output__type=output_type)
    received = []
    bench.robot.create_subscription(kind, 'arm_controller/joint_trajectory', received.append, 50)
    bench.activate()
    bench.feed()
    eventually(lambda: len(received) > 5, 'commands')
    assert all(len(read(message)) == 7 for message in received)
    np.testing.assert_allclose(read(received[0]), np.array(REST) + 0.01)


def test_swapped_pictures_and_the_prompt_reach_the_policy(ros: Spinner):
    bench = Bench(ros)
    bench.activate()
    bench.feed()
    eventually(lambda: bench.chunks, 'a chunk')
    images = bench.policy.observations[-1].images
    assert tuple(images['base'][0, 0]) == RED
    assert tuple(images['wrist'][0, 0]) == BLUE
    np.testing.assert_array_equal(bench.policy.observations[-1].state, REST)
    assert bench.policy.threads == {'inference', bench.policy.trial_thread}


def test_model_input_is_published_for_a_subscriber_only(ros: Spinner):
    bench = Bench(ros)
    bench.activate()
    bench.feed()
    eventually(lambda: len(bench.chunks) >= 2, 'chunks')
    assert bench.policy.views == 0
    seen: list[Image] = []
    bench.robot.create_subscription(Image, 'policy/model_input', seen.append, 1)
    views = eventually(lambda: seen, 'model input')[0]
    assert (views.height, views.width) == (8, 16)
    pixels = np.frombuffer(views.data, np.uint8).reshape(8, 16, 3)
    assert tuple(pixels[0, 0]) == RED
    assert tuple(pixels[0, 15]) == BLUE


def test_prompt_by_topic_and_by_parameter(ros: Spinner):
    bench = Bench(ros)
    bench.activate()
    bench.feed()
    bench.set_prompt('open the drawer')
    eventually(
        lambda: bench.chunks and bench.chunks[-1].prompt == 'open the drawer', 'chunk of the new prompt'
    )
    volatile = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    publisher = bench.prompt_publisher(volatile)
    eventually(
        lambda: bench.say(publisher, 'close it') or bench.chunks[-1].prompt == 'close it', 'volatile prompt'
    )
    assert bench.policy.prompts[1:] == ['open the drawer', 'close it']  # each once, through two subscriptions
    eventually(  # set again: the last 'close it' may still be under way
        lambda: (
            bench.set_parameter('prompt', 'wipe the table') == ''
            and bench.chunks[-1].prompt == 'wipe the table'
        ),
        'prompt by parameter',
    )
    bench.set_prompt('x' * 300)
    bench.status('prompt refused: prompt of 300 characters does not fit')
    count = len(bench.chunks)
    eventually(lambda: len(bench.chunks) > count, 'chunks go on')
    assert bench.chunks[-1].prompt == 'wipe the table'


def test_prompt_that_was_published_before_the_node_was_up(ros: Spinner):
    bench = Bench(ros)
    bench.set_prompt('pick up the green block')
    bench.activate()
    bench.feed()
    eventually(
        lambda: bench.chunks and bench.chunks[-1].prompt == 'pick up the green block', 'latched prompt'
    )


def test_late_viewer_sees_the_status(ros: Spinner):
    bench = Bench(ros)
    assert bench.change('configure')
    bench.status('inactive')
    seen: list[DiagnosticStatus] = []
    bench.robot.create_subscription(DiagnosticStatus, 'policy/status', seen.append, LATCHED)
    assert 'inactive' in eventually(lambda: seen, 'latched status')[0].message


def test_other_parameters_are_fixed_while_configured(ros: Spinner):
    bench = Bench(ros)
    assert bench.set_parameter('control_rate_hz', 30.0) == ''
    bench.activate()
    assert 'control_rate_hz is read at configure' in bench.set_parameter('control_rate_hz', 50.0)
    assert 'dry_run is read at configure' in bench.set_parameter('dry_run', False)
    assert 'prompt is blank' in bench.set_parameter('prompt', ' ')
    assert 'prompt is a boolean' in bench.set_parameter('prompt', False)


def test_start_needs_activation_and_stop_always_works(ros: Spinner):
    bench = Bench(ros)
    assert bench.service('stop').success
    refused = bench.service('start')
    assert not refused.success
    assert refused.message == 'the node is unconfigured; activate it first'
    bench.activate()
    bench.feed()
    bench.status('call ~/start')
    assert bench.service('start').success
    bench.commanding()
    assert bench.service('stop').success
    bench.status('call ~/start')
    commands = int(key_values(bench.statuses[-1])['play.commands'])
    count = len(bench.chunks)
    eventually(lambda: len(bench.chunks) > count + 3, 'chunks go on')
    eventually(lambda: bench.statuses[-1].message.startswith('inferring'), 'status')
    assert int(key_values(bench.statuses[-1])['play.commands']) == commands


def test_reset_clears_chunk_and_random_state_and_goes_on(ros: Spinner):
    bench = Bench(ros, start_on_activate=True)
    bench.activate()
    bench.feed()
    bench.commanding()
    eventually(lambda: bench.chunks and bench.chunks[-1].chunk_id > 3, 'some chunks')
    resets = bench.policy.resets
    count = len(bench.chunks)
    assert bench.service('reset').success
    eventually(lambda: bench.policy.resets == resets + 1, 'random state')
    eventually(lambda: any(chunk.chunk_id == 1 for chunk in bench.chunks[count:]), 'chunk 1 again')
    bench.commanding()


def test_lost_stream_is_named_and_starves_the_play(ros: Spinner):
    limits = {'cameras__max_age_s': 0.3, 'joints__max_age_s': 0.3, 'actions__starvation_limit_s': 1.5}
    bench = Bench(ros, start_on_activate=True, **limits)
    bench.activate()
    bench.feed()
    bench.commanding()
    bench.feed(False)
    assert bench.status('no observation: ').level == DiagnosticStatus.WARN
    eventually(lambda: key_values(bench.statuses[-1])['commanding'] == 'False', 'the end of commanding')
    assert int(key_values(bench.statuses[-1])['play.underruns']) >= 1  # a busy machine may add one before
    bench.feed()
    bench.status('stopped: no action to play for')
    assert bench.service('start').success
    bench.commanding()


def test_bad_frames_are_counted_and_the_node_lives(ros: Spinner):
    bench = Bench(ros)
    bench.activate()
    bench.feed()
    eventually(lambda: bench.chunks, 'a chunk')

    def publish_bad() -> None:
        """With new stamps each time: behind a good frame they are late, whatever is in them."""
        short, depth = (picture(RED, bench.robot.get_clock().now().to_msg()) for _ in range(2))
        short.data = array.array('B', bytes(5))
        depth.encoding = '16UC1'
        bench.base.publish(short)
        bench.base.publish(depth)

    eventually(
        lambda: publish_bad() or {'base.bad_size', 'base.not_8bit_colour'} <= bench.status_keys(),
        'refusals counted',
    )
    count = len(bench.chunks)
    eventually(lambda: len(bench.chunks) > count, 'chunks go on')


def test_inference_error_is_shown_and_passes(ros: Spinner):
    bench = Bench(ros)
    bench.activate()
    bench.policy.failure = 'the model gave NaN in row 3'
    bench.feed()
    assert bench.status('inference failed: the model gave NaN in row 3').level == DiagnosticStatus.ERROR
    bench.policy.failure = ''
    bench.status('call ~/start')


def test_diagnostics_and_latency(ros: Spinner):
    bench = Bench(ros, namespace='robot_a', start_on_activate=True)
    bench.activate()
    bench.feed()
    bench.commanding()
    parts = {
        status.name: status for status in eventually(lambda: bench.diagnostics, 'diagnostics')[-1].status
    }
    assert set(parts) == {
        f'/robot_a/policy: {name}'
        for name in ('state', 'stream base', 'stream wrist', 'stream joint_states', 'inference', 'chunk',
                     'safety', 'device')
    }  # fmt: skip
    eventually(lambda: bench.diagnostics[-1].status[1].message == 'receiving', 'base is shown as receiving')
    latency = eventually(
        lambda: [array for array in bench.latencies if len(array.status) == len(STAGES)], 'all stages'
    )[-1]
    for status in latency.status:
        values = key_values(status)
        assert float(values['p50_ms']) <= float(values['p90_ms']) <= float(values['p99_ms'])
        assert float(values['p99_ms']) <= float(values['max_ms'])
        assert int(values['count']) >= 1


@pytest.mark.parametrize('reliability', [ReliabilityPolicy.BEST_EFFORT, ReliabilityPolicy.RELIABLE])
def test_frames_arrive_from_either_kind_of_camera(ros: Spinner, reliability: ReliabilityPolicy):
    bench = Bench(ros, camera_qos=QoSProfile(depth=5, reliability=reliability))
    bench.activate()
    bench.feed()
    eventually(lambda: bench.chunks, 'a chunk')


def test_publisher_that_cannot_be_heard_is_told_from_none(ros: Spinner, other_ros: Spinner):
    bench = Bench(
        ros,
        cameras__base__reliability='reliable',
        cameras__base__topic='cam_base/best_effort',
        cameras__wrist__transport='compressed',
        cameras__wrist__topic='cam_wrist/raw',
        joints__topics=['elsewhere/joint_states'],
    )
    cameras = other_ros.add(Node('cameras', context=other_ros.context))
    for topic in ('cam_base/best_effort', 'cam_wrist/raw'):
        cameras.create_publisher(Image, topic, qos_profile_sensor_data)
    bench.activate()

    def message(stream: str) -> str:
        newest = bench.diagnostics[-1].status if bench.diagnostics else []
        return next((status.message for status in newest if status.name.endswith(f': stream {stream}')), '')

    eventually(lambda: message('base') == 'publisher present, QoS incompatible', 'QoS is named')
    eventually(lambda: 'it sends sensor_msgs/msg/Image' in message('wrist'), 'type is named')
    eventually(lambda: message('elsewhere/joint_states') == 'no publisher', 'no publisher')


def test_two_robots_share_no_topic(ros: Spinner):
    a, b = Bench(ros, namespace='robot_a'), Bench(ros, namespace='robot_b')
    for bench in (a, b):
        bench.activate()
    a.feed()
    eventually(lambda: len(a.chunks) >= 3, 'chunks of robot_a')
    assert b.chunks == []
    shared = {'/diagnostics', '/rosout', '/parameter_events', '/clock'}
    for bench, namespace in ((a, 'robot_a'), (b, 'robot_b')):
        name, where = 'policy', f'/{namespace}'
        for listing in (
            bench.robot.get_publisher_names_and_types_by_node,
            bench.robot.get_subscriber_names_and_types_by_node,
            bench.robot.get_service_names_and_types_by_node,
        ):
            topics = {topic for topic, _ in listing(name, where)}
            assert topics, listing
            assert {topic for topic in topics if not topic.startswith(f'{where}/')} <= shared


def test_callbacks_do_not_wait_for_inference(ros: Spinner):
    bench = Bench(ros, start_on_activate=True)
    bench.activate()
    bench.policy.gate.clear()
    bench.feed()
    eventually(
        lambda: len(bench.policy.observations) == 2, 'an inference that hangs'
    )  # the first is the trial
    assert bench.service('stop').success
    bench.status('call ~/start')
    eventually(lambda: int(key_values(bench.statuses[-1])['base.superseded']) > 3, 'frames go on arriving')
    bench.policy.gate.set()
    eventually(lambda: bench.chunks, 'the chunk')
    assert threading.active_count() < 60


class Slow:
    """Holds the first command that carries rows of a chunk back, right before it is sent."""

    def __init__(self) -> None:
        self.is_sending, self.may_go_on = threading.Event(), threading.Event()
        self.sent: list[int] = []  # rows of each command

    def send(self, parts: list[OutputCommand], anchor: np.ndarray, now: Moment) -> None:
        if not self.is_sending.is_set():
            self.is_sending.set()
            self.may_go_on.wait(20.0)
        self.sent.append(len(parts[0].rows))

    def destroy(self) -> None:
        pass


@pytest.mark.parametrize('way', ['stop', 'deactivate', 'release'])
def test_no_command_overtakes_a_stop(ros: Spinner, way: str):
    commands = Slow()
    bench = Bench(ros, publish_commands=lambda *_: commands, start_on_activate=True)
    bench.activate()
    bench.feed()
    assert commands.is_sending.wait(20.0)
    act = {
        'stop': lambda: bench.service('stop'),
        'deactivate': lambda: bench.change('deactivate'),
        'release': bench.node.release,
    }[way]
    stop = threading.Thread(target=act)
    stop.start()
    time.sleep(0.2)  # time enough for the stop to send its safe reaction first
    commands.may_go_on.set()
    stop.join()
    assert commands.sent[-1] == 1
    assert commands.sent[0] > 1
    count = len(commands.sent)
    time.sleep(0.2)  # several control periods
    assert len(commands.sent) == count


class Recorder:
    """Sends nothing and writes down that it was asked to."""

    def __init__(self, events: list[str]) -> None:
        self._events = events

    def send(self, parts: list[OutputCommand], anchor: np.ndarray, now: Moment) -> None:
        self._events.append('sent')

    def destroy(self) -> None:
        pass


def test_trajectory_begins_when_it_is_sent(ros: Spinner, monkeypatch):
    events: list[str] = []
    bench = Bench(ros, publish_commands=lambda *_: Recorder(events), start_on_activate=True)
    assert bench.change('configure'), bench.words
    monkeypatch.setattr(bench.node._parts.motion, 'note_sent', lambda: events.append('begun'))
    assert bench.change('activate')
    bench.feed()
    eventually(lambda: len(events) >= 6, 'commands')
    assert events[:6] == 3 * ['sent', 'begun']


def test_start_during_shutdown_is_refused(ros: Spinner, monkeypatch):
    monkeypatch.setattr('flashrt_ros.configured.CLOSE_TIMEOUT_S', 60.0)
    bench = Bench(ros)
    bench.activate()
    bench.policy.gate.clear()
    bench.feed()
    eventually(lambda: len(bench.policy.observations) == 2, 'an inference that hangs')
    future = bench.change_client.call_async(
        ChangeState.Request(transition=Transition(id=Transition.TRANSITION_ACTIVE_SHUTDOWN))
    )
    eventually(lambda: bench.node._parts is None, 'the release')
    assert not future.done()  # it waits for the inference
    assert not bench.service('start').success
    bench.policy.gate.set()
    eventually(future.done, 'the shutdown')


def test_messages_of_one_stream_keep_their_order(ros: Spinner, monkeypatch):
    bench = Bench(ros)
    bench.activate()
    inside, together = [], []
    add = ObservationBuffer.add_joints

    def slow(self, *arguments):
        inside.append(1)
        together.append(len(inside))
        time.sleep(0.03)
        inside.pop()
        return add(self, *arguments)

    monkeypatch.setattr(ObservationBuffer, 'add_joints', slow)
    eventually(lambda: bench.publish_once() or len(together) >= 10, 'joint messages')
    assert set(together) == {1}


def test_set_parameters_answers(ros: Spinner):
    bench = Bench(ros)
    client = bench.robot.create_client(SetParameters, 'policy/set_parameters')
    request = SetParameters.Request(
        parameters=[Parameter('cameras.wrist.topic', value='x').to_parameter_msg()]
    )
    assert bench.call(client, request).results[0].successful


def test_every_live_key_of_the_table_can_be_set_and_no_other(ros: Spinner, monkeypatch):
    """The documentation is printed from the same table."""
    assert live_keys().keys() == {'prompt'}
    node = ros.add(Node('owner', context=ros.context))
    settings = NodeParameters(node)
    rows = live_keys() | {
        'control_rate_hz': next((row, float) for row in static_keys() if row.name == 'control_rate_hz')
    }
    monkeypatch.setattr('flashrt_ros.node_parameters.live_keys', lambda: rows)
    with pytest.raises(ValueError, match=r"\['prompt'\] can be set"):
        settings.guard(lambda: 'active', {'prompt': print})
    taken = []
    settings.guard(lambda: 'active', {'prompt': taken.append, 'control_rate_hz': taken.append})
    [result] = node.set_parameters([Parameter('control_rate_hz', value=10)])
    assert (result.successful, taken) == (True, [10.0])
    [result] = node.set_parameters([Parameter('control_rate_hz', value=0.0)])
    assert (result.successful, taken) == (False, [10.0])
    assert result.reason == 'control_rate_hz is 0.0, allowed: 0.1 to 1000.0'
    [result] = node.set_parameters([Parameter('dry_run', value=False)])
    assert 'dry_run is read at configure' in result.reason
