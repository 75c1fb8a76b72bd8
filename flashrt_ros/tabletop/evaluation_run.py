# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""An evaluation from its plan to its files: scales first, then episodes on all workers, then the numbers."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from flashrt_core.cli.options import table_console
from flashrt_core.errors import Error
from flashrt_core.result_file import make_folder
from flashrt_ros.tabletop.closed_loop import Pace
from flashrt_ros.tabletop.connections import connect
from flashrt_ros.tabletop.episode import DEFAULT_RECIPE, Calibrations, EpisodePlayer, parameters_for
from flashrt_ros.tabletop.evaluation import Assignment, Condition, Episode
from flashrt_ros.tabletop.evaluation_picture import write_picture
from flashrt_ros.tabletop.evaluation_pool import play_all
from flashrt_ros.tabletop.evaluation_report import (
    Origin,
    confusion_table,
    markdown,
    rich_table,
    table,
    write_evaluation,
)
from flashrt_ros.tabletop.evaluation_summary import Summary, summarise
from flashrt_ros.tabletop.scales import (
    IN_FLOAT,
    Seen,
    calibrate,
    look_around,
    needs_scales,
    write_samples,
)
from flashrt_ros.tabletop.seeds import scenes_for_scales

SAVED_EVERY_S = 30.0


@dataclass(frozen=True)
class Plan:
    """What the command asks for."""

    conditions: Sequence[Condition]  # without estimators
    assigned: Sequence[Assignment]
    values: Mapping[str, Any]  # parameters
    changed: Mapping[str, Any]  # those of them that are not of the file
    parameters: Path
    estimators: Sequence[str]
    calibrate_on: int  # episodes
    writes_samples: bool
    workers: int
    output: Path
    command: str


def evaluate(plan: Plan) -> tuple[list[Summary], bool]:
    """Plays, prints and writes; False where Ctrl-C ended it early, after which there is what was done."""
    make_folder(plan.output)
    run = _Evaluation(plan)
    return run.evaluate()


