# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The checker of the soak run: the journal of a node without fault passes, each wrong one fails."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from flashrt_ros.soak.checker import MEMORY_BYTES, judge
from flashrt_ros.soak.configuration import (
    ARM,
    ARM_TOPIC,
    CAMERA_TOPICS,
    HAND_TOPIC,
    JOINT_TOPIC,
    REST,
    soak_parameters,
    soak_values,
)
from flashrt_ros.soak.faults import Fault, clock_faults, faults
from flashrt_ros.soak.journal import Happening, Journal, SentChunk, SentCommand, SentStatus, Usage
from flashrt_ros.soak.verdict import Verdict

PARAMETERS = soak_parameters(soak_values())
PERIOD_S, ROW_S, HORIZON, LATENCY_S = 0.02, 0.05, 16, 0.06
BEGIN_NS = 1_700_000_000_000_000_000
SENT = {CAMERA_TOPICS['base']: 700, CAMERA_TOPICS['wrist']: 700, JOINT_TOPIC: 900}
STALL, PRESSED, PROMPT, SPIKE, STORM = (
    'camera stall',
    'stop pressed',
    'prompt change',
    'inference spike',
    'frame storm',
)
TRIED = [
    next(fault for fault in faults(PARAMETERS) if fault.name == name)
    for name in (STALL, PRESSED, PROMPT, SPIKE, STORM)
]
# Fault -> begin, held from, end, ~/start, in motion again; seconds.
TIMES = {
    STALL: (2.0, 2.31, 2.8, None, 2.9),
    PRESSED: (4.0, 4.01, 4.7, 4.8, 4.9),
    PROMPT: (6.0, 6.02, 6.5, None, 6.1),
    SPIKE: (8.0, 8.8, 9.5, None, 9.3),
    STORM: (10.0, None, 11.0, None, None),
}
END_S = 12.0


def ns(seconds: float) -> int:
    return BEGIN_NS + round(seconds * 1e9)


def pose(at_s: float) -> np.ndarray:
    """[7] a slow motion of every joint."""
    return np.array(REST) + np.array([*[0.1] * 6, 0.01]) * np.sin(at_s)


def is_held(at_s: float) -> bool:
    return any(held is not None and held <= at_s < again for _, held, _, _, again in TIMES.values())


def moved(at_s: float) -> float:
    """Seconds in motion until then."""
    holds = [(held, again) for _, held, _, _, again in TIMES.values() if held is not None and held < at_s]
    return at_s - sum(min(at_s, again) - held for held, again in holds)


def make_chunk(number: int, start_s: float, prompt_id: int) -> SentChunk:
    end_s = start_s + LATENCY_S
    error = 1e-6 * number  # no two chunks have a row in common
    rows = tuple(tuple((pose(moved(start_s) + (i + 1) * ROW_S) + error).tolist()) for i in range(HORIZON))
    ages_s = {'base': 0.02, 'wrist': 0.03, JOINT_TOPIC: 0.01}
    return SentChunk(
        ns(end_s), number, prompt_id, 'go', ns(start_s - 0.03), ns(start_s), ns(end_s), ages_s, rows
    )


def good_journal() -> Journal:
    """Twelve seconds along `pose`, with five faults, in each of which the node does what it must."""
    journal = Journal()
    # Every tenth of a second; in a hold only the last one, which ends it.
    begun = [i * 0.1 for i in range(round(END_S / 0.1)) if not is_held(i * 0.1 + 0.1 + 1e-6)]
    for number, start_s in enumerate(begun, 1):
        journal.add(make_chunk(number, start_s, prompt_id=1 + (start_s >= TIMES[PROMPT][0])))
    last: SentCommand | None = None
    for tick in range(round(0.2 / PERIOD_S), round(END_S / PERIOD_S)):
        now_s = tick * PERIOD_S
        if is_held(now_s) and last:
            rows, due_s = (last.rows[0],), (PERIOD_S,)
        else:
            chunk = newest(journal, now_s)
            first = round((now_s - (chunk.start_ns - BEGIN_NS) / 1e9) / ROW_S + 1e-6 - 0.5)
            later = [i for i in range(first, HORIZON) if due(chunk, i) > now_s + PERIOD_S + 1e-6][:8]
            due_s = (PERIOD_S, *(due(chunk, i) - now_s for i in later))
            rows = (tuple(pose(moved(now_s) + PERIOD_S)[:6].tolist()), *(chunk.rows[i][:6] for i in later))
        last = SentCommand(ARM_TOPIC, ns(now_s), ns(now_s + 1e-3), tick, ARM, due_s, rows)
        journal.add(last)
        hand = rows_of_hand(journal, now_s)
        journal.add(SentCommand(HAND_TOPIC, ns(now_s), ns(now_s + 1e-3), tick, (), (), hand))
    for name, (begin, _, end, started, _) in TIMES.items():
        for at_s, what in ((begin, 'begin'), (end, 'end'), (started, 'start')):
            if at_s is not None:
                journal.add(Happening(ns(at_s), what, name))
    for i in range(round(END_S / 0.1)):
        journal.add(Usage(ns(i * 0.1), 100 << 20, 20, 0.03 * i))
    counters = {'received': 600, 'used': 300, 'superseded': 290, 'waiting': 1, 'future_stamp': 9}
    values = {f'{slot}.{name}': str(count) for slot in ('base', 'wrist') for name, count in counters.items()}
    values |= {f'{JOINT_TOPIC}.received': '800', f'{JOINT_TOPIC}.age_s': '0.01'}
    journal.add(SentStatus(ns(END_S), 'commanding', values))
    return journal


