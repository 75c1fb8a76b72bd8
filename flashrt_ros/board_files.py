# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Temperatures, clocks and throttling as the kernel shows them in files; works for any Linux board."""

import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

NOT_AVAILABLE = 'not available'
NEAR_TRIP_K = 5.0  # this close to its trip point a zone is reported

_MOST = 64  # entries of one kind that are looked at
_MOST_BYTES = 4096  # of a file of one value
_MOST_CONFIG_BYTES = 1 << 17
# Trip points at which the kernel slows something down or switches it off; 'active' ones start a fan.
_SLOWING_TRIPS = ('passive', 'hot', 'critical')
_HIGHEST_TRIP_C = 200.0  # beyond, and at 0 and below, it stands for a trip point that is not set
# Cooling devices that take speed from a processor; fans, screens and radios are others.
_SLOWING = re.compile(r'throttle|hot-surface|cpufreq|devfreq|processor|powerclamp', re.IGNORECASE)


@dataclass(frozen=True)
class Readings:
    """One look at the board; keys of `values` are sorted as they are to be shown."""

    values: dict[str, str]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class _Zone:
    name: str
    temperature: Path  # thousandths of a degree Celsius
    trip: tuple[float, str] | None  # the lowest one that slows, in degrees Celsius, and its type


@dataclass(frozen=True)
class _Clock:
    name: str
    current: Path
    highest: Path
    hertz: float  # of one unit of these files


class BoardFiles:
    """What there is to read is looked up once; read() then opens a few dozen files of the kernel."""

    def __init__(self, root: Path = Path('/')) -> None:
        self._root = root
        sys = root / 'sys'
        self._zones = _zones(sys / 'class/thermal')
        self._cooling = [
            (kind, folder)
            for folder in _folders(sys / 'class/thermal', 'cooling_device*')
            if _SLOWING.search(kind := _text(folder / 'type'))
        ]
        self._processors = [
            _Clock('cpu', folder / 'scaling_cur_freq', folder / 'cpuinfo_max_freq', 1e3)
            for folder in _folders(sys / 'devices/system/cpu/cpufreq', 'policy*')
        ]
        self._devices = [
            _Clock(folder.name, folder / 'cur_freq', folder / 'max_freq', 1.0)
            for folder in _folders(sys / 'class/devfreq', '*')
        ]
        self._counters = _throttle_counters(sys)
        self._counts: dict[str, int] = {}

    def read(self) -> Readings:
        temperatures, hot = self._read_temperatures()
        throttling = self._read_throttling()
        knows_throttling = self._cooling or self._counters
        values = {
            'power_mode': _power_mode(self._root),
            'throttling': '; '.join(throttling) or ('none' if knows_throttling else NOT_AVAILABLE),
            **self._read_clocks(),
            **temperatures,
        }
        return Readings(values, (*throttling, *hot))

    def _read_temperatures(self) -> tuple[dict[str, str], list[str]]:
        values, warnings = {}, []
        for zone in self._zones:
            if (thousandths := _number(zone.temperature)) is None:  # a part that is switched off has none
                values[f'temperature.{zone.name}'] = NOT_AVAILABLE
                continue
            celsius = thousandths / 1000
            values[f'temperature.{zone.name}'] = f'{celsius:.1f} C'
            if zone.trip and celsius > zone.trip[0] - NEAR_TRIP_K:
                trip, kind = zone.trip
                warnings.append(f'{zone.name} is hot: {celsius:.1f} C, its {kind} trip point is {trip:.1f} C')
        return values or {'temperature': NOT_AVAILABLE}, warnings

    def _read_clocks(self) -> dict[str, str]:
        values = {'clock.cpu': _clocks(self._processors)}
        return values | {f'clock.{clock.name}': _clocks([clock]) for clock in self._devices}

    def _read_throttling(self) -> list[str]:
        """Sentences: what is slowed down now, and what was since the last look."""
        slowed = []
        for kind, folder in self._cooling:
            state = _number(folder / 'cur_state')
            if state is not None and state > 0:
                slowed.append(f'{kind} {state} of {_text(folder / "max_state") or "?"}')
        found = [f'slowed down to stay cool: {", ".join(slowed)}'] if slowed else []
        for name, path in self._counters.items():
            if (count := _number(path)) is None:
                continue
            more = count - self._counts.get(name, count)
            self._counts[name] = count
            if more > 0:
                found.append(f'slowed down {more} times since the last look: {name}')
        return found


