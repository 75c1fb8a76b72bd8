# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Clocks, temperature and throttling: what a board and a GPU tell, and what is a warning."""

import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flashrt_ros.board_files import BoardFiles, Readings
from flashrt_ros.device_watch import DeviceState, DeviceWatch
from flashrt_ros.nvml import Gpu, NvmlError

# A Jetson board of two clusters at rest, as its kernel shows it.
JETSON = {
    'sys/class/thermal/thermal_zone0/type': 'cpu-thermal',
    'sys/class/thermal/thermal_zone0/temp': '51250',
    'sys/class/thermal/thermal_zone0/trip_point_0_type': 'critical',
    'sys/class/thermal/thermal_zone0/trip_point_0_temp': '104500',
    'sys/class/thermal/thermal_zone0/trip_point_1_type': 'passive',
    'sys/class/thermal/thermal_zone0/trip_point_1_temp': '99000',
    'sys/class/thermal/thermal_zone0/trip_point_2_type': 'active',
    'sys/class/thermal/thermal_zone0/trip_point_2_temp': '50000',
    'sys/class/thermal/thermal_zone1/type': 'gpu-thermal',
    'sys/class/thermal/thermal_zone1/temp': '48000',
    'sys/class/thermal/thermal_zone1/trip_point_0_type': 'passive',
    'sys/class/thermal/thermal_zone1/trip_point_0_temp': '-274000',
    'sys/class/thermal/cooling_device0/type': 'pwm-fan',
    'sys/class/thermal/cooling_device0/cur_state': '2',
    'sys/class/thermal/cooling_device0/max_state': '4',
    'sys/class/thermal/cooling_device1/type': 'cpu-throttle-alert',
    'sys/class/thermal/cooling_device1/cur_state': '0',
    'sys/class/thermal/cooling_device1/max_state': '2',
    'sys/class/thermal/cooling_device2/type': 'devfreq-gpu-gpc-0',
    'sys/class/thermal/cooling_device2/cur_state': '0',
    'sys/class/thermal/cooling_device2/max_state': '169',
    'sys/class/thermal/cooling_device3/type': 'intel_powerclamp',
    'sys/class/thermal/cooling_device3/cur_state': '-1',
    'sys/class/thermal/cooling_device3/max_state': '50',
    'sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq': '1190400',
    'sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq': '2601000',
    'sys/devices/system/cpu/cpufreq/policy4/scaling_cur_freq': '2601000',
    'sys/devices/system/cpu/cpufreq/policy4/cpuinfo_max_freq': '2601000',
    'sys/class/devfreq/gpu-gpc-0/cur_freq': '315000000',
    'sys/class/devfreq/gpu-gpc-0/max_freq': '1575000000',
    'sys/class/hwmon/hwmon1/name': 'ina3221',
    'sys/class/hwmon/hwmon1/oc1_event_cnt': '7',
    'sys/class/hwmon/hwmon3/name': 'soctherm_oc',
    'sys/class/hwmon/hwmon3/oc3_event_cnt': '179',
    'var/lib/nvpmodel/status': 'pmode:0001',
    'etc/nvpmodel.conf': '# modes\n< POWER_MODEL ID=0 NAME=MAXN >\n< POWER_MODEL ID=1 NAME=120W >\n',
}


@pytest.fixture
def board(tmp_path: Path) -> Path:
    for name, text in JETSON.items():
        write(tmp_path, name, text)
    return tmp_path


def write(root: Path, name: str, text: str | bytes) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((text if isinstance(text, bytes) else text.encode()) + b'\n')


def test_board_at_rest(board: Path):
    assert BoardFiles(board).read() == Readings(
        {
            'power_mode': '1 (120W)',
            'throttling': 'none',
            'clock.cpu': '1190 to 2601 of 2601 MHz',
            'clock.gpu-gpc-0': '315 of 1575 MHz',
            'temperature.cpu-thermal': '51.2 C',
            'temperature.gpu-thermal': '48.0 C',
        },
        (),
    )


def test_board_that_tells_nothing(tmp_path: Path):
    assert DeviceWatch('cpu', root=tmp_path).read() == DeviceState(
        {
            'power_mode': 'not available',
            'throttling': 'not available',
            'clock.cpu': 'not available',
            'temperature': 'not available',
        }
    )


