# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`flashrt recipe`: a recipe with the exceptions that an error or a cost calls for."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from flashrt_core.cli.options import command_line, table_console
from flashrt_core.proposal import Limit, Proposal, propose
from flashrt_core.result_file import check_output, write_result
from flashrt_core.sensitivity_file import MEASURES, StoredStudy, worst_joint


def run(
    context: typer.Context,
    sensitivity: Annotated[Path, typer.Argument(help='Made by `flashrt sensitivity`.')],
    output: Annotated[Path, typer.Option('--output', '-o', help='The recipe file to write.')],
    max_error: Annotated[
        float | None, typer.Option(help='The fewest exceptions whose error is at most this.')
    ] = None,
    max_cost: Annotated[
        float | None,
        typer.Option(help='The least error whose exceptions cost at most so many ms, or MB without --bench.'),
    ] = None,
    measure: Annotated[
        str, typer.Option(help='Which error: relative or rms of actions - noise, or of the worst joint.')
    ] = 'relative',
    bench: Annotated[
        list[Path] | None,
        typer.Option(help='Of `flashrt bench --operations --json`: times of calls; twice, for both recipes.'),
    ] = None,
) -> None:
    """Propose which groups to keep in float.

    The study says where to look; the recipe that is written was measured on the observations of the study.
    What was found goes beside it, as OUTPUT.report.json.
    """
    limit = Limit(max_error, max_cost, measure)
    check_output(output)
    study = StoredStudy.read(sensitivity)
    console = Console(stderr=True)
    with console.status('reference') as status:
        proposal = propose(study, limit, bench or (), lambda text: status.update(escape(text)))
    proposal.recipe.write(output)
    report = output.with_suffix('.report.json')
    write_result(report, proposal.content(command_line(context)))
    _print(proposal, output, report)


def _print(proposal: Proposal, output: Path, report: Path) -> None:
    console = table_console()

    def say(text: str) -> None:
        console.print(escape(text), highlight=False)

    study, errors, limit = proposal.study, proposal.errors, proposal.limit
    say(f'{study.checkpoint}: {study.recipe_option} with {len(proposal.kept)} of {len(study.groups)} groups')
    say(f'in {study.kept}: {", ".join(proposal.kept) or "none"}')
    interval = errors['relative_interval']
    between = f' ({interval[0]:.3e} .. {interval[1]:.3e})' if interval else ''
    say(f'relative error {errors["relative"]:.3e}{between}, cosine {errors["cosine"]:.6f}; {study.note}')
    if errors['joints']:
        name, rms = worst_joint(errors)
        say(f'worst joint: {name}, RMS error {rms:.3e}')
    if limit.max_error is not None:
        say(f'asked for: {MEASURES[limit.measure]} at most {limit.max_error:g}')
    else:
        say(f'asked for: at most {limit.max_cost:g} {proposal.costs.unit} more')
    say(f'cost: {proposal.cost:.4g} {proposal.costs.unit} more ({proposal.costs.how})')
    say(f'weights: {proposal.weight_bytes / 1e6:.2f} MB; runs on: {proposal.runs_on}')
    say(f'{output}, {report}: {proposal.measured} recipes were measured for it')
