# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What sensors sent before the newest sample, for policies that look back: as much as they need, no more."""

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from flashrt_core.types import PolicySpec
from flashrt_ros.parameters import Parameters

Item = TypeVar('Item')


@dataclass(frozen=True)
class PastView:
    """A picture of the policy that shows what a camera showed some time ago."""

    slot: str  # the camera
    age_ns: int


@dataclass(frozen=True)
class LookBack:
    """What a policy wants to know of the past, and how exactly."""

    pictures: Mapping[str, PastView] = field(default_factory=dict)  # by the name that the policy gives them
    states_ns: tuple[int, ...] = ()  # ages, oldest first
    tolerance_ns: int = 0  # from the wanted moment to the sample that is taken for it

    @classmethod
    def of(cls, spec: PolicySpec, parameters: Parameters) -> 'LookBack':
        """A step of the training data lasts as long as a row of actions."""
        row_ns = round(parameters.row_period_s * 1e9)
        return cls(
            {name: PastView(past.camera, past.rows * row_ns) for name, past in spec.past_cameras.items()},
            tuple(rows * row_ns for rows in spec.past_states),
            round(parameters.history_tolerance_s * 1e9) or row_ns,
        )

    def of_camera(self, slot: str) -> 'History':
        """An empty history, as long as this camera needs one."""
        ages = [view.age_ns for view in self.pictures.values() if view.slot == slot]
        return History(max(ages, default=0), self.tolerance_ns)

    def of_joint(self) -> 'History':
        return History(max(self.states_ns, default=0), self.tolerance_ns)


NO_PAST = LookBack()


class History(Generic[Item]):
    """Samples of one stream by their stamps, each at least half a tolerance after the one before.

    So it holds a number of them that does not depend on the rate of the stream, and a sample that was left
    out is near one that was not.
    """

    def __init__(self, longest_ns: int, tolerance_ns: int) -> None:
        """longest_ns: the largest age that is asked for; 0: nothing is kept."""
        self._longest_ns, self._tolerance_ns = longest_ns, tolerance_ns
        self._samples: deque[tuple[int, Item]] = deque()

    def __len__(self) -> int:
        return len(self._samples)

    def add(self, stamp_ns: int, item: Item) -> None:
        """Newer than every one before it; drops those too old to be asked for."""
        if not self._longest_ns:
            return
        samples = self._samples
        # One that is asked for is looked for from the newest sample on, which may follow this one closely.
        while samples and samples[0][0] < stamp_ns - self._longest_ns - 2 * self._tolerance_ns:
            samples.popleft()
        if not samples or stamp_ns - samples[-1][0] >= self._tolerance_ns / 2:
            samples.append((stamp_ns, item))

    def drop(self, stamp_ns: int) -> None:
        """Forgets the sample with this stamp."""
        self._samples = deque(sample for sample in self._samples if sample[0] != stamp_ns)

    def clear(self) -> None:
        self._samples.clear()

    def span_ns(self, now_ns: int) -> int:
        """From its oldest sample to now."""
        return now_ns - self._samples[0][0] if self._samples else 0

    def nearest(self, wanted_ns: int, now_ns: int) -> tuple[int, Item] | None:
        """Stamp and sample nearest to a moment, none after `now_ns`; None: not within the tolerance."""
        stamps = [stamp for stamp, _ in self._samples if stamp <= now_ns]
        place = bisect_right(stamps, wanted_ns)
        near = [i for i in (place - 1, place) if 0 <= i < len(stamps)]
        best = min(near, key=lambda i: abs(stamps[i] - wanted_ns), default=None)
        if best is None or abs(stamps[best] - wanted_ns) > self._tolerance_ns:
            return None
        return self._samples[best]
