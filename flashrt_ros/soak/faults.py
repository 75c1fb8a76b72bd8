# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The faults of the soak run: how each is brought about and ended, and what the node must do about it."""

import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from flashrt_ros.parameters import Parameters
from flashrt_ros.soak.child import Child
from flashrt_ros.soak.configuration import JOINT_TOPIC, JPEG_CAMERA, RAW_CAMERA, STUB

CLOCK_JUMP_S = 60.0
_DEAD_S = 0.2  # for the node to be told, to be at the end of an inference, and to have a new picture


class Rig(Protocol):
    """What faults are made with. Times are those of the system clock."""

    camera: Child
    robot: Child

    def now_ns(self) -> int: ...

    def fail(self, text: str) -> int:
        """Tells the stub policy to fail."""

    def press(self, is_pressed: bool) -> int:
        """The stop button, which is pressed or free from now on."""

    def let_go(self, is_silent: bool) -> int:
        """The publisher of the stop button falls silent, since its last message, or speaks again."""

    def other_prompt(self) -> int: ...

    def end_robot(self) -> int:
        """Ends the process of the robot; since its last joint states."""

    def begin_robot(self) -> int:
        """A new process goes on from the same position."""

    def shift_clock(self, seconds: float) -> int:
        """Sets simulated time and all stamps forward or back."""


