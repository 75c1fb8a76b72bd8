# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Which linears cost accuracy when they are quantised: groups of them kept in float, or quantised alone."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from flashrt_core.calibrate import CalibrationSettings, Estimator, calibrate_observed
from flashrt_core.call_groups import Group, Linear, cover, group_linears, linears_of
from flashrt_core.engine import native_core
from flashrt_core.errors import Error
from flashrt_core.outcomes import LEVEL, RESAMPLES, SEED, Errors, Outcome, certainty, errors, interval, run
from flashrt_core.recipes import Recipe, float_type, runs_on
from flashrt_core.result_file import file_digest
from flashrt_core.trials import Engines, Source, Trials, open_trials

FORMAT, VERSION = 'flashrt_sensitivity', 1
DEFAULT_CURVE = 10


@dataclass(frozen=True)
class SensitivitySettings:
    """What is measured, and how."""

    source: Source
    recipe: str = 'fp8'
    kept: str | None = None  # float type of what is not quantised: f32 or bf16; None: as the recipe's values
    reference: str = 'f32'  # recipe that errors are taken against
    by: str = 'stage'
    calibration: str | None = None  # a file; None: made of observations that are set aside
    estimator: str = 'min_max'  # of a calibration that is made
    same_samples: bool = False  # what is calibrated on may be judged by
    curve: int = DEFAULT_CURVE  # the largest k of the top k that are kept in float, beside all of them
    command: str = ''  # that this is, for the result

    def __post_init__(self) -> None:
        if self.curve < 0:
            raise Error(f'sensitivity: a curve up to {self.curve} groups, needed 0 or more')
        if self.calibration is not None and self.source.calibrate_on:
            raise Error(
                f'sensitivity: both calibration {self.calibration} and {self.source.calibrate_on} '
                'observations to calibrate on'
            )


@dataclass(frozen=True)
class Variant:
    """The recipe with some groups kept in float, and what came of it."""

    kept: frozenset[str]  # names of groups
    errors: Errors
    weight_bytes: int  # in their types


@dataclass
class Bench:
    """A model with a recipe, a calibration and observations, on which variants are measured."""

    trials: Trials
    recipe: Recipe
    kept: str  # float type
    calibration: str | None  # path; None: the recipe needs none
    calibration_origin: str
    linears: list[Linear]
    groups: list[Group]
    reference: list[Outcome]
    weights_digest: str
    scratch: Path  # a folder for recipe files
    tick: Callable[[], None] = lambda: None  # after each inference
    measured: dict[frozenset[str], Variant] = field(default_factory=dict)

    @property
    def joints(self) -> tuple[str, ...]:
        """Of the robot, by number where they have no names; none where its units are not known."""
        if self.reference[0].joints is None:
            return ()
        return self.trials.joints or tuple(f'column {j}' for j in range(self.reference[0].joints.shape[1]))

    @property
    def names(self) -> list[str]:
        return [group.name for group in self.groups]

    def recipe_keeping(self, kept: Collection[str]) -> Recipe:
        """The recipe with these groups in float."""
        calls = [call for group in self.groups if group.name in kept for call in group.calls]
        if not calls:
            return self.recipe
        name = f'{self.recipe.name}, {len(kept)} of {len(self.groups)} groups in {self.kept}'
        recipe = self.recipe.with_float(name, cover(calls, self.linears), self.kept)
        if emulated := recipe.emulated(linear.name for linear in self.linears):
            recipe = replace(recipe, name=f'{name} ({runs_on(emulated)})')
        return recipe

    def _file(self, kept: Collection[str]) -> str:
        path = self.scratch / 'variant.json'
        self.recipe_keeping(kept).write(path)
        return str(path)

    def load(self, kept: Collection[str]) -> Engines:
        """All weights from their source."""
        return self.trials.load(self._file(kept), calibration=self.calibration)

    def change(self, engines: Engines, kept: Collection[str]) -> Engines:
        """Shares with these engines the weights that both hold in the same form."""
        return engines.with_recipe(self._file(kept), self.calibration)

    def measure(self, engines: Engines, kept: Collection[str]) -> Variant:
        """engines: of the recipe that keeps these groups in float."""
        outcomes = []
        for trial in self.trials.judged:
            outcomes.append(run(engines, trial))
            self.tick()
        weight_bytes = round(engines.get(self.trials.judged[0].key).plan_stats()['stored_weight_bytes'])
        variant = Variant(frozenset(kept), errors(self.reference, outcomes), weight_bytes)
        self.measured[variant.kept] = variant
        return variant

    def moved_bytes(self, engines: Engines) -> dict[str, float]:
        """Of the weights of each linear, in one inference."""
        trial = self.trials.judged[0]
        names = {linear.name for linear in self.linears}
        return {
            call.name: call.weight_bytes * call.repeat if call.when == 'infer' else 0.0
            for call in engines.get(trial.key).report_calls(len(trial.inputs[1]))
            if call.name in names
        }


