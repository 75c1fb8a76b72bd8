# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Keeps a simulated robot to itself: loopback, a ROS domain of its own, and nobody else on it."""

import os
import time

from rclpy.node import Node

from flashrt_core.errors import Error

_LOOK_AROUND_S = 2.0  # for the discovery of nodes that are there already
_LEASE_S = 30.0  # a process that ended hard is seen by others for 20 s


def own_domain() -> int:
    """A ROS domain that hardly anybody else uses."""
    return 1 + os.getpid() % 100


def seclude(domain: int) -> None:
    """To be called before the first node. ROS_DOMAIN_ID is not asked: on a robot it is that of the robot."""
    os.environ['ROS_DOMAIN_ID'] = str(domain)
    os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'


def refuse_company(node: Node) -> None:
    """Raises when other nodes are on the domain: what is sent here must not reach a robot."""
    time.sleep(_LOOK_AROUND_S)
    deadline_s = time.monotonic() + _LEASE_S
    while others := sorted(set(node.get_node_names()) - {node.get_name()}):
        if time.monotonic() > deadline_s:
            raise Error(
                f'other nodes are on ROS domain {node.context.get_domain_id()}: {", ".join(others)}; choose '
                'another one with --domain: commands for a simulated robot must not reach a real one'
            )
        time.sleep(0.5)
