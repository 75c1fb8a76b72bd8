# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The exceptions of flashrt_core; the native module raises these same classes."""


class Error(RuntimeError):
    """A refused setting, file, input or model; the text holds names and values and what to do."""


class ModelNotSupportedError(Error):
    """The checkpoint is a known model that this version cannot run."""
