# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Whether a parameter file configures the node: every fault of it, and every key that is not known."""

from collections.abc import Iterator
from pathlib import Path

from flashrt_ros.check_findings import Finding, fail, ok, warn
from flashrt_ros.parameter_file import read_parameter_file
from flashrt_ros.parameter_table import ParameterFaults
from flashrt_ros.parameters import Parameters, read_parameters

_SUBJECT = 'parameters'


class ParameterCheck:
    """Keeps the parameters for the checks after it; None until findings() has found them good."""

    def __init__(self, path: Path, node_name: str) -> None:
        self.parameters: Parameters | None = None
        self._path = path
        self._node_name = node_name

    def findings(self) -> Iterator[Finding]:
        try:
            values = read_parameter_file(self._path, self._node_name)
            self.parameters, unknown = read_parameters(values, self._node_name)
        except ParameterFaults as faults:
            for fault in faults.faults:
                yield fail(_SUBJECT, fault)
            return
        for text in unknown:
            yield warn(_SUBJECT, text)
        mode = (
            'dry run: commands are computed and not sent' if self.parameters.dry_run else 'commands are sent'
        )
        yield ok(_SUBJECT, f'{len(values)} values for {self._node_name} in {self._path}; {mode}')
