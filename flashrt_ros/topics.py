# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The topics of one configuration: subscriptions with their QoS, publishers, and how they are connected."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.duration import Duration
from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSCompatibility, QoSProfile, qos_check_compatible
from rclpy.subscription import Subscription
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import Bool, String

from flashrt_ros.command_limits import CommandLimits
from flashrt_ros.conversions import (
    Frame,
    command_class,
    command_message,
    command_values,
    compressed_frame,
    raw_frame,
)
from flashrt_ros.health import CONNECTED, NO_PUBLISHER
from flashrt_ros.inputs import Moment
from flashrt_ros.msg import ActionChunk
from flashrt_ros.outputs import OutputCommand
from flashrt_ros.parameters import Parameters
from flashrt_ros.qos import CAMERA_DEPTH, EITHER_WAY, JOINT_DEPTH, stream_profile

_DELIVERY_S = 0.1  # for the last command to reach the controllers, all of them together

# Every event is one more thing that the executor collects for each message, in Python:
# only streams say when a publisher cannot be heard.
_NO_PUBLISHER_EVENTS = PublisherEventCallbacks(use_default_callbacks=False)
_NO_EVENTS = SubscriptionEventCallbacks(use_default_callbacks=False)

OnFrame = Callable[[str, Callable[[Any], Frame], Any], None]  # slot, reader of the message, message
OnJoints = Callable[[str, Any], None]  # topic, message
OnPrompt = Callable[[str], None]
OnStop = Callable[[bool], None]


class Topics:
    """Everything a configuration subscribes to and publishes on; destroyed as a whole."""

    def __init__(
        self,
        node: Node,
        parameters: Parameters,
        on_frame: OnFrame,
        on_joints: OnJoints,
        on_prompt: OnPrompt,
        on_stop: OnStop,
    ) -> None:
        self._node = node
        self._others: list[Subscription] = []
        self._stops: list[Subscription] = []
        self._streams: dict[str, Subscription] = {}
        self._publishers: list[Publisher] = []
        try:
            self._subscribe(parameters, on_frame, on_joints, on_prompt, on_stop)
            self.action_chunk = self._publisher(ActionChunk, '~/action_chunk')
            self.model_input = self._publisher(Image, '~/model_input')
        except Exception:  # such as an invalid name; nothing may be left behind
            self.destroy()
            raise

    def _subscribe(
        self,
        parameters: Parameters,
        on_frame: OnFrame,
        on_joints: OnJoints,
        on_prompt: OnPrompt,
        on_stop: OnStop,
    ) -> None:
        def subscribe(*arguments: Any, **options: Any) -> Subscription:
            """Each in a group of its own: two threads would turn the order of its messages round."""
            group = MutuallyExclusiveCallbackGroup()
            return self._node.create_subscription(*arguments, callback_group=group, **options)

        for camera in parameters.cameras:
            kind, reader = {'raw': (Image, raw_frame), 'compressed': (CompressedImage, compressed_frame)}[
                camera.transport
            ]
            qos = stream_profile(camera.reliability, CAMERA_DEPTH)
            callback = partial(on_frame, camera.slot, reader)
            self._streams[camera.slot] = subscribe(kind, camera.topic, callback, qos)
        for topic in parameters.joint_topics:
            qos = stream_profile(parameters.joint_reliability, JOINT_DEPTH)
            self._streams[topic] = subscribe(JointState, topic, partial(on_joints, topic), qos)
        for qos in EITHER_WAY:  # what comes twice is no news
            self._others.append(
                subscribe(
                    String,
                    '~/prompt',
                    lambda message: on_prompt(message.data),
                    qos,
                    event_callbacks=_NO_EVENTS,
                )
            )
            self._stops.append(
                subscribe(
                    Bool,
                    parameters.estop_topic,
                    lambda message: on_stop(message.data),
                    qos,
                    event_callbacks=_NO_EVENTS,
                )
            )

    def _publisher(self, kind: type, topic: str) -> Publisher:
        publisher = self._node.create_publisher(
            kind, topic, QoSProfile(depth=1), event_callbacks=_NO_PUBLISHER_EVENTS
        )
        self._publishers.append(publisher)
        return publisher

    def connections(self) -> dict[str, str]:
        """Stream -> whether somebody publishes on it, and whether that somebody can be heard."""
        return {name: self._connection(subscription) for name, subscription in self._streams.items()}

    def stop_connection(self) -> str:
        """The same of the stop topic: CONNECTED where one of its two subscriptions hears somebody."""
        connections = [self._connection(subscription) for subscription in self._stops]
        return CONNECTED if CONNECTED in connections else connections[0]

    def has_stop_publisher(self) -> bool:
        return self._node.count_publishers(self._stops[0].topic_name) > 0

    def _connection(self, subscription: Subscription) -> str:
        publishers = self._node.get_publishers_info_by_topic(subscription.topic_name)
        if not publishers:
            return NO_PUBLISHER
        kind = f'{subscription.msg_type.__module__.split(".")[0]}/msg/{subscription.msg_type.__name__}'
        same_type = [publisher for publisher in publishers if publisher.topic_type == kind]
        if not same_type:
            return f'publisher present, but it sends {publishers[0].topic_type} and {kind} is expected'
        for publisher in same_type:
            compatible, _ = qos_check_compatible(publisher.qos_profile, subscription.qos_profile)
            if compatible != QoSCompatibility.ERROR:
                return CONNECTED
        return 'publisher present, QoS incompatible'

    def destroy(self) -> None:
        for subscription in [*self._streams.values(), *self._others, *self._stops]:
            self._node.destroy_subscription(subscription)
        for publisher in self._publishers:
            self._node.destroy_publisher(publisher)


class CommandPublisher:
    """Sends each part of a command to its controller; in a dry run it makes the messages and sends none."""

    def __init__(self, node: Node, parameters: Parameters, limits: CommandLimits, is_dry_run: bool) -> None:
        self._node = node
        self._limits = limits
        self._publishers: dict[str, Publisher] = {}
        try:
            for output in () if is_dry_run else parameters.outputs:
                self._publishers[output.name] = node.create_publisher(
                    command_class(output.type), output.topic, QoSProfile(depth=1)
                )
        except Exception:  # nothing may be left behind
            self.destroy()
            raise

    def send(self, parts: list[OutputCommand], anchor: NDArray[np.float64] | None, now: Moment) -> None:
        """All parts or none; raises ChunkRefused where a number of a message may not leave the node.

        anchor: [joints], what the steps of the command count from. A publisher that fails keeps nothing from
        the other controllers: the first error is raised when all have been served.
        """
        messages = {part.output: command_message(part, now.ros_ns) for part in parts}
        for part in parts:
            self._limits.check_message(command_values(messages[part.output]), part.names, anchor)
        failures: list[Exception] = []
        for output, publisher in self._publishers.items():
            try:
                publisher.publish(messages[output])
            except Exception as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def destroy(self) -> None:
        """Lets the last command, the safe reaction, arrive: what is under way dies with a publisher."""
        deadline_s = time.monotonic() + _DELIVERY_S
        for publisher in self._publishers.values():
            publisher.wait_for_all_acked(Duration(seconds=max(0.0, deadline_s - time.monotonic())))
        for publisher in self._publishers.values():
            self._node.destroy_publisher(publisher)
