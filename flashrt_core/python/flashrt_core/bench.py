# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Measures an engine: errors first, then times against what the device can do."""

import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from flashrt_core.accuracy import Accuracy, measure
from flashrt_core.calibrate import CalibrationSettings, Estimator, calibrate_programs
from flashrt_core.ceilings import CEILINGS, Ceilings, Work, work_of
from flashrt_core.engine import native_core
from flashrt_core.errors import Error
from flashrt_core.programs import BackendOptions, ProgramKey, Programs
from flashrt_core.recipes import Recipe, runs_on
from flashrt_core.samples import Sample

if TYPE_CHECKING:
    from flashrt_core._core import CallReport, Engine, Frame, Measurement, ModelConfig, ProgramCounters

FORMAT, VERSION = 'flashrt_bench', 1
BEGIN = 2  # <bos>, with which every prompt of the models begins; the token that outliers enlarge


@dataclass(frozen=True)
class BenchSettings:
    """What is measured, and how."""

    checkpoint: str  # a folder; with random weights also pi05, pi0 or groot_n16, the published sizes
    random_seed: int | None = None  # random weights instead of the checkpoint's
    random_outliers: float = 1.0  # of random weights: factor of a few channels and of the token BEGIN
    packed: str | None = None  # a file of `flashrt pack`, read instead of the weights
    recipe: str = 'f32'
    calibration: str | None = None  # a file of `flashrt calibrate`
    calibrate: int = 0  # random observations to calibrate on instead
    estimator: Estimator = 'min_max'  # how scales follow from them
    backend: str = 'cpu'
    cameras: int = 2
    horizon: int = 10
    steps: int = 10
    prompt_length: int = 10  # tokens; of GR00T those in front of the first image
    prompt_capacity: int = 0  # 0: the length
    frames: tuple[int, int] | None = (
        None  # width, height: cameras deliver rgb8 frames that the engine resizes
    )
    embodiment_slot: int = -1  # GR00T, of a checkpoint: whose small networks are loaded
    new_prompts: bool = False  # every inference has another prompt than the one before
    warmup: int = 50
    runs: int = 200
    operation_runs: int = 0  # of the calls one by one
    reference: str | None = None  # a recipe to take errors against
    reference_samples: int = 2
    backend_options: BackendOptions = field(default_factory=BackendOptions)
    command: str = ''  # that this is, for the report

    def __post_init__(self) -> None:
        if self.calibration is not None and self.calibrate:
            raise Error(f'bench: both a calibration file and {self.calibrate} observations to calibrate on')
        if self.estimator != 'min_max' and not self.calibrate:
            raise Error(f'bench: estimator {self.estimator} is of calibrate, which was not asked for')
        if self.frames is not None and min(self.frames) < 1:
            raise Error(f'bench: frames of {self.frames[0]} x {self.frames[1]} pixels, needed at least 1 x 1')
        if self.prompt_length < 1 or 0 < self.prompt_capacity < self.prompt_length:
            raise Error(
                f'bench: a prompt of {self.prompt_length} tokens, needed 1 to the capacity '
                f'{self.prompt_capacity or self.prompt_length}'
            )


@dataclass(frozen=True)
class Percentiles:
    """Of times in milliseconds."""

    median: float
    p90: float
    p99: float
    max: float
    count: int

    @classmethod
    def of(cls, times: Iterable[float]) -> 'Percentiles':
        values = np.asarray(list(times))
        median, p90, p99 = np.percentile(values, [50, 90, 99])
        return cls(float(median), float(p90), float(p99), float(values.max()), values.size)


@dataclass(frozen=True)
class Row:
    """One line of a table of times."""

    name: str
    calls: int
    median_ms: float
    flops: float
    bytes: float
    floor_ms: float | None  # None: the rates of the device are not known
    kernels: dict[str, int]  # name -> launches

    @property
    def share(self) -> float | None:
        """Of what the device can do."""
        return self.floor_ms / self.median_ms if self.floor_ms and self.median_ms else None


@dataclass(frozen=True)
class BenchReport:
    """Everything that was measured, as it is printed and stored."""

    settings: BenchSettings
    device: str
    versions: str
    model: str
    weights_digest: str
    recipe: dict  # as a recipe file holds it
    runs_on: str  # backends
    stored_weight_bytes: int  # in the types of the recipe
    calibration_origin: str
    accuracy: Accuracy | None
    load_s: float  # from nothing to a program that is ready; its files may be in the cache of the system
    first_action_s: float  # from the same moment to the first actions
    inference: Percentiles  # on the host's clock, inputs in its memory to actions in its memory
    replay: Percentiles  # on the device's clock
    prompt: Percentiles
    stages: list[Row]
    operations: list[Row]
    calls: list[Row]
    before: dict  # counters after the warm-up
    after: dict
    memory_bytes: dict[str, int]

    def to_json(self) -> str:
        content = {'format': FORMAT, 'version': VERSION, 'command': self.settings.command} | asdict(self)
        for table in ('stages', 'operations', 'calls'):
            for row, stored in zip(getattr(self, table), content[table], strict=True):
                stored['share'] = row.share
        return json.dumps(content, indent=1)


