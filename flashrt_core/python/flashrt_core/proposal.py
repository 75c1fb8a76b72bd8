# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""A recipe with exceptions, proposed from a sensitivity study and measured before it is written."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashrt_core.errors import Error
from flashrt_core.group_costs import Costs, byte_costs, time_costs
from flashrt_core.recipe_search import Candidate, best_under, fewest
from flashrt_core.recipes import Recipe, runs_on
from flashrt_core.result_file import file_digest
from flashrt_core.sensitivity import Bench, SensitivitySettings, Variant, open_bench
from flashrt_core.sensitivity_file import MEASURES, StoredStudy, error_of
from flashrt_core.trials import Engines

FORMAT, VERSION = 'flashrt_recipe_report', 1


@dataclass(frozen=True)
class Limit:
    """Either the largest error, or the most that the exceptions may cost."""

    max_error: float | None = None
    max_cost: float | None = None
    measure: str = 'relative'  # of MEASURES

    def __post_init__(self) -> None:
        if (self.max_error is None) == (self.max_cost is None):
            raise Error('recipe: give either --max-error or --max-cost')
        if self.measure not in MEASURES:
            raise Error(f"recipe: measure '{self.measure}', known are {', '.join(MEASURES)}")
        for name, value in (('max-error', self.max_error), ('max-cost', self.max_cost)):
            if value is not None and not value >= 0:
                raise Error(f'recipe: --{name} is {value}, needed 0 or more')


@dataclass(frozen=True)
class Proposal:
    """What was found."""

    study: StoredStudy
    limit: Limit
    recipe: Recipe
    kept: tuple[str, ...]  # groups in float, in order of their gain
    final: Variant  # measured with this recipe
    joints: tuple[str, ...]
    cost: float
    costs: Costs
    measured: int  # recipes that were run for it
    runs_on: str

    @property
    def weight_bytes(self) -> int:
        return self.final.weight_bytes

    @property
    def errors(self) -> dict[str, Any]:
        return self.final.errors.content(self.joints)

    def content(self, command: str) -> dict[str, Any]:
        study = self.study
        return {
            'format': FORMAT,
            'version': VERSION,
            'command': command,
            'model': study.model,
            'checkpoint': study.checkpoint,
            'weights_digest': study.weights_digest,
            'calibration': None if study.calibration is None else dict(study.calibration),
            'sensitivity': {'path': str(study.path.resolve()), 'sha256': file_digest(study.path)},
            'reference': study.reference,
            'observations': list(study.observations),
            'note': study.note,
            'limit': {
                'max_error': self.limit.max_error,
                'max_cost': self.limit.max_cost,
                'measure': MEASURES[self.limit.measure],
            },
            'recipe': self.recipe.content(),
            'kept': list(self.kept),
            'kept_in': study.kept,
            'cost': {'value': self.cost, 'unit': self.costs.unit, 'how': self.costs.how},
            'recipes_measured': self.measured,
            'weight_bytes': self.weight_bytes,
            'runs_on': self.runs_on,
            'errors': self.errors,
        }


def propose(
    study: StoredStudy, limit: Limit, benches: Sequence[Path], progress: Callable[[str], None]
) -> Proposal:
    """Searches with the study, and measures what it finds on the observations of the study.

    benches: files of `flashrt bench`, for cost in time. progress: gets a line per recipe that is measured.
    """
    costs = _costs(study, benches)
    candidates = [
        Candidate(name, study.keeping_only(name).error(limit.measure), costs.of[name])
        for name in study.groups
    ]
    with tempfile.TemporaryDirectory() as folder:
        bench = _reopened(study, Path(folder))
        known = {kept: variant.error(limit.measure) for kept, variant in study.variants.items()}
        engines: Engines | None = None

        def run(kept: frozenset[str]) -> Variant:
            nonlocal engines
            progress(f'{len(kept)} of {len(study.groups)} groups in {study.kept}')
            engines = bench.load(kept) if engines is None else bench.change(engines, kept)
            return bench.measure(engines, kept)

        def measure(kept: frozenset[str]) -> float:
            if kept not in known:
                known[kept] = error_of(run(kept).errors.content(bench.joints), limit.measure)
            return known[kept]

        if limit.max_error is not None:
            kept = fewest(candidates, measure, limit.max_error)
        else:
            assert limit.max_cost is not None
            kept = best_under(candidates, measure, limit.max_cost)
        final = bench.measured.get(kept) or run(kept)
        ranked = sorted(candidates, key=lambda one: one.error)
        return Proposal(
            study=study,
            limit=limit,
            recipe=bench.recipe_keeping(kept),
            kept=tuple(one.name for one in ranked if one.name in kept),
            final=final,
            joints=bench.joints,
            cost=sum(costs.of[name] for name in kept),
            costs=costs,
            measured=len(bench.measured),
            runs_on=runs_on(bench.recipe_keeping(kept).emulated(linear.name for linear in bench.linears)),
        )


def _costs(study: StoredStudy, benches: Sequence[Path]) -> Costs:
    if not study.moved:
        raise Error(
            f'{study.path} does not say what its groups move; the study was interrupted, run it again: '
            f'{study.command}'
        )
    if not benches:
        return byte_costs(study.moved)
    return time_costs(study.groups, study.moved, benches, study.recipe_option, study.model)


def _reopened(study: StoredStudy, folder: Path) -> Bench:
    """The bench of the study again; Error unless everything is as it was."""
    recipe = folder / 'recipe.json'
    study.recipe.write(recipe)
    calibration = study.checked_calibration()
    settings = SensitivitySettings(
        source=study.source,
        recipe=str(recipe),
        kept=study.kept,
        reference=study.reference,
        by=study.by,
        calibration=None if study.calibration_made else calibration,
        same_samples=study.same_samples,
    )
    bench = open_bench(settings, folder, Path(calibration or folder), is_made=calibration is not None)
    if bench.weights_digest != study.weights_digest:
        raise Error(
            f'{study.path} was measured on weights {study.weights_digest}, those of {study.checkpoint} are '
            f'{bench.weights_digest} now; run again: {study.command}'
        )
    if (names := tuple(trial.name for trial in bench.trials.judged)) != study.observations:
        raise Error(
            f'{study.path} was measured on {len(study.observations)} observations from '
            f'{study.observations[0]} on, its source gives {len(names)} from {names[0]} on now; run it '
            f'again: {study.command}'
        )
    if {group.name: group.calls for group in bench.groups} != dict(study.groups):
        raise Error(f'{study.path} has other groups than this program makes of {study.by}; run it again')
    return bench
