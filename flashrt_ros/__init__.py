# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The ROS side of flashrt_ros: messages, parameters, lifecycle and timing around a policy."""

from pkgutil import extend_path

# The generated messages are installed beside this package:
# a run from the source tree finds them on the rest of sys.path.
__path__ = extend_path(__path__, __name__)
