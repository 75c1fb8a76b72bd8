# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Judges what the node did about each fault: held in time, moved on fresh data only, moved again.

A command counts from when the node gave it to the middleware, which has hiccups of its own.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flashrt_ros.parameters import Parameters
from flashrt_ros.soak.evidence import Seen, start_ns, stream_stamp_ns
from flashrt_ros.soak.faults import Fault
from flashrt_ros.soak.journal import Happening, Journal, SentChunk
from flashrt_ros.soak.verdict import Finding, Trials

# Control periods that a reaction may take in a live run; the exact rule, one, is tested on a fake clock.
SLACK = 10
RESUME_S = 10.0


@dataclass(frozen=True)
class Episode:
    """One fault, from its begin to the begin of the next one."""

    fault: Fault
    begin_ns: int
    end_ns: int
    started_ns: int | None  # ~/start was called
    prompt_id: int | None  # of the last chunk before
    commands: Sequence[Seen]

    @property
    def free_ns(self) -> int:
        """From when on the robot may move again."""
        if self.fault.is_stopping:
            return self.end_ns if self.started_ns is None else self.started_ns
        return self.end_ns if self.fault.streams else self.begin_ns

    def after_s(self, seen: Seen) -> float:
        return (seen.command.sent_ns - self.begin_ns) / 1e9

    def is_old(self, seen: Seen) -> bool:
        """Whether a command moves the robot on what was known before the fault was over."""
        if seen.is_hold:
            return False
        is_early = seen.command.sent_ns < self.free_ns
        return is_early or (seen.played is not None and not self._is_fresh(seen.played.chunk))

    def _is_fresh(self, chunk: SentChunk) -> bool:
        if self.fault.is_new_prompt:
            return chunk.prompt_id != self.prompt_id
        if self.fault.streams and not self.fault.is_stopping:
            # Between begin and end there are no good data: what is not from before is from after.
            middle_ns = (self.begin_ns + self.end_ns) // 2
            return all(stream_stamp_ns(chunk, name) > middle_ns for name in self.fault.streams)
        return start_ns(chunk) >= self.free_ns


def judge_episodes(
    journal: Journal, commands: Sequence[Seen], parameters: Parameters, faults: Sequence[Fault]
) -> tuple[tuple[Trials, ...], list[Finding]]:
    """commands: those of the arm."""
    period_s = 1 / parameters.control_rate_hz
    trials = {fault.name: Trials(fault.name) for fault in faults}
    for fault in faults:
        if fault.reaction_s is not None:
            trials[fault.name].bound_s = fault.reaction_s + period_s
            trials[fault.name].live_bound_s = fault.reaction_s + SLACK * period_s
    findings = []
    for episode in _episodes(journal, commands, faults):
        findings += _episode_faults(episode, trials[episode.fault.name])
    for item in trials.values():
        if not item.count:
            findings.append(Finding('every fault is tried', f'{item.fault} never was'))
    return tuple(trials.values()), findings


def _episodes(journal: Journal, commands: Sequence[Seen], faults: Sequence[Fault]) -> Iterator[Episode]:
    known = {fault.name: fault for fault in faults}
    groups: list[dict[str, Happening]] = []
    for item in journal.happenings:
        if item.what == 'begin':
            groups.append({})
        groups[-1][item.what] = item
    for group, following in itertools.zip_longest(groups, groups[1:]):
        if 'end' not in group:  # the run was cut off
            continue
        begin_ns = group['begin'].at_ns
        next_ns = following['begin'].at_ns if following else math.inf
        prompts = [chunk.prompt_id for chunk in journal.chunks if chunk.received_ns < begin_ns]
        yield Episode(
            known[group['begin'].fault],
            begin_ns,
            group['end'].at_ns,
            group['start'].at_ns if 'start' in group else None,
            prompts[-1] if prompts else None,
            [seen for seen in commands if begin_ns <= seen.command.sent_ns < next_ns],
        )


def _episode_faults(episode: Episode, trials: Trials) -> Iterator[Finding]:
    """Adds the times to `trials`."""
    fault = episode.fault
    trials.count += 1
    if fault.is_stopping and episode.started_ns is None:
        yield Finding('commanding ends', f'{fault.name}: it went on, or ~/start was refused')
    if not fault.is_stopping and episode.started_ns is not None:
        yield Finding('commanding goes on', f'{fault.name}: motion came back with ~/start only')
    free_ns = episode.free_ns
    if fault.reaction_s is not None:
        reaction = _reaction(episode, trials.live_bound_s)
        if reaction is None:
            yield Finding('reaction', f'{fault.name}: the robot was never held')
            return
        trials.reaction_s.append(episode.after_s(reaction))
        if trials.reaction_s[-1] > trials.live_bound_s:
            yield Finding(
                'reaction',
                f'{fault.name}: held {trials.reaction_s[-1]:.3f} s after it began, '
                f'allowed: {trials.live_bound_s:.3f} s',
            )
        yield from _old_data(episode, reaction)
        free_ns = max(free_ns, reaction.command.sent_ns)
    moves = next((seen for seen in episode.commands if _moves_since(seen, free_ns)), None)
    if moves is None or moves.command.sent_ns > free_ns + RESUME_S * 1e9:
        yield Finding('motion comes back', f'{fault.name}: not within {RESUME_S:g} s')
    elif fault.reaction_s is not None:
        trials.resume_s.append((moves.command.sent_ns - free_ns) / 1e9)


def _reaction(episode: Episode, live_bound_s: float) -> Seen | None:
    """The first hold; where data grow old, the first one after which nothing old is sent within the bound.

    Until then the data are still good, and a busy machine may hold the robot for a moment without any fault.
    """
    commands = episode.commands
    if not episode.fault.is_sudden:
        old = [
            i
            for i, seen in enumerate(commands)
            if episode.after_s(seen) <= live_bound_s and episode.is_old(seen)
        ]
        commands = commands[old[-1] :] if old else commands
    return next((seen for seen in commands if seen.is_hold), None)


def _old_data(episode: Episode, reaction: Seen) -> Iterator[Finding]:
    for seen in episode.commands:
        if seen.command.sent_ns > reaction.command.sent_ns and episode.is_old(seen):
            source = f'a row of chunk {seen.played.chunk.chunk_id}' if seen.played else 'no row of any chunk'
            yield Finding(
                'old data',
                f'{episode.fault.name}: {episode.after_s(seen):.3f} s after the begin and after the reaction '
                f'a command moves the robot, before the node could be sure again: {source}',
            )


def _moves_since(seen: Seen, since_ns: int) -> bool:
    return seen.command.sent_ns >= since_ns and not seen.is_hold and seen.played is not None
