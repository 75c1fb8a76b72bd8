# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The policy node as a process with a fake policy."""

import sys

from fake_policy import FakePolicy

from flashrt_ros.policy_node import PolicyNode
from flashrt_ros.run import run_node

if __name__ == '__main__':
    sys.exit(run_node(lambda: PolicyNode(FakePolicy)))