def newest(journal: Journal, now_s: float) -> SentChunk:
    return next(chunk for chunk in reversed(journal.chunks) if chunk.received_ns <= ns(now_s))


def due(chunk: SentChunk, row: int) -> float:
    return (chunk.start_ns - BEGIN_NS) / 1e9 + (row + 1) * ROW_S


def rows_of_hand(journal: Journal, now_s: float) -> tuple:
    before = [command for command in journal.commands[-2:] if command.topic == HAND_TOPIC]
    return before[-1].rows if before and is_held(now_s) else ((float(pose(moved(now_s))[6]),),)


def verdict(journal: Journal, tried: list[Fault] = TRIED, sent: dict[str, int] = SENT) -> Verdict:
    return judge('test', journal, PARAMETERS, tried, sent)


def broken(journal: Journal, **options: object) -> dict[str, str]:
    """Rule -> the first finding about it."""
    found: dict[str, str] = {}
    for finding in verdict(journal, **options).findings:
        found.setdefault(finding.rule, finding.text)
    return found


def index_at(journal: Journal, at_s: float, topic: str = ARM_TOPIC) -> int:
    """Of the first command sent from then on."""
    return next(
        i for i, item in enumerate(journal.commands) if item.topic == topic and item.sent_ns >= ns(at_s)
    )


def change_rows(journal: Journal, at_s: float, change: Callable, topic: str = ARM_TOPIC) -> None:
    i = index_at(journal, at_s, topic)
    rows = np.array(journal.commands[i].rows)
    change(rows)
    changed = tuple(tuple(row.tolist()) for row in rows)
    journal.commands[i] = replace(journal.commands[i], rows=changed)


def test_a_node_that_does_everything_right_passes():
    result = verdict(good_journal())
    assert not result.findings
    assert result.is_well
    trials = {item.fault: item for item in result.trials}
    assert all(item.count == 1 for item in trials.values())
    assert trials[STALL].reaction_s == pytest.approx([0.321], abs=0.02)
    assert trials[PRESSED].resume_s == pytest.approx([0.101], abs=0.02)
    assert trials[STORM].bound_s is None
    assert result.figures['... told by their rows'] > 300


@pytest.mark.parametrize('topic', [ARM_TOPIC, HAND_TOPIC])
@pytest.mark.parametrize('value', [2.01, -2.01, math.nan, math.inf])
def test_one_value_outside_the_limits_is_found(topic: str, value: float):
    journal = good_journal()

    def spoil(rows: np.ndarray) -> None:
        rows[-1, 0] = value

    change_rows(journal, 3.5, spoil, topic)
    assert str(value) in broken(journal)['limits']


def test_a_message_for_other_joints_is_found():
    journal = good_journal()
    i = index_at(journal, 3.5)
    journal.commands[i] = replace(journal.commands[i], joints=(*ARM[1:], ARM[0]))
    assert "names ('joint_2'" in broken(journal)['limits']


def test_a_step_above_the_rate_limit_is_found_between_messages_and_between_rows():
    allowed = PARAMETERS.joint_max_velocity[1]

    def jump(rows: np.ndarray) -> None:
        rows[:, 1] += 1.5 * allowed * PERIOD_S  # the whole message: only its first row steps too far

    def kink(rows: np.ndarray) -> None:
        rows[3, 1] += 1.5 * allowed * ROW_S

    for change, row in ((jump, 'row 0'), (kink, 'row 3')):
        journal = good_journal()
        change_rows(journal, 3.5, change)
        text = broken(journal)['rate limit']
        assert text.startswith('joint_2 steps by')
        assert row in text


def hold_ahead(journal: Journal, at_s: float) -> None:
    """A command that holds where the trajectory of the one before ends."""
    i = index_at(journal, at_s)
    last = journal.commands[index_at(journal, at_s - PERIOD_S)].rows[-1]
    journal.commands[i] = replace(journal.commands[i], rows=(last,), due_s=(PERIOD_S,))


