# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Judges a journal by the rules of the node: limits, steps, age of data, reactions, memory, counters."""

import itertools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from flashrt_ros.bag_inputs import stream_counts
from flashrt_ros.parameters import Parameters
from flashrt_ros.soak.configuration import ARM_TOPIC, CAMERA_TOPICS, HAND_TOPIC, JOINT_TOPIC
from flashrt_ros.soak.episodes import SLACK, judge_episodes
from flashrt_ros.soak.evidence import Evidence, start_ns
from flashrt_ros.soak.faults import Fault
from flashrt_ros.soak.journal import Happening, Journal, Usage
from flashrt_ros.soak.verdict import Finding, Verdict

MEMORY_BYTES = 16 << 20  # that the process may grow by after the first round of faults
DESCRIPTORS = 2
FEWEST_PLAYED = 0.5  # of the commands that move: otherwise nothing was learnt about the age of their data
_TOLERANCE = 1e-6  # rad or m
_MISSED_TICKS = 2  # control periods
_SAMPLES = 20  # of memory, at either end


def judge(
    title: str, journal: Journal, parameters: Parameters, faults: Sequence[Fault], sent: Mapping[str, int]
) -> Verdict:
    """sent: topic -> messages of cameras and joints that were published."""
    arm = Evidence(journal, parameters, ARM_TOPIC)
    hand = Evidence(journal, parameters, HAND_TOPIC)
    jumping = {fault.name for fault in faults if fault.is_jump}
    jumps_ns = [item.at_ns for item in journal.happenings if item.what == 'begin' and item.fault in jumping]
    trials, broken = judge_episodes(journal, arm.seen, parameters, faults)
    findings = [
        *limit_faults(arm, parameters),
        *limit_faults(hand, parameters),
        *step_faults(arm, parameters, jumps_ns),
        *step_faults(hand, parameters, jumps_ns),
        *data_faults(arm, parameters),
        *broken,
        *usage_faults(journal.usage, journal.happenings),
        *stream_faults(journal, sent),
        *clamp_faults(journal, faults),
    ]
    ends_ns = [entry.at_ns for entry in (*journal.happenings, *journal.usage)]
    return Verdict(
        title,
        (max(ends_ns) - min(ends_ns)) / 1e9 if ends_ns else 0.0,
        tuple(findings),
        trials,
        _figures(journal, arm, sent),
    )


def limit_faults(evidence: Evidence, parameters: Parameters) -> Iterator[Finding]:
    """Every value of every message is finite and inside the limits of its joint."""
    columns = [parameters.commanded_joints.index(joint) for joint in evidence.joints]
    for seen in evidence.seen:
        if seen.command.joints not in ((), evidence.joints):
            yield Finding(
                'limits', f'{seen.command.topic} names {seen.command.joints}, wanted {evidence.joints}'
            )
            continue
        for row in seen.command.rows:
            for joint, column, value in zip(evidence.joints, columns, row, strict=True):
                low, high = parameters.joint_lower[column], parameters.joint_upper[column]
                if not low - _TOLERANCE <= value <= high + _TOLERANCE:  # NaN fails as well
                    yield Finding('limits', f'{joint} is commanded to {value}, allowed: {low} to {high}')


def step_faults(evidence: Evidence, parameters: Parameters, jumps_ns: Sequence[int]) -> Iterator[Finding]:
    """No row is further from the row before than max_velocity allows in the time between them.

    The first row of a message follows the first row of the message before by a control period; after missed
    ticks by the time that has passed, in which a trajectory went on. A hold after a jump of the clock follows
    by no time that could be counted: controllers on that clock are at the end of their trajectory.
    """
    columns = [parameters.commanded_joints.index(joint) for joint in evidence.joints]
    speeds = np.array(parameters.joint_max_velocity)[columns]
    period_s = 1 / parameters.control_rate_hz
    for before, seen in itertools.pairwise(evidence.seen):
        command = seen.command
        times = np.diff([0.0, *command.due_s]) if command.due_s else np.zeros(1)
        times[0] = period_s * (1 + seen.missed)
        passed_s = (command.sent_ns - before.command.sent_ns) / 1e9
        if passed_s > _MISSED_TICKS * period_s:
            times[0] = max(times[0], passed_s)
        jumped_s = [(command.sent_ns - at_ns) / 1e9 for at_ns in jumps_ns]
        if seen.is_hold and any(0 <= ago_s < SLACK * period_s for ago_s in jumped_s):
            times[0] = math.inf
        steps = np.abs(np.diff([before.command.rows[0], *command.rows], axis=0))
        for row, column in np.argwhere(~(steps <= speeds * times[:, np.newaxis] + _TOLERANCE)):
            yield Finding(
                'rate limit',
                f'{evidence.joints[column]} steps by {steps[row, column]:.6f} in {times[row] * 1e3:.1f} ms '
                f'(row {row} of command {command.sequence}), allowed: {speeds[column] * times[row]:.6f}',
            )