def random_samples(config: 'ModelConfig', settings: BenchSettings, seed: int, count: int) -> list[Sample]:
    """Observations of the sizes asked for; what they show means nothing."""
    rng = np.random.default_rng(seed)
    shape = (settings.cameras, config.image_size, config.image_size, 3)
    capacity = settings.prompt_capacity or settings.prompt_length

    def sample(tokens: NDArray[np.int32]) -> Sample:
        return Sample(
            images=rng.integers(0, 256, shape, dtype=np.uint8),
            tokens=tokens,
            noise=rng.standard_normal((settings.horizon, config.action_dim), dtype=np.float32),
            state=rng.uniform(-1, 1, config.state_dim).astype(np.float32) if config.state_dim else None,
            camera_mask=np.ones(settings.cameras, bool),
            token_mask=np.arange(capacity) < settings.prompt_length,
            steps=settings.steps,
        )

    prompts = rng.integers(0, config.vocab_size, (count, settings.prompt_length), dtype=np.int32)
    prompts[:, 0] = BEGIN
    if config.model_type == 'groot_n16':
        prompts[prompts == config.image_token] = BEGIN
        behind = np.tile(_behind_prompt(config, settings.cameras), (count, 1))
        prompts = np.concatenate([prompts, behind], axis=1)
    return [sample(prompts[i if settings.new_prompts else 0]) for i in range(count)]


def _behind_prompt(config: 'ModelConfig', cameras: int) -> NDArray[np.int32]:
    """Of a conversation: the images, each with the tokens up to the next one."""
    image = [config.image_token] * config.image_tokens
    parts = [image + [BEGIN] * rows for rows in config.markup_rows(cameras)]
    return np.array([token for part in parts for token in part], np.int32)


# Seeds of observations: those that are calibrated on are never those that are judged.
CALIBRATION_SEED, TIMING_SEED, ACCURACY_SEED = 101, 102, 103


def bench(settings: BenchSettings) -> BenchReport:
    """Loads, calibrates if asked, takes errors if asked, and measures."""
    with tempfile.TemporaryDirectory() as folder:
        calibration, origin = settings.calibration, f'file {settings.calibration}'
        if settings.calibrate:
            calibration = os.path.join(folder, 'calibration.json')
            origin = _calibrate(settings, calibration)
        programs = Programs(
            settings.checkpoint,
            recipe=settings.recipe,
            calibration=calibration,
            backend=settings.backend,
            random_seed=settings.random_seed,
            random_outliers=settings.random_outliers,
            packed=settings.packed,
            embodiment_slot=settings.embodiment_slot,
            **settings.backend_options,
        )
        samples = random_samples(programs.config, settings, TIMING_SEED, 4)
        inputs = [(_pictures(sample, settings, i), *sample.inputs[1:]) for i, sample in enumerate(samples)]
        begin = time.perf_counter()
        engine = programs.get(replace(ProgramKey.of(samples[0]), max_image_bytes=_frame_bytes(settings)))
        load_s = time.perf_counter() - begin
        engine.infer(*inputs[0])
        first_action_s = time.perf_counter() - begin
    accuracy = _accuracy(settings, programs) if settings.reference else None
    measured = engine.measure(inputs, settings.warmup, settings.runs, settings.operation_runs)
    calls = engine.report_calls(settings.prompt_length)
    device = engine.device
    stats = engine.plan_stats()
    recipe = Recipe.read(settings.recipe)
    ceilings = CEILINGS.get(device.name)
    call_rows, operation_rows = _call_tables(calls, measured, ceilings)
    return BenchReport(
        settings=settings,
        device=device.name,
        versions=device.versions,
        model=programs.config.model_type,
        weights_digest=engine.weights_digest,
        recipe=recipe.content(),
        runs_on=runs_on(recipe.emulated(call.name for call in calls)),
        stored_weight_bytes=round(stats['stored_weight_bytes']),
        calibration_origin=origin if calibration else 'none',
        accuracy=accuracy,
        load_s=load_s,
        first_action_s=first_action_s,
        inference=Percentiles.of(measured.inference),
        replay=Percentiles.of(measured.replay),
        prompt=Percentiles.of(measured.prompt),
        stages=_stage_table(engine, calls, measured, ceilings),
        operations=operation_rows,
        calls=call_rows,
        before=_counters(measured.before),
        after=_counters(measured.after),
        memory_bytes={
            'weights': stats['weight_bytes'],
            'arena': stats['arena_bytes'],
            'together': stats['weight_bytes'] + stats['arena_bytes'],
            'in use on the device': device.total_bytes - device.free_bytes,
            'device': device.total_bytes,
        },
    )


def _frame_bytes(settings: BenchSettings) -> int:
    return settings.frames[0] * settings.frames[1] * 3 if settings.frames else 0


