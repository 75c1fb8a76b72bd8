# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""How often the expert itself succeeds: python -m flashrt_ros.tabletop.evaluate_expert --scenes 60

On scenes of evaluation, without noise and without pictures: a policy that copies it can hardly be better.
"""

import argparse
import sys
from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from flashrt_core.errors import Error
from flashrt_ros.tabletop.expert import ArmState, Plan, make_plan
from flashrt_ros.tabletop.judge import RUNNING, SUCCEEDED, Verdict
from flashrt_ros.tabletop.proportion import Proportion
from flashrt_ros.tabletop.robot import SimulatedRobot
from flashrt_ros.tabletop.seeds import evaluation_scenes
from flashrt_ros.tabletop.tasks import KINDS, TASKS, Task
from flashrt_ros.tabletop.variation import EVALUATION, Layout, draw_layout


def plan_for(layout: Layout, task: Task, robot: SimulatedRobot) -> Plan:
    """The expert's way from the start of a layout, seeing where things stand."""
    start = ArmState(layout.start_tip, layout.start_gripper, layout.start_offset)
    return make_plan(task, start, robot.world.cubes(), robot.world.tray())


def play_plan(robot: SimulatedRobot, plan: Plan) -> Verdict:
    """Row by row until the judge is sure; after the last row the arm stays there."""
    row = 0
    while robot.verdict.state == RUNNING:
        row = min(row + 1, len(plan.rows) - 1)
        robot.play_row(plan.rows[row])
    return robot.verdict


def tasks_of(kind: str, scenes: range) -> Iterator[tuple[int, Task]]:
    """One task per scene, every cube and pair in turn."""
    tasks = [task for task in TASKS if task.kind == kind]
    yield from ((scene, tasks[scene % len(tasks)]) for scene in scenes)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog='flashrt_ros.tabletop.evaluate_expert', description=__doc__.splitlines()[0]
    )
    parser.add_argument('--scenes', type=int, default=60, help='of each kind of task; %(default)s')
    parser.add_argument('--first', type=int, default=0, help='scene; %(default)s')
    options = parser.parse_args(arguments)
    console = Console()
    try:
        scenes = evaluation_scenes(options.scenes, options.first)
    except Error as error:
        Console(stderr=True).print(f'FAILED: {error}', style='bold red', markup=False, highlight=False)
        return 1
    robot = SimulatedRobot(draw_layout(options.first, EVALUATION), TASKS[0])
    table = Table('task', 'success (95 % interval)', 'median s')
    for kind in KINDS:
        verdicts = []
        for scene, task in track(list(tasks_of(kind, scenes)), kind, transient=True):
            layout = draw_layout(scene, EVALUATION)
            robot.reset(layout, task)
            verdict = play_plan(robot, plan_for(layout, task, robot))
            verdicts.append(verdict)
            if verdict.state != SUCCEEDED:
                console.print(f'scene {scene}, {task.prompt()}: {verdict.why}', highlight=False)
        times = [verdict.time_s for verdict in verdicts if verdict.state == SUCCEEDED]
        proportion = Proportion(len(times), len(verdicts))
        table.add_row(kind, str(proportion), f'{np.median(times):.2f}' if times else '-')
    console.print(table)
    return 0


if __name__ == '__main__':
    sys.exit(main())
