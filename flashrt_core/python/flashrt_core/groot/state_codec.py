# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The state of a robot as a GR00T model takes it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error
from flashrt_core.groot.embodiment import Embodiment
from flashrt_core.groot.scaling import MeanStd, Range


@dataclass(frozen=True, eq=False)
class StateKey:
    """One key: where its columns lie in the robot's state, and how they are encoded."""

    name: str
    columns: slice
    scaler: Range | MeanStd | None  # None: angles, given as sines and cosines

    def encode(self, values: NDArray) -> NDArray[np.float64]:
        if self.scaler is None:
            return np.concatenate([np.sin(values), np.cos(values)], axis=-1)
        return self.scaler.normalise(values)


@dataclass(frozen=True, eq=False)
class StateCodec:
    """The keys of the state in the order of the model; the robot's state is all their columns."""

    keys: tuple[StateKey, ...]
    state_dim: int
    model_dim: int  # with padding

    def encode(self, state: NDArray) -> NDArray[np.float32]:
        """[..., state_dim] robot units -> [..., model_dim] padded with zeros."""
        parts = [key.encode(state[..., key.columns]) for key in self.keys]
        parts.append(np.zeros((*state.shape[:-1], self.model_dim - self.width)))
        return np.concatenate(parts, axis=-1).astype(np.float32)

    def unclipped(self, state: NDArray) -> NDArray[np.float64]:
        """[..., state_dim] normalised values before they are cut off; 0 for angles, which have no range."""
        parts = [
            np.zeros_like(state[..., key.columns], np.float64)
            if key.scaler is None
            else key.scaler.normalise_unclipped(state[..., key.columns])
            for key in self.keys
        ]
        return np.concatenate(parts, axis=-1)

    @property
    def width(self) -> int:
        """Columns of the encoded state without padding."""
        return sum(
            (key.columns.stop - key.columns.start) * (2 if key.scaler is None else 1) for key in self.keys
        )

    @property
    def columns(self) -> Mapping[str, slice]:
        return {key.name: key.columns for key in self.keys}


def state_codec(embodiment: Embodiment) -> StateCodec:
    processor, modality = embodiment.processor, embodiment.modalities.state
    low, high = ('q01', 'q99') if processor.uses_percentiles else ('min', 'max')
    keys: list[StateKey] = []
    start = 0
    for name in modality.keys:
        statistics = embodiment.statistics('state', name)
        scaler: Range | MeanStd | None
        if name in modality.sin_cos_keys and processor.encodes_angles:
            scaler = None
        elif name in modality.mean_std_keys:
            scaler = MeanStd(statistics.get('mean'), statistics.get('std'))
        else:
            scaler = Range(*statistics.bounds(low, high))
        stop = start + statistics.columns
        keys.append(StateKey(name, slice(start, stop), scaler))
        start = stop
    codec = StateCodec(tuple(keys), start, processor.state_dim)
    if codec.width > codec.model_dim:
        raise Error(
            f"embodiment '{embodiment.tag}': its state has {codec.width} encoded columns, the model takes "
            f'{codec.model_dim}'
        )
    return codec
