# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Whether cameras, joints and the stop topic arrive as the policy node needs them; judged without ROS."""

import math
from collections.abc import Iterator, Sequence

from flashrt_ros.check_findings import Finding, fail, ok, skip, warn
from flashrt_ros.conversions import (
    check_frame,
    compressed_frame,
    decode_frame,
    joint_sample,
    raw_frame,
    stamp_ns,
)
from flashrt_ros.graph_view import InputView
from flashrt_ros.inputs import Rejected
from flashrt_ros.parameters import CameraParameters, Parameters

_READERS = {'raw': raw_frame, 'compressed': compressed_frame}


def check_camera(
    seen: InputView, camera: CameraParameters, parameters: Parameters, is_time_simulated: bool
) -> Iterator[Finding]:
    subject, key = f'camera {camera.slot}', f'cameras.{camera.slot}'
    reliability_key = f'{key}.reliability' if camera.reliability == 'reliable' else ''
    if fault := _connection_fault(seen, f'{key}.topic', reliability_key):
        yield fail(subject, fault)
        return
    limit_s = parameters.camera_max_age_s
    faults = list(_time_faults(seen, key, camera.stamp, parameters, is_time_simulated, limit_s))
    shape = ''
    if seen.recent:
        try:
            frame = _READERS[camera.transport](seen.recent[-1])
            check_frame(frame, parameters.camera_max_side_px, camera.channel_order)
            height, width, _ = decode_frame(frame, camera.channel_order).shape
            shape = f'{width}x{height} {getattr(seen.recent[-1], "encoding", "compressed")}, '
        except Rejected as rejected:
            faults.append(f'the picture is refused: {rejected}')
    for text in faults:
        yield fail(subject, f'{seen.topic}: {text}')
    yield from _slow(subject, seen, 'cameras.max_age_s', limit_s)
    if not faults:
        yield ok(subject, f'{seen.topic}: {shape}{_rate(seen)}, from {_publishers(seen)}')


def check_joint_topic(seen: InputView, parameters: Parameters, is_time_simulated: bool) -> Iterator[Finding]:
    subject = f'joints {seen.stream}'
    reliability_key = 'joints.reliability' if parameters.joint_reliability == 'reliable' else ''
    if fault := _connection_fault(seen, 'joints.topics', reliability_key):
        yield fail(subject, fault)
        return
    limit_s = parameters.joint_max_age_s
    faults = list(
        _time_faults(seen, 'joints', parameters.joint_stamp, parameters, is_time_simulated, limit_s)
    )
    for text in faults:
        yield fail(subject, f'{seen.topic}: {text}')
    yield from _slow(subject, seen, 'joints.max_age_s', limit_s)
    if not faults:
        yield ok(subject, f'{seen.topic}: {_rate(seen)}, from {_publishers(seen)}')


def check_joint_names(topics: Sequence[InputView], parameters: Parameters) -> Iterator[Finding]:
    """All topics together: the joints of one robot may come from several publishers."""
    subject = 'joint names'
    positions: dict[str, float] = {}
    for seen in topics:
        for message in seen.recent:
            try:
                positions |= joint_sample(message).positions
            except Rejected as rejected:
                yield fail(subject, f'a message on {seen.topic} is refused: {rejected}')
                return
    if not positions:
        yield skip(subject, 'no joint state came')
        return
    wanted = [parameters.joint_prefix + name for name in parameters.known_joints]
    missing = [name for name in wanted if name not in positions]
    broken = [f'{name} ({positions[name]})' for name in wanted if not math.isfinite(positions.get(name, 0.0))]
    if missing:
        yield fail(
            subject,
            f'no value of {", ".join(missing)}; names that came: {", ".join(positions)}; correct '
            'joints.names, joints.prefix or joints.topics',
        )
    if broken:
        yield fail(
            subject, f'position of {", ".join(broken)} is not a finite number; home or repair the drive'
        )
    if not missing and not broken:
        yield ok(subject, f'all {len(wanted)} came, with finite positions')


def check_stop(seen: InputView, parameters: Parameters) -> Iterator[Finding]:
    subject = 'estop'
    fault = _connection_fault(seen, 'estop.topic', '')
    if not seen.publishers and not parameters.estop_required:
        yield warn(subject, f'{fault}; without it nothing stops the node by topic (estop.required is false)')
        return
    if fault:
        yield fail(subject, fault)
        return
    if parameters.estop_required and not seen.messages:
        yield fail(
            subject,
            f'{seen.topic}: silent for {seen.counted_s:.1f} s, estop.required wants a message every '
            f'{parameters.estop_timeout_s:g} s',
        )
        return
    if seen.recent and seen.recent[-1].data:
        yield warn(subject, f'{seen.topic}: the stop is pressed; release it, then call ~/estop_reset')
        return
    state = 'not pressed' if seen.recent else 'nothing came yet'
    yield ok(subject, f'{seen.topic}: {state}, {_rate(seen)}, from {_publishers(seen)}')


def _connection_fault(seen: InputView, topic_key: str, reliability_key: str) -> str:
    """reliability_key: the parameter that asks for more than it has to; empty where none does."""
    if not seen.publishers:
        return f'no publisher on {seen.topic}; start its driver, or correct {topic_key}'
    fitting = [end for end in seen.publishers if end.type == seen.type]
    if not fitting:
        other = seen.publishers[0]
        return (
            f'publisher present, but {other.node} sends {other.type} on {seen.topic} and {seen.type} is '
            f'expected; correct {topic_key}'
        )
    if any(not end.qos_fault for end in fitting):
        return ''
    end = fitting[0]
    remedy = f'set {reliability_key}: best_effort' if reliability_key else f'change the QoS of {end.node}'
    return f'publisher present, QoS incompatible on {seen.topic}: {end.qos_fault}; {remedy}'


def _time_faults(
    seen: InputView, key: str, clock: str, parameters: Parameters, is_time_simulated: bool, limit_s: float
) -> Iterator[str]:
    """key: prefix of the parameters of this stream."""
    if not seen.recent:
        yield f'publisher present, but nothing came in {seen.counted_s:.1f} s; look at {_publishers(seen)}'
        return
    if clock != 'header':
        return
    stamp = stamp_ns(seen.recent[-1].header.stamp)
    if not stamp:
        yield f'header stamp is zero; set {key}.stamp: receive to count the age from receipt'
        return
    if is_time_simulated:
        return
    age_s = (seen.receive_ns - stamp) / 1e9
    if age_s > limit_s:
        yield (
            f'its stamp is {age_s:.3f} s old when it comes, limit {limit_s:g} s '
            f'({key.split(".")[0]}.max_age_s); synchronise the clocks of the computers, or set '
            f'{key}.stamp: receive'
        )
    elif -age_s > parameters.max_clock_skew_s:
        yield (
            f'its stamp is {-age_s:.3f} s ahead of this computer, limit {parameters.max_clock_skew_s:g} s '
            '(max_clock_skew_s); synchronise the clocks of the computers'
        )


def _slow(subject: str, seen: InputView, key: str, limit_s: float) -> Iterator[Finding]:
    rate_hz = seen.messages / seen.counted_s
    if seen.messages and rate_hz * limit_s < 1:
        yield warn(
            subject,
            f'{seen.topic}: {_rate(seen)} is slow for {key} {limit_s:g}: each one is stale before the next',
        )


def _rate(seen: InputView) -> str:
    return f'{seen.messages / seen.counted_s:.1f} Hz'


def _publishers(seen: InputView) -> str:
    return ', '.join(dict.fromkeys(end.node for end in seen.publishers))
