# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Vision-language-action policies: from observations to action chunks, without ROS."""

from pkgutil import extend_path

# The native module is installed beside this package: a run from the source tree finds it on the
# rest of sys.path.
__path__ = extend_path(__path__, __name__)

from flashrt_core.errors import Error, ModelNotSupportedError
from flashrt_core.types import (
    ActionChunk,
    ActionPrefix,
    CameraFrame,
    Observation,
    OutOfRange,
    PolicySpec,
)

__all__ = [
    'ActionChunk',
    'ActionPrefix',
    'CameraFrame',
    'Error',
    'ModelNotSupportedError',
    'Observation',
    'OutOfRange',
    'PolicySpec',
]