def _pictures(sample: Sample, settings: BenchSettings, seed: int) -> 'NDArray[np.uint8] | list[Frame]':
    """As the engine takes them: of the model's size, or frames of the cameras' own."""
    if settings.frames is None:
        return sample.images
    width, height = settings.frames
    rng = np.random.default_rng((TIMING_SEED, seed))
    frame = cast(Any, native_core()).Frame
    return [
        frame(rng.integers(0, 256, (height, width, 3), dtype=np.uint8), 'rgb8', height, width, width * 3)
        for _ in sample.images
    ]


def _calibrate(settings: BenchSettings, path: str) -> str:
    programs = Programs(
        settings.checkpoint,
        recipe=settings.recipe,
        float_activations=True,
        backend=settings.backend,
        random_seed=settings.random_seed,
        random_outliers=settings.random_outliers,
        packed=settings.packed,
        embodiment_slot=settings.embodiment_slot,
        **settings.backend_options,
    )
    samples = random_samples(programs.config, settings, CALIBRATION_SEED, settings.calibrate)
    named = [(f'random observation {i}', sample) for i, sample in enumerate(samples)]
    how = CalibrationSettings(recipe=settings.recipe, estimator=settings.estimator)
    calibration = calibrate_programs(programs, named, how)
    calibration.save(path)
    return calibration.origin


def _accuracy(settings: BenchSettings, programs: Programs) -> Accuracy:
    reference = Programs(
        settings.checkpoint,
        recipe=settings.reference or 'f32',
        backend=settings.backend,
        random_seed=settings.random_seed,
        random_outliers=settings.random_outliers,
        embodiment_slot=settings.embodiment_slot,
        **settings.backend_options,
    )
    samples = random_samples(programs.config, settings, ACCURACY_SEED, settings.reference_samples)
    return measure(reference, programs, samples)


def _stage_table(
    engine: 'Engine', calls: list['CallReport'], measured: 'Measurement', ceilings: Ceilings | None
) -> list[Row]:
    names = engine.stages
    medians = np.median(np.asarray(measured.stages), axis=0)
    rows = []
    for name, median in zip(names, medians, strict=True):
        works = [(group, work_of(*group)) for group in _groups(calls) if group[0].stage == name]
        if works[0][0][0].when == 'infer':
            rows.append(_row(name, works, float(median), ceilings))
    return rows


def _call_tables(
    calls: list['CallReport'], measured: 'Measurement', ceilings: Ceilings | None
) -> tuple[list[Row], list[Row]]:
    """Call by call, and by stage and operation, slowest first."""
    if not measured.calls:
        return [], []
    medians = dict(
        zip((call.name for call in calls), np.median(np.asarray(measured.calls), axis=0), strict=True)
    )
    rows = []
    kinds: dict[str, list[_Grouped]] = {}
    for group in _groups(calls):
        call, joined = group
        if call.when != 'infer':
            continue
        grouped = (group, work_of(call, joined))
        name = ' + '.join(part.name for part in [call, *joined])
        rows.append(_row(name, [grouped], float(medians[call.name]), ceilings))
        kind = ' + '.join(part.operation for part in [call, *joined])
        kinds.setdefault(f'{call.stage}: {kind}', []).append(grouped)
    operations = [
        _row(kind, works, float(sum(medians[call.name] for (call, _), _ in works)), ceilings)
        for kind, works in kinds.items()
    ]
    return rows, sorted(operations, key=lambda row: -row.median_ms)


# A call with those that its kernel does as well, and their work.
_Grouped = tuple[tuple['CallReport', list['CallReport']], Work]


def _groups(calls: list['CallReport']) -> list[tuple['CallReport', list['CallReport']]]:
    groups: list[tuple[CallReport, list[CallReport]]] = []
    for call in calls:
        if call.kernels or not groups:
            groups.append((call, []))
        else:
            groups[-1][1].append(call)
    return groups


def _row(name: str, works: list[_Grouped], median_ms: float, ceilings: Ceilings | None) -> Row:
    kernels: Counter[str] = Counter()
    for (call, _), _ in works:
        for kernel in call.kernels:
            kernels[kernel] += call.repeat
    floors = [work.floor_ms(ceilings) for _, work in works]
    return Row(
        name=name,
        calls=sum(call.repeat for (call, _), _ in works),
        median_ms=median_ms,
        flops=sum(sum(work.flops.values()) for _, work in works),
        bytes=sum(work.bytes_moved for _, work in works),
        floor_ms=None if None in floors else float(sum(floors)),
        kernels=dict(kernels),
    )


def _counters(counters: 'ProgramCounters') -> dict:
    names = ('captures', 'allocations', 'tunings', 'graph_nodes', 'graph_node_kinds')
    names += ('fastest_capture_ms', 'slowest_capture_ms')
    return {name: getattr(counters, name) for name in names}


def write_json(report: BenchReport, path: Path) -> None:
    try:
        path.write_text(report.to_json() + '\n', encoding='utf-8')
    except OSError as fault:
        raise Error(f'bench: {path} cannot be written: {fault}') from fault
