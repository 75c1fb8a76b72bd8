# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Priority, cores and locked memory: refused plainly without rights, undone at the end; the collector."""

import gc
import json
import os
import subprocess
import sys
import weakref
from dataclasses import replace
from pathlib import Path

import pytest
from fake_policy import parameters
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros import garbage_collector
from flashrt_ros.computer import Prepared, Rights, check, parse_cores, prepare
from flashrt_ros.parameter_table import ParameterFaults

HERE = Path(__file__).resolve().parent
MINE = Rights.of_process()
NOTHING = Rights(
    has_sys_nice=False,
    priority_limit=0,
    has_ipc_lock=False,
    locked_limit_bytes=65536,
    cores=frozenset({0, 1, 2, 3}),
)
may_raise = pytest.mark.skipif(
    not MINE.has_sys_nice and MINE.priority_limit < 10, reason='needs CAP_SYS_NICE or an rtprio limit of 10'
)
may_lock = pytest.mark.skipif(
    not MINE.has_ipc_lock and MINE.locked_limit_bytes is not None,
    reason='needs CAP_IPC_LOCK or an unlimited memlock',
)
# What the children of this test say about themselves, thread by thread.
PRELUDE = """
import json, os, threading
from pathlib import Path
from fake_policy import parameters
from flashrt_ros.computer import Rights, check, prepare

def memory_locked():
    line = next(line for line in open('/proc/self/status') if line.startswith('VmLck'))
    return int(line.split()[1]) > 0

def threads(about):
    return {about(int(name)) for name in os.listdir('/proc/self/task')}

def cores(thread):
    return tuple(sorted(os.sched_getaffinity(thread)))

def policy(thread):
    return os.sched_getscheduler(thread) & ~os.SCHED_RESET_ON_FORK, os.sched_getparam(thread).sched_priority

may_end = threading.Event()
threading.Thread(target=may_end.wait, daemon=True).start()
"""