@pytest.mark.parametrize(('thousandths', 'is_hot'), [(94000, False), (94001, True), (99500, True)])
def test_zone_near_the_lowest_trip_point_that_slows_is_hot(board: Path, thousandths: int, is_hot: bool):
    """The fan that starts at 50 degrees is no reason, nor is a trip point that is not set."""
    write(board, 'sys/class/thermal/thermal_zone0/temp', str(thousandths))
    write(board, 'sys/class/thermal/thermal_zone1/temp', '105000')
    celsius = f'{thousandths / 1000:.1f}'
    warning = f'cpu-thermal is hot: {celsius} C, its passive trip point is 99.0 C'
    readings = BoardFiles(board).read()
    assert readings.warnings == ((warning,) if is_hot else ())
    assert readings.values['temperature.cpu-thermal'] == f'{celsius} C'


def test_devices_that_are_slowed_down_are_named_and_a_fan_is_not(board: Path):
    write(board, 'sys/class/thermal/cooling_device1/cur_state', '1')
    write(board, 'sys/class/thermal/cooling_device2/cur_state', '18')
    readings = BoardFiles(board).read()
    words = 'slowed down to stay cool: cpu-throttle-alert 1 of 2, devfreq-gpu-gpc-0 18 of 169'
    assert readings.warnings == (words,)
    assert readings.values['throttling'] == words


def test_over_current_is_reported_while_its_counter_grows(board: Path):
    files = BoardFiles(board)
    assert files.read().warnings == (), 'what happened before is history'
    write(board, 'sys/class/hwmon/hwmon3/oc3_event_cnt', '183')
    (warning,) = files.read().warnings
    assert warning == 'slowed down 4 times since the last look: supply voltage or current (oc3_event_cnt)'
    assert files.read().warnings == ()


def test_heat_counter_of_an_intel_processor(tmp_path: Path):
    name = 'sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count'
    write(tmp_path, name, '5')
    files = BoardFiles(tmp_path)
    assert files.read().values['throttling'] == 'none'
    write(tmp_path, name, '6')
    assert files.read().warnings == ('slowed down 1 times since the last look: processor temperature',)


def test_zones_of_one_type_are_told_apart(tmp_path: Path):
    for i in range(11):
        write(tmp_path, f'sys/class/thermal/thermal_zone{i}/type', 'acpitz' if i else 'x86_pkg_temp')
        write(tmp_path, f'sys/class/thermal/thermal_zone{i}/temp', f'{40 + i}000')
    values = BoardFiles(tmp_path).read().values
    names = [name for name in values if name.startswith('temperature')]
    expected = [f'temperature.acpitz thermal_zone{i}' for i in range(1, 11)]
    assert names == ['temperature.x86_pkg_temp', *expected]
    assert values['temperature.acpitz thermal_zone10'] == '50.0 C'


def test_part_that_is_switched_off_is_not_available(board: Path):
    """Its driver answers a read with an error."""
    path = board / 'sys/class/thermal/thermal_zone0/temp'
    path.unlink()
    path.mkdir()
    readings = BoardFiles(board).read()
    assert readings.values['temperature.cpu-thermal'] == 'not available'
    assert readings.values['temperature.gpu-thermal'] == '48.0 C'


def test_file_that_never_answers_or_never_ends_does_not_hold_the_node(board: Path):
    (board / 'sys/class/thermal/thermal_zone0/temp').unlink()
    os.mkfifo(board / 'sys/class/thermal/thermal_zone0/temp')
    (board / 'sys/class/thermal/thermal_zone1/temp').unlink()
    (board / 'sys/class/thermal/thermal_zone1/temp').symlink_to('/dev/zero')
    values = BoardFiles(board).read().values
    assert values['temperature.cpu-thermal'] == values['temperature.gpu-thermal'] == 'not available'


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(sorted(JETSON)), content=st.binary(max_size=40) | st.integers().map(str))
def test_no_content_of_a_file_is_an_exception(board: Path, name: str, content: bytes | str):
    write(board, name, content)
    readings = BoardFiles(board).read()
    write(board, name, JETSON[name])
    assert all(isinstance(value, str) and value for value in readings.values.values())


def test_the_board_is_looked_at_once_a_second(board: Path):
    now = [100.0]
    watch = DeviceWatch('cpu', root=board, clock=lambda: now[0])
    first = watch.read()
    write(board, 'sys/class/thermal/thermal_zone1/temp', '60000')
    now[0] = 100.99
    assert watch.read() is first
    now[0] = 101.0
    assert watch.read().values['temperature.gpu-thermal'] == '60.0 C'