def data_faults(evidence: Evidence, parameters: Parameters) -> Iterator[Finding]:
    """Commands come from chunks whose data were fresh, and rows are played when they are due.

    Later only where play begins at row 0 from a standstill, which is as late as the chunk took to compute.
    """
    played = [seen for seen in evidence.seen if seen.played]
    moving = [seen for seen in evidence.seen if not seen.is_hold]
    if len(played) < FEWEST_PLAYED * len(moving) or not played:
        yield Finding(
            'age of data',
            f'only {len(played)} of {len(moving)} commands in motion are rows of chunks',
        )
    limits_s = dict.fromkeys(parameters.camera_names, parameters.camera_max_age_s)
    limits_s |= dict.fromkeys(parameters.joint_topics, parameters.joint_max_age_s)
    slack_s = SLACK / parameters.control_rate_hz
    for seen in played:
        chunk, row = seen.played.chunk, seen.played.row
        for stream, age_s in chunk.ages_s.items():
            # The limit holds when the observation is formed; inference begins right after.
            if age_s > limits_s[stream] + slack_s:
                yield Finding(
                    'age of data',
                    f'chunk {chunk.chunk_id} used data of {stream} that were {age_s:.3f} s old, '
                    f'allowed: {limits_s[stream]} s',
                )
        wanted_ns = start_ns(chunk) + (row + 1) * parameters.row_period_s * 1e9
        late_s = (seen.command.sent_ns + seen.played.due_s * 1e9 - wanted_ns) / 1e9
        allowed_s = (chunk.end_ns - chunk.start_ns) / 1e9 + slack_s
        if not -slack_s <= late_s <= allowed_s:
            yield Finding(
                'age of data',
                f'row {row} of chunk {chunk.chunk_id} was commanded {late_s:.3f} s after it was due, '
                f'allowed: {-slack_s:.3f} to {allowed_s:.3f} s',
            )


def usage_faults(usage: Sequence[Usage], happenings: Sequence[Happening]) -> Iterator[Finding]:
    """After the first round of faults, memory and descriptors stay where they are."""
    first, last = _ends(usage, happenings)
    if not first:
        yield Finding('level memory', f'{len(usage)} samples are too few to tell')
        return
    grown = _median(last, 'resident_bytes') - _median(first, 'resident_bytes')
    if grown > MEMORY_BYTES:
        yield Finding(
            'level memory', f'grown by {grown / 2**20:.1f} MiB, allowed: {MEMORY_BYTES / 2**20:g} MiB'
        )
    opened = _median(last, 'descriptors') - _median(first, 'descriptors')
    if opened > DESCRIPTORS:
        yield Finding('file descriptors', f'{opened:g} more than after one round, allowed: {DESCRIPTORS}')


