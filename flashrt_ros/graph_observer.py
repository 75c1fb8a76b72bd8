# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Looks at a running robot over ROS: endpoints, messages, parameters of controllers; commands nothing."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import rclpy
from rcl_interfaces.srv import GetParameters, ListParameters
from rclpy.context import Context
from rclpy.duration import Infinite
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import parameter_value_to_python
from rclpy.qos import QoSCompatibility, QoSProfile, qos_check_compatible
from rclpy.serialization import deserialize_message
from rclpy.signals import SignalHandlerOptions
from rclpy.topic_endpoint_info import TopicEndpointInfo
from rclpy.utilities import get_rmw_implementation_identifier
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import Bool, String

from flashrt_ros.check_controller import CONSTRAINTS, PARAMETERS
from flashrt_ros.conversions import command_class
from flashrt_ros.graph_view import Endpoint, GraphView, InputView, OutputView
from flashrt_ros.parameters import Parameters
from flashrt_ros.qos import CAMERA_DEPTH, EITHER_WAY, LATCHED, stream_profile
from flashrt_ros.topic_names import resolve

_NAME = 'flashrt_check'
_COUNTED_S = 1.0  # rates are counted for so long
_ANSWER_S = 2.0  # of a parameter service
_DISCOVERED_S = 0.3  # the rest of the graph comes shortly after the part that was waited for
_MOST_RECENT = 4000  # messages of a joint topic: more than a second of any driver
_CAMERAS = {'raw': Image, 'compressed': CompressedImage}
_NO_EVENTS = SubscriptionEventCallbacks(use_default_callbacks=False)  # they log what is told here
# What the graph tells of a subscription has durations without end; those of a profile begin as zero.
_COMMANDS = QoSProfile(depth=1, deadline=Infinite, liveliness_lease_duration=Infinite)


def observe(
    parameters: Parameters, node_name: str, wait_s: float, context: Context | None = None
) -> GraphView:
    """Waits for up to `wait_s` until every topic has somebody at its other end, then counts for a second."""
    with _node(context) as (node, executor):
        observer = _Observer(node, executor, parameters, node_name)
        observer.spin(wait_s, observer.is_complete)
        observer.spin(_DISCOVERED_S)
        observer.begin_counting()
        observer.spin(_COUNTED_S)
        return observer.view()


@contextmanager
def _node(context: Context | None) -> Iterator[tuple[Node, SingleThreadedExecutor]]:
    own = context is None
    if own:
        context = Context()
        rclpy.init(context=context, signal_handler_options=SignalHandlerOptions.NO)
    node = Node(_NAME, context=context, enable_rosout=False)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    try:
        yield node, executor
    finally:
        executor.shutdown()
        node.destroy_node()
        if own:
            context.shutdown()


class _Listener:
    """One topic that the policy node subscribes to, with the QoS profiles that it subscribes with."""

    def __init__(
        self, node: Node, kind: str, stream: str, topic: str, message: type, profiles: Sequence[QoSProfile]
    ) -> None:
        self.kind, self.stream, self.message, self.profiles = kind, stream, message, profiles
        self._is_raw = kind == 'camera'  # of a camera only the last picture is read
        self._clock = node.get_clock()
        self._recent: deque = deque(maxlen=1 if self._is_raw else _MOST_RECENT)
        self._counts = [0] * len(profiles)  # each hears every message, if it hears the publisher at all
        self._begun_s = time.monotonic()
        self._receive_ns = 0
        subscription = None
        for i, profile in enumerate(profiles):
            take = partial(self._take, i)
            subscription = node.create_subscription(
                message, topic, take, profile, raw=self._is_raw, event_callbacks=_NO_EVENTS
            )
        self.topic = subscription.topic_name

    def begin_counting(self) -> None:
        self._counts = [0] * len(self.profiles)
        self._begun_s = time.monotonic()

    def view(self, publishers: tuple[Endpoint, ...]) -> InputView:
        counted_s = time.monotonic() - self._begun_s
        recent = tuple(self._recent)
        if self._is_raw:
            recent = tuple(deserialize_message(message, self.message) for message in recent)
        return InputView(
            topic=self.topic,
            kind=self.kind,
            stream=self.stream,
            type=_type_name(self.message),
            publishers=publishers,
            messages=max(self._counts),
            counted_s=counted_s,
            recent=recent,
            receive_ns=self._receive_ns,
        )

    def _take(self, subscription: int, message: Any) -> None:
        self._recent.append(message)
        self._counts[subscription] += 1
        self._receive_ns = self._clock.now().nanoseconds