class SlowGpu:
    """Answers when it may."""

    def __init__(self) -> None:
        self.looks, self.may_answer = threading.Semaphore(0), threading.Event()

    def read(self) -> Readings:
        self.looks.release()
        self.may_answer.wait()
        return Readings({'gpu.temperature': '40 C'}, ('the GPU is slowed down: power limit',))


def test_who_asks_meanwhile_gets_what_is_known(board: Path):
    gpu = SlowGpu()
    watch = DeviceWatch('cuda', root=board, open_gpu=lambda _: gpu)
    seen: list[DeviceState] = []
    looking = threading.Thread(target=lambda: seen.append(watch.read()))
    looking.start()
    gpu.looks.acquire()
    assert watch.read() == DeviceState()
    gpu.may_answer.set()
    looking.join()
    assert seen[0].values['gpu.temperature'] == '40 C'
    assert seen[0].warnings == ('the GPU is slowed down: power limit',)
    assert watch.read() is seen[0]


class FakeDriver:
    """libnvidia-ml and libcuda with a GPU at bus 0000:3B:00.0, which CUDA counts as number 1."""

    def __init__(self, reasons: int = 0, temperature: int = 45) -> None:
        self._answers = {
            ('nvmlDeviceGetTemperature', 0): temperature,
            ('nvmlDeviceGetTemperatureThreshold', 1): 92,
            ('nvmlDeviceGetClockInfo', 1): 1200,
            ('nvmlDeviceGetMaxClockInfo', 1): 1980,
            ('nvmlDeviceGetCurrentClocksThrottleReasons',): reasons,
        }

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name.startswith('nvmlDeviceGet') and not name.startswith('nvmlDeviceGetHandle'):
            return lambda handle, *arguments: self._tell(handle, name, *arguments)
        return {
            'cuInit': lambda flags: 0,
            'cuDeviceGet': self._device,
            'cuDeviceGetPCIBusId': self._bus_id,
            'nvmlInit_v2': lambda: 0,
            'nvmlDeviceGetHandleByPciBusId_v2': self._handle,
        }[name]

    def _device(self, handle: object, index: int) -> int:
        handle._obj.value = index + 70
        return 0 if index == 1 else 101

    def _bus_id(self, text: ctypes.Array, size: int, handle: ctypes.c_int) -> int:
        assert size == len(text)
        text.value = f'0000:3B:00.{handle.value - 71}'.encode()
        return 0

    def _handle(self, bus_id: ctypes.Array, handle: object) -> int:
        handle._obj.value = 4711
        return 0 if bus_id.value == b'0000:3B:00.0' else 6

    def _tell(self, handle: ctypes.c_void_p, name: str, *arguments: object) -> int:
        assert handle.value == 4711
        *key, result = arguments
        if (name, *key) not in self._answers:
            return 3  # not supported
        result._obj.value = self._answers[name, *key]
        return 0


def test_gpu_at_work():
    assert Gpu(1, lambda _: FakeDriver()).read() == Readings(
        {
            'gpu.throttling': 'none',
            'gpu.temperature': '45 C',
            'gpu.clock.sm': '1200 of 1980 MHz',
            'gpu.clock.memory': 'not available',
        },
        (),
    )


def test_gpu_that_is_slowed_down_says_why():
    # Also idle and clocks set by a user, which are no faults.
    readings = Gpu(1, lambda _: FakeDriver(reasons=0x1 | 0x2 | 0x4 | 0x20, temperature=90)).read()
    assert readings.values['gpu.throttling'] == 'power limit, heat (driver)'
    assert readings.warnings == (
        'the GPU is slowed down: power limit, heat (driver)',
        'the GPU is hot: 90 C, it slows down at 92 C',
    )


def test_device_that_cuda_does_not_count_is_refused():
    with pytest.raises(NvmlError, match='cuDeviceGet: error 101'):
        Gpu(0, lambda _: FakeDriver())


def test_computer_without_the_library_says_so(board: Path):
    def load(name: str) -> ctypes.CDLL:
        raise OSError(f'{name}: cannot open shared object file')

    watch = DeviceWatch('cuda', root=board, open_gpu=lambda device: Gpu(device, load))
    state = watch.read()
    assert state.values['gpu'] == 'not available: libnvidia-ml.so.1: cannot open shared object file'
    assert state.values['temperature.gpu-thermal'] == '48.0 C'
    assert state.warnings == ()
