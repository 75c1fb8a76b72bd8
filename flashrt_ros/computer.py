# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""How the process runs on its computer: priority, processor cores, memory that stays; undone at the end."""

import contextlib
import ctypes
import os
import resource
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from flashrt_core.errors import Error
from flashrt_ros.parameter_table import ParameterFaults
from flashrt_ros.parameters import Parameters

_CAP_IPC_LOCK, _CAP_SYS_NICE = 14, 23  # bits, from linux/capability.h
# Of mlockall. On fault: a page is locked once it is used. Without it the whole of every mapping would be
# brought into memory, and the CUDA driver reserves addresses by the terabyte.
_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4
_ONLINE = Path('/sys/devices/system/cpu/online')
_LIMITS_FILE = '/etc/security/limits.d/flashrt_ros.conf'


@dataclass(frozen=True)
class Rights:
    """What this process may do."""

    has_sys_nice: bool  # capability
    priority_limit: int  # rtprio: the highest SCHED_FIFO priority without the capability
    has_ipc_lock: bool  # capability
    locked_limit_bytes: int | None  # memlock, without the capability; None: unlimited
    cores: frozenset[int]  # that are online

    @classmethod
    def of_process(cls) -> 'Rights':
        capabilities = _effective_capabilities()
        locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
        priority = resource.getrlimit(resource.RLIMIT_RTPRIO)[0]
        return cls(
            has_sys_nice=bool(capabilities >> _CAP_SYS_NICE & 1),
            priority_limit=99 if priority == resource.RLIM_INFINITY else priority,
            has_ipc_lock=bool(capabilities >> _CAP_IPC_LOCK & 1),
            locked_limit_bytes=None if locked == resource.RLIM_INFINITY else locked,
            cores=frozenset(parse_cores(_ONLINE.read_text())),
        )


def check(parameters: Parameters, rights: Rights) -> None:
    """Raises ParameterFaults with everything that is asked for and not allowed, and what allows it."""
    faults = []
    if missing := set(parameters.affinity) - rights.cores:
        faults.append(
            f'computer.affinity names the cores {_listed(missing)}, but this computer has '
            f'{_listed(rights.cores)}'
        )
    wanted = parameters.priority
    if wanted > rights.priority_limit and not rights.has_sys_nice:
        faults.append(
            f'computer.priority is {wanted}, but this process has no CAP_SYS_NICE and its rtprio limit is '
            f'{rights.priority_limit}; {_remedy("LimitRTPRIO", "rtprio", str(wanted))}'
        )
    if parameters.lock_memory and rights.locked_limit_bytes is not None and not rights.has_ipc_lock:
        faults.append(
            'computer.lock_memory is true, but this process has no CAP_IPC_LOCK and its memlock limit is '
            f'{rights.locked_limit_bytes} bytes, needed unlimited; '
            + _remedy('LimitMEMLOCK', 'memlock', 'infinity')
        )
    if faults:
        raise ParameterFaults('rights of the process', faults)


def prepare(parameters: Parameters, rights: Rights | None = None) -> 'Prepared':
    """Before the model is loaded: checks all rights, then binds the process to its cores.

    The threads that the engine starts are as many as the cores, so they must be chosen first. Priority and
    locked memory come later, by enter_control() and lock_memory() of the result; close() undoes everything.
    Raises ParameterFaults without rights, and Error where the kernel refuses all the same.
    """
    check(parameters, rights or Rights.of_process())
    return Prepared(parameters.priority, frozenset(parameters.affinity), parameters.lock_memory)


