# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""One embodiment of a GR00T checkpoint: its slot in the model, its keys and its statistics."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error
from flashrt_core.groot.processor import PROCESSOR_FILE, Modalities, Processor, read_processor
from flashrt_core.json_fields import Fields, read_object
from flashrt_core.small_file import read_small_file

STATISTICS_FILE, EMBODIMENTS_FILE = 'statistics.json', 'embodiment_id.json'
_MOST_SLOTS = 1 << 10
# Slots of tags that embodiment_id.json may leave out.
_KNOWN_SLOTS: Mapping[str, int] = {
    'oxe_google': 0,
    'oxe_widowx': 1,
    'libero_panda': 2,
    'unitree_g1': 8,
    'new_embodiment': 10,
    'robocasa_panda_omron': 13,
    'oxe_droid': 16,
    'gr1': 20,
    'behavior_r1_pro': 24,
}


@dataclass(frozen=True, eq=False)
class KeyStatistics:
    """Statistics of one key, in robot units; each kind is one row, or one per future step."""

    place: str  # file, tag, group and key, for messages
    fields: Fields
    axes: int  # 1: [columns], 2: [rows, columns]

    def get(self, kind: str) -> NDArray[np.float64]:
        values = self.fields.numbers(kind, self.axes)
        if not values.size:
            raise Error(f"{self.place}: '{kind}' is empty")
        return values

    @property
    def columns(self) -> int:
        """By min, which every file has."""
        return self.get('min').shape[-1]

    def bounds(self, low: str, high: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Two kinds of the same shape, the first nowhere above the second."""
        first, second = self.get(low), self.get(high)
        if first.shape != second.shape or (first > second).any():
            raise Error(
                f"{self.place}: '{low}' {list(first.shape)} and '{high}' {list(second.shape)} must have the "
                'same shape, and the first must not be larger'
            )
        return first, second


@dataclass(frozen=True, eq=False)
class Embodiment:
    """What the files of a checkpoint say about one robot."""

    tag: str
    slot: int
    processor: Processor
    modalities: Modalities
    sources: Mapping[str, str]  # for people
    _statistics: Fields

    @property
    def horizon(self) -> int:
        """Rows of a chunk."""
        return len(self.modalities.action.delta_indices)

    def statistics(self, group: str, key: str) -> KeyStatistics:
        """group: state, action or relative_action."""
        keys = self._statistics.child(group)
        return KeyStatistics(
            f'{keys.place}: {key}', keys.child(key), axes=2 if group == 'relative_action' else 1
        )


def read_embodiment(checkpoint: Path, tag: str, processor_file: str = PROCESSOR_FILE) -> Embodiment:
    """Reads the files of the checkpoint; the tag must be in all of them."""
    processor = read_processor(checkpoint / processor_file)
    statistics = read_object(checkpoint / STATISTICS_FILE)
    slots = read_object(checkpoint / EMBODIMENTS_FILE)
    known = {*slots, *_KNOWN_SLOTS}
    available = sorted(known & {*processor.tags} & {*statistics})
    if tag not in available:
        missing = [
            name
            for name, tags in (
                (processor_file, processor.tags),
                (STATISTICS_FILE, statistics),
                (EMBODIMENTS_FILE, known),
            )
            if tag not in tags
        ]
        raise Error(
            f"embodiment_tag '{tag}' is not in {', '.join(missing)} of {checkpoint}; available are "
            f'{available or "none"}'
        )
    slot = slots.integer(tag, 0, _MOST_SLOTS) if tag in slots else _KNOWN_SLOTS[tag]
    return Embodiment(
        tag=tag,
        slot=slot,
        processor=processor,
        modalities=processor.modalities(tag),
        sources={
            'embodiment': f'{tag}, slot {slot}',
            'statistics': str(checkpoint / STATISTICS_FILE),
            'statistics_sha256': hashlib.sha256(read_small_file(checkpoint / STATISTICS_FILE)).hexdigest(),
            'processor_sha256': hashlib.sha256(read_small_file(processor.path)).hexdigest(),
        },
        _statistics=statistics.child(tag),
    )
