# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What simulated time waits for, so that a slow computer changes nothing about what the robot does.

Two things: the next command of every controller that was commanded before, once its period has passed; and
the chunk that answers the observation which the policy works on, once the wanted delay has passed. Times are
of the simulation; whoever waits in vain gives up by the clock on the wall.
"""

COMMANDS, ANSWER = 'commands', 'answer'


class Lockstep:
    """All times in ns."""

    def __init__(self, command_period_ns: int, observation_period_ns: int, delay_ns: int) -> None:
        self._command_period_ns = command_period_ns
        self._observation_period_ns = observation_period_ns
        self._delay_ns = delay_ns
        self.reset()

    def reset(self) -> None:
        """Nobody has commanded or answered yet."""
        self._due_ns: dict[str, int] = {}  # controller -> when its next command must be there
        self._is_answering = False
        self._first_ns: int | None = None  # pictures
        self._newest_ns = 0  # pictures
        self._begun_ns: int | None = None  # when the inference under way began
        self.answers = 0  # chunks that were heard
        self.delays_ns: list[int] = []  # from the begin of each inference to its chunk

    @property
    def is_engaged(self) -> bool:
        """Whether there is somebody to wait for."""
        return bool(self._due_ns) or self._is_answering

    def expect(self, controller: str, now_ns: int) -> None:
        """A command that belongs to this moment; nothing new where it is waited for already."""
        self._due_ns.setdefault(controller, now_ns)

    def commanded(self, controller: str, now_ns: int) -> None:
        self._due_ns[controller] = now_ns + self._command_period_ns

    def observed(self, now_ns: int) -> None:
        """Pictures were sent."""
        self._newest_ns = now_ns
        if self._first_ns is None:
            self._first_ns = now_ns
        if self._is_answering and self._begun_ns is None:
            self._begun_ns = now_ns

    def answered(self, stamp_ns: int, now_ns: int) -> None:
        """stamp_ns: of the pictures of the chunk, or a little before them."""
        if self._first_ns is None or self._is_older(stamp_ns, self._first_ns):  # from before the reset
            return
        if self._begun_ns is not None:
            self.delays_ns.append(now_ns - self._begun_ns)
        self._is_answering = True
        self.answers += 1
        # The policy goes on with the newest pictures, unless it has just answered them.
        self._begun_ns = now_ns if self._is_older(stamp_ns, self._newest_ns) else None

    def _is_older(self, stamp_ns: int, pictures_ns: int) -> bool:
        return stamp_ns <= pictures_ns - self._observation_period_ns

    def waits_for(self, now_ns: int) -> str:
        """COMMANDS, ANSWER, or nothing: time may pass."""
        if any(now_ns >= due_ns for due_ns in self._due_ns.values()):
            return COMMANDS
        if self._begun_ns is not None and now_ns >= self._begun_ns + self._delay_ns:
            return ANSWER
        return ''

    def give_up(self, now_ns: int) -> str:
        """Stops waiting for what is missing, until it is heard again; says what that was."""
        what = self.waits_for(now_ns)
        if what == COMMANDS:
            late = sorted(name for name, due_ns in self._due_ns.items() if now_ns >= due_ns)
            for name in late:
                del self._due_ns[name]
            return f'no command of {" and ".join(late)}'
        self._is_answering, self._begun_ns = False, None
        return 'no chunk that answers the newest pictures'
