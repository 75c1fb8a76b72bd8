# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Comparison with saved results of the original implementations; `flashrt golden` prints what it finds."""

from flashrt_core.golden.folders import check_folder
from flashrt_core.golden.options import RunOptions
from flashrt_core.golden.report import Comparison, Gap, Report

__all__ = ['Comparison', 'Gap', 'Report', 'RunOptions', 'check_folder']
