# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The project keeps its layers, and the checker catches every kind of violation."""

from pathlib import Path

import pytest
from check_layers import check

ROOT = Path(__file__).parents[2]


def test_the_project_has_no_violation():
    assert [str(violation) for violation in check(ROOT)] == []


@pytest.mark.parametrize(
    ('path', 'line', 'message'),
    [
        ('flashrt_core/base/a.hpp', '#include "plan/plan.hpp"', 'base/ may not include "plan/plan.hpp"'),
        ('flashrt_core/plan/a.cpp', '#include "quant/recipe.hpp"', 'plan/ may not include'),
        ('flashrt_core/quant/a.cpp', '#include "backends/backend.hpp"', 'quant/ may not include'),
        ('flashrt_core/models/a.cpp', '#include "checkpoint/weights.hpp"', 'models/ may not include'),
        ('flashrt_core/models/a.cpp', '// fast on CUDA', 'models/ may not speak of "CUDA"'),
        ('flashrt_core/kernels/a.cu', '#include "plan/plan.hpp"', 'kernels/ may not include'),
        ('flashrt_core/kernels/a.cuh', '#include "backends/cuda/a.hpp"', 'kernels/ may not include'),
        ('flashrt_core/backends/cpu/a.cpp', '#include "kernels/a.cuh"', 'backends/cpu/ may not include'),
        (
            'flashrt_core/backends/cuda/a.cpp',
            '#include "backends/cpu/a.hpp"',
            'backends/cuda/ may not include',
        ),
        ('flashrt_core/backends/a.hpp', '#include "backends/cpu/a.hpp"', 'backends/ may not include'),
        ('flashrt_core/runtime/a.cpp', '#include "backends/cuda/a.hpp"', 'runtime/ may not include'),
        ('flashrt_core/runtime/a.hpp', '  #  include "bindings/a.hpp"', 'runtime/ may not include'),
        ('flashrt_core/base/a.hpp', '#include "flashrt_core/flashrt.hpp"', 'base/ may not include'),
        ('flashrt_core/include/flashrt_core/a.hpp', '#include "base/a.hpp"', 'include/ may not include'),
        ('flashrt_core/attic/a.cpp', '', 'attic/ is no room'),
        ('flashrt_core/base/a.hpp', '#include "a.hpp"', 'base/ may not include "a.hpp"'),
        ('flashrt_core/python/flashrt_core/a.py', 'import flashrt_ros.status', 'may not import flashrt_ros'),
        ('flashrt_core/python/flashrt_core/a.py', 'def f():\n    import rclpy', 'may not import rclpy'),
        ('flashrt_ros/motion.py', 'from rclpy.node import Node', 'may not import rclpy.node'),
        ('flashrt_ros/policy_node.py', 'import launch', 'may not import launch'),
        ('test/python/test_a.py', 'import rclpy', 'may not import rclpy'),
    ],
)
def test_a_violation_is_found(tmp_path, path, line, message):
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(line + '\n')
    (violation,) = check(tmp_path)
    assert message in str(violation)
    assert str(violation).startswith(f'{path}:')


@pytest.mark.parametrize(
    ('path', 'line'),
    [
        ('flashrt_core/base/a.cpp', '#include <vector>\n#include "base/a.hpp"'),
        ('flashrt_core/models/a.cpp', '#include "checkpoint/model_config.hpp"'),
        ('flashrt_core/backends/cpu/a.cpp', '#include "backends/backend.hpp"'),
        ('flashrt_core/kernels/a.cu', '#include <cuda_fp8.h>\n#include "base/a.hpp"'),
        ('flashrt_core/backends/cuda/a.cpp', '#include "kernels/a.cuh"\n#include "backends/module.hpp"'),
        ('flashrt_core/bench/a.cu', '#include "backends/cuda/a.hpp"\n#include "kernels/a.cuh"'),
        ('flashrt_core/runtime/a.cpp', '#include "backends/cpu/a.hpp"\n#include "flashrt_core/flashrt.hpp"'),
        ('flashrt_ros/policy_node.py', 'import rclpy'),
        ('flashrt_ros/conversions.py', 'from flashrt_core import CameraFrame\nfrom . import a'),
    ],
)
def test_what_points_downward_is_allowed(tmp_path, path, line):
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(line + '\n')
    assert check(tmp_path) == []
