# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What calibration costs in memory and time as observations grow in number, on a tiny model.

    python test/benchmark/calibration_memory.py [--model test/golden/pi05_heads] [--counts 100 10000]

"histograms" is what the observations hold, "process" what a process of its own has grown by since the first
one, "file" what `flashrt calibrate --observed` writes.
"""

import argparse
import multiprocessing
import os
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from flashrt_core._core import Calibration
from flashrt_core.programs import ProgramKey, Programs
from flashrt_core.samples import Sample, read_samples

GOLDEN = Path(__file__).parents[1] / 'golden'
KIB = 1024
WARM_UP = 20


@dataclass(frozen=True)
class Cost:
    """Of a number of observations; memory in bytes, times in milliseconds."""

    count: int
    sites: int
    steps: int
    histograms: int
    process: int
    file: int
    observation_ms: float
    inference_ms: float  # the same without observing
    finish_ms: float  # with mse, the slowest


def cost_of(model: Path, threads: int, count: int) -> Cost:
    _, sample = next(read_samples(model))
    programs = Programs(model, recipe='fp8', float_activations=True, threads=threads)
    engine = programs.get(ProgramKey.of(sample))
    calibration = Calibration()
    observations = calibration.observations
    for seed in range(WARM_UP):
        engine.infer(*other_noise(sample, seed))
    begin = time.perf_counter()
    for seed in range(WARM_UP):
        engine.infer(*other_noise(sample, seed))
    inference_s = time.perf_counter() - begin
    engine.observe(calibration, *sample.inputs)
    before = resident_bytes()
    begin = time.perf_counter()
    for seed in range(1, count):
        engine.observe(calibration, *other_noise(sample, seed))
    observation_s = time.perf_counter() - begin
    grown = resident_bytes() - before
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / 'observed.json'
        observations.save(file)
        file_bytes = file.stat().st_size
    begin = time.perf_counter()
    calibration.finish('mse')
    finish_s = time.perf_counter() - begin
    assert observations.samples == count
    return Cost(
        count=count,
        sites=len(calibration.sites),
        steps=sample.steps,
        histograms=observations.bytes,
        process=grown,
        file=file_bytes,
        observation_ms=observation_s / (count - 1) * 1e3,
        inference_ms=inference_s / WARM_UP * 1e3,
        finish_ms=finish_s * 1e3,
    )


def resident_bytes() -> int:
    return int(Path('/proc/self/statm').read_text().split()[1]) * os.sysconf('SC_PAGE_SIZE')


def other_noise(sample: Sample, seed: int) -> tuple:
    """Inputs of an inference like no other."""
    noise = np.random.default_rng(seed).standard_normal(sample.noise.shape).astype(np.float32)
    return replace(sample, noise=noise).inputs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--model', type=Path, default=GOLDEN / 'pi05_tiny')
    parser.add_argument('--counts', type=int, nargs='+', default=[100, 10_000])
    parser.add_argument('--threads', type=int, default=1)
    arguments = parser.parse_args()

    table = Table(
        'observations', 'histograms KiB', 'process KiB', 'file KiB', 'observe ms', 'infer ms', 'finish ms'
    )
    # A process of its own for each: what one has freed would hide what the next one takes.
    with multiprocessing.get_context('spawn').Pool(1, maxtasksperchild=1) as pool:
        costs = [
            pool.apply(cost_of, (arguments.model, arguments.threads, count)) for count in arguments.counts
        ]
    for cost in costs:
        table.add_row(
            f'{cost.count}',
            f'{cost.histograms / KIB:.0f}',
            f'{cost.process / KIB:+.0f}',
            f'{cost.file / KIB:.0f}',
            f'{cost.observation_ms:.2f}',
            f'{cost.inference_ms:.2f}',
            f'{cost.finish_ms:.0f}',
        )
    console = Console(width=100)
    console.print(table)
    console.print(f'{arguments.model.name}: {costs[0].sites} sites, {costs[0].steps} steps')


if __name__ == '__main__':
    main()
