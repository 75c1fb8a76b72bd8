# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Says how this package is built: its metadata lives in pyproject.toml, its build in CMakeLists.txt."""

raise SystemExit('flashrt_ros is not built by setup.py: use `pip install .` or, with ROS 2, `colcon build`')