def open_bench(
    settings: SensitivitySettings, scratch: Path, calibration_to: Path, is_made: bool = False
) -> Bench:
    """Loads the reference, groups the linears, and calibrates where that is needed.

    scratch: a folder that lives as long as the bench. calibration_to: where a calibration goes that is made;
    is_made: it lies there already, made of the same observations.
    """
    recipe = Recipe.read(settings.recipe)
    kept = float_type(settings.kept, recipe)
    # Whether the recipe needs a calibration is known with the plan only; setting observations aside is not
    # undone for one that needs none.
    makes_one = settings.calibration is None
    trials = open_trials(settings.source, makes_one and not settings.same_samples)
    if settings.same_samples:
        trials = replace(trials, to_calibrate=trials.judged)
    reference = trials.load(settings.reference)
    outcomes = [run(reference, trial) for trial in trials.judged]
    engine = reference.get(trials.judged[0].key)
    linears, digest = linears_of(engine.plan_text()), engine.weights_digest
    groups = group_linears(linears, recipe.quantises, settings.by)
    del reference, engine  # its weights, before others are loaded
    calibration, origin = settings.calibration, ''
    if calibration is not None:
        origin = _checked_origin(calibration, digest, trials, settings)
    elif recipe.needs_calibration(linear.name for linear in linears):
        _refuse_same(trials, settings)
        calibration = str(calibration_to)
        if not is_made:
            _calibrate(settings, trials, calibration_to)
        origin = _origin(calibration)
    return Bench(trials, recipe, kept, calibration, origin, linears, groups, outcomes, digest, scratch)


def _refuse_same(trials: Trials, settings: SensitivitySettings) -> None:
    judged = {trial.digest: trial.name for trial in trials.judged if trial.digest}
    for trial in trials.to_calibrate:
        if trial.digest in judged and not settings.same_samples:
            raise Error(
                f'sensitivity: {trial.name} is calibrated on and is the same as {judged[trial.digest]}, '
                'which is judged; errors on what was calibrated on are too small. --same-samples allows it'
            )


def _checked_origin(path: str, digest: str, trials: Trials, settings: SensitivitySettings) -> str:
    """What a calibration says it was made on. It names its first observations: those must not be judged."""
    calibration = cast(Any, native_core()).Calibration.load(path)
    if calibration.weights_digest != digest:
        raise Error(
            f'sensitivity: {path} was measured on weights {calibration.weights_digest}, these are {digest}; '
            'calibrate this checkpoint'
        )
    origin = calibration.origin
    found = [trial.name for trial in trials.judged if trial.name in origin]
    if found and not settings.same_samples:
        raise Error(
            f'sensitivity: {path} was calibrated on {found[0]}, which is judged; errors on what was '
            'calibrated on are too small. Give other observations, or --same-samples'
        )
    return origin


def _origin(path: str) -> str:
    return cast(Any, native_core()).Calibration.load(path).origin


def _calibrate(settings: SensitivitySettings, trials: Trials, path: Path) -> None:
    engines = trials.load(settings.recipe, float_activations=True)
    observed = [(trial.name, engines.get(trial.key), trial.inputs) for trial in trials.to_calibrate]
    how = CalibrationSettings(settings.recipe, estimator=cast(Estimator, settings.estimator))
    calibrate_observed(observed, how).save(path)


