# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The recording of the tabletop, offline through the policy that made it."""

from pathlib import Path

import numpy as np
from rich.console import Console
from safetensors.numpy import load_file

from flashrt_ros.bag import Bag
from flashrt_ros.bag_inputs import observations
from flashrt_ros.parameters import load_parameters_file
from flashrt_ros.replay_offline import replay_offline
from flashrt_ros.tabletop.arm import ARM_JOINTS, HORIZON, JOINTS, ROW_PERIOD_S

ROOT = Path(__file__).parents[2]
BAG = ROOT / 'test' / 'data' / 'tabletop'
PARAMS = ROOT / 'config' / 'pi05_tabletop.yaml'
ARM = slice(0, len(ARM_JOINTS))
LAG_S = 0.1  # of the servos and the chunk that was in play


def error_of(tmp_path: Path, **overrides: object) -> float:
    """Mean over all rows of how far the arm was a little later from where the row would have it, rad."""
    given = {name.replace('__', '.'): value for name, value in overrides.items()}
    report = replay_offline(
        BAG, PARAMS, tmp_path, Console(quiet=True), inference_s=0.02, overrides=given
    )  # fmt: skip
    assert report.missing == []
    assert report.warnings == ()
    pictures = report.streams['base_0_rgb']
    assert len(report.chunks) == pictures.used == pictures.recorded > 40

    chunks = load_file(tmp_path / 'chunks.safetensors')['actions']  # [chunks, rows, joints]
    assert chunks.shape[1:] == (HORIZON, len(JOINTS))
    parameters, _ = load_parameters_file(PARAMS)
    with Bag(BAG, lambda text: None) as bag:
        seen = [item.observation for item in observations(bag, parameters, prompt_id=0)]
    times_s = np.array([max(item.stamps_ns.values()) for item in seen]) / 1e9
    states = np.array([item.state for item in seen])
    due_s = ROW_PERIOD_S * (1 + np.arange(HORIZON)) + LAG_S
    errors = []
    for begin_s, rows in zip(times_s, chunks, strict=True):
        is_recorded = begin_s + due_s <= times_s[-1]
        was = np.array([np.interp(begin_s + due_s, times_s, column) for column in states.T]).T
        errors.append(np.abs(rows - was)[is_recorded][:, ARM])
    return float(np.concatenate(errors).mean())


def test_a_replay_asks_for_what_the_robot_then_did(tmp_path: Path):
    assert error_of(tmp_path) < 0.025  # 0.011 when it was recorded


def test_a_replay_with_another_prompt_or_other_pictures_does_not(tmp_path: Path):
    assert error_of(tmp_path, prompt='put the green block in the tray') > 0.04
    swapped = {
        'cameras__base_0_rgb__topic': 'wrist/image_raw',
        'cameras__left_wrist_0_rgb__topic': 'front/image_raw',
    }
    assert error_of(tmp_path, **swapped) > 0.04
