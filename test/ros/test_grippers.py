# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Gripper polarity and range, both ways, with the numbers of R-50."""

import numpy as np
import pytest
from fake_policy import parameters

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
