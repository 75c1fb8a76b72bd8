# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What an operator sees without reading logs: status in words, diagnostics, latency."""

import re
from collections.abc import Callable, Mapping

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.event_handler import PublisherEventCallbacks
from rclpy.node import Node

from flashrt_ros.health import CONNECTED, Health, Situation, words
from flashrt_ros.observations import StreamHealth
from flashrt_ros.qos import LATCHED

LEVELS = {'ok': DiagnosticStatus.OK, 'warn': DiagnosticStatus.WARN, 'error': DiagnosticStatus.ERROR}
# Events that nobody handles would cost the executor time for every message.
_NO_EVENTS = PublisherEventCallbacks(use_default_callbacks=False)
PERIOD_S = 1.0


class StatusReporter:
    """Publishes ~/status on every change and each second, /diagnostics and ~/latency each second."""

    def __init__(self, node: Node, situation: Callable[[], Situation], health: Callable[[], Health]) -> None:
        self._situation = situation
        self._health = health
        self._name = node.get_fully_qualified_name()
        self._clock = node.get_clock()
        self._status = node.create_publisher(
            DiagnosticStatus, '~/status', LATCHED, event_callbacks=_NO_EVENTS
        )
        self._diagnostics = node.create_publisher(
            DiagnosticArray, '/diagnostics', 10, event_callbacks=_NO_EVENTS
        )
        self._latency = node.create_publisher(DiagnosticArray, '~/latency', 1, event_callbacks=_NO_EVENTS)
        self._published = ''

    def publish_changes(self) -> None:
        """~/status, if its words have changed."""
        if _without_numbers(words(self._situation())[1]) != self._published:
            self._publish_status(self._health())

    def publish_all(self) -> None:
        health = self._health()
        self._publish_status(health)
        self._diagnostics.publish(self._array(self._diagnostic_parts(health)))
        if health.latency:
            self._latency.publish(self._array(self._latency_parts(health)))

    def _publish_status(self, health: Health) -> None:
        now = health.situation
        level, message = words(now)
        self._published = _without_numbers(message)
        values = {
            'state': now.state,
            'prompt': health.prompt,
            'prompt_fault': now.prompt_fault,
            'dry_run': now.is_dry_run,
            'prompt_id': health.prompt_id,
            'commanding': now.is_commanding,
            'stop_latched': now.stop_latched,
            'starved_s': f'{now.starved_s:.3f}',
        }
        for stream in health.streams:
            values[f'{stream.name}.age_s'] = _age(stream.age_s)
            values |= {f'{stream.name}.{joint}.age_s': _age(age) for joint, age in stream.details.items()}
            values |= {f'{stream.name}.{reason}': count for reason, count in stream.counters.items()}
        values |= {f'out_of_range.{joint}': f'{value:.3f}' for joint, value in health.out_of_range.items()}
        values |= {f'play.{name}': value for name, value in vars(health.play).items()}
        values |= _motion_values(health)
        values |= {'inference_errors': health.inference_errors}
        values |= {f'policy.{name}': value for name, value in health.policy.items()}
        self._status.publish(self._part('', level, message, values))

    def _diagnostic_parts(self, health: Health) -> list[DiagnosticStatus]:
        now = health.situation
        level, message = words(now)
        inference = now.inference_error or now.waiting or ('running' if now.state == 'active' else now.state)
        prompt = {'prompt': health.prompt, 'prompt_fault': now.prompt_fault}
        play = 'playing' if now.is_commanding else 'idle'
        if now.starved_s > 0:
            play = f'starved for {now.starved_s:.2f} s'
        mode = (
            'dry run: commands are computed and not published' if now.is_dry_run else 'commands are published'
        )
        return [
            self._part('state', level, message, {'state': now.state}),
            *(self._stream_part(stream, health.connections[stream.name]) for stream in health.streams),
            self._part(
                'inference',
                'error' if now.inference_error else 'warn' if now.waiting else 'ok',
                inference,
                {'errors': health.inference_errors} | prompt,
            ),
            self._part(
                'chunk',
                'warn' if now.starved_s > 0 else 'ok',
                play,
                vars(health.play) | {'delay_rows': health.delay_rows},
            ),
            self._safety_part(health, mode),
            self._device_part(health),
        ]

    def _safety_part(self, health: Health, mode: str) -> DiagnosticStatus:
        now = health.situation
        trouble = now.stop_latched or now.stop_connection or now.stopped_because or now.first_command
        is_fault = now.stop_latched or now.stop_connection or now.is_stopped_by_fault
        level = 'error' if is_fault else 'warn' if trouble else 'ok'
        values = {'commanding': now.is_commanding, 'stop_latched': now.stop_latched}
        return self._part('safety', level, trouble or mode, values | _motion_values(health))

    def _device_part(self, health: Health) -> DiagnosticStatus:
        """What is loaded, and how the computer under it is."""
        level = 'warn' if health.device.warnings else 'ok'
        message = '; '.join(health.device.warnings) or health.policy.get('backend', 'not loaded')
        return self._part('device', level, message, {**health.policy, **health.device.values})

    def _stream_part(self, stream: StreamHealth, connection: str) -> DiagnosticStatus:
        is_well = stream.age_s is not None and connection == CONNECTED
        message = 'receiving' if is_well else connection
        if stream.age_s is None and connection == CONNECTED:
            message = stream.last_rejection or 'nothing received yet'
        values = {'topic': stream.topic, 'age_s': _age(stream.age_s), 'connection': connection}
        values |= {f'{joint}.age_s': _age(age) for joint, age in stream.details.items()}
        values |= {**stream.counters, 'last_rejection': stream.last_rejection}
        return self._part(f'stream {stream.name}', 'ok' if is_well else 'warn', message, values)

    def _latency_parts(self, health: Health) -> list[DiagnosticStatus]:
        return [
            self._part(
                f'latency {stage}',
                'ok',
                f'p50 {p.p50_ms:.2f} ms',
                {name: value if name == 'count' else f'{value:.3f}' for name, value in vars(p).items()},
            )
            for stage, p in health.latency.items()
        ]

    def _array(self, parts: list[DiagnosticStatus]) -> DiagnosticArray:
        array = DiagnosticArray(status=parts)
        array.header.stamp = self._clock.now().to_msg()
        return array

    def _part(self, name: str, level: str, message: str, values: Mapping[str, object]) -> DiagnosticStatus:
        full_name = f'{self._name}: {name}' if name else self._name
        pairs = [KeyValue(key=key, value=str(value)) for key, value in values.items()]
        return DiagnosticStatus(level=LEVELS[level], name=full_name, message=message, values=pairs)


def _motion_values(health: Health) -> dict[str, object]:
    """Counters of the rules between chunk and command; clamps are named by joint."""
    counters = vars(health.motion)
    values: dict[str, object] = {}
    for name, value in counters.items():
        if name in ('position_clamps', 'step_clamps'):
            clamps = zip(health.joint_names, value, strict=False)
            values |= {f'play.{name}.{joint}': int(count) for joint, count in clamps}
        else:
            values[f'play.{name}'] = f'{value:.3f}' if isinstance(value, float) else value
    return values


def _age(age_s: float | None) -> str:
    return 'never received' if age_s is None else f'{age_s:.3f}'


def _without_numbers(text: str) -> str:
    """An age that grows is no change worth a message; a digit in a name is part of the name."""
    return re.sub(r'(?<![\w.])\d+(\.\d+)?\b', '', text)
