# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Tests marked `gpu` are skipped where the CUDA backend or a GPU is missing.

With FLASHRT_REQUIRE_GPU=1 in the environment, as `make test-gpu` sets it, they fail instead.
"""

import ctypes
import importlib.util
import os
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

# A machine that pauses in the middle of an example is no fault of what is tested.
settings.register_profile('patient', deadline=None)
settings.load_profile('patient')


@cache
def why_no_gpu() -> str:
    """Why no test can run on a GPU; empty if one can."""
    core = importlib.util.find_spec('flashrt_core._core')
    if core is None or core.origin is None:
        return 'the native module flashrt_core._core is not installed'
    if not (library := Path(core.origin).with_name('flashrt_cuda.so')).exists():
        return f'{library} does not exist: it was built without a CUDA compiler'
    try:
        driver = ctypes.CDLL('libcuda.so.1')
    except OSError as error:
        return f'no CUDA driver: {error}'
    count = ctypes.c_int(0)
    status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    return '' if count.value > 0 else f'the CUDA driver finds no device (status {status})'


@pytest.fixture(scope='session')
def no_gpu() -> str:
    """Why no test can run on a GPU; empty if one can."""
    return why_no_gpu()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker('gpu') and (reason := why_no_gpu()):
        if os.environ.get('FLASHRT_REQUIRE_GPU') == '1':
            pytest.fail(f'no GPU: {reason}', pytrace=False)
        pytest.skip(f'no GPU: {reason}')
