# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The policy node with a fake policy, as a program; writes its process id beside its log."""

import os
import sys
from pathlib import Path

from fake_policy import FakePolicy

from flashrt_ros.policy_node import PolicyNode
from flashrt_ros.run import run_node


def main() -> int:
    log = Path(os.readlink('/proc/self/fd/1'))  # where the replay sends standard output
    log.with_name('node.pid').write_text(str(os.getpid()))
    return run_node(lambda: PolicyNode(lambda parameters: FakePolicy(parameters, seconds=0.02)))


if __name__ == '__main__':
    sys.exit(main())
