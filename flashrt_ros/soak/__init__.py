# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""A long run of the node among faults, on a simulated robot: `python -m flashrt_ros.soak --minutes 10`.

Everything is a process of its own, as on a robot: the node, the robot, the cameras, a recorder that writes
down what leaves the node, and the program that brings the faults about. The verdict comes from the recorder's
journal, not from what the node says about itself.
"""
