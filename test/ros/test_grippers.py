# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Gripper polarity and range, both ways, with the numbers of R-50."""

import numpy as np
import pytest
from fake_policy import parameters
from hypothesis import given, settings
from hypothesis import strategies as st

from flashrt_ros.grippers import GripperMap

MODEL = [0.0, 0.25, 1.0]


def rows(values: list[float]) -> np.ndarray:
    result = np.full((len(values), 7), 0.5)
    result[:, 6] = values
    return result


@pytest.mark.parametrize(
    ('one', 'robot'),
    [('closed', [0.08, 0.06, 0.0]), ('open', [0.0, 0.02, 0.08]), ('robot_units', MODEL)],
)
def test_polarity_and_range(one: str, robot: list[float]):
    grippers = GripperMap(parameters(grippers__model_one=[one]))
    np.testing.assert_allclose(grippers.to_robot(rows(MODEL)), rows(robot), atol=1e-15)
    np.testing.assert_allclose(grippers.to_model(rows(robot)), rows(MODEL), atol=1e-15)


def test_input_is_not_changed():
    model = rows(MODEL)
    GripperMap(parameters(grippers__model_one=['closed'])).to_robot(model)
    np.testing.assert_array_equal(model, rows(MODEL))


METRES = st.floats(-10, 10)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(METRES, METRES, st.sampled_from(['open', 'closed']), st.lists(st.floats(-1, 2), min_size=1))
def test_any_range_in_any_unit_and_its_inverse(open_, closed, one, model):
    """R-50: metres, radians or per cent, closed above or below open."""
    if abs(open_ - closed) < 1e-3:
        return
    grippers = GripperMap(
        parameters(grippers__open=[open_], grippers__closed=[closed], grippers__model_one=[one])
    )
    ends = grippers.to_robot(rows([0.0, 1.0]))[:, 6]
    np.testing.assert_allclose(ends, [closed, open_] if one == 'open' else [open_, closed], atol=1e-12)
    robot = grippers.to_robot(rows(model))
    np.testing.assert_allclose(grippers.to_model(robot), rows(model), atol=1e-9)
    np.testing.assert_array_equal(robot[:, :6], 0.5)
