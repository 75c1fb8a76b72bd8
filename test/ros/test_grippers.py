# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Gripper polarity and range, both ways, with the numbers of R-50."""

import numpy as np
import pytest
from fake_policy import ARM, NODE, groot_values, parameters
from hypothesis import given, settings
from hypothesis import strategies as st

from flashrt_ros.grippers import GripperMap
from flashrt_ros.parameters import read_parameters

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


def test_a_gripper_may_be_read_moved_or_both():
    """States have the columns of joints.names, actions those of actions.joints."""
    given_ = read_parameters(
        groot_values(
            joints__names=[*ARM, 'gripper', 'watched'],
            actions__joints=['moved', *ARM, 'gripper'],
            joints__lower=[-3.0] * 8,
            joints__upper=[3.0] * 8,
            joints__max_velocity=[1.0] * 8,
            grippers__names=['watched', 'gripper', 'moved'],
            grippers__model_one=['open', 'open', 'closed'],
            grippers__open=[10.0, 2.0, 1.0],
            grippers__closed=[0.0, 0.0, 0.5],
            outputs__arm__joints=['moved', *ARM, 'gripper'],
        ),
        NODE,
    )[0]
    grippers = GripperMap(given_)
    np.testing.assert_allclose(grippers.to_model([0.5] * 6 + [1.0, 5.0]), [0.5] * 8)
    np.testing.assert_allclose(grippers.to_robot([0.5] * 8), [0.75] + [0.5] * 6 + [1.0])
