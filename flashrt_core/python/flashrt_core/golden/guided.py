# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Checks a folder of real-time chunking: chunks held to the previous one, and how they are executed."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from flashrt_core.engine import native_core
from flashrt_core.errors import Error
from flashrt_core.golden import bounds
from flashrt_core.golden.executing import EXECUTION_CHECKS
from flashrt_core.golden.files import data_files, file_in, find
from flashrt_core.golden.options import RunOptions
from flashrt_core.golden.report import Gap, Report
from flashrt_core.golden.runs import Run, run_sample
from flashrt_core.json_fields import Fields, read_object, read_objects
from flashrt_core.programs import ProgramKey, Programs
from flashrt_core.rtc import guidance_scale, prefix_weights
from flashrt_core.samples import Sample, samples_in
from flashrt_core.settings import Schedule
from flashrt_core.tensor_file import TensorFile

if TYPE_CHECKING:
    from flashrt_core._core import Guidance


def check_guided(folder: Path, options: RunOptions, report: Report) -> None:
    """Guided and committed chunks of cases.json, the weight vectors, and how chunks are executed."""
    options.check_recipe('f32')
    programs: dict[Path, Programs] = {}
    cases = read_object(folder / 'cases.json')
    for name, case in cases.members().items():
        model = find(case, 'model', folder, options.model)
        if model not in programs:
            programs[model] = options.programs(model)
        file = TensorFile(file_in(folder, f'{name}.safetensors', cases.place))
        samples = samples_in(TensorFile(file_in(model, case.text('inputs'), case.place)))
        _check_chunk(name, case, file, samples, programs[model], report)
        report.add_unused(name, file.unused())
    known = {f'{name}.safetensors' for name in cases} | {'cases.json'}
    if (folder / 'prefix_weights.json').is_file():
        _check_weights(folder, report)
        known |= {'prefix_weights.json', 'prefix_weights.safetensors'}
    for path in data_files(folder):
        if path.name in EXECUTION_CHECKS:
            EXECUTION_CHECKS[path.name](path, report)
        elif path.name not in known:
            report.gaps.append(Gap(path.name, 'all of it', 'no check knows this file'))


# Saved outputs whose axis is that of the batch; out.time has it in committed chunks only.
_BATCH_AXES = {'out.actions': 0} | dict.fromkeys(
    ('out.correction', 'out.time', 'out.time_cond', 'out.v_guided', 'out.v_t', 'out.v_unguided', 'out.x_t'), 1
)


@dataclass(frozen=True, eq=False)
class _Chunk:
    """What holds one item of the batch."""

    previous: NDArray[np.float32]  # [horizon, action_dim], zeros where nothing is known
    weights: NDArray[np.float32]  # [horizon]
    scale: NDArray[np.float32]  # [steps]
    committed_rows: int

    def guidance(self) -> 'Guidance':
        return cast(Any, native_core()).Guidance(self.previous, self.weights, self.scale, self.committed_rows)


def _check_chunk(
    name: str, case: Fields, file: TensorFile, samples: list[Sample], programs: Programs, report: Report
) -> None:
    mode = case.choice('mode', ('guided', 'trained'))
    times = file.take('out.time')
    times = times if times.ndim == 1 else times[:, 0, -1]  # committed rows come first, at time 0
    steps = int(file.take('in.num_steps', 1)[0])
    given = file.take('in.prev_chunk_left_over') if 'in.prev_chunk_left_over' in file else None
    for item, sample in enumerate(samples):
        label = name if len(samples) == 1 else f'{name}[{item}]'
        key = replace(ProgramKey.of(sample, tuple(times.tolist())), steps=steps, guided=True)
        previous = given if given is None or given.ndim == 2 else given[item]
        chunk = None if previous is None else _chunk(case, mode, sample, previous, times)
        values = ['denoise.velocity']
        if mode == 'trained':
            values.append('styles.time_out')
        guidance = None if chunk is None else chunk.guidance()
        run = run_sample(programs, key, sample, values, report, label, guidance)
        check = _check_trained if mode == 'trained' else _check_guided
        check(label, run, chunk, file, item, report)
    for tensor in sorted(_BATCH_AXES.keys() & set(file.names()) - set(file.unused())):
        report.add_more_items(name, tensor, file.take(tensor), _BATCH_AXES[tensor], len(samples))