class Prepared:
    """What was changed about this process, and how it was before."""

    def __init__(self, priority: int, cores: frozenset[int], lock_memory: bool) -> None:
        self._priority, self._lock_memory = priority, lock_memory
        self._is_locked = self._is_closed = False
        # Of the main thread, and of those that begin later.
        self._cores_before = os.sched_getaffinity(os.getpid())
        self._affinities: dict[int, set[int]] = {}  # thread -> cores before
        self._schedules: dict[int, tuple[int, os.sched_param]] = {}  # thread -> policy before
        self._guard = threading.Lock()
        try:
            if cores:
                self._bind(cores)
            if priority:
                self._raise_thread(os.getpid())  # the main thread wakes the others
        except BaseException:
            self.close()
            raise

    def enter_control(self) -> None:
        """At the beginning of each control tick: the thread that runs it gets the priority, once.

        A thread that waits for Python's interpreter lock waits for whoever holds it, whatever its priority.
        """
        thread = threading.get_native_id()
        if self._priority and thread not in self._schedules:
            self._raise_thread(thread)

    def lock_memory(self) -> None:
        """Once the model is loaded and warm, if asked for: what is in memory now or comes later stays there.

        Not earlier: of the checkpoint, which is mapped to be read, no more than the working copy is to stay.
        """
        if self._lock_memory:
            _memory_call('mlockall', _MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT)
            self._is_locked = True

    def close(self) -> None:
        """Everything as before; may be called twice."""
        if self._is_locked:
            _memory_call('munlockall')
            self._is_locked = False
        with self._guard:
            self._is_closed = True
            alive = set(_threads())
            for thread, (policy, parameter) in self._schedules.items():
                if thread in alive:
                    # The mark stays: to remove it takes a right that was not needed to set it. It only says
                    # that new threads begin with the ordinary policy, which this is again.
                    _set_schedule(thread, policy | os.SCHED_RESET_ON_FORK, parameter)
            self._schedules.clear()
            if self._affinities:
                for thread in alive:
                    _set_cores(thread, self._affinities.get(thread, self._cores_before))
                self._affinities.clear()

    def _bind(self, cores: frozenset[int]) -> None:
        # Threads that begin meanwhile may have the cores of a thread that was not reached yet.
        while waiting := set(_threads()) - set(self._affinities):
            for thread in waiting:
                try:
                    self._affinities[thread] = os.sched_getaffinity(thread)
                except ProcessLookupError:  # ended meanwhile
                    continue
                _set_cores(thread, cores)
        if (allowed := os.sched_getaffinity(0)) != cores:
            raise Error(
                f'computer.affinity is {_listed(cores)}, but the container or service of this process may '
                f'only use {_listed(allowed)} of them (its cpuset)'
            )

    def _raise_thread(self, thread: int) -> None:
        with self._guard:
            if self._is_closed:  # a tick that was under way
                return
            self._schedules[thread] = os.sched_getscheduler(thread), os.sched_getparam(thread)
            try:
                # Threads that it starts, as that of inference, do not inherit the priority.
                policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
                os.sched_setscheduler(thread, policy, os.sched_param(self._priority))
            except PermissionError as error:
                del self._schedules[thread]
                raise Error(
                    f'computer.priority is {self._priority}, and the kernel refuses it although this process '
                    f'has the right ({error.strerror}): its control group has no real-time budget '
                    '(cpu.rt_runtime_us); run it outside of the container or give the group one'
                ) from error


def parse_cores(text: str) -> set[int]:
    """'0-2,5' -> {0, 1, 2, 5}: how the kernel lists processors."""
    cores: set[int] = set()
    for part in text.strip().split(','):
        first, _, last = part.partition('-')
        cores |= set(range(int(first), int(last or first) + 1))
    return cores


def _threads() -> list[int]:
    return [int(name) for name in os.listdir('/proc/self/task')]


def _set_cores(thread: int, cores: Iterable[int]) -> None:
    try:
        os.sched_setaffinity(thread, cores)
    except ProcessLookupError:  # ended meanwhile
        pass
    except OSError as error:
        raise Error(
            f'computer.affinity: the kernel refuses the cores {_listed(cores)} ({error.strerror}): the '
            'container or service of this process may use none of them (its cpuset)'
        ) from error


def _set_schedule(thread: int, policy: int, parameter: os.sched_param) -> None:
    with contextlib.suppress(ProcessLookupError):  # ended meanwhile
        os.sched_setscheduler(thread, policy, parameter)


def _memory_call(name: str, *arguments: int) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        raise Error(f'computer.lock_memory: {name} failed: {os.strerror(ctypes.get_errno())}')


def _effective_capabilities() -> int:
    for line in Path('/proc/self/status').read_text().splitlines():
        name, _, value = line.partition(':')
        if name == 'CapEff':
            return int(value, 16)
    return 0  # a kernel without capabilities


def _remedy(unit: str, limit: str, value: str) -> str:
    shown = 'unlimited' if value == 'infinity' else value
    return (
        f'allow it with {unit}={value} in its systemd unit, or with '
        f'`echo "$USER - {limit} {shown}" | sudo tee -a {_LIMITS_FILE}` and a new login'
    )


def _listed(cores: Iterable[int]) -> str:
    return ', '.join(map(str, sorted(cores)))
