# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Shared by the tests of the policy: where reference data lie, and the stand-in for the native module."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fake_core import FakeCore

GOLDEN = Path(__file__).parents[1] / 'golden'


@pytest.fixture(scope='session')
def golden() -> Path:
    return GOLDEN


@pytest.fixture
def fake_core() -> FakeCore:
    return FakeCore()


@pytest.fixture
def write_stats(tmp_path) -> Callable[..., Path]:
    """Writes a norm_stats.json with the same numbers in every column."""

    def write(state_dim: int, action_dim: int, low=-1.0, high=1.0, **state_columns) -> Path:
        def group(columns):
            return {
                'mean': [(low + high) / 2] * columns,
                'std': [(high - low) / 2] * columns,
                'q01': [low] * columns,
                'q99': [high] * columns,
            }

        state = group(state_dim) | state_columns
        path = tmp_path / 'norm_stats.json'
        path.write_text(json.dumps({'norm_stats': {'state': state, 'actions': group(action_dim)}}))
        return path

    return write


@pytest.fixture(scope='session')
def swinging_arms() -> np.ndarray:
    """Two arms that swing, for 4 s at 50 Hz; one joint does not move."""
    t = np.arange(200)[:, np.newaxis] / 50
    rows = 0.4 + 0.3 * np.sin(t * np.linspace(1, 3, 14))
    rows[:, 2] = 0.5
    return rows
