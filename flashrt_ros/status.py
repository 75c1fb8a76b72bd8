# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What an operator sees without reading logs: status in words, diagnostics, latency."""

from collections.abc import Callable, Mapping

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile

from flashrt_ros.health import CONNECTED, Health

LEVELS = {'ok': DiagnosticStatus.OK, 'warn': DiagnosticStatus.WARN, 'error': DiagnosticStatus.ERROR}
PERIOD_S = 1.0


class StatusReporter:
    """Publishes ~/status on every change and each second, /diagnostics and ~/latency each second."""

    def __init__(self, node: Node, gather: Callable[[], Health]) -> None:
        self._gather = gather
        self._name = node.get_fully_qualified_name()
        self._clock = node.get_clock()
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._status = node.create_publisher(DiagnosticStatus, '~/status', latched)
        self._diagnostics = node.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self._latency = node.create_publisher(DiagnosticArray, '~/latency', 1)
        self._published = ('', '', '')

    def publish_changes(self) -> None:
        """~/status, if its words have changed."""
        health = self._gather()
        if (health.level, health.message, health.state) != self._published:
            self._publish_status(health)

    def publish_all(self) -> None:
        health = self._gather()
        self._publish_status(health)
        self._diagnostics.publish(self._array(self._diagnostic_parts(health)))
        if health.latency:
            self._latency.publish(self._array(self._latency_parts(health)))

    def _publish_status(self, health: Health) -> None:
        self._published = (health.level, health.message, health.state)
        values = {
            'state': health.state,
            'prompt': health.prompt,
            'prompt_fault': health.prompt_fault,
            'dry_run': health.is_dry_run,
            'commanding': health.is_commanding,
        }
        for stream in health.streams:
            values[f'{stream.name}.age_s'] = _age(stream.age_s)
            values |= {f'{stream.name}.{joint}.age_s': _age(age) for joint, age in stream.details.items()}
            values |= {f'{stream.name}.{reason}': count for reason, count in stream.counters.items()}
        values |= {f'out_of_range.{joint}': f'{value:.3f}' for joint, value in health.out_of_range.items()}
        values |= {f'play.{name}': value for name, value in vars(health.play).items()}
        values |= {'inference_errors': health.inference_errors}
        values |= {f'policy.{name}': value for name, value in health.policy.items()}
        self._status.publish(self._part('', health.level, health.message, values))

    def _diagnostic_parts(self, health: Health) -> list[DiagnosticStatus]:
        parts = [self._part('state', health.level, health.message, {'state': health.state})]
        for stream in health.streams:
            connection = health.connections.get(stream.name, '')
            is_received = stream.age_s is not None
            is_well = is_received and connection == CONNECTED
            message = 'receiving' if is_well else connection
            if not is_received and connection == CONNECTED:
                message = stream.last_rejection or 'nothing received yet'
            values = {'topic': stream.topic, 'age_s': _age(stream.age_s), 'connection': connection}
            values |= {f'{joint}.age_s': _age(age) for joint, age in stream.details.items()}
            values |= {**stream.counters, 'last_rejection': stream.last_rejection}
            level = 'ok' if is_well else 'warn'
            parts.append(self._part(f'stream {stream.name}', level, message, values))
        error = health.last_error
        waiting = health.waiting
        parts.append(
            self._part(
                'inference',
                'error' if error else 'warn' if waiting else 'ok',
                error or waiting or 'running',
                {
                    'errors': health.inference_errors,
                    'prompt': health.prompt,
                    'prompt_fault': health.prompt_fault,
                },
            )
        )
        starved = health.starved_s > 0
        parts.append(
            self._part(
                'chunk',
                'warn' if starved else 'ok',
                f'starved for {health.starved_s:.2f} s'
                if starved
                else 'playing'
                if health.is_commanding
                else 'idle',
                vars(health.play) | {'skipped_rows_of_chunk': health.skipped_rows},
            )
        )
        mode = (
            'dry run: commands are computed and not published'
            if health.is_dry_run
            else 'commands are published'
        )
        parts.append(self._part('safety', 'ok', mode, {'commanding': health.is_commanding}))
        parts.append(self._part('device', 'ok', health.policy.get('backend', 'not loaded'), health.policy))
        return parts

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


def _age(age_s: float | None) -> str:
    return 'never received' if age_s is None else f'{age_s:.3f}'
