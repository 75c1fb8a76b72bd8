# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Temperature, clocks and throttling of one NVIDIA GPU, from the library that comes with its driver."""

import ctypes
from collections.abc import Callable

from flashrt_ros.board_files import NEAR_TRIP_K, NOT_AVAILABLE, Readings

_TEMPERATURE_GPU = 0  # sensor
_THRESHOLD_SLOWDOWN = 1  # degrees Celsius at which the hardware slows itself down
_CLOCKS = {'sm': 1, 'memory': 2}
_BUS_ID_BYTES = 32
_READ_REASONS = 'nvmlDeviceGetCurrentClocksThrottleReasons'
# Bits of the reasons for which a GPU runs slower than it could; those not named are no fault (idle, clocks
# that a user has set, groups that run in step, a display).
_REASONS = {
    0x04: 'power limit',
    0x08: 'hardware slowdown',
    0x20: 'heat (driver)',
    0x40: 'heat (hardware)',
    0x80: 'power supply brake',
}


class NvmlError(Exception):
    """NVML or the driver is not there, or does not know the device."""


class Gpu:
    """One GPU, found by the index that CUDA gives it."""

    def __init__(self, device: int, load: Callable[[str], ctypes.CDLL] = ctypes.CDLL) -> None:
        try:
            self._nvml, cuda = load('libnvidia-ml.so.1'), load('libcuda.so.1')
        except OSError as error:
            raise NvmlError(str(error)) from error
        self._call('nvmlInit_v2')  # stays for as long as the process: a few handles
        self._handle = ctypes.c_void_p()
        self._call('nvmlDeviceGetHandleByPciBusId_v2', _bus_id(cuda, device), ctypes.byref(self._handle))

    def read(self) -> Readings:
        """What the GPU does not tell is 'not available'."""
        celsius = self._number('nvmlDeviceGetTemperature', _TEMPERATURE_GPU)
        slowdown = self._number('nvmlDeviceGetTemperatureThreshold', _THRESHOLD_SLOWDOWN)
        reasons = self._number(_READ_REASONS, kind=ctypes.c_ulonglong)
        slowed = [text for bit, text in _REASONS.items() if reasons is not None and reasons & bit]
        values = {
            'gpu.throttling': NOT_AVAILABLE if reasons is None else ', '.join(slowed) or 'none',
            'gpu.temperature': NOT_AVAILABLE if celsius is None else f'{celsius} C',
            **{f'gpu.clock.{name}': self._clock(kind) for name, kind in _CLOCKS.items()},
        }
        warnings = [f'the GPU is slowed down: {", ".join(slowed)}'] if slowed else []
        if celsius is not None and slowdown and celsius > slowdown - NEAR_TRIP_K:
            warnings.append(f'the GPU is hot: {celsius} C, it slows down at {slowdown} C')
        return Readings(values, tuple(warnings))

    def _clock(self, kind: int) -> str:
        now = self._number('nvmlDeviceGetClockInfo', kind)
        most = self._number('nvmlDeviceGetMaxClockInfo', kind)
        return NOT_AVAILABLE if now is None or most is None else f'{now} of {most} MHz'

    def _number(self, name: str, *arguments: int, kind: type = ctypes.c_uint) -> int | None:
        result = kind()
        try:
            self._call(name, self._handle, *arguments, ctypes.byref(result))
        except NvmlError:  # an integrated GPU tells little
            return None
        return result.value

    def _call(self, name: str, *arguments: object) -> None:
        function = getattr(self._nvml, name, None)  # an older driver
        if function is None or (status := function(*arguments)) != 0:
            raise NvmlError(f'{name}: {"not in this driver" if function is None else f"error {status}"}')


def _bus_id(cuda: ctypes.CDLL, device: int) -> ctypes.Array:
    """NVML counts all GPUs, CUDA only those it was left: the bus is the same for both."""
    handle, bus_id = ctypes.c_int(), ctypes.create_string_buffer(_BUS_ID_BYTES)
    for name, *arguments in (
        ('cuInit', 0),
        ('cuDeviceGet', ctypes.byref(handle), device),
        ('cuDeviceGetPCIBusId', bus_id, _BUS_ID_BYTES, handle),
    ):
        if (status := getattr(cuda, name)(*arguments)) != 0:
            raise NvmlError(f'{name}: error {status}')
    return bus_id
