# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Plays episodes: a scene and a task, the loop that moves the robot, and the judge."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Self

from flashrt_core.errors import Error
from flashrt_ros.load import load_policy, prepare
from flashrt_ros.parameter_table import ParameterFaults
from flashrt_ros.parameters import Parameters, read_parameters
from flashrt_ros.tabletop.closed_loop import ClosedLoop, Pace, Watch
from flashrt_ros.tabletop.controls import (
    CONTROLS,
    MOVE_S,
    SWITCH_S,
    Control,
    Views,
    moved_place,
    other_task,
    without_words,
)
from flashrt_ros.tabletop.evaluation import PLAYED, Assignment, Condition, Episode
from flashrt_ros.tabletop.judge import FAILED, RUNNING, SUCCEEDED, Verdict
from flashrt_ros.tabletop.robot import TICK_S, SimulatedRobot
from flashrt_ros.tabletop.tasks import COLOURS, TASKS
from flashrt_ros.tabletop.variation import EVALUATION, Variation, draw_layout

if TYPE_CHECKING:
    from flashrt_core.policy import FlashPolicy

from flashrt_ros.tabletop.pictures import Pictures  # after robot.py, which says what to install

NODE_NAME = '/policy'
DEFAULT_RECIPE = 'f32'  # of parameters that name none

Values = Mapping[str, object]  # parameters by name, as in a parameter file
Calibrations = Mapping[tuple[str, str], str]  # recipe and estimator -> file of scales


def parameters_for(condition: Condition, values: Values, calibrations: Calibrations) -> Parameters:
    """The parameters of the file with what the condition decides."""
    changed = dict(values)
    changed['model.recipe'] = condition.recipe
    if condition.estimator:
        changed['model.calibration'] = calibrations[condition.recipe, condition.estimator]
    elif condition.recipe != values.get('model.recipe', DEFAULT_RECIPE):
        changed['model.calibration'] = ''  # that of the file is for another recipe
    if condition.steps:
        changed['model.denoise_steps'] = condition.steps
    changed['chunk.mode'] = condition.mode if condition.mode in PLAYED else 'skip'
    parameters, unknown = read_parameters(changed, NODE_NAME)
    if unknown:  # a node goes on without it; here it would be a result for something that was not changed
        raise ParameterFaults(f'parameters of {NODE_NAME}', unknown)
    return parameters


class EpisodePlayer:
    """One robot and its pictures; policies are loaded once. Belongs to the thread that made it."""

    def __init__(self, values: Values, calibrations: Calibrations) -> None:
        self._robot = SimulatedRobot(draw_layout(0, EVALUATION), TASKS[0])
        self._pictures = Pictures(self._robot.world)
        self._loaded = cache(lambda condition: _load(condition, values, calibrations))

    def play(
        self,
        condition: Condition,
        assignment: Assignment,
        variation: Variation = EVALUATION,
        watch: Watch = lambda *_: None,
    ) -> Episode:
        control = CONTROLS.get(condition.control)
        if control is None:
            raise Error(f"control '{condition.control}', known are {', '.join(CONTROLS)}")
        parameters, policy = self._loaded(_loading(condition))
        pace = Pace.of(parameters, condition.mode, condition.delay_s)
        robot = self._robot
        asked = other_task(assignment.task) if control.switches_prompt else assignment.task
        robot.reset(control.change_layout(draw_layout(assignment.scene, variation)), asked)
        first = self._pictures.draw()

        def look() -> Views:
            return control.change_views(self._pictures.draw(), first)

        with without_words(policy) if control.blanks_prompt else nullcontext():
            loop = ClosedLoop(parameters, policy, robot, pace, look, watch)
            loop.ask(asked.prompt(assignment.wording))
            verdict = self._until_judged(loop, control, assignment)
        motion = loop.motion
        is_success = verdict.state == SUCCEEDED
        return Episode(
            assignment,
            is_success=is_success,
            why=verdict.why if is_success or not motion.refusal else f'{verdict.why}; {motion.refusal}',
            acted_on='' if verdict.acted_on is None else COLOURS[verdict.acted_on],
            time_s=verdict.time_s,
            jumps=tuple(loop.jumps.at_joins),
            chunks=loop.chunks,
            underruns=motion.counters.underruns,
            refused=motion.counters.first_commands_refused,
            inference_ms=tuple(loop.inference_ms),
        )

    def _until_judged(self, loop: ClosedLoop, control: Control, assignment: Assignment) -> Verdict:
        changes: dict[int, Callable[[], None]] = {}  # tick -> what happens at its begin
        if control.switches_prompt:
            changes[round(SWITCH_S / TICK_S)] = lambda: self._switch(loop, assignment)
        if control.moves_block:
            changes[round(MOVE_S / TICK_S)] = lambda: self._move(assignment)
        tick = 0
        while self._robot.verdict.state == RUNNING or tick <= max(changes, default=0):
            if tick in changes:
                changes[tick]()
            loop.play()
            tick += 1
            if not loop.motion.is_running:
                why = f'commanding ended: {loop.motion.stopped_because}'
                return Verdict(FAILED, why, self._robot.verdict.time_s)
        return self._robot.verdict

    def _switch(self, loop: ClosedLoop, assignment: Assignment) -> None:
        self._robot.ask(assignment.task)
        loop.ask(assignment.prompt)

    def _move(self, assignment: Assignment) -> None:
        """Judged from now on: how far cubes are moved counts from where they are now."""
        world, index = self._robot.world, assignment.task.block_index
        world.move_cube(index, moved_place(assignment.scene, world.cubes(), index))
        self._robot.ask(assignment.task)

    def policy(self, condition: Condition) -> 'FlashPolicy':
        """The one that plays this condition."""
        return self._loaded(_loading(condition))[1]

    @property
    def renderer(self) -> str:
        return self._pictures.renderer

    def close(self) -> None:
        self._pictures.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _loading(condition: Condition) -> Condition:
    """The same for conditions that can share a policy."""
    mode = condition.mode if condition.mode in PLAYED else 'skip'
    return Condition(condition.recipe, condition.estimator, condition.steps, mode, 0.0, 'none')


def _load(
    condition: Condition, values: Values, calibrations: Calibrations
) -> tuple[Parameters, 'FlashPolicy']:
    parameters = parameters_for(condition, values, calibrations)
    policy = load_policy(parameters)
    prepare(policy, parameters)
    return parameters, policy