def _chunk(
    case: Fields, mode: str, sample: Sample, previous: NDArray[np.float32], times: NDArray[np.float32]
) -> _Chunk:
    horizon = len(sample.noise)
    padded = np.zeros_like(sample.noise)
    padded[: len(previous), : previous.shape[1]] = previous[:horizon]
    delay = case.integer('inference_delay')
    if mode == 'trained':
        nothing = np.zeros(horizon, np.float32), np.zeros(len(times), np.float32)
        return _Chunk(padded, *nothing, delay)
    weights = prefix_weights(
        _schedule(case), delay, case.integer('execution_horizon'), len(previous), horizon
    )
    return _Chunk(padded, weights, guidance_scale(times, case.number('max_guidance_weight')), 0)


def _schedule(case: Fields) -> Schedule:
    """Saved in the capitals of lerobot."""
    known = [schedule.upper() for schedule in get_args(Schedule)]
    return cast(Schedule, case.choice('schedule', known).lower())


def _check_guided(
    case: str, run: Run, chunk: _Chunk | None, file: TensorFile, item: int, report: Report
) -> None:
    times = np.array(run.layout.key.times, np.float32)[:, None, None]
    velocity = run.values['denoise.velocity']
    # The plan keeps no guided velocity: it is what moved the actions.
    guided = (run.actions[:-1] - run.actions[1:]) * np.float32(len(times))
    report.compare(
        case, 'out.v_unguided', velocity, file.take('out.v_unguided')[:, item], bounds.INTERMEDIATE
    )
    report.compare(case, 'out.v_guided', guided, file.take('out.v_guided')[:, item], bounds.ACTIONS)
    if chunk is not None:
        towards = run.actions[:-1] - times * velocity
        correction = chunk.weights[:, None] * (chunk.previous - towards)
        report.compare(case, 'out.weights', chunk.weights, file.take('out.weights', 1), bounds.NORMALISED)
        scale = file.take('out.guidance_weight', 1)
        report.compare(case, 'out.guidance_weight', chunk.scale, scale, bounds.normalised(scale))
        report.compare(
            case, 'out.correction', correction, file.take('out.correction')[:, item], bounds.INTERMEDIATE
        )
    report.compare(case, 'out.x_t', run.actions, file.take('out.x_t')[:, item], bounds.ACTIONS)
    report.compare(case, 'out.actions', run.actions[-1], file.take('out.actions')[item], bounds.ACTIONS)


def _check_trained(
    case: str, run: Run, chunk: _Chunk | None, file: TensorFile, item: int, report: Report
) -> None:
    if chunk is None:
        raise Error(f'{file.path}: in.prev_chunk_left_over is missing; a committed chunk needs it')
    rows = np.arange(len(run.sample.noise)) < chunk.committed_rows
    times = np.where(rows, 0, np.array(run.layout.key.times, np.float32)[:, None])
    conditions = run.values['styles.time_out']  # one per step, then that of time 0
    condition = np.where(rows[:, None], conditions[-1], conditions[:-1, None])
    actions = run.actions.copy()
    actions[0, rows] = chunk.previous[rows]  # the engine starts the committed rows as they end
    report.compare(case, 'out.time', times, file.take('out.time')[:, item])
    report.compare(case, 'out.time_cond', condition, file.take('out.time_cond')[:, item], bounds.INTERMEDIATE)
    velocity = run.values['denoise.velocity']
    report.compare(case, 'out.v_t', velocity, file.take('out.v_t')[:, item], bounds.INTERMEDIATE)
    report.compare(case, 'out.x_t', actions, file.take('out.x_t')[:, item], bounds.ACTIONS)
    report.compare(case, 'out.actions', actions[-1], file.take('out.actions')[item], bounds.ACTIONS)


def _check_weights(folder: Path, report: Report) -> None:
    file = TensorFile(folder / 'prefix_weights.safetensors')
    for entry in read_objects(folder / 'prefix_weights.json'):
        tensor = entry.text('tensor')
        saved = file.take(tensor, 1)
        chunk = entry.integer('chunk', most=bounds.MOST_ROWS)
        delay, horizon = entry.integer('inference_delay'), entry.integer('execution_horizon')
        weights = prefix_weights(_schedule(entry), delay, horizon, chunk, chunk)
        report.compare(tensor, 'prefix weights', weights, saved, bounds.NORMALISED)
    report.add_unused('prefix_weights', file.unused())
