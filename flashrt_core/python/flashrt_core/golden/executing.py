# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Checks how chunks are executed: the queue of actions, temporal ensembling, interpolation."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from flashrt_core.action_queue import ActionQueue
from flashrt_core.chunk_joining import ActionInterpolator, TemporalEnsemble
from flashrt_core.errors import Error
from flashrt_core.golden import bounds
from flashrt_core.golden.report import Gap, Report
from flashrt_core.json_fields import Fields, read_objects
from flashrt_core.tensor_file import TensorFile

_OPERATIONS = ('get', 'leftover', 'merge', 'clear')


def _check_queue(path: Path, report: Report) -> None:
    """A trace of calls and what the queue said after each; equal to the last bit."""
    checked = 0
    for number, trace in enumerate(read_objects(path)):
        queue = ActionQueue(replaces=trace.flag('rtc_enabled'))
        for step, call in enumerate(trace.objects('ops')):
            case = f'{path.stem}[{number}][{step}]'
            _replay(queue, call, case, report)
            report.compare(case, 'queue size', len(queue), call.integer('qsize'))
            report.compare(case, 'queue index', queue.index, call.integer('index'))
            report.compare(case, 'queue empty', not len(queue), call.flag('empty'))
            checked += 1
    if not checked:
        report.gaps.append(Gap(path.name, 'all of it', 'it holds no case'))


def _replay(queue: ActionQueue, call: Fields, case: str, report: Report) -> None:
    operation = call.choice('op', _OPERATIONS)
    if operation == 'clear':
        queue.clear()
    elif operation == 'merge':
        original, processed = call.numbers('original', 2), call.numbers('processed', 2)
        queue.merge(original, processed, call.integer('real_delay', least=-bounds.MOST_ROWS))
    elif operation == 'get':
        action = queue.get()
        report.compare(case, 'queue action is there', action is not None, call.has('result'))
        if action is not None and call.has('result'):
            report.compare(case, 'queue action', action, call.numbers('result', 1))
    else:
        _compare_leftover(queue, call, case, report)


def _compare_leftover(queue: ActionQueue, call: Fields, case: str, report: Report) -> None:
    left = queue.leftover()
    for index, name in enumerate(('original', 'processed')):
        report.compare(case, 'queue leftover is there', left is not None, call.has(name))
        if left is None or not call.has(name):
            continue
        expected = call.numbers(name, 2)
        report.compare(case, 'queue leftover rows', len(left[index]), len(expected))
        if len(expected):
            report.compare(case, 'queue leftover', left[index], expected)


def _check_ensemble(path: Path, report: Report) -> None:
    """One chunk per tick in, one action per tick out."""
    file = TensorFile(path)
    for group in _groups(file):
        ensemble = TemporalEnsemble(float(file.take(f'{group}.coeff', 1)[0]))
        actions = np.array([ensemble.update(chunk) for chunk in file.take(f'{group}.chunks', 3)])
        saved = file.take(f'{group}.actions', 2)
        report.compare(f'{path.stem}.{group}', 'ensemble', actions, saved, bounds.normalised(saved))
    report.add_unused(path.stem, file.unused())


def _check_interpolation(path: Path, report: Report) -> None:
    """One action of the policy in, one or `multiplier` to be sent out."""
    file = TensorFile(path)
    for group in _groups(file):
        multiplier = group.removeprefix('x')
        if not multiplier.isdecimal() or not 1 <= int(multiplier) <= bounds.MOST_ROWS:
            raise Error(f"{path}: '{group}' is no group of tensors; needed x and the multiplier, such as x2")
        interpolator = ActionInterpolator(int(multiplier))
        actions = file.take(f'{group}.actions', 2)
        parts = [interpolator.add(action) for action in actions]
        is_policy_action = [row == len(part) - 1 for part in parts for row in range(len(part))]
        case, saved = f'{path.stem}.{group}', file.take(f'{group}.output', 2)
        output = np.concatenate([actions[:0], *parts])
        report.compare(case, 'interpolation', output, saved, bounds.normalised(saved))
        report.compare(case, 'is policy action', is_policy_action, file.take(f'{group}.is_policy_action', 1))
    report.add_unused(path.stem, file.unused())


def _groups(file: TensorFile) -> list[str]:
    return sorted({name.partition('.')[0] for name in file.names()})


# Files of a folder of real-time chunking in which no model runs.
EXECUTION_CHECKS: Mapping[str, Callable[[Path, Report], None]] = {
    'action_queue_trace.json': _check_queue,
    'temporal_ensemble.safetensors': _check_ensemble,
    'interpolation.safetensors': _check_interpolation,
}