@dataclass
class Sensitivity:
    """A study that is under way: what is measured so far, as the result file holds it."""

    settings: SensitivitySettings
    bench: Bench
    ranking: list[str] = field(default_factory=list)  # groups, the one first that costs most
    complete: bool = False
    moved: dict[str, tuple[float, float]] = field(default_factory=dict)  # linear -> bytes quantised, in float

    @property
    def quantised(self) -> Variant | None:
        return self.bench.measured.get(frozenset())

    def gain(self, taken: NDArray[np.intp], name: str) -> NDArray[np.float64]:
        """Of the RMS error, by keeping this group alone; for the observations in each row of `taken`."""
        variants = frozenset(), frozenset([name])
        before, after = (self.bench.measured[kept].errors.sums.rms(taken) for kept in variants)
        return before - after

    def content(self) -> dict[str, Any]:
        settings, bench = self.settings, self.bench
        count = len(bench.trials.judged)
        emulated = bench.recipe.emulated(linear.name for linear in bench.linears)
        return {
            'format': FORMAT,
            'version': VERSION,
            'complete': self.complete,
            'command': settings.command,
            'model': bench.trials.model,
            'checkpoint': bench.trials.checkpoint,
            'weights_digest': bench.weights_digest,
            'backend': settings.source.backend,
            'runs_on': runs_on(emulated),
            'recipe_option': settings.recipe,
            'recipe': bench.recipe.content(),
            'kept': bench.kept,
            'reference': settings.reference,
            'by': settings.by,
            'calibration': None
            if bench.calibration is None
            else {
                'path': str(Path(bench.calibration).resolve()),
                'sha256': file_digest(bench.calibration),
                'origin': bench.calibration_origin,
                'made': settings.calibration is None,  # of observations of the source that are not judged
            },
            'same_samples': settings.same_samples,
            'source': settings.source.content(),
            'observations': [trial.name for trial in bench.trials.judged],
            'joints': list(bench.joints),
            'intervals': {
                'method': 'percentile bootstrap over observations',
                'level': LEVEL,
                'draws': RESAMPLES,
                'seed': SEED,
                'note': certainty(count),
            },
            'groups': [self._group(group) for group in bench.groups],
            'variants': [
                {
                    'kept': sorted(variant.kept, key=bench.names.index),
                    'weight_bytes': variant.weight_bytes,
                    'recipe': bench.recipe_keeping(variant.kept).content(),
                    'runs_on': runs_on(bench.recipe_keeping(variant.kept).emulated(self._calls)),
                    'errors': variant.errors.content(bench.joints),
                }
                for variant in bench.measured.values()
            ],
            'ranking': [self._ranked(name) for name in self.ranking],
        }

    @property
    def _calls(self) -> list[str]:
        return [linear.name for linear in self.bench.linears]

    def _group(self, group: Group) -> dict[str, Any]:
        moved = [self.moved.get(call) for call in group.calls]
        sums = None if None in moved else [sum(side) for side in zip(*moved, strict=True)]
        return {
            'name': group.name,
            'calls': list(group.calls),
            'moved_bytes': None if sums is None else {'quantised': sums[0], 'float': sums[1]},
        }

    def _ranked(self, name: str) -> dict[str, Any]:
        count = len(self.bench.trials.judged)
        rest = frozenset(self.bench.names) - {name}
        alone = self.bench.measured.get(rest)
        return {
            'group': name,
            'gain': float(self.gain(np.arange(count)[np.newaxis], name)[0]),
            'gain_interval': interval(count, lambda taken: self.gain(taken, name)),
            'alone': None if alone is None else alone.errors.chunk.rms,
        }


def curve_sizes(groups: int, largest: int) -> list[int]:
    """How many of the ranked groups are kept: 0 to the largest, and all."""
    return sorted({*range(min(groups, largest) + 1), groups})


def inferences(settings: SensitivitySettings, groups: int, observations: int) -> int:
    """That `study` makes: a variant that is asked for twice is measured once."""
    if groups <= 2:  # kept alone is the rest quantised alone
        return observations * 2**groups
    inner = [size for size in curve_sizes(groups, settings.curve) if 1 < size < groups]
    last_alone = groups - 1 in inner
    return observations * (2 + 2 * groups + len(inner) - last_alone)


def study(settings: SensitivitySettings, bench: Bench, save: Callable[[dict[str, Any]], None]) -> Sensitivity:
    """Measures all variants; `save` gets what is known after each.

    The model is loaded whole once quantised and once in float, never both at a time; a variant reads again
    only the weights that differ from those of the variant before.
    """
    result = Sensitivity(settings, bench)
    names, everything = bench.names, frozenset(bench.names)

    def measure(engines: Engines, kept: frozenset[str]) -> None:
        bench.measure(engines, kept)
        save(result.content())

    engines = bench.load(())
    quantised_bytes = bench.moved_bytes(engines)
    measure(engines, frozenset())
    for name in names:
        measure(bench.change(engines, [name]), frozenset([name]))
    everyone = np.arange(len(bench.trials.judged))[np.newaxis]
    result.ranking = sorted(names, key=lambda name: -result.gain(everyone, name)[0])
    for size in curve_sizes(len(names), settings.curve):
        kept = frozenset(result.ranking[:size])
        if kept not in bench.measured and kept != everything:
            engines = bench.change(engines, kept)
            measure(engines, kept)
    del engines

    engines = bench.load(everything)
    float_bytes = bench.moved_bytes(engines)
    result.moved = {name: (quantised_bytes[name], float_bytes[name]) for name in quantised_bytes}
    if everything not in bench.measured:
        measure(engines, everything)
    for name in names:
        if everything - {name} not in bench.measured:
            measure(bench.change(engines, everything - {name}), everything - {name})
    result.complete = True
    save(result.content())
    return result
