# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Checks a folder of model cases: every saved output and intermediate of Pi0.5, Pi0 and GR00T N1.6."""

from pathlib import Path

import numpy as np

from flashrt_core.errors import Error
from flashrt_core.golden import bounds
from flashrt_core.golden.files import data_files
from flashrt_core.golden.groot_models import GrootModels
from flashrt_core.golden.options import RunOptions
from flashrt_core.golden.outputs import OUTPUTS, Output
from flashrt_core.golden.report import Gap, Report
from flashrt_core.golden.runs import Layout, Run, run_sample
from flashrt_core.json_fields import read_object
from flashrt_core.programs import ProgramKey, Programs
from flashrt_core.resize import to_model_range
from flashrt_core.samples import Sample, samples_in
from flashrt_core.tensor_file import TensorFile

REQUIRED = 'out.actions'
# What may lie beside the cases.
MODEL_FILES = ('config.json', 'model*.safetensors', 'model.safetensors.index.json', 'cases.json')
# In bf16 these are bounded, as a whole; the others are only reported. The noise is taken off: it makes all
# actions look alike.
BOUNDED_IN_BF16 = {'out.actions': 'out.actions - noise', 'out.v_t': 'out.v_t'}


def check_models(folder: Path, options: RunOptions, report: Report) -> None:
    """Runs all cases of the folder, each item of a batch by itself."""
    options.check_recipe('f32', 'bf16')
    if options.model is None:
        _check_holds(folder, 'config.json')
    programs = options.programs(options.model or folder)  # refuses models to come
    if options.model is None:
        _check_holds(folder, 'model.safetensors', 'model.safetensors.index.json')
    files = [path for path in data_files(folder) if path.match('case_*.safetensors')]
    if not files:
        raise Error(f'golden: {folder} holds no case_*.safetensors')
    if programs.config.model_type == 'groot_n16':
        groot = GrootModels(options.model or folder, options)
        for path in files:
            groot.check_case(path, report)
    else:
        for path in files:
            _check_case(path, programs, options, report)
    _check_list(folder, {path.stem for path in files}, report)
    for path in data_files(folder):
        if path not in files and not any(map(path.match, MODEL_FILES)):
            report.gaps.append(Gap(path.name, 'all of it', 'cases are named case_*.safetensors'))


def _check_holds(folder: Path, *names: str) -> None:
    if not any((folder / name).is_file() for name in names):
        raise Error(f'golden: {folder} holds no {names[0]}; give the folder that does with --model')


def _check_list(folder: Path, found: set[str], report: Report) -> None:
    """Cases that the folder lists but does not hold."""
    if (folder / 'cases.json').is_file():
        for name in sorted(set(read_object(folder / 'cases.json')) - found):
            report.gaps.append(Gap('cases.json', name, 'listed, but there is no such file'))


def _check_case(path: Path, programs: Programs, options: RunOptions, report: Report) -> None:
    file = TensorFile(path)
    known = OUTPUTS[programs.config.model_type]
    samples = samples_in(file)
    if 'in.images' in file:
        bytes_ = np.moveaxis(file.take('in.images_u8', 5), -1, 2)
        report.compare(
            path.stem, 'in.images', to_model_range(bytes_), file.take('in.images'), bounds.NORMALISED
        )
    outputs = {name: known[name] for name in file.names() if name in known}
    times = _times(file, samples[0])
    for item, sample in enumerate(samples):
        case = path.stem if len(samples) == 1 else f'{path.stem}[{item}]'
        key = ProgramKey.of(sample, times)
        layout_values = _values(programs, key, outputs)
        run = run_sample(programs, key, sample, layout_values, report, case)
        for name, output in outputs.items():
            _compare(report, case, name, output, run, file, item, options.recipe)
    for name, output in outputs.items():
        if output.batch_axis is not None:
            report.add_more_items(path.stem, name, file.take(name), output.batch_axis, len(samples))
    if REQUIRED not in file:
        report.gaps.append(Gap(path.stem, REQUIRED, 'the case does not hold it'))
    report.add_unused(path.stem, file.unused())


def _times(file: TensorFile, sample: Sample) -> tuple[float, ...]:
    """The recorded times, for their last bit matters; empty where there are none."""
    if 'out.time' not in file:
        return ()
    times = file.take('out.time', 1)
    if len(times) != sample.steps:
        raise Error(f'{file.path}: out.time has {len(times)} times, in.num_steps says {sample.steps}')
    return tuple(times.tolist())


def _values(programs: Programs, key: ProgramKey, outputs: dict[str, Output]) -> set[str]:
    layout = Layout(programs.config, key)
    return {value for output in outputs.values() for value in output.values(layout)}


def _compare(
    report: Report, case: str, name: str, output: Output, run: Run, file: TensorFile, item: int, recipe: str
) -> None:
    expected = output.expected(file.take(name), item)
    actual, valid = output.actual(run)
    bound: float | None = output.bound(run)
    if output.exact:
        bound = bounds.EXACT
    elif output.of_time and not run.layout.key.times:
        bound = bounds.UNKNOWN_TIME
    if recipe == 'bf16' and not output.exact:
        bound = None
        if name in BOUNDED_IN_BF16 and actual.shape == expected.shape:
            noise = run.sample.noise if name == REQUIRED else 0
            label = BOUNDED_IN_BF16[name]
            report.compare_rms(case, label, actual - noise, expected - noise, bounds.BF16_RMS)
    report.compare(case, name, actual, expected, bound, valid)
