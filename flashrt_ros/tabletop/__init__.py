# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""A simulated tabletop: a scene in MuJoCo, tasks with success rules, an expert and its demonstrations.

Plain Python. The physics needs the package `mujoco` (the extra `sim`); pictures need EGL.
"""
