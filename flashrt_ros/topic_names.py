# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Topic names by the rules of ROS, without ROS, and the names that streams go by in the status."""

import re
from collections.abc import Iterable, Iterator, Mapping

_WORD = '[A-Za-z_][A-Za-z0-9_]*'
_TOPIC = re.compile(f'(/|~/)?{_WORD}(/{_WORD})*')
_OTHER_STATUS_KEYS = ('out_of_range', 'play', 'policy')  # keys of ~/status begin with these or with a stream


def resolve(topic: str, node_name: str) -> str:
    """The absolute name that a node with the full name `node_name` gives a topic."""
    if topic.startswith('/'):
        return topic
    if topic.startswith('~/'):
        return node_name + topic[1:]
    return f'{node_name.rpartition("/")[0]}/{topic}'


def topic_faults(topics: Iterable[tuple[str, str]], node_name: str) -> Iterator[str]:
    """topics: (parameter, topic). Each must be a name, and none may be written twice."""
    users: dict[str, list[str]] = {}
    for parameter, topic in topics:
        if _TOPIC.fullmatch(topic):
            users.setdefault(resolve(topic, node_name), []).append(parameter)
        else:
            yield (
                f"{parameter} is '{topic}', which is no topic name: words of letters, digits and '_', "
                "none beginning with a digit, separated by '/'"
            )
    for topic, parameters in users.items():
        if len(parameters) > 1:  # a line that was copied and not changed
            yield f"{' and '.join(parameters)} are the same topic '{topic}'"


def stream_faults(streams: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """streams: parameter -> stream names. The status could not tell streams of one name apart."""
    owners: dict[str, str] = {}
    for parameter, names in streams.items():
        for name in dict.fromkeys(names):
            if name in _OTHER_STATUS_KEYS:
                yield f"{parameter}: '{name}' cannot be the name of a stream, the status uses it"
            if name in owners:
                yield f"'{name}' is in {owners[name]} and in {parameter}; streams need names of their own"
            owners.setdefault(name, parameter)
