# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The CUDA backend through the native module: what is said without one, and the reference data with one."""

from pathlib import Path

import pytest

from flashrt_core._core import Engine
from flashrt_core.errors import Error
from flashrt_core.golden import RunOptions, check_folder

GOLDEN = Path(__file__).parents[1] / 'golden'
RECIPES = Path(__file__).parents[2] / 'config/recipes'


def test_a_backend_that_cannot_run_here_says_why(no_gpu):
    if not no_gpu:
        pytest.skip('there is a GPU')
    with pytest.raises(Error, match=r"backend 'cuda' (is not part of this installation|cannot be used)"):
        Engine(GOLDEN / 'pi05_tiny', cameras=2, backend='cuda')


@pytest.mark.gpu
def test_a_device_that_does_not_exist_is_refused():
    with pytest.raises(Error, match='device 1000 does not exist'):
        Engine(GOLDEN / 'pi05_tiny', cameras=2, backend='cuda', device=1000)


@pytest.mark.gpu
def test_a_number_format_that_it_does_not_run_is_refused():
    recipe = str(RECIPES / 'int8_weights.json')
    why = 'the CUDA backend does not run it, the CPU backend emulates it'
    with pytest.raises(Error, match=rf'recipe int8_weights: call \S+ reads its weight in int8; {why}'):
        Engine(GOLDEN / 'pi05_tiny', cameras=2, backend='cuda', recipe=recipe)


@pytest.mark.gpu
@pytest.mark.parametrize('folder', ['pi05_tiny', 'pi05_heads', 'pi0_tiny', 'rtc', 'groot_n16_tiny'])
def test_float32_agrees_with_the_reference_data(folder):
    report = check_folder(GOLDEN / folder, RunOptions(backend='cuda'))
    assert report.passed(), report