class _Evaluation:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._progress_console = Console(stderr=True)
        self._scales: Calibrations = {}
        self._origins: dict[str, str] = {}  # of the scales
        self._conditions: Sequence[Condition] = plan.conditions
        self._policy_info: Mapping[str, str] = {}
        self._renderer = ''

    def evaluate(self) -> tuple[list[Summary], bool]:
        plan = self._plan
        self._prepare()
        results: dict[Condition, list[Episode]] = {condition: [] for condition in self._conditions}
        is_complete = self._play(results)
        for episodes in results.values():  # they ended in any order
            episodes.sort(key=lambda one: plan.assigned.index(one.assignment))
        self._write(results, is_complete)
        summaries = summarise(results)
        if summaries:
            self._show(summaries)
        return summaries, is_complete

    # Before the episodes

    def _prepare(self) -> None:
        """Refuses what cannot be played, and makes the scales that recipes need."""
        plan = self._plan
        _check_parameters(plan)
        with EpisodePlayer(plan.values, {}) as player, self._bar() as bar:
            policy, self._renderer = player.policy(IN_FLOAT), player.renderer
            left_out = ('recipe', 'calibration', 'prompt')
            self._policy_info = {k: v for k, v in policy.info().items() if k not in left_out}
            own = plan.values.get('model.calibration') and plan.values.get('model.recipe', DEFAULT_RECIPE)
            recipes = dict.fromkeys(condition.recipe for condition in plan.conditions)
            _check_names(recipes)
            unscaled = [one for one in recipes if one != own and needs_scales(one, policy)]
            if not (unscaled or plan.writes_samples):
                return
            seen: list[Seen] = []
            task = bar.add_task('looking around in float32', total=plan.calibrate_on)
            for of_episode in look_around(player, plan.calibrate_on):
                seen += of_episode
                bar.advance(task)
            if plan.writes_samples:
                write_samples(policy, seen, plan.output / 'samples.safetensors')
            task = bar.add_task('scales', total=len(unscaled))
            for recipe in unscaled:
                condition = replace(IN_FLOAT, recipe=recipe)
                made = calibrate(condition, plan.estimators, plan.values, seen, plan.output)
                self._scales = {**self._scales, **{key: path for key, (path, _) in made.items()}}
                self._origins |= {' '.join(key): origin for key, (_, origin) in made.items()}
                bar.advance(task)
        self._conditions = [
            replace(condition, estimator=estimator)
            for condition in plan.conditions
            for estimator in (plan.estimators if condition.recipe in unscaled else [''])
        ]
        if unscaled:
            self._say(
                f'scales of {", ".join(unscaled)}: {len(seen)} observations of {plan.calibrate_on} other '
                f'episodes, scenes from {scenes_for_scales(plan.calibrate_on).start} on'
            )

    # Episodes

    def _play(self, results: dict[Condition, list[Episode]]) -> bool:
        plan = self._plan
        saved_s, successes, done = time.monotonic(), 0, 0
        with self._bar() as bar:
            task = bar.add_task('episodes', total=len(self._conditions) * len(plan.assigned))
            played = play_all(self._conditions, plan.assigned, plan.values, self._scales, plan.workers)
            try:
                with closing(played):
                    for condition, episode in played:
                        results[condition].append(episode)
                        done, successes = done + 1, successes + episode.is_success
                        bar.update(task, advance=1, description=f'episodes, {successes} of {done} succeed')
                        if time.monotonic() - saved_s > SAVED_EVERY_S:
                            self._write(results, is_complete=False)
                            saved_s = time.monotonic()
            except KeyboardInterrupt:
                bar.stop()
                self._say(f'interrupted after {done} episodes, which are kept')
                return False
        return True

    def _write(self, results: Mapping[Condition, Sequence[Episode]], is_complete: bool) -> None:
        plan = self._plan
        origin = Origin(
            command=plan.command,
            parameters=str(plan.parameters),
            changed=plan.changed,
            policy=self._policy_info,
            scales=self._origins,
            renderer=self._renderer,
            workers=plan.workers,
        )
        write_evaluation(plan.output / 'evaluation.json', results, origin, is_complete)

    # Numbers

    def _show(self, summaries: Sequence[Summary]) -> None:
        """On the screen, and as files."""
        plan, conditions = self._plan, self._conditions
        tables = table(summaries, conditions), confusion_table(summaries, conditions)
        console = table_console()
        for one in tables[: 1 if len(conditions) > 1 else 2]:  # many matrices are for the files
            console.print(rich_table(*one), highlight=False)
        text = f'    {plan.command}\n\n' + '\n'.join(markdown(*one) for one in tables)
        try:
            (plan.output / 'evaluation.md').write_text(text, encoding='utf-8')
            write_picture(summaries, conditions, plan.output / 'evaluation.png')
        except OSError as fault:
            raise Error(f'evaluate: {plan.output} cannot be written: {fault}') from fault
        self._say(f'{plan.output}: evaluation.json, evaluation.md, evaluation.png')

    def _say(self, text: str) -> None:
        table_console().print(escape(text), highlight=False, soft_wrap=True)

    def _bar(self) -> Progress:
        console = self._progress_console
        columns = TextColumn('{task.description}'), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _check_parameters(plan: Plan) -> None:
    """Before policies are loaded: what neither the tabletop nor its time allows."""
    for condition in plan.conditions:
        # Recipes are checked with their scales.
        parameters = parameters_for(replace(condition, recipe=IN_FLOAT.recipe), plan.values, {})
        connect(parameters)
        Pace.of(parameters, condition.mode, condition.delay_s)


def _check_names(recipes: Iterable[str]) -> None:
    """Tables and files call a recipe by the name of its file."""
    names = Counter(Path(recipe).stem for recipe in recipes)
    if doubled := [name for name, count in names.items() if count > 1]:
        raise Error(f"evaluate: two recipes are called '{doubled[0]}'; give one of the files another name")
