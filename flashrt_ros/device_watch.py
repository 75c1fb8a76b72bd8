# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Whether the computer under the model is well: clocks, temperature, throttling, looked at once a second."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flashrt_ros.board_files import NOT_AVAILABLE, BoardFiles
from flashrt_ros.nvml import Gpu, NvmlError

PERIOD_S = 1.0


@dataclass(frozen=True)
class DeviceState:
    """For diagnostics; with a warning the level is WARN."""

    values: Mapping[str, str] = field(default_factory=dict)  # 'not available' where the board does not tell
    warnings: tuple[str, ...] = ()  # sentences


class DeviceWatch:
    """Looks at the board, and at the GPU if the model runs there; no thread that asks waits for another."""

    def __init__(
        self,
        backend: str,
        device: int = 0,  # of the GPU, as CUDA counts
        *,
        root: Path = Path('/'),
        open_gpu: Callable[[int], Gpu] = Gpu,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._board = BoardFiles(root)
        self._gpu: Gpu | None = None
        self._gpu_fault = ''
        if backend == 'cuda':
            try:
                self._gpu = open_gpu(device)
            except NvmlError as error:
                self._gpu_fault = f'{NOT_AVAILABLE}: {error}'
        self._clock = clock
        self._next_s = float('-inf')
        self._state = DeviceState()
        self._looking = threading.Lock()

    def read(self) -> DeviceState:
        """As it was at most a second ago, or while another thread looks, a little longer."""
        if self._clock() >= self._next_s and self._looking.acquire(blocking=False):
            try:
                self._state = self._look()
                self._next_s = self._clock() + PERIOD_S
            finally:
                self._looking.release()
        return self._state

    def _look(self) -> DeviceState:
        board = self._board.read()
        values, warnings = dict(board.values), board.warnings
        if self._gpu is not None:
            gpu = self._gpu.read()
            values, warnings = gpu.values | values, gpu.warnings + warnings
        elif self._gpu_fault:
            values = {'gpu': self._gpu_fault} | values
        return DeviceState(values, warnings)
