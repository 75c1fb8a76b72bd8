# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`flashrt check`: what can be known about a robot and its checkpoint before the node is started."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from flashrt_ros.check_device import check_computer, check_device
from flashrt_ros.check_environment import check_environment
from flashrt_ros.check_files import FileCheck
from flashrt_ros.check_findings import Finding, guarded, skip
from flashrt_ros.check_graph import SUBJECTS, check_graph
from flashrt_ros.check_parameters import ParameterCheck
from flashrt_ros.parameters import Parameters

FORMAT = 'flashrt_ros.check'
FORMAT_VERSION = 1
FAULTS, USAGE = 1, 2  # exit codes
_STYLES = {'OK': 'green', 'WARN': 'yellow', 'FAIL': 'bold red', 'SKIP': 'cyan'}
# What is left out when the parameters have faults.
_WITHOUT_GRAPH = ('checkpoint', 'statistics', 'tokenizer', 'view slots', 'token budget', 'device')


def run(
    params: Annotated[Path, typer.Option(help='parameter file of the policy node')],
    node_name: Annotated[
        str, typer.Option(help='full name that the node will have; relative topics depend on it')
    ] = '/policy',
    graph: Annotated[bool, typer.Option(help='look at the running robot over ROS, too')] = True,
    wait: Annotated[
        float, typer.Option(min=0.0, max=600.0, help='seconds to wait for what is not there yet')
    ] = 3.0,
    json_file: Annotated[Path | None, typer.Option('--json', help='write the findings to this file')] = None,
) -> None:
    """Check environment, parameters, device, checkpoint and, over ROS, the running robot. Commands nothing.

    One line each: OK, WARN (works, look at it), FAIL (will not work) or SKIP (could not be checked, and why).

    Exit code: 0 without a FAIL, else 1; 2 for wrong arguments.
    """
    if not node_name.startswith('/') or node_name.endswith('/'):
        raise typer.BadParameter(f"'{node_name}' is no full name of a node, such as /policy or /left/policy")
    console = Console()
    findings: list[Finding] = []
    for finding in all_findings(params, node_name, graph, wait):
        findings.append(finding)
        _print(finding, console)
    counts = Counter(finding.level for finding in findings)
    console.print(', '.join(f'{counts[level]} {level}' for level in _STYLES), highlight=False)
    if json_file is not None:
        try:
            json_file.write_text(_as_json(params, node_name, findings, counts))
        except OSError as fault:
            raise typer.BadParameter(f'--json {json_file} cannot be written: {fault}') from None
    if counts['FAIL']:
        raise typer.Exit(FAULTS)


def all_findings(params: Path, node_name: str, with_graph: bool, wait_s: float) -> Iterator[Finding]:
    """In the order in which they are found out."""
    yield from guarded('environment', check_environment())
    check = ParameterCheck(params, node_name)
    yield from guarded('parameters', check.findings())
    if check.parameters is None:
        for subject in (*_WITHOUT_GRAPH, *SUBJECTS):
            yield skip(subject, 'the parameters have faults')
        return
    files = FileCheck(check.parameters)
    yield from files.findings()
    yield from guarded('device', check_device(check.parameters, files.weights))
    yield from guarded('computer', check_computer(check.parameters))
    if with_graph:
        yield from guarded('graph', _graph_findings(check.parameters, node_name, wait_s))
    else:
        yield from (skip(subject, '--no-graph') for subject in SUBJECTS)


def _graph_findings(parameters: Parameters, node_name: str, wait_s: float) -> Iterator[Finding]:
    try:
        from flashrt_ros.graph_observer import observe
    except ImportError as fault:
        yield from (skip(subject, f'ROS 2 is not sourced or not whole ({fault})') for subject in SUBJECTS)
        return
    yield from check_graph(observe(parameters, node_name, wait_s), parameters)


def _print(finding: Finding, console: Console) -> None:
    console.print(f'{finding.level:<5}', style=_STYLES[finding.level], end='', highlight=False)
    line = f'{finding.subject}: {finding.text}'
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def _as_json(params: Path, node_name: str, findings: list[Finding], counts: Counter) -> str:
    document = {
        'format': FORMAT,
        'version': FORMAT_VERSION,
        'parameters': str(params),
        'node': node_name,
        'counts': {level: counts[level] for level in _STYLES},
        'findings': [asdict(finding) for finding in findings],
    }
    return json.dumps(document, indent=2) + '\n'