class _Observer:
    """All that the parameters name, on one node."""

    def __init__(
        self, node: Node, executor: SingleThreadedExecutor, parameters: Parameters, node_name: str
    ) -> None:
        self._node = node
        self._executor = executor
        self._node_name = node_name
        self._parameters = parameters
        self._outputs = {output: resolve(output.topic, node_name) for output in parameters.outputs}
        self._descriptions: deque[str] = deque(maxlen=1)
        self._description_topic = resolve('robot_description', node_name)
        node.create_subscription(
            String, self._description_topic, lambda message: self._descriptions.append(message.data), LATCHED
        )
        self._listeners = list(self._listen())

    def _listen(self) -> Iterator[_Listener]:
        """As topics.py of the node subscribes."""
        parameters = self._parameters
        for camera in parameters.cameras:
            profile = stream_profile(camera.reliability, CAMERA_DEPTH)
            topic = resolve(camera.topic, self._node_name)
            yield _Listener(self._node, 'camera', camera.slot, topic, _CAMERAS[camera.transport], [profile])
        for topic in parameters.joint_topics:
            profile = stream_profile(parameters.joint_reliability, _MOST_RECENT)
            yield _Listener(
                self._node, 'joints', topic, resolve(topic, self._node_name), JointState, [profile]
            )
        topic = resolve(parameters.estop_topic, self._node_name)
        yield _Listener(self._node, 'estop', 'estop', topic, Bool, EITHER_WAY)

    def spin(self, duration_s: float, is_done: Callable[[], bool] = lambda: False) -> None:
        end_s = time.monotonic() + duration_s
        while (left_s := end_s - time.monotonic()) > 0 and not is_done():
            self._executor.spin_once(timeout_sec=min(left_s, 0.1))

    def is_complete(self) -> bool:
        """Everything has another end, also what may go without; else the whole wait is spent."""
        count_publishers, count_subscribers = self._node.count_publishers, self._node.count_subscribers
        return (
            all(count_publishers(listener.topic) for listener in self._listeners)
            and all(count_subscribers(topic) for topic in self._outputs.values())
            and bool(self._descriptions)
        )

    def begin_counting(self) -> None:
        for listener in self._listeners:
            listener.begin_counting()

    def view(self) -> GraphView:
        names = (
            _full_name(name, space)
            for name, space in self._node.get_node_names_and_namespaces()
            if name != _NAME and not name.startswith('_')  # hidden ones are those of tools
        )
        return GraphView(
            middleware=get_rmw_implementation_identifier(),
            domain=self._node.context.get_domain_id(),
            nodes=tuple(sorted(set(names))),
            inputs=tuple(self._input(listener) for listener in self._listeners),
            outputs=tuple(self._output(*item) for item in self._outputs.items()),
            description_topic=self._description_topic,
            description=self._descriptions[-1] if self._descriptions else None,
            has_clock=self._node.count_publishers('/clock') > 0,
        )

    def _input(self, listener: _Listener) -> InputView:
        def qos_fault(info: TopicEndpointInfo) -> str:
            reasons = [_qos_fault(info.qos_profile, profile) for profile in listener.profiles]
            return min(reasons, key=len)  # one subscription that hears is enough

        infos = self._node.get_publishers_info_by_topic(listener.topic)
        return listener.view(tuple(_endpoint(info, qos_fault(info)) for info in infos))

    def _output(self, output: Any, topic: str) -> OutputView:
        infos = self._node.get_subscriptions_info_by_topic(topic)
        subscribers = tuple(_endpoint(info, _qos_fault(_COMMANDS, info.qos_profile)) for info in infos)
        publishers = {_endpoint(info).node for info in self._node.get_publishers_info_by_topic(topic)}
        return OutputView(
            topic=topic,
            output=output.name,
            type=_type_name(command_class(output.type)),
            subscribers=subscribers,
            other_publishers=tuple(sorted(publishers - {self._node_name})),
            parameters={end.node: self._parameters_of(end.node) for end in subscribers},
        )

    def _parameters_of(self, node: str) -> Mapping[str, object]:
        """Those that matter of a controller; none where its services do not answer.

        Asked for in two steps: a request with a name that the node has not declared is answered with nothing.
        """
        listed = self._call(ListParameters, f'{node}/list_parameters', ListParameters.Request())
        names = listed.result.names if listed else ()
        names = [name for name in names if name in PARAMETERS or name.startswith(CONSTRAINTS)]
        if not names:
            return {}
        answer = self._call(GetParameters, f'{node}/get_parameters', GetParameters.Request(names=names))
        values = answer.values if answer else ()
        return {name: parameter_value_to_python(value) for name, value in zip(names, values, strict=False)}

    def _call(self, kind: type, service: str, request: Any) -> Any:
        """None where nobody answers."""
        client = self._node.create_client(kind, service)
        try:
            self.spin(_ANSWER_S, client.service_is_ready)
            if not client.service_is_ready():
                return None
            future = client.call_async(request)
            self.spin(_ANSWER_S, future.done)
            return future.result() if future.done() else None
        finally:
            self._node.destroy_client(client)


def _endpoint(info: TopicEndpointInfo, qos_fault: str = '') -> Endpoint:
    return Endpoint(_full_name(info.node_name, info.node_namespace), info.topic_type, qos_fault)


def _qos_fault(publisher: QoSProfile, subscription: QoSProfile) -> str:
    compatibility, reason = qos_check_compatible(publisher, subscription)
    if compatibility != QoSCompatibility.ERROR:
        return ''
    parts = (part.strip() for part in reason.split(';'))
    return ' and '.join(part.removeprefix('ERROR: ') for part in parts if part)


def _type_name(message: type) -> str:
    return f'{message.__module__.split(".")[0]}/msg/{message.__name__}'


def _full_name(name: str, namespace: str) -> str:
    return f'{namespace.rstrip("/")}/{name}'
