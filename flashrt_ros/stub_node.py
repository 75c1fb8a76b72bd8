# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The policy node on the stub policy, as a program: all of the node and none of the model.

    python -m flashrt_ros.stub_node --latency-ms 60 --jitter-ms 5 --ros-args --params-file FILE

A text on ~/stub_fault makes the next inferences fail: 'throw', 'nan 3', 'outside', 'spike 2 0.8' (two of them
take 0.8 s longer), 'throw 0' (no more faults).
"""

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from std_msgs.msg import String

from flashrt_core.errors import Error
from flashrt_ros.parameters import Parameters
from flashrt_ros.policy_node import PolicyNode
from flashrt_ros.run import run_node
from flashrt_ros.stub_policy import StubPolicy, StubSettings

_FAULT = re.compile(r'(\w+)(?: (\d+))?(?: (\d+(?:\.\d+)?))?')


def stub_arguments(settings: StubSettings) -> list[str]:
    """The arguments of the program that give these settings."""
    return [f'{_flag(item.name)}={getattr(settings, item.name)}' for item in fields(settings)]


def parse(arguments: Sequence[str]) -> StubSettings:
    """Reads what comes before --ros-args; the rest is for ROS."""
    own = list(arguments)
    if '--ros-args' in own:
        own = own[: own.index('--ros-args')]
    parser = argparse.ArgumentParser(prog='flashrt_ros.stub_node', description=__doc__.splitlines()[0])
    for item in fields(StubSettings):
        parser.add_argument(_flag(item.name), type=item.type, default=item.default, help='%(default)s')
    try:
        return StubSettings(**vars(parser.parse_args(own)))
    except Error as fault:
        parser.error(str(fault))


def _flag(field_name: str) -> str:
    return '--' + field_name.replace('_', '-')


class StubNode(PolicyNode):
    """Loads a stub policy at every configure, and passes faults on to it."""

    def __init__(self, settings: StubSettings, **node_options: Any) -> None:
        self._stub_settings = settings
        self._stub: StubPolicy | None = None
        super().__init__(self._load_stub, **node_options)
        self.create_subscription(String, '~/stub_fault', self._on_fault, 10)

    def _load_stub(self, parameters: Parameters) -> StubPolicy:
        self._stub = StubPolicy(parameters, self._stub_settings)
        return self._stub

    def _on_fault(self, message: String) -> None:
        try:
            fault, count, seconds = read_fault(message.data)
            if self._stub is None:
                raise Error('the node is not configured, there is no policy that could fail')
            self._stub.inject(fault, count, seconds)
        except Error as error:
            self.get_logger().error(f"~/stub_fault '{message.data}': {error}")


def read_fault(text: str) -> tuple[str, int, float]:
    """'spike 2 0.8' -> name, number of inferences (1 if not given), seconds (0 if not given)."""
    match = _FAULT.fullmatch(' '.join(text.split()))
    if match is None:
        raise Error('wanted a name, a count and seconds, such as: spike 2 0.8')
    name, count, seconds = match.groups()
    return name, int(count or 1), float(seconds or 0)


def main() -> int:
    settings = parse(sys.argv[1:])
    return run_node(lambda: StubNode(settings))


if __name__ == '__main__':
    sys.exit(main())
