# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`flashrt evaluate`: how often a policy does what it was asked for, in the simulated tabletop."""

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import typer
import yaml

from flashrt_core.calibrate import Estimator
from flashrt_core.cli.options import INT_MAX, command_line, given
from flashrt_core.errors import Error
from flashrt_ros.parameter_file import read_parameter_file
from flashrt_ros.tabletop.controls import CONTROLS
from flashrt_ros.tabletop.evaluation import MODES, assignments, crossed
from flashrt_ros.tabletop.tasks import KINDS

NOT_ENOUGH, INTERRUPTED = 1, 130  # exit codes
ESTIMATORS = get_args(Estimator)
PARAMETERS = {  # that options set
    'recipe': 'model.recipe',
    'steps': 'model.denoise_steps',
    'mode': 'chunk.mode',
    'backend': 'model.backend',
    'device': 'model.device',
    'threads': 'model.threads',
}

Item = TypeVar('Item')


def run(
    context: typer.Context,
    params: Annotated[Path, typer.Argument(help='Parameter file of the policy node.')],
    output: Annotated[Path, typer.Option('--output', '-o', help='A folder for the files.')] = Path(
        'out/evaluate'
    ),
    episodes: Annotated[
        int, typer.Option('--episodes', '-n', min=1, help='Scenes per kind of task, the same for all.')
    ] = 30,
    first: Annotated[int, typer.Option(min=0, help='The first scene; those of training are refused.')] = 0,
    task: Annotated[str, typer.Option(help=f'Kinds of tasks: {", ".join(KINDS)}.')] = ','.join(KINDS),
    wording: Annotated[str, typer.Option(help='Which ways to say it, in turn.')] = '0,1',
    recipe: Annotated[
        str | None,
        typer.Option(help='f32, bf16, fp8, ... or paths of recipe files; else what the parameters say.'),
    ] = None,
    estimator: Annotated[
        str, typer.Option(help=f'Of the scales that are made for recipes: {", ".join(ESTIMATORS)}.')
    ] = 'min_max',
    calibrate_on: Annotated[
        int, typer.Option(min=1, help='Episodes that scales are measured in; none of them is judged.')
    ] = 30,
    samples: Annotated[
        bool,
        typer.Option('--samples', help='Also writes samples.safetensors, for `flashrt sensitivity`.'),
    ] = False,
    steps: Annotated[str, typer.Option(help='Denoise steps; 0: what the parameters say.')] = '0',
    mode: Annotated[
        str | None,
        typer.Option(
            help='How a chunk follows another: skip, blend, fusion, rtc; naive: from its row 0 on, whenever '
            'it comes; block: at rest until it comes. Else what the parameters say.'
        ),
    ] = None,
    delay_ms: Annotated[str, typer.Option(help='What an inference takes, in simulated time.')] = '0',
    control: Annotated[
        str, typer.Option(help=f'What is changed on purpose: {", ".join(CONTROLS)}.')
    ] = 'none',
    change: Annotated[
        list[str] | None,
        typer.Option('--set', metavar='NAME=VALUE', help='Another value of a parameter; may be repeated.'),
    ] = None,
    backend: Annotated[str | None, typer.Option(help='cpu or cuda; else what the parameters say.')] = None,
    device: Annotated[int | None, typer.Option(min=0, max=INT_MAX, help='Index of the GPU.')] = None,
    threads: Annotated[
        int | None, typer.Option(min=0, max=INT_MAX, help='Of each model, 0: one per core; else 1.')
    ] = None,
    workers: Annotated[
        int, typer.Option(min=0, help='Processes that play episodes, 0: one per core; changes no result.')
    ] = 0,
    at_least: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help='Exit code 1 where a smaller share of a kind succeeds.'),
    ] = None,
) -> None:
    """Let a policy act in the simulated tabletop and count what it was asked for and did.

    What has several values, with commas between them, is crossed: `--mode naive,skip --delay-ms 0,200` are
    four conditions, each judged on the same scenes. Writes evaluation.json, .md and .png. Needs MuJoCo.
    """
    assigned = assignments(_listed('task', task, KINDS), episodes, first, _numbers('wording', wording, int))
    sets = _changes(change or ())
    _refuse_twice(
        sets,
        {
            'recipe': recipe,
            'steps': None if steps == '0' else steps,
            'mode': mode,
            'backend': backend,
            'device': device,
            'threads': threads,
        },
    )
    changed = {'model.threads': 1, **sets}
    changed |= {
        PARAMETERS[name]: value
        for name, value in given(backend=backend, device=device, threads=threads).items()
    }
    values = read_parameter_file(params, '/policy') | changed
    conditions = crossed(
        [(one, '') for one in _listed('recipe', recipe or _text(values, 'model.recipe', 'f32'))],
        _numbers('steps', steps, int),
        _listed('mode', mode or _text(values, 'chunk.mode', 'skip'), MODES),
        [milliseconds / 1e3 for milliseconds in _numbers('delay-ms', delay_ms, float)],
        _listed('control', control, CONTROLS),
    )
    from flashrt_ros.tabletop.evaluation_run import Plan, evaluate  # from here on MuJoCo is needed

    plan = Plan(
        conditions=conditions,
        assigned=assigned,
        values=values,
        changed=changed,
        parameters=params,
        estimators=_listed('estimator', estimator, ESTIMATORS),
        calibrate_on=calibrate_on,
        writes_samples=samples,
        workers=workers or len(os.sched_getaffinity(0)),
        output=output,
        command=command_line(context),
    )
    summaries, is_complete = evaluate(plan)
    if not is_complete:
        raise typer.Exit(INTERRUPTED)
    shares = [one.success.successes / one.success.tried for one in summaries]
    if at_least is not None and min(shares) < at_least:
        print(f'a kind of task succeeds in {min(shares):.1%}, asked for were {at_least:.1%}')
        raise typer.Exit(NOT_ENOUGH)