Act = Callable[[Rig], int]  # returns when it took effect


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One kind of fault.

    Where there is a reaction, the node must hold within `reaction_s` and a control period after `begin` took
    effect. After that the robot may be moved by fresh chunks only: formed from data that came after `end`, of
    the new prompt, or begun after the start where that is needed; begun after `begin` in the other cases.
    """

    name: str
    what: str  # in words, for the table
    seconds: float  # from begin to end
    begin: Act
    end: Act
    reaction_s: float | None = None  # None: the motion may go on
    streams: tuple[str, ...] = ()  # whose data are bad
    is_stopping: bool = False  # it ends commanding: ~/start is needed
    is_latching: bool = False  # ~/estop_reset as well
    is_new_prompt: bool = False
    is_sudden: bool = False  # the node is told, it need not wait until data are too old
    is_outside: bool = False  # chunks lead beyond the limits
    is_jump: bool = False  # of the clock that controllers run on


def _camera(line: str) -> Act:
    return lambda rig: rig.camera.ask(line)['now_ns']


def _robot(line: str) -> Act:
    return lambda rig: rig.robot.ask(line)['now_ns']


def _last_of_camera(line: str) -> Act:
    """In effect since the last picture."""
    return lambda rig: rig.camera.ask(line)['last_ns']


def _last_of_robot(line: str) -> Act:
    return lambda rig: rig.robot.ask(line)['last_ns']


def _policy(text: str) -> Act:
    return lambda rig: rig.fail(text)


def _nothing(rig: Rig) -> int:
    return rig.now_ns()


def _signal_camera(number: int) -> Act:
    def act(rig: Rig) -> int:
        before_ns = rig.now_ns()
        rig.camera.signal(number)
        return before_ns

    return act


def faults(parameters: Parameters) -> list[Fault]:
    """Those of a run on the system clock, with the limits of the parameters."""
    camera_s, joint_s = parameters.camera_max_age_s, parameters.joint_max_age_s
    inference_s = (STUB.latency_ms + STUB.jitter_ms) / 1e3
    # The last chunk that was formed before ends the motion.
    chunk_s = STUB.horizon * parameters.row_period_s + inference_s + _DEAD_S
    short_s = 0.5 + camera_s
    long_s = 1.0 + camera_s + parameters.starvation_limit_s
    both = (RAW_CAMERA, JPEG_CAMERA)
    return [
        Fault(
            name='camera stall',
            what='both cameras send nothing for a while',
            seconds=short_s,
            begin=_last_of_camera('stall'),
            end=_camera('go'),
            reaction_s=camera_s,
            streams=both,
        ),
        Fault(
            name='frame storm',
            what='both cameras send ten times as many pictures',
            seconds=1.5,
            begin=_camera('storm'),
            end=_camera('calm'),
        ),
        Fault(
            name='some JPEG damaged',
            what='every third JPEG is cut short',
            seconds=1.5,
            begin=_camera('damage 3'),
            end=_camera('damage 0'),
        ),
        Fault(
            name='all JPEG damaged',
            what='every JPEG is cut short',
            seconds=short_s,
            begin=_last_of_camera('damage 1'),
            end=_camera('damage 0'),
            reaction_s=camera_s,
            streams=(JPEG_CAMERA,),
        ),
        Fault(
            name='joint drop-out',
            what='the arm sends no joint states, the hand does',
            seconds=0.5 + joint_s,
            begin=_last_of_robot('mute'),
            end=_robot('go'),
            reaction_s=joint_s,
            streams=(JOINT_TOPIC,),
        ),
        Fault(
            name='NaN joint',
            what='one joint of the arm is no number',
            seconds=0.5 + joint_s,
            begin=_last_of_robot('nan'),
            end=_robot('go'),
            reaction_s=joint_s,
            streams=(JOINT_TOPIC,),
        ),
        Fault(
            name='stamps ahead',
            what='the clock of the cameras is an hour fast',
            seconds=short_s,
            begin=_last_of_camera('shift 3600'),
            end=_camera('shift 0'),
            reaction_s=camera_s,
            streams=both,
        ),
        Fault(
            name='stamps behind',
            what='the clock of the cameras is an hour slow',
            seconds=short_s,
            begin=_last_of_camera('shift -3600'),
            end=_camera('shift 0'),
            reaction_s=camera_s,
            streams=both,
        ),
        Fault(
            name='stop pressed',
            what='true on the stop topic, later false; then ~/estop_reset and ~/start',
            seconds=0.7,
            begin=lambda rig: rig.press(True),
            end=lambda rig: rig.press(False),
            reaction_s=0.0,
            is_stopping=True,
            is_latching=True,
            is_sudden=True,
        ),
        Fault(
            name='stop silent',
            what='the required stop topic falls silent',
            seconds=0.7 + parameters.estop_timeout_s,
            begin=lambda rig: rig.let_go(True),
            end=lambda rig: rig.let_go(False),
            reaction_s=parameters.estop_timeout_s,
            is_stopping=True,
            is_latching=True,
        ),
        Fault(
            name='prompt change',
            what='another task while in motion',
            seconds=0.5,
            begin=lambda rig: rig.other_prompt(),
            end=_nothing,
            reaction_s=inference_s,  # taken between two inferences
            is_new_prompt=True,
            is_sudden=True,
        ),
        Fault(
            name='inference spike',
            what='one inference takes 1.2 s, longer than a chunk lasts',
            seconds=1.5,
            begin=_policy('spike 1 1.2'),
            end=_nothing,
            reaction_s=chunk_s,
        ),
        Fault(
            name='inference throws',
            what='every inference fails, until commanding ends',
            seconds=chunk_s + 1.0 + parameters.starvation_limit_s,
            begin=_policy('throw 1000'),
            end=_policy('throw 0'),
            reaction_s=chunk_s,
            is_stopping=True,
        ),
        Fault(
            name='NaN chunk',
            what='one chunk holds a value that is no number',
            seconds=0.3,
            begin=_policy('nan 1'),
            end=_nothing,
        ),
        Fault(
            name='NaN chunks',
            what='more of them in a row than are tolerated',
            seconds=1.0,
            begin=_policy(f'nan {parameters.max_bad_chunks}'),
            end=_nothing,
            reaction_s=(parameters.max_bad_chunks + 1) * (inference_s + _DEAD_S),
            is_stopping=True,
        ),
        Fault(
            name='rows outside limits',
            what='a quarter of the rows of some chunks is far beyond the limits',
            seconds=0.5,
            begin=_policy('outside 3'),
            end=_nothing,
            is_outside=True,
        ),
        Fault(
            name='robot restarts',
            what='the process that takes the commands ends, and another one goes on',
            seconds=0.5,
            begin=lambda rig: rig.end_robot(),
            end=lambda rig: rig.begin_robot(),
            reaction_s=joint_s,
            streams=(JOINT_TOPIC,),
        ),
        Fault(
            name='camera stopped',
            what='SIGSTOP and SIGCONT for the process of the cameras, until commanding ends',
            seconds=long_s,
            begin=_signal_camera(signal.SIGSTOP),
            end=_signal_camera(signal.SIGCONT),
            reaction_s=camera_s,
            streams=both,
            is_stopping=True,
        ),
    ]


def clock_faults() -> list[Fault]:
    """Those of a run on simulated time."""
    return [
        Fault(
            name=f'clock {direction}',
            what=f'simulated time and all stamps jump by {seconds:g} s',
            seconds=0.5,
            begin=lambda rig, seconds=seconds: rig.shift_clock(seconds),
            end=_nothing,
            reaction_s=0.0,
            is_sudden=True,
            is_jump=True,
        )
        for direction, seconds in (('forward', CLOCK_JUMP_S), ('back', -CLOCK_JUMP_S))
    ]