def _ends(usage: Sequence[Usage], happenings: Sequence[Happening]) -> tuple[list[Usage], list[Usage]]:
    """Samples after the first round, or in the middle of a single one; and the last ones."""
    begins = [item for item in happenings if item.what == 'begin']
    again = [item.at_ns for item in begins[1:] if item.fault == begins[0].fault]
    after = [item for item in usage if again and item.at_ns >= again[0]]
    if len(after) < 2 * _SAMPLES:
        after = list(usage[len(usage) // 2 :])
    count = min(_SAMPLES, len(after) // 2)
    return after[:count], after[len(after) - count :]


def _median(usage: Sequence[Usage], field: str) -> float:
    return statistics.median(getattr(item, field) for item in usage)


def clamp_faults(journal: Journal, faults: Sequence[Fault]) -> Iterator[Finding]:
    """Chunks led beyond the limits and were clamped: otherwise the limits were not put to the test."""
    if not any(fault.is_outside for fault in faults) or not journal.statuses:
        return
    for kind in ('position_clamps', 'step_clamps'):
        counts = [
            int(value)
            for key, value in journal.statuses[-1].values.items()
            if key.startswith(f'play.{kind}.')
        ]
        if not any(counts):
            yield Finding('limits are tried', f'{kind} of the status are {counts}')


def stream_faults(journal: Journal, sent: Mapping[str, int]) -> Iterator[Finding]:
    """What the node says it received is accounted for, and is no more than was sent."""
    if not journal.statuses:
        yield Finding('counters', 'the node published no status')
        return
    for counts in _streams(journal, sent).values():
        if counts.unaccounted:
            yield Finding(
                'counters',
                f'{counts.topic}: {counts.received} received, {counts.used} used, {counts.superseded} '
                f'superseded, {counts.waiting} waiting, {sum(counts.dropped.values())} refused: '
                f'{counts.unaccounted} are not accounted for',
            )
        if not 0 < counts.received <= counts.recorded:
            yield Finding(
                'counters', f'{counts.topic}: {counts.received} received, {counts.recorded} were sent'
            )


def _streams(journal: Journal, sent: Mapping[str, int]):
    values = journal.statuses[-1].values
    names = {topic: slot for slot, topic in CAMERA_TOPICS.items()} | {JOINT_TOPIC: JOINT_TOPIC}
    result = {}
    for topic, stream in names.items():
        prefix = f'{stream}.'
        counters = {
            key.removeprefix(prefix): int(value)
            for key, value in values.items()
            if key.startswith(prefix) and not key.endswith('age_s')
        }
        result[stream] = stream_counts(topic, sent.get(topic, 0), counters, topic != JOINT_TOPIC)
    return result


def _transport(arm: Evidence) -> str:
    delays_ms = [(seen.command.received_ns - seen.command.sent_ns) / 1e6 for seen in arm.seen]
    return '{:.1f}, {:.1f}'.format(*np.percentile(delays_ms, (99, 100))) if delays_ms else 'none'


def _figures(journal: Journal, arm: Evidence, sent: Mapping[str, int]) -> dict[str, object]:
    played = sum(seen.played is not None for seen in arm.seen)
    holds = sum(seen.is_hold for seen in arm.seen)
    figures: dict[str, object] = {
        'commands to the arm': len(arm.seen),
        '... told by their rows': played,
        '... holds': holds,
        '... changed on the way (limits)': len(arm.seen) - played - holds,
        '... from the node to the recorder, p99 and max [ms]': _transport(arm),
        '... that did not reach the recorder': sum(seen.missed for seen in arm.seen),
        'chunks': len(journal.chunks),
    }
    first, last = _ends(journal.usage, journal.happenings)
    if first:
        seconds = (journal.usage[-1].at_ns - journal.usage[0].at_ns) / 1e9
        busy_s = journal.usage[-1].processor_s - journal.usage[0].processor_s
        figures['memory after the first round [MiB]'] = _median(first, 'resident_bytes') / 2**20
        figures['memory at the end [MiB]'] = _median(last, 'resident_bytes') / 2**20
        figures['file descriptors, after the first round and at the end'] = (
            f'{_median(first, "descriptors"):g}, {_median(last, "descriptors"):g}'
        )
        figures['processor time of the node [% of one core]'] = 100 * busy_s / seconds
    if journal.statuses:
        for name, counts in _streams(journal, sent).items():
            refused = ', '.join(f'{reason} {count}' for reason, count in counts.dropped.items() if count)
            figures[f'{name}: sent, received, not accounted for'] = (
                f'{counts.recorded}, {counts.received}, {counts.unaccounted}'
            )
            figures[f'{name}: refused'] = refused or 'none'
    return figures
