# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The QoS profiles of the node, which `flashrt check` judges publishers by."""

from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

CAMERA_DEPTH, JOINT_DEPTH = 5, 20
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
# What is latched is subscribed to twice: a latched subscription hears nothing from volatile publishers.
EITHER_WAY = (LATCHED, QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT))
_RELIABILITY = {'best_effort': ReliabilityPolicy.BEST_EFFORT, 'reliable': ReliabilityPolicy.RELIABLE}


def stream_profile(reliability: str, depth: int) -> QoSProfile:
    """reliability: as in the parameters."""
    return QoSProfile(depth=depth, reliability=_RELIABILITY[reliability])
