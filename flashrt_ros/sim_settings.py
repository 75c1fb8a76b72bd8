# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The parameters of the simulated robot: one table, checked when set and read at a reset."""

from collections.abc import Mapping
from dataclasses import dataclass

from flashrt_core.errors import Error
from flashrt_ros.parameter_table import ParameterFaults, TableReader, key
from flashrt_ros.tabletop.tasks import TASKS, read_task
from flashrt_ros.tabletop.variation import CAMERA_RATE_HZ

LOCKSTEP, REAL_TIME = 'lockstep', 'real_time'
FIXED = ('transport', 'camera_rate_hz')  # the topics are made with these


@dataclass(frozen=True)
class SimSettings:
    """What the scene is, and how its time passes."""

    seed: int = key(
        'seed', 'number of the scene; below a million they are for evaluation', default=0, low=0, high=2e9
    )
    task: str = key('task', 'a sentence of the tabletop, which is judged', default=TASKS[0].prompt())
    start: str = key('start', 'where the arm begins', default='home', choices=('home', 'any'))
    pace: str = key(
        'pace',
        'real_time, or lockstep: time waits for commands and chunks',
        default=REAL_TIME,
        choices=(REAL_TIME, LOCKSTEP),
    )
    delay_s: float = key(
        'delay_s',
        'simulated time that an inference takes, in lockstep',
        default=0.0,
        unit='s',
        low=0.0,
        high=2.0,
    )
    transport: str = key('transport', 'how pictures are sent', default='raw', choices=('raw', 'compressed'))
    camera_rate_hz: float = key(
        'camera_rate_hz', 'of both cameras', default=CAMERA_RATE_HZ, unit='Hz', low=1.0, high=50.0
    )


def read_settings(values: Mapping[str, object], source: str) -> SimSettings:
    """Raises ParameterFaults with every fault."""
    reader = TableReader(values)
    read = reader.read(SimSettings)
    faults = [*reader.faults, *reader.unknown()]
    try:
        read_task(read.get('task', TASKS[0].prompt()))
    except Error as fault:
        faults.append(f'task: {fault}')
    if read.get('delay_s') and read.get('pace') == REAL_TIME:
        faults.append('delay_s is for pace: lockstep; in real time an inference takes what it takes')
    if faults:
        raise ParameterFaults(source, faults)
    return SimSettings(**read)
