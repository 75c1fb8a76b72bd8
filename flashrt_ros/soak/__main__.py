# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Runs the node among faults on this machine and fails when it broke a rule. No robot is touched."""

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from flashrt_core.errors import Error
from flashrt_ros.local_ros import set_up_transport, spinning_node
from flashrt_ros.soak.campaign import Campaign
from flashrt_ros.soak.checker import judge
from flashrt_ros.soak.child import Child
from flashrt_ros.soak.configuration import soak_parameters, soak_values, write_parameter_file
from flashrt_ros.soak.faults import Fault, clock_faults, faults
from flashrt_ros.soak.journal import Journal, JournalWriter
from flashrt_ros.soak.rig import LiveRig
from flashrt_ros.soak.seclusion import own_domain, refuse_company, seclude
from flashrt_ros.soak.verdict import Finding, Verdict, show, write_json

_CLOCK_SHARE = 0.1  # of the time goes to the run on simulated time
_STATUS_S = 1.5  # in which a status with the last counts comes


@dataclass(frozen=True)
class Run:
    """A campaign on a node of its own."""

    title: str
    faults: Sequence[Fault]
    seconds: float
    simulated_time: bool


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog='flashrt_ros.soak', description=__doc__)
    parser.add_argument('--minutes', type=float, default=10.0, help='every fault comes at least once')
    parser.add_argument('--out', type=Path, default=Path('out/soak'), help='folder of journals and report')
    parser.add_argument('--domain', type=int, default=own_domain(), help='ROS domain with nobody on it')
    options = parser.parse_args(arguments)
    seclude(options.domain)
    # Leaves every context on the way: no process stays behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    console = Console()
    parameters = soak_parameters(soak_values())
    seconds = 60 * options.minutes
    runs = (
        Run('among faults', faults(parameters), (1 - _CLOCK_SHARE) * seconds, False),
        Run('on simulated time', clock_faults(), _CLOCK_SHARE * seconds, True),
    )
    try:
        with spinning_node('soak_lookout') as node:
            refuse_company(node)
    except Error as error:
        Console(stderr=True).print(f'FAILED: {error}', style='bold red', markup=False, highlight=False)
        return 1
    verdicts = []
    for number, run in enumerate(runs, 1):
        verdicts.append(carry_out(run, options.out / f'run_{number}', console))
        show(verdicts[-1], console)
    report = options.out / 'soak.json'
    write_json(verdicts, report)
    console.print(f'report: {report}', highlight=False)
    return 0 if all(verdict.is_well for verdict in verdicts) else 1


def carry_out(run: Run, out: Path, console: Console) -> Verdict:
    """Ends every process that it began, also when it fails; a failure is a finding."""
    out.mkdir(parents=True, exist_ok=True)
    values = soak_values()
    params = out / 'params.yaml'
    write_parameter_file(values, params)
    set_up_transport(params)
    journals = out / 'recorded.jsonl', out / 'happened.jsonl'
    writer = JournalWriter(journals[1])
    sent, cut_off = {}, ()
    try:
        with (
            Child('flashrt_ros.soak.recorder', [str(journals[0])], out / 'recorder.log') as recorder,
            spinning_node('soak_operator') as client,
            LiveRig(client, params, out, simulated_time=run.simulated_time) as rig,
            console.status('the node starts') as status,
        ):
            recorder.ready()
            rig.bring_up()
            Campaign(rig, writer.write).run(run.faults, run.seconds, status.update)
            rig.camera.ask('stall')
            rig.robot.ask('mute')
            time.sleep(_STATUS_S)
            sent = rig.sent()
    except Error as error:
        cut_off = (Finding('the node lives', str(error)),)
    writer.close()
    verdict = judge(run.title, Journal.read(*journals), soak_parameters(values), run.faults, sent)
    return replace(verdict, findings=(*cut_off, *verdict.findings))


if __name__ == '__main__':
    sys.exit(main())