def _zones(folder: Path) -> list[_Zone]:
    found = [(_text(zone / 'type'), zone) for zone in _folders(folder, 'thermal_zone*')]
    repeated = Counter(kind for kind, _ in found)
    return [
        _Zone(
            kind if kind and repeated[kind] == 1 else f'{kind} {zone.name}'.strip(),
            zone / 'temp',
            _lowest_trip(zone),
        )
        for kind, zone in found
    ]


def _lowest_trip(zone: Path) -> tuple[float, str] | None:
    trips = []
    for path in sorted(zone.glob('trip_point_*_type'))[:_MOST]:
        kind, thousandths = _text(path), _number(path.with_name(path.name.replace('_type', '_temp')))
        if kind in _SLOWING_TRIPS and thousandths and 0 < thousandths / 1000 < _HIGHEST_TRIP_C:
            trips.append((thousandths / 1000, kind))
    return min(trips, default=None)


def _throttle_counters(sys: Path) -> dict[str, Path]:
    """What counts throttling instead of showing it: over-current of Jetson boards, heat of Intel's."""
    counters = {}
    for folder in _folders(sys / 'class/hwmon', 'hwmon*'):
        if _text(folder / 'name') == 'soctherm_oc':
            for path in sorted(folder.glob('oc*_event_cnt'))[:_MOST]:
                counters[f'supply voltage or current ({path.name})'] = path
    package = sys / 'devices/system/cpu/cpu0/thermal_throttle/package_throttle_count'
    if package.exists():
        counters['processor temperature'] = package
    return counters


def _power_mode(root: Path) -> str:
    """Of Jetson boards: what nvpmodel was set to, by number and name."""
    mode = re.fullmatch(r'pmode:(\d+)', _text(root / 'var/lib/nvpmodel/status'))
    if not mode:
        return NOT_AVAILABLE
    config = _text(root / 'etc/nvpmodel.conf', _MOST_CONFIG_BYTES)
    name = re.search(rf'<\s*POWER_MODEL\s+ID={int(mode[1])}\s+NAME=(\S+)', config)
    return f'{int(mode[1])} ({name[1]})' if name else str(int(mode[1]))


def _clocks(clocks: Iterable[_Clock]) -> str:
    """'1200 to 2000 of 2200 MHz'"""
    clocks = list(clocks)
    now = [_number(clock.current) for clock in clocks]
    highest = [_number(clock.highest) for clock in clocks]
    if not clocks or None in now or None in highest:
        return NOT_AVAILABLE
    low, high, most = (value * clocks[0].hertz / 1e6 for value in (min(now), max(now), max(highest)))
    span = f'{low:.0f}' if round(low) == round(high) else f'{low:.0f} to {high:.0f}'
    return f'{span} of {most:.0f} MHz'


def _folders(parent: Path, pattern: str) -> list[Path]:
    """In the order of their numbers."""
    return sorted(parent.glob(pattern), key=lambda path: (len(path.name), path.name))[:_MOST]


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if re.fullmatch(r'-?\d{1,18}', text) else None


def _text(path: Path, most_bytes: int = _MOST_BYTES) -> str:
    """Empty where the file is not there or its driver answers with an error; never waits or reads much."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ''
    try:
        return os.read(descriptor, most_bytes).decode('utf-8', 'replace').strip('\0 \n')
    except OSError:
        return ''
    finally:
        os.close(descriptor)