def _listed(option: str, text: str, known: Collection[str] | None = None) -> list[str]:
    """What stands between commas, each once."""
    items = [item.strip() for item in text.split(',')]
    for item in items:
        if not item or (known is not None and item not in known):
            listed = f', known are {", ".join(known)}' if known else ''
            raise Error(f"evaluate: --{option} holds '{item}'{listed}")
        if items.count(item) > 1:
            raise Error(f"evaluate: --{option} holds '{item}' {items.count(item)} times")
    return items


def _numbers(option: str, text: str, kind: Callable[[str], Item]) -> list[Item]:
    try:
        numbers = [kind(item) for item in _listed(option, text)]
    except ValueError:
        raise Error(f"evaluate: --{option} is '{text}', needed numbers with commas between them") from None
    if any(not 0 <= number < INT_MAX for number in numbers):
        raise Error(f"evaluate: --{option} is '{text}', needed numbers from 0 on")
    if len(set(numbers)) < len(numbers):  # an episode that is counted twice makes intervals too narrow
        raise Error(f"evaluate: --{option} is '{text}', needed each number once")
    return numbers


def _changes(given: Collection[str]) -> dict[str, Any]:
    """Values as YAML reads them."""
    changes = {}
    for item in given:
        name, is_there, value = item.partition('=')
        if not is_there or not name:
            raise Error(f"evaluate: --set '{item}', needed NAME=VALUE")
        if name in changes:
            raise Error(f'evaluate: --set gives {name} twice')
        try:
            changes[name] = yaml.safe_load(value)
        except yaml.YAMLError as fault:
            raise Error(f"evaluate: --set '{item}': the value is no YAML: {fault}") from None
    return changes


def _refuse_twice(sets: Collection[str], options: Mapping[str, object]) -> None:
    """One of two values for a parameter would be left out."""
    for option in given(**options):
        name = PARAMETERS[option]
        if name in sets:
            raise Error(f'evaluate: both --{option} and --set give {name}; leave one out')


def _text(values: Mapping[str, object], name: str, default: str) -> str:
    """Of the parameter file; whether it is one that is allowed, the parameters say later."""
    return str(values.get(name, default))
