# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Checks that the values at the edge of a policy make by themselves."""

import numpy as np
import pytest

from flashrt_core import ActionPrefix, CameraFrame, Error
from flashrt_core.policy import GuidanceSettings, PolicySettings

SETTINGS = {
    'checkpoint': 'c',
    'tokenizer': 't',
    'origin': 'openpi',
    'platform': 'none',
    'cameras': ('base_0_rgb',),
    'resize': 'openpi',
    'fit': 'letterbox',
    'state_in_prompt': True,
    'actions': 'joint_position',
}


@pytest.mark.parametrize('kind', [bytes, bytearray, memoryview, lambda b: np.frombuffer(b, np.uint8)])
def test_frame_is_a_view_by_step(kind):
    rows = np.arange(20, dtype=np.uint8).reshape(2, 10)
    frame = CameraFrame(kind(rows.tobytes()), 'rgb8', height=2, width=3, step=10)
    assert frame.rgb().tolist() == rows[:, :9].reshape(2, 3, 3).tolist()


@pytest.mark.parametrize(
    ('size', 'height', 'width', 'step'),
    [(19, 2, 3, 10), (25, 2, 3, 10), (16, 2, 3, 8), (0, 0, 3, 9), (0, 2, 0, 0), (99, 2**32 - 1, 3, 9)],
)
def test_frame_fields_must_agree(size, height, width, step):
    frame = CameraFrame(bytes(size), 'rgb8', height, width, step)
    with pytest.raises(Error, match=f'{size} bytes do not hold {height} rows of {width}'):
        frame.rgb()


def test_prefix_checks():
    with pytest.raises(Error, match=r'\(3,\)'):
        ActionPrefix(np.zeros(3), 1)
    with pytest.raises(Error, match='delay -1'):
        ActionPrefix(np.zeros((3, 2)), -1)
    with pytest.raises(Error, match="mode 'soft'"):
        ActionPrefix(np.zeros((3, 2)), 1, 'soft')


@pytest.mark.parametrize('name', SETTINGS)
def test_what_moves_an_arm_has_no_default(name):
    PolicySettings(**SETTINGS)
    with pytest.raises(TypeError, match=name):
        PolicySettings(**{key: value for key, value in SETTINGS.items() if key != name})


@pytest.mark.parametrize(
    ('change', 'reason'),
    [
        ({'origin': 'other'}, "origin is 'other', known: openpi, lerobot"),
        ({'platform': 'panda'}, "platform is 'panda'"),
        ({'resize': 'area'}, "resize is 'area'"),
        ({'fit': 'crop'}, "fit is 'crop'"),
        ({'actions': 'torque'}, "actions is 'torque'"),
        ({'normalisation': 'unit'}, "normalisation is 'unit'"),
        ({'cameras': ()}, 'at least one'),
        ({'cameras': ('a', 'a')}, 'none twice'),
        ({'rotation': {'wrist': 90}}, "rotation of 'wrist'"),
        ({'rotation': {'base_0_rgb': 45}}, 'is 45'),
        ({'statistics': 'a', 'asset_id': 'b'}, 'give one'),
        ({'steps': -1}, 'steps is -1'),
        ({'threads': 1.5}, 'threads is 1.5'),
        ({'seed': True}, 'seed is True'),
        ({'state_limit': float('nan')}, 'state_limit is nan'),
        ({'state_limit': 'x'}, "state_limit is 'x', needed a number > 0"),
        ({'state_limit': True}, 'state_limit is True'),
        ({'min_statistics_width': '0.1'}, "min_statistics_width is '0.1', needed a number >= 0"),
        ({'min_statistics_width': float('nan')}, 'min_statistics_width is nan'),
        ({'state_in_prompt': 'false'}, "state_in_prompt is 'false', needed true or false"),
        ({'adapt_to_pi': 0}, 'adapt_to_pi is 0, needed true or false'),
        ({'delta_mask': (6, 0)}, r'delta_mask is \(6, 0\), needed counts of columns'),
        ({'delta_mask': (1.5,)}, r'delta_mask is \(1.5,\)'),
    ],
)
def test_refused_settings(change, reason):
    with pytest.raises(Error, match=reason):
        PolicySettings(**(SETTINGS | change))


def test_guidance_settings():
    with pytest.raises(Error, match="schedule is 'cubic'"):
        GuidanceSettings('cubic', 8, 10)
    with pytest.raises(Error, match='execution_horizon 0'):
        GuidanceSettings('linear', 0, 10)
    with pytest.raises(Error, match="execution_horizon '8'"):
        GuidanceSettings('linear', '8', 10)
    with pytest.raises(Error, match="max_weight '10'"):
        GuidanceSettings('linear', 8, '10')
    with pytest.raises(Error, match='max_weight nan'):
        GuidanceSettings('linear', 8, float('nan'))
    with pytest.raises(Error, match='inf must be positive'):
        GuidanceSettings('linear', 8, float('inf'))