@pytest.mark.parametrize('has_jumped', [False, True])
def test_a_hold_at_the_end_of_the_trajectory_is_a_step_unless_the_clock_has_jumped(has_jumped: bool):
    journal = good_journal()
    hold_ahead(journal, 3.6)
    jump = next(fault for fault in clock_faults() if fault.name == 'clock forward')
    if has_jumped:
        at = next(i for i, item in enumerate(journal.happenings) if item.fault == PRESSED)
        journal.happenings.insert(at, Happening(ns(3.595), 'end', jump.name))
        journal.happenings.insert(at, Happening(ns(3.59), 'begin', jump.name))
    findings = verdict(journal, tried=[*TRIED, jump]).findings
    steps = [finding.text for finding in findings if finding.rule == 'rate limit']
    assert any('(row 0 of command 180)' in text for text in steps) != has_jumped


def test_a_trajectory_goes_on_while_ticks_are_missed():
    journal = good_journal()
    begin, end = index_at(journal, 3.5), index_at(journal, 3.7)
    del journal.commands[begin:end]
    for i, item in enumerate(journal.commands):  # the node sent nothing meanwhile
        if item.sent_ns >= ns(3.7):
            journal.commands[i] = replace(item, sequence=item.sequence - 10)
    assert not broken(journal)


def test_a_missed_message_is_no_step():
    journal = good_journal()
    for _ in range(3):
        journal.commands.pop(index_at(journal, 3.5))
    assert not broken(journal)
    assert verdict(journal).figures['... that did not reach the recorder'] == 3


def test_a_late_reaction_is_found():
    journal = good_journal()
    happened = next(i for i, item in enumerate(journal.happenings) if item.fault == PRESSED)
    journal.happenings[happened] = replace(journal.happenings[happened], at_ns=ns(3.7))
    assert 'stop pressed: held 0.3' in broken(journal)['reaction']


def test_a_moment_of_hold_while_the_data_are_still_good_is_no_reaction():
    journal = good_journal()
    i = index_at(journal, 2.1)
    row = journal.commands[index_at(journal, 2.08)].rows[0]
    journal.commands[i] = replace(journal.commands[i], rows=(row,), due_s=(PERIOD_S,))
    result = verdict(journal)
    assert not result.findings
    assert result.trials[0].reaction_s == pytest.approx([0.321], abs=0.02)


def test_a_stop_is_followed_by_no_old_row_however_soon():
    journal = good_journal()
    i, moving = index_at(journal, 4.1), journal.commands[index_at(journal, 3.9)]
    journal.commands[i] = replace(journal.commands[i], rows=moving.rows, due_s=moving.due_s)
    assert broken(journal)['old data'].startswith('stop pressed: 0.100 s after the begin')


def test_a_reaction_that_never_comes_is_found():
    journal = good_journal()
    journal.commands = [
        item for item in journal.commands if not ns(4.0) < item.sent_ns < ns(4.9) or len(item.rows) > 1
    ]
    assert broken(journal)['reaction'] == 'stop pressed: the robot was never held'


def test_a_move_before_the_end_of_a_fault_is_found():
    journal = good_journal()
    i, moving = index_at(journal, 2.6), journal.commands[index_at(journal, 2.2)]
    journal.commands[i] = replace(journal.commands[i], rows=moving.rows, due_s=moving.due_s)
    assert broken(journal)['old data'].startswith('camera stall: 0.600 s after the begin')


def test_a_chunk_formed_before_the_stop_is_found():
    journal = good_journal()
    old, i = journal.commands[index_at(journal, 3.98)], index_at(journal, 4.92)
    for number in range(i, i + 6, 2):
        journal.commands[number] = replace(journal.commands[number], rows=old.rows, due_s=old.due_s)
    assert broken(journal)['old data'].startswith(PRESSED)


@pytest.mark.parametrize('stream', ['base', 'wrist'])
def test_a_chunk_of_a_picture_from_before_the_stall_is_found(stream: str):
    journal = good_journal()
    for i, chunk in enumerate(journal.chunks):
        if ns(2.8) < chunk.start_ns < ns(3.2):
            journal.chunks[i] = replace(chunk, ages_s=chunk.ages_s | {stream: 0.9})
    found = broken(journal)
    assert found['old data'].startswith(STALL)
    assert f'{stream} that were 0.900 s old' in found['age of data']


def test_a_chunk_of_the_old_prompt_is_found():
    journal = good_journal()
    journal.chunks = [replace(chunk, prompt_id=1) for chunk in journal.chunks]
    assert broken(journal)['old data'].startswith(PROMPT)


