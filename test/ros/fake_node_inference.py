# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The policy node as a process whose policy hangs in every inference after the trial of configure."""

import sys
import threading

from fake_policy import FakePolicy

from flashrt_core.types import ActionChunk, Observation
from flashrt_ros.policy_node import PolicyNode
from flashrt_ros.run import run_node


class StuckPolicy(FakePolicy):
    def infer(self, observation: Observation, **options: object) -> ActionChunk:
        if observation.stamps_ns:
            print('STUCK')
            threading.Event().wait()
        return super().infer(observation, **options)


if __name__ == '__main__':
    sys.exit(run_node(lambda: PolicyNode(StuckPolicy)))
