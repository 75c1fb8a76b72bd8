# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`make demo`: the trained policy moves the simulated robot through the node, and is given another task.

Succeeds when both tasks were done; otherwise says which condition was not met, and whether it was the machine
that was too slow (exit code 2) or not (exit code 1).
"""

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from flashrt_core.errors import Error
from flashrt_core.result_file import make_folder
from flashrt_ros.live_tabletop import Ended, LiveTabletop, Speed, tabletop_parameters
from flashrt_ros.local_ros import set_up_transport, spinning_node
from flashrt_ros.parameters import Parameters
from flashrt_ros.replay import publish
from flashrt_ros.replay_setup import Warnings, checked_parameters
from flashrt_ros.report import CLOSED_LOOP, Report
from flashrt_ros.sim_settings import LOCKSTEP, REAL_TIME
from flashrt_ros.tabletop.film import write_animation, write_strip
from flashrt_ros.tabletop.seeds import evaluation_scenes
from flashrt_ros.tabletop.tasks import read_task
from flashrt_ros.witness import GATED_STAGE

AUTO = 'auto'
FAILED, TOO_SLOW = 1, 2  # exit codes
SCENE = 4
FIRST, THEN = 'stack the red block on the blue block', 'put the green block in the tray'
NEXT = (
    ".venv/bin/python -m flashrt_ros.demo --scene 5 --first 'put the blue block in the tray' "
    "--then 'stack the red block on the green block'"
)
_MEASURED = 20  # chunks
# In real time, a picture comes every 100 ms and a chunk lasts for 500 ms.
_SLOWEST_INFERENCE_MS = 100.0
_SLOWEST_SIMULATION = 0.95
_LONGEST_GAP_S = 0.4  # between two chunks: beyond, the rows of the first one run out


@dataclass(frozen=True)
class Wanted:
    """What the demo is to do."""

    scene: int
    tasks: Sequence[str]  # one after the other
    pace: str  # auto | real_time | lockstep


@dataclass(frozen=True)
class Attempt:
    """How the tasks ended, as far as they were tried."""

    pace: str
    ended: Sequence[Ended]
    disturbances: Sequence[str]  # what the machine did to it, in words

    @property
    def is_success(self) -> bool:
        return all(one.is_success for one in self.ended)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog='flashrt_ros.demo', description=__doc__.splitlines()[0])
    parser.add_argument('--out', type=Path, default=Path('out/demo'), help='folder of all results')
    parser.add_argument('--scene', type=int, default=SCENE, help='number of the scene, below a million')
    parser.add_argument('--first', default=FIRST, help='the first prompt')
    parser.add_argument('--then', default=THEN, help='the prompt after it')
    parser.add_argument(
        '--pace', default=AUTO, choices=(AUTO, REAL_TIME, LOCKSTEP), help='how simulated time passes'
    )
    options = parser.parse_args(arguments)
    console = Console()
    try:
        evaluation_scenes(1, options.scene)
        wanted = Wanted(options.scene, (options.first, options.then), options.pace)
        for task in wanted.tasks:
            read_task(task)
        make_folder(options.out)
        attempt = run_demo(wanted, options.out, console)
        faults, code = list(faults_of(attempt)), TOO_SLOW if attempt.disturbances else FAILED
    except Error as error:
        faults, code = [str(error)], FAILED
    for fault in faults:
        Console(stderr=True).print(f'FAILED: {fault}', style='bold red', markup=False, highlight=False)
    return code if faults else 0


def run_demo(wanted: Wanted, out: Path, console: Console) -> Attempt:
    """The last attempt; its film and figures are in `out`."""
    # A domain of its own, unless the user chose one: two demos on one machine do not hear each other.
    os.environ.setdefault('ROS_DOMAIN_ID', str(1 + os.getpid() % 100))
    params = tabletop_parameters()
    set_up_transport(params)
    policy = {'prompt': wanted.tasks[0]}
    robot = {'seed': wanted.scene, 'task': wanted.tasks[0]}
    warnings = Warnings(console)
    parameters = checked_parameters(params, warnings, policy)
    with spinning_node('flashrt_demo') as node:
        tabletop = LiveTabletop(node, out, robot=robot, policy=policy)
        console.print(f'starting the robot and the policy {parameters.checkpoint}', highlight=False)
        with tabletop:
            with console.status('measuring how fast this machine is'):
                pace, why = choose_pace(wanted.pace, tabletop.measure(_MEASURED))
            console.print(f'{_words(pace)}: {why}', highlight=False)
            attempt = _attempt(tabletop, wanted, pace, console)
            if wanted.pace == AUTO and pace == REAL_TIME and attempt.disturbances and not attempt.is_success:
                why = '; '.join(attempt.disturbances)
                console.print(f'once more {_words(LOCKSTEP)}: {why}', style='yellow', highlight=False)
                attempt = _attempt(tabletop, wanted, LOCKSTEP, console)
            tabletop.rest()
            report = _report(tabletop, parameters, wanted, attempt, tuple(warnings.texts))
    publish(report, out, console)
    if tabletop.takes:  # none where the policy never moved the robot
        write_strip(tabletop.takes, out / 'film.png')
        write_animation(tabletop.takes, out / 'film.gif')
        console.print(f'wrote {out / "film.png"}, {out / "film.gif"}', highlight=False)
    console.print(f'try next: {NEXT}', highlight=False)
    return attempt


def choose_pace(wanted: str, speed: Speed) -> tuple[str, str]:
    """(real_time | lockstep, why): real time where this machine is fast enough for it."""
    measured = (
        f'with everything running an inference takes {speed.inference_ms:.0f} ms (90 of 100; at most '
        f'{_SLOWEST_INFERENCE_MS:g} ms for real time) and {speed.simulation:.2f} s of the robot pass in a '
        f'second (at least {_SLOWEST_SIMULATION:g} s)'
    )
    if wanted != AUTO:
        return wanted, f'as asked for; {measured}'
    is_fast = speed.inference_ms <= _SLOWEST_INFERENCE_MS and speed.simulation >= _SLOWEST_SIMULATION
    return (REAL_TIME if is_fast else LOCKSTEP), measured


def _words(pace: str) -> str:
    return {REAL_TIME: 'in real time', LOCKSTEP: 'in lockstep, where the robot waits for the policy'}[pace]


def _attempt(tabletop: LiveTabletop, wanted: Wanted, pace: str, console: Console) -> Attempt:
    ended: list[Ended] = []
    for task in wanted.tasks:
        if ended:
            tabletop.ask(task)
        else:
            tabletop.begin(task, pace=pace)
        with console.status(f'“{task}”'):
            ended.append(tabletop.finish())
        console.print(_sentence(ended[-1]), style='green' if ended[-1].is_success else 'red', highlight=False)
        if not ended[-1].is_success:
            break
    return Attempt(pace, ended, list(disturbances(tabletop.longest_gap_s, tabletop.robot.status)))


def disturbances(longest_gap_s: float, robot: Mapping[str, str]) -> Iterator[str]:
    """What a machine that is busy with other things does to a demo, in words; nothing on one that is not."""
    if longest_gap_s > _LONGEST_GAP_S:
        yield (
            f'between two chunks {longest_gap_s:.2f} s passed, and one lasts for 0.5 s: this machine was '
            'busy with something else'
        )
    if given_up := int(robot['given_up']):
        yield f'{given_up} times the robot waited in vain for the policy, for seconds: see its log'


def faults_of(attempt: Attempt) -> Iterator[str]:
    for one in attempt.ended:
        if not one.is_success:
            yield _sentence(one)
            perhaps = 'the machine may be to blame, not the policy'
            yield from (f'{perhaps}: {text}' for text in attempt.disturbances)


def _sentence(one: Ended) -> str:
    outcome = f'done in {one.time_s:.1f} s' if one.is_success else f'not done: {one.why}'
    return f'“{one.task}”: {outcome}'


def _report(
    tabletop: LiveTabletop,
    parameters: Parameters,
    wanted: Wanted,
    attempt: Attempt,
    warnings: tuple[str, ...],
) -> Report:
    witness = tabletop.witness
    streams = witness.streams(parameters)
    takes = tabletop.takes
    return Report(
        mode=CLOSED_LOOP,
        clock=f'time of the robot, {attempt.pace.replace("_", " ")}',
        bag=f'the tabletop, scene {wanted.scene}',
        parameters=str(tabletop_parameters()),
        messages=sum(stream.received for stream in streams.values()),
        duration_s=takes[-1].time_s - takes[0].time_s if takes else 0.0,
        stages=witness.stages,
        gated_stage=GATED_STAGE,
        chunks=tuple(tabletop.chunks),
        streams=streams,
        play=witness.play(),
        policy=witness.policy(),
        warnings=(*warnings, *witness.gaps(), *attempt.disturbances),
    )


if __name__ == '__main__':
    sys.exit(main())
