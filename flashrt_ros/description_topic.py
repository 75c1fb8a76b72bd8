# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The limits of the joints from the robot's own description, which robot_state_publisher sends latched."""

import threading
from dataclasses import replace

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.node import Node
from std_msgs.msg import String

from flashrt_core.errors import Error
from flashrt_ros.joint_limits import JointLimits, limits_of
from flashrt_ros.parameters import Parameters
from flashrt_ros.qos import LATCHED
from flashrt_ros.robot_description import parse_joint_limits

_TOPIC = 'robot_description'
_PATIENCE_S = 10.0  # for a latched message that exists; longer than discovery takes


def receive_limits(node: Node, parameters: Parameters) -> JointLimits:
    """As joints.limits says; waits for the description, in a thread that does not serve the executor."""
    if parameters.joint_limits == 'parameters':
        return limits_of(parameters)
    arrived = threading.Event()
    texts: list[str] = []

    def take(message: String) -> None:
        texts.append(message.data)
        arrived.set()

    subscription = node.create_subscription(
        String, _TOPIC, take, LATCHED, callback_group=MutuallyExclusiveCallbackGroup()
    )
    try:
        if not arrived.wait(_PATIENCE_S):
            raise Error(
                f'joints.limits is robot_description, but nothing came on {subscription.topic_name} in '
                f'{_PATIENCE_S:.0f} s; start robot_state_publisher, or give joints.lower, joints.upper and '
                'joints.max_velocity'
            )
    finally:
        node.destroy_subscription(subscription)
    names = [parameters.joint_prefix + name for name in parameters.commanded_joints]
    return replace(parse_joint_limits(texts[-1], names), names=parameters.commanded_joints)
