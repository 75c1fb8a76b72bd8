# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""R-48 in the node: a joint beyond the training data is named in the status, and beyond the limit refused."""

from dataclasses import replace

from fake_policy import FakePolicy
from robot_bench import Bench, key_values
from ros_spinner import Spinner, eventually

from flashrt_core.errors import Error
from flashrt_core.types import ActionChunk, OutOfRange
from flashrt_ros.parameters import Parameters


class FarPolicy(FakePolicy):
    """Finds joint_1 twice as far out as the training data reach."""

    limit = 2.0

    def infer(self, *arguments: object, **options: object) -> ActionChunk:
        chunk = super().infer(*arguments, **options)
        if self.limit < 2.0:
            raise Error(f'infer: normalised state beyond state_limit {self.limit:g}: joint_1 = 2')
        return replace(chunk, out_of_range=(OutOfRange(0, 'joint_1', 2.0),))


def test_joint_beyond_the_training_data_is_named_and_beyond_the_limit_refused(ros: Spinner):
    bench = Bench(ros)

    def load(parameters: Parameters) -> FarPolicy:
        bench.policies.append(FarPolicy(parameters))
        return bench.policies[-1]

    bench.load = load
    bench.activate()
    assert [observation.is_trial for observation in bench.policy.observations] == [True]
    bench.feed()
    eventually(
        lambda: bench.statuses and key_values(bench.statuses[-1]).get('out_of_range.joint_1') == '2.000',
        'joint_1 in the status',
    )
    bench.policy.limit = 1.5
    bench.status('inference failed: infer: normalised state beyond state_limit 1.5: joint_1 = 2')
    for _ in range(2):  # in the first round what was under way arrives
        asked, chunks = len(bench.policy.observations), len(bench.chunks)
        eventually(lambda asked=asked: len(bench.policy.observations) > asked + 3, 'further inferences')
    assert len(bench.chunks) == chunks
    assert not any(observation.is_trial for observation in bench.policy.observations[1:])
