# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Platform conventions: numbers by hand, reference arrays, camera masks."""

import json
import math

import numpy as np
import pytest
from safetensors.numpy import load_file

from flashrt_core.platforms import OPENPI_SLOTS, ROBOTS, AlohaActions, AlohaState, camera_masks


def test_aloha_state_by_hand():
    decoded = AlohaState()(np.array([1.0, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 1]))
    assert decoded[:6].tolist() == decoded[7:13].tolist() == [1, -2, -3, 4, 5, 6]
    for opening, got in ((0.01844, decoded[6]), (0.058, decoded[13])):
        sine = (0.022**2 + opening**2 - 0.036**2) / (2 * 0.022 * opening)
        angle = math.asin(max(-1, min(1, sine)))
        assert got == pytest.approx((angle - 0.5476) / (1.6296 - 0.5476), abs=1e-12)


def test_aloha_actions_by_hand():
    encoded = AlohaActions()(np.arange(14.0)[None])
    assert encoded[0, :6].tolist() == [0, -1, -2, 3, 4, 5]
    assert encoded[0, 6] == pytest.approx((6 + 0.5476 + 0.6213) / (1.4910 + 0.6213), abs=1e-12)
    assert encoded[0, 7:13].tolist() == [7, -8, -9, 10, 11, 12]


def test_inputs_are_left_alone():
    state, actions = np.ones(14), np.ones((2, 14))
    AlohaState()(state)
    AlohaActions()(actions)
    assert (state == 1).all()
    assert (actions == 1).all()


def test_reference(golden):
    d = load_file(golden / 'preprocess' / 'platforms.safetensors')
    state, actions = d['aloha_adapt.state_in'], d['aloha_adapt.actions_in'][:, :14]
    np.testing.assert_allclose(AlohaState()(state), d['aloha_adapt.state_out'], rtol=0, atol=1e-12)
    np.testing.assert_allclose(AlohaActions()(actions), d['aloha_adapt.actions_out'], rtol=0, atol=1e-12)
    # Without adapt_to_pi nothing happens but the cut to 14 columns.
    np.testing.assert_array_equal(d['aloha_raw.state_in'], d['aloha_raw.state_out'])
    np.testing.assert_array_equal(d['aloha_raw.actions_in'][:, :14], d['aloha_raw.actions_out'])
    # DROID's state is joints, then gripper: what a robot with these joint names sends.
    np.testing.assert_allclose(d['droid.state'], np.arange(8) / 10, atol=1e-12)


def test_camera_masks(golden):
    expected = json.loads((golden / 'preprocess' / 'camera_masks.json').read_text())
    droid_fast = ('base_0_rgb', 'wrist_0_rgb')
    present = {
        'aloha/cam_high only': OPENPI_SLOTS[:1],
        'aloha/all': OPENPI_SLOTS,
        'droid/pi0_fast': droid_fast,
    }
    for name, masks in expected.items():
        platform, family = name.split('/')
        family = 'pi0' if platform == 'aloha' else family
        slots = present.get(name, OPENPI_SLOTS[:2])
        got = camera_masks(ROBOTS[platform], family, slots)
        assert list(got.items()) == list(masks.items()), name
