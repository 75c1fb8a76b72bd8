# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Reads one SQLite file of a recording, and refuses what SQLite itself would read as zeros or leave out."""

from collections.abc import Iterator
from pathlib import Path

from rosbags.interfaces import Connection, QosReliability
from rosbags.rosbag2 import Reader

_HEADER_BYTES = 100  # of a database: the size of a page from byte 16 on, the number of pages from 28 on


class SqliteFile:
    """An open file; raises ValueError when it cannot be read."""

    def __init__(self, path: Path) -> None:
        _check_is_whole(path)
        self._reader = Reader(path)
        try:
            self._reader.open()
        except Exception as error:  # whatever the reader stumbles over in a damaged file
            raise ValueError(str(error) or type(error).__name__) from None
        try:
            connections = self._reader.connections
            self.topics = _types(connections)
            self.best_effort = {c.topic for c in connections if _is_best_effort(c)}
            self.count = self._reader.message_count
            self.start_ns = _log_time(self._reader.start_time) if self.count else 0
            # rosbags counts to the first instant after the last message.
            self.end_ns = _log_time(self._reader.end_time - 1) if self.count else 0
            self.warning = _what_is_beside(path)
        except BaseException:
            self._reader.close()
            raise

    def close(self) -> None:
        self._reader.close()

    def messages(self) -> Iterator[tuple[int, str, str, bytes]]:
        """(log time, topic, type, content) by log time, ties in file order."""
        if not self.count:
            return
        for connection, log_ns, content in self._reader.messages():
            yield _log_time(log_ns), connection.topic, connection.msgtype, content


def _check_is_whole(path: Path) -> None:
    """SQLite reads zeros for what is missing of the last page."""
    with path.open('rb') as file:
        header = file.read(_HEADER_BYTES)
    size = path.stat().st_size
    if len(header) < _HEADER_BYTES:
        raise ValueError(f'it has {size} bytes, a database begins with {_HEADER_BYTES}')
    page_bytes, pages = int.from_bytes(header[16:18], 'big'), int.from_bytes(header[28:32], 'big')
    page_bytes = 65536 if page_bytes == 1 else page_bytes
    if page_bytes and (size % page_bytes or size < pages * page_bytes):
        raise ValueError(
            f'it is cut short, {size} of {max(pages, 1) * page_bytes} bytes are there; '
            f'`sqlite3 {path.name} .recover | sqlite3 saved.db3` saves what is left'
        )


def _what_is_beside(path: Path) -> str:
    log = path.with_name(f'{path.name}-wal')
    if not log.exists() or not log.stat().st_size:
        return ''
    return (
        f'{log} is not read, and holds what the recorder wrote last (was it killed?); '
        f'`sqlite3 {path.name} "PRAGMA wal_checkpoint(TRUNCATE)"` moves it into {path.name}'
    )


def _types(connections: list[Connection]) -> dict[str, str]:
    """Topic -> type; a topic may have several publishers."""
    types: dict[str, str] = {}
    for connection in connections:
        topic, kind = connection.topic, connection.msgtype
        if not (isinstance(topic, str) and isinstance(kind, str)):
            raise ValueError(f'topic {topic!r} of type {kind!r} is none')
        if types.setdefault(topic, kind) != kind:
            raise ValueError(f'{topic} is {types[topic]} and {kind}')
    return types


def _log_time(value: object) -> int:
    """A column of SQLite may hold anything."""
    if not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise ValueError(f'a log time is {value!r}')
    return value


def _is_best_effort(connection: Connection) -> bool:
    profiles = connection.ext.offered_qos_profiles
    return any(profile.reliability == QosReliability.BEST_EFFORT for profile in profiles)
