# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Episodes to numbers: success, time, jumps and which cube was taken for which."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashrt_ros.tabletop.evaluation import Condition, Episode, Results
from flashrt_ros.tabletop.proportion import Proportion
from flashrt_ros.tabletop.tasks import COLOURS, KINDS

NOTHING = 'none'  # the last column of a confusion matrix
ACTED_ON = (*COLOURS, NOTHING)


@dataclass(frozen=True, eq=False)
class Summary:
    """Of the episodes of one kind of task under one condition; at least one episode."""

    condition: Condition
    kind: str
    success: Proportion
    by_wording: dict[int, Proportion]
    median_s: float | None  # of the successes; None: there is none
    jump_95: float | None  # rad; None: no chunk followed another
    jump_max: float | None
    underruns: int
    confusion: NDArray[np.int64]  # [asked for, acted on] in the order of COLOURS and ACTED_ON
    inference_ms: float | None  # median

    @property
    def is_another_cube(self) -> int:
        """Episodes in which something was done with a cube that was not asked for."""
        return int(self.confusion[:, : len(COLOURS)].sum() - np.trace(self.confusion))

    def content(self) -> dict[str, Any]:
        """For JSON."""
        low, high = self.success.interval()
        return {
            'kind': self.kind,
            'successes': self.success.successes,
            'tried': self.success.tried,
            'interval': [round(low, 5), round(high, 5)],
            'by_wording': {
                str(wording): [one.successes, one.tried] for wording, one in self.by_wording.items()
            },
            'median_s': _rounded(self.median_s, 3),
            'jump_95': _rounded(self.jump_95, 6),
            'jump_max': _rounded(self.jump_max, 6),
            'underruns': self.underruns,
            'confusion': {
                asked: dict(zip(ACTED_ON, row.tolist(), strict=True))
                for asked, row in zip(COLOURS, self.confusion, strict=True)
            },
            'inference_ms': _rounded(self.inference_ms, 2),
        }


def summarise(results: Results) -> list[Summary]:
    """By condition and kind, in their order."""
    return list(_summaries(results))


def _summaries(results: Results) -> Iterator[Summary]:
    for condition, episodes in results.items():
        for kind in KINDS:
            of_kind = [episode for episode in episodes if episode.assignment.task.kind == kind]
            if of_kind:
                yield _summary(condition, kind, of_kind)


def _summary(condition: Condition, kind: str, episodes: Sequence[Episode]) -> Summary:
    times = [episode.time_s for episode in episodes if episode.is_success]
    jumps = np.concatenate([episode.jumps for episode in episodes])
    inference = np.concatenate([episode.inference_ms for episode in episodes])
    wordings = sorted({episode.assignment.wording for episode in episodes})
    return Summary(
        condition=condition,
        kind=kind,
        success=_proportion(episodes),
        by_wording={
            wording: _proportion([one for one in episodes if one.assignment.wording == wording])
            for wording in wordings
        },
        median_s=float(np.median(times)) if times else None,
        jump_95=float(np.percentile(jumps, 95)) if len(jumps) else None,
        jump_max=float(jumps.max()) if len(jumps) else None,
        underruns=sum(episode.underruns for episode in episodes),
        confusion=confusion(episodes),
        inference_ms=float(np.median(inference)) if len(inference) else None,
    )


def confusion(episodes: Sequence[Episode]) -> NDArray[np.int64]:
    """[asked for, acted on] in the order of COLOURS and ACTED_ON."""
    counts = np.zeros((len(COLOURS), len(ACTED_ON)), np.int64)
    for episode in episodes:
        counts[episode.assignment.task.block_index, ACTED_ON.index(episode.acted_on or NOTHING)] += 1
    return counts


def _proportion(episodes: Sequence[Episode]) -> Proportion:
    return Proportion(sum(episode.is_success for episode in episodes), len(episodes))


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
