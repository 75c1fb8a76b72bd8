# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""GR00T: what is around the model, from camera pictures and joint values to robot actions."""
