# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""How far a result may be from its saved value, and why."""

import numpy as np
from numpy.typing import NDArray

from flashrt_core.statistics import Statistics

EXACT = 0.0
INTERMEDIATE = 5e-5  # a correct float32 program stays within 6e-6
ACTIONS = 1e-4  # a correct one stays within 1e-5
TIME = 1e-6  # of the times themselves: original implementations round them differently
# The last bit of a float32 time moves its sines by 1.5e-4: this holds where the saved times are not known.
UNKNOWN_TIME = 3e-4
# Rotation angles are float32: their error grows with the position.
LONG_PREFIX = 256  # valid slots
LONG_PREFIX_K = 3e-4
NORMALISED = 1e-6  # relative above 1: columns without width are divided by 1e-6 or 1e-8
RESIZED_FLOAT = 1e-4
# Exact halves fall to either side with the order of float32 sums.
RESIZED_ANTIALIASED_U8 = 1
BF16_RMS = 0.03  # of the standard deviation

MOST_ROWS = 1 << 16  # of a chunk in a file


def normalised(expected: NDArray) -> NDArray[np.float64]:
    return NORMALISED * np.maximum(1.0, np.abs(expected))


def robot_units(statistics: Statistics, normalisation: str, columns: int) -> NDArray[np.float64]:
    """[columns] bound of actions in robot units: that of the model's actions times what one unit is worth."""
    if normalisation == 'zscore':
        half_range = statistics.get('std', 'the bound')
    else:
        half_range = (statistics.get('q99', 'the bound') - statistics.get('q01', 'the bound')) / 2
    worth = np.ones(columns)
    known = min(columns, len(half_range))
    worth[:known] = np.maximum(1.0, half_range[:known])
    return ACTIONS * worth