def in_a_process(code: str) -> object:
    """What `code` leaves in `result`: nothing of the process of the tests is changed."""
    done = subprocess.run(
        [sys.executable, '-c', f'{PRELUDE}{code}\nprint(json.dumps(result))'],
        capture_output=True, text=True, timeout=120,
        env=os.environ | {'PYTHONPATH': os.pathsep.join([str(HERE), os.environ.get('PYTHONPATH', '')])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refusal(rights: Rights, **changes: object) -> str:
    with pytest.raises(ParameterFaults) as refused:
        check(parameters(**changes), rights)
    return str(refused.value)


def test_nothing_asked_for_needs_no_rights_and_changes_nothing():
    before = os.sched_getaffinity(0), os.sched_getscheduler(0)
    prepared = prepare(parameters(), NOTHING)
    prepared.enter_control()
    prepared.lock_memory()
    assert (os.sched_getaffinity(0), os.sched_getscheduler(0)) == before
    prepared.close()
    assert (os.sched_getaffinity(0), os.sched_getscheduler(0)) == before


def test_priority_without_rights_names_right_limit_and_remedy():
    text = refusal(replace(NOTHING, priority_limit=20), computer__priority=50)
    assert 'computer.priority is 50, but this process has no CAP_SYS_NICE and its rtprio limit is 20' in text
    assert 'LimitRTPRIO=50 in its systemd unit' in text
    assert '`echo "$USER - rtprio 50" | sudo tee -a /etc/security/limits.d/flashrt_ros.conf`' in text


def test_locked_memory_without_rights_names_right_limit_and_remedy():
    text = refusal(NOTHING, computer__lock_memory=True)
    assert 'has no CAP_IPC_LOCK and its memlock limit is 65536 bytes, needed unlimited' in text
    assert 'LimitMEMLOCK=infinity' in text
    assert '"$USER - memlock unlimited"' in text


def test_cores_that_do_not_exist_are_refused_with_those_that_do():
    text = refusal(NOTHING, computer__affinity=[3, 4, 11])
    assert 'computer.affinity names the cores 4, 11, but this computer has 0, 1, 2, 3' in text


def test_everything_refused_is_listed_at_once():
    text = refusal(NOTHING, computer__priority=1, computer__lock_memory=True, computer__affinity=[9])
    assert '3 fault(s)' in text


@pytest.mark.parametrize(
    'rights',
    [
        replace(NOTHING, has_sys_nice=True, has_ipc_lock=True),
        replace(NOTHING, priority_limit=50, locked_limit_bytes=None),
    ],
)
def test_capabilities_and_limits_both_allow(rights: Rights):
    wanted = parameters(computer__priority=50, computer__lock_memory=True, computer__affinity=[0, 3])
    check(wanted, rights)


@given(st.sets(st.integers(0, 300), min_size=1))
def test_lists_of_cores_are_read_as_the_kernel_writes_them(cores: set[int]):
    parts, ordered = [], sorted(cores)
    while ordered:
        length = next((i for i, core in enumerate(ordered) if core != ordered[0] + i), len(ordered))
        parts.append(f'{ordered[0]}-{ordered[length - 1]}' if length > 1 else str(ordered[0]))
        ordered = ordered[length:]
    assert parse_cores(','.join(parts) + '\n') == cores


def test_rights_are_those_of_the_process():
    """A user without rights is refused, by what the process may really do."""
    result = in_a_process("""
import resource
for limit in (resource.RLIMIT_RTPRIO, resource.RLIMIT_MEMLOCK):
    resource.setrlimit(limit, (0, 0))
if os.getuid() == 0:
    os.setresuid(65534, 65534, 65534)  # gives all capabilities up
rights = Rights.of_process()
result = [rights.has_sys_nice, rights.priority_limit, rights.has_ipc_lock, rights.locked_limit_bytes]
try:
    prepare(parameters(computer__priority=10, computer__lock_memory=True, computer__affinity=[0]))
except Exception as error:
    result.append(str(error))
result.append(threads(policy) == {(os.SCHED_OTHER, 0)} and len(threads(cores)) == 1)
""")
    assert result[:4] == [False, 0, False, 0]
    assert 'rights of the process: 2 fault(s)' in result[4]
    assert result[5], 'a refusal leaves everything as it was'


def test_all_threads_are_bound_to_the_cores_and_given_back():
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip('one core only: there is nothing to choose')
    before, bound, later, after = in_a_process("""
all_cores = sorted(os.sched_getaffinity(0))
result = [sorted(threads(cores))]
prepared = prepare(parameters(computer__affinity=[all_cores[-1]]))
result.append(sorted(threads(cores)))
threading.Thread(target=may_end.wait, daemon=True).start()
result.append(sorted(threads(cores)))
prepared.close()
prepared.close()
result.append(sorted(threads(cores)))
""")
    mine = sorted(os.sched_getaffinity(0))
    assert before == after == [mine]
    assert bound == later == [[mine[-1]]]


@may_raise
def test_priority_is_that_of_main_and_control_thread_only_and_given_back():
    raised, of_control, of_child, after, late = in_a_process("""
prepared = prepare(parameters(computer__priority=10))
result = [sorted(threads(policy))]

def control():
    prepared.enter_control()
    prepared.enter_control()
    result.append(policy(threading.get_native_id()))
    child = threading.Thread(target=lambda: result.append(policy(threading.get_native_id())))
    child.start()
    child.join()
    may_close.set()
    may_end.wait()

may_close = threading.Event()
threading.Thread(target=control, daemon=True).start()
may_close.wait()
prepared.close()
result.append(sorted(threads(policy)))
prepared.enter_control()  # a tick that was under way
result.append(sorted(threads(policy)))
""")
    ordinary, realtime = [os.SCHED_OTHER, 0], [os.SCHED_FIFO, 10]
    assert raised == [ordinary, realtime]
    assert of_control == realtime
    assert of_child == ordinary
    assert after == late == [ordinary]


@may_lock
def test_memory_is_locked_after_loading_and_given_back():
    assert in_a_process("""
prepared = prepare(parameters(computer__lock_memory=True))
result = [memory_locked()]
prepared.lock_memory()
result.append(memory_locked())
prepared.close()
result.append(memory_locked())
""") == [False, True, False]


def test_what_fails_halfway_is_undone(monkeypatch):
    """As in a container whose control group has no real-time budget."""
    before = os.sched_getaffinity(0)

    def refuse(*_: object) -> None:
        raise PermissionError(1, 'Operation not permitted')

    monkeypatch.setattr(os, 'sched_setscheduler', refuse)
    with pytest.raises(Exception, match=r'computer.priority is 10, .* control group has no real-time budget'):
        Prepared(10, frozenset({min(before)}), False)
    assert os.sched_getaffinity(0) == before


def test_cores_outside_of_the_cpuset_are_refused():
    """The kernel drops them without a word."""
    before = os.sched_getaffinity(0)
    outside = max(before) + 1
    with pytest.raises(Exception, match=rf'only use {min(before)} of them \(its cpuset\)'):
        Prepared(0, frozenset({min(before), outside}), False)
    with pytest.raises(Exception, match=rf'refuses the cores {outside} '):
        Prepared(0, frozenset({outside}), False)
    assert os.sched_getaffinity(0) == before


class Node:
    """Something with a cycle in it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def frozen():
    """With what is garbage now gone, and the collector as it was afterwards."""
    yield
    garbage_collector.unfreeze()
    gc.enable()


def test_what_exists_is_frozen_and_what_comes_later_is_collected(frozen):
    assert gc.get_freeze_count() == 0
    early = Node()
    garbage, _ = weakref.ref(Node()), gc.disable()
    garbage_collector.freeze()
    gc.enable()
    assert garbage() is None, 'garbage must not become permanent'
    assert gc.get_freeze_count() > 1000
    late, early = weakref.ref(Node()), weakref.ref(early)
    gc.collect()
    assert late() is None
    assert early() is not None
    garbage_collector.unfreeze()
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert early() is None, 'cleanup frees it'
