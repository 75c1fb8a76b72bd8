# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Reads MCAP files from the front, so that one whose recorder was killed gives what is whole in it.

Opening a file makes an index of its messages (34 bytes each); their content is read when it is their turn, so
a file may be larger than the memory. The index and the statistics at the end of a file are not used: they are
what a killed recorder did not write, and what a damaged file lies about.
"""

import io
import os
import struct
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Channel, Schema
from rosbags.interfaces import QosReliability
from rosbags.rosbag2.errors import ReaderError
from rosbags.rosbag2.metadata import parse_qos

from flashrt_ros.mcap_chunks import MAX_CHUNK_RECORD_BYTES, parse_chunk, unpack_chunk

MAX_MESSAGE_BYTES = 256 << 20
_MAX_MESSAGES = 50_000_000
_MAX_DEFINITION_BYTES = 16 << 20  # of a schema or channel record
_CHUNKS_KEPT = 4  # unpacked ones, for messages whose times cross the border of a chunk
_MAGIC = b'\x89MCAP0\r\n'
_RECORD = struct.Struct('<BQ')  # opcode, length
_MESSAGE = struct.Struct('<HIQQ')  # channel, sequence, log time, publish time
_IN_THE_FILE = -1  # in place of the number of a chunk
_DAMAGE = (ValueError, struct.error, OverflowError, McapError)


class McapFile:
    """An open file; raises ValueError when it is no MCAP file at all, or nothing in it is whole."""

    def __init__(self, path: Path) -> None:
        self._file = path.open('rb')
        try:
            self.topics: dict[str, str] = {}  # name -> type
            self._channels: dict[int, tuple[str, str]] = {}  # topic, type
            self._schemas: dict[int, str] = {}
            self.best_effort: set[str] = set()  # topics whose publisher offered no more
            self._chunks: list[tuple[int, int]] = []  # offset and length of their records
            self._log_ns, self._chunk, self._start = array('q'), array('q'), array('q')
            self._length, self._channel = array('q'), array('H')
            self.warning = self._summary(path, self._scan())
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        self._file.close()

    @property
    def count(self) -> int:
        """Messages that are whole."""
        return len(self._log_ns)

    @property
    def start_ns(self) -> int:
        """First log time, 0 in an empty file."""
        return min(self._log_ns, default=0)

    @property
    def end_ns(self) -> int:
        """Last log time, 0 in an empty file."""
        return max(self._log_ns, default=0)

    def messages(self) -> Iterator[tuple[int, str, str, bytes]]:
        """(log time, topic, type, content) by log time, ties in file order."""
        unpacked: dict[int, bytes] = {}
        for number in map(int, np.argsort(np.asarray(self._log_ns), kind='stable')):
            chunk, start, length = self._chunk[number], self._start[number], self._length[number]
            if chunk == _IN_THE_FILE:
                content = self._read(start, length)
            else:
                if chunk not in unpacked:
                    while len(unpacked) >= _CHUNKS_KEPT:
                        del unpacked[next(iter(unpacked))]
                    unpacked[chunk] = unpack_chunk(parse_chunk(self._read(*self._chunks[chunk])))
                content = unpacked[chunk][start : start + length]
            yield self._log_ns[number], *self._channels[self._channel[number]], content

    def _summary(self, path: Path, damage: str) -> str:
        if damage and not self.count:
            raise ValueError(f'{damage}, and it holds no whole message')
        if not damage:
            return ''
        return (
            f'{path} is damaged or cut short ({damage}): {self.count} messages are whole, '
            f'the last at {self.end_ns / 1e9:.3f} s; `mcap recover {path.name}` repairs the file'
        )

    def _read(self, at: int, count: int) -> bytes:
        self._file.seek(at)
        return self._file.read(count)

    def _scan(self) -> str:
        """Fills the index up to the first record that is not whole, and says why there."""
        end = self._file.seek(0, os.SEEK_END)
        magic = self._read(0, len(_MAGIC))
        if magic != _MAGIC:
            raise ValueError(f'it is not an MCAP file, its first bytes are {magic!r}')
        at = len(_MAGIC)
        try:
            for opcode, start, length in _records(self._read, at, end):
                at = start
                if opcode == Opcode.DATA_END:
                    is_closed = self._read(max(0, end - len(_MAGIC)), len(_MAGIC)) == _MAGIC
                    return '' if is_closed else 'its end marker is missing'
                self._note(opcode, start, length, min(length, end - start))
        except _DAMAGE as error:
            return f'behind byte {at}: {error}'
        return 'it has no end'

    def _note(self, opcode: int, start: int, length: int, there: int) -> None:
        """there: how many of the bytes of the record the file has."""
        if opcode == Opcode.CHUNK:
            self._note_chunk(start, there)
            if there < length:
                raise ValueError(f'a chunk has {there} of {length} bytes')
            return
        if there < length:
            raise ValueError(f'a record has {there} of {length} bytes')
        if opcode == Opcode.MESSAGE:
            self._note_message(self._read(start, _MESSAGE.size), _IN_THE_FILE, start, length)
        elif opcode in (Opcode.SCHEMA, Opcode.CHANNEL):
            if length > _MAX_DEFINITION_BYTES:
                raise ValueError(f'a definition has {length} bytes, the limit is {_MAX_DEFINITION_BYTES}')
            self._note_definition(opcode, self._read(start, length))
        elif opcode not in _OTHER_RECORDS:
            raise ValueError(f'there is no record of kind {opcode}')

    def _note_chunk(self, offset: int, length: int) -> None:
        if length > MAX_CHUNK_RECORD_BYTES:
            raise ValueError(f'a chunk has {length} bytes, the limit is {MAX_CHUNK_RECORD_BYTES}')
        records = unpack_chunk(parse_chunk(self._read(offset, length)))
        number = len(self._chunks)
        self._chunks.append((offset, length))
        for opcode, start, size in _records(lambda at, count: records[at : at + count], 0, len(records)):
            if start + size > len(records):
                raise ValueError(f'a record in a chunk has {len(records) - start} of {size} bytes')
            if opcode == Opcode.MESSAGE:
                self._note_message(records[start : start + _MESSAGE.size], number, start, size)
            elif opcode in (Opcode.SCHEMA, Opcode.CHANNEL):
                self._note_definition(opcode, records[start : start + size])

    def _note_message(self, header: bytes, chunk: int, start: int, length: int) -> None:
        channel, _, log_ns, _ = _MESSAGE.unpack(header)
        if not _MESSAGE.size <= length <= MAX_MESSAGE_BYTES:
            raise ValueError(f'a message has {length} bytes, the limit is {MAX_MESSAGE_BYTES}')
        if channel not in self._channels:
            raise ValueError(f'a message belongs to channel {channel}, which was not described')
        if len(self._log_ns) == _MAX_MESSAGES:
            raise ValueError(f'it has more than {_MAX_MESSAGES} messages')
        self._log_ns.append(log_ns)  # OverflowError: beyond the year 2262
        self._chunk.append(chunk)
        self._start.append(start + _MESSAGE.size)
        self._length.append(length - _MESSAGE.size)
        self._channel.append(channel)

    def _note_definition(self, opcode: int, content: bytes) -> None:
        stream = ReadDataStream(io.BytesIO(content))
        if opcode == Opcode.SCHEMA:
            schema = Schema.read(stream)
            self._schemas[schema.id] = schema.name
            return
        channel = Channel.read(stream)
        kind = self._schemas.get(channel.schema_id, 'unknown')
        if channel.message_encoding != 'cdr':
            kind = f'{kind} in {channel.message_encoding}'  # no type that can be read
        known = self._channels.get(channel.id, (channel.topic, kind))
        if known != (channel.topic, kind):
            raise ValueError(f'channel {channel.id} is {known[0]} and {channel.topic}')
        if self.topics.get(channel.topic, kind) != kind:
            raise ValueError(f'{channel.topic} is {self.topics[channel.topic]} and {kind}')
        self._channels[channel.id] = known
        self.topics[channel.topic] = kind
        if _is_best_effort(channel.metadata.get('offered_qos_profiles', '')):
            self.best_effort.add(channel.topic)


_OTHER_RECORDS = frozenset(Opcode) - {Opcode.DATA_END}


def _records(read: Callable[[int, int], bytes], at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(opcode, where its content begins, its length); the last content may be cut."""
    while at < end:
        header = read(at, _RECORD.size)
        if len(header) < _RECORD.size:
            raise ValueError(f'the header of a record has {len(header)} of {_RECORD.size} bytes')
        opcode, length = _RECORD.unpack(header)
        at += _RECORD.size
        yield opcode, at, length
        at += length


def _is_best_effort(profiles: str) -> bool:
    try:
        return any(qos.reliability == QosReliability.BEST_EFFORT for qos in parse_qos(profiles))
    except (ReaderError, TypeError, KeyError, AttributeError, ValueError, RecursionError) as error:
        raise ValueError(f'the QoS of a channel cannot be read: {error!r}') from None