@pytest.mark.parametrize('late_s', [-0.4, 0.4])
def test_rows_that_are_played_when_they_are_not_due_are_found(late_s: float):
    journal = good_journal()
    shift_ns = round(late_s * 1e9)
    journal.chunks = [
        replace(
            chunk,
            received_ns=chunk.received_ns - shift_ns,
            start_ns=chunk.start_ns - shift_ns,
            end_ns=chunk.end_ns - shift_ns,
        )
        for chunk in journal.chunks
    ]
    assert f'commanded {late_s:.3f} s after it was due' in broken(journal)['age of data']


def test_from_a_standstill_rows_may_be_as_late_as_their_chunk():
    journal = good_journal()
    shift_ns = 400_000_000  # their inferences took so much longer
    journal.chunks = [replace(chunk, start_ns=chunk.start_ns - shift_ns) for chunk in journal.chunks]
    assert 'age of data' not in broken(journal)


def test_commands_that_are_rows_of_no_chunk_are_not_taken_for_proof():
    journal = good_journal()
    journal.chunks = journal.chunks[:10]
    assert 'are rows of chunks' in broken(journal)['age of data']


def test_a_start_is_called_where_it_is_needed_and_nowhere_else():
    journal = good_journal()
    journal.happenings = [item for item in journal.happenings if item.what != 'start']
    assert PRESSED in broken(journal)['commanding ends']
    journal = good_journal()
    at = next(i for i, item in enumerate(journal.happenings) if item.fault == STALL and item.what == 'end')
    journal.happenings.insert(at + 1, Happening(ns(2.85), 'start', STALL))
    assert STALL in broken(journal)['commanding goes on']


def test_motion_that_does_not_come_back_is_found():
    journal = good_journal()
    journal.commands = [item for item in journal.commands if not ns(4.8) < item.sent_ns < ns(6.0)]
    assert broken(journal)['motion comes back'].startswith(PRESSED)
    journal = good_journal()
    journal.commands = [item for item in journal.commands if item.sent_ns < ns(9.9)]
    assert broken(journal)['motion comes back'].startswith(STORM)


def test_a_fault_that_was_never_tried_is_found():
    findings = verdict(good_journal(), tried=faults(PARAMETERS)).findings
    assert 'camera stopped never was' in [finding.text for finding in findings]


def test_growth_is_found():
    for field, most, rule in (
        ('resident_bytes', MEMORY_BYTES, 'level memory'),
        ('descriptors', 2, 'file descriptors'),
    ):
        for growth, is_found in ((most, False), (most + (1 << 20), True)):
            journal = good_journal()
            last = len(journal.usage) - 20
            journal.usage = [
                replace(item, **{field: getattr(item, field) + growth * (i >= last)})
                for i, item in enumerate(journal.usage)
            ]
            assert (rule in broken(journal)) == is_found
    journal = good_journal()
    journal.usage = []
    assert 'too few' in broken(journal)['level memory']


@pytest.mark.parametrize(
    ('counter', 'value', 'text'),
    [
        ('base.used', '299', '1 are not accounted for'),
        ('wrist.future_stamp', '12', '-3 are not accounted for'),
        (f'{JOINT_TOPIC}.received', '901', '901 received, 900 were sent'),
        (f'{JOINT_TOPIC}.received', '0', '0 received'),
    ],
)
def test_counters_that_do_not_add_up_are_found(counter: str, value: str, text: str):
    journal = good_journal()
    status = journal.statuses[0]
    journal.statuses[0] = replace(status, values=status.values | {counter: value})
    assert text in broken(journal)['counters']


def test_limits_that_were_never_reached_are_no_proof():
    outside = [fault for fault in faults(PARAMETERS) if fault.is_outside]
    journal = good_journal()
    assert 'position_clamps' in broken(journal, tried=[*TRIED, *outside])['limits are tried']
    values = {
        'play.position_clamps.joint_1': '3',
        'play.step_clamps.joint_1': '0',
        'play.step_clamps.gripper': '1',
    }
    journal.statuses[0] = replace(journal.statuses[0], values=journal.statuses[0].values | values)
    assert 'limits are tried' not in broken(journal, tried=[*TRIED, *outside])


def test_an_empty_journal_is_no_success():
    assert {'age of data', 'every fault is tried', 'level memory', 'counters'} <= broken(Journal()).keys()


def test_a_journal_reads_back_as_it_was_written(tmp_path):
    journal = good_journal()
    journal.write(tmp_path / 'journal.jsonl')
    again = Journal.read(tmp_path / 'journal.jsonl')
    for kind in ('chunks', 'statuses', 'happenings', 'usage'):
        assert getattr(again, kind) == getattr(journal, kind)
    assert again.commands == sorted(journal.commands, key=lambda item: item.received_ns)
