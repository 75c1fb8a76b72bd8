# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Reads what is whole in an MCAP file that was cut short: no index, no end marker, half a last record."""

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import lz4.frame
import zstandard
from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.records import Channel, Message, Schema

_MAGIC = b'\x89MCAP0\r\n'
_RECORD_HEADER = 9  # opcode and length
_CHUNK_FIELDS = 28  # start time, end time, uncompressed size, checksum


def recover_records(path: Path) -> Iterator[Schema | Channel | Message]:
    """Schemas, channels and messages in file order, up to the first record that is not whole."""
    with path.open('rb') as file:
        magic = file.read(len(_MAGIC))
        if magic != _MAGIC:
            raise ValueError(f'it is not an MCAP file, its first bytes are {magic!r}')
        for opcode, content, is_whole in _records(file):
            if opcode in (Opcode.DATA_END, Opcode.FOOTER):
                return
            if opcode == Opcode.CHUNK:
                yield from _parsed(_records(io.BytesIO(_decompressed(content))))
            else:
                yield from _parsed([(opcode, content, is_whole)])


def _records(file: BinaryIO) -> Iterator[tuple[int, bytes, bool]]:
    """(opcode, content, is it complete); only the last content of cut data is incomplete."""
    start = file.tell()
    end = file.seek(0, os.SEEK_END)
    file.seek(start)
    while len(header := file.read(_RECORD_HEADER)) == _RECORD_HEADER:
        length = int.from_bytes(header[1:], 'little')
        content = file.read(min(length, end - file.tell()))  # a damaged length may be absurd
        yield header[0], content, len(content) == length


def _parsed(records: Iterator[tuple[int, bytes, bool]] | list) -> Iterator[Schema | Channel | Message]:
    for opcode, content, is_whole in records:
        stream = ReadDataStream(io.BytesIO(content))
        if not is_whole:
            return
        if opcode == Opcode.SCHEMA:
            yield Schema.read(stream)
        elif opcode == Opcode.CHANNEL:
            yield Channel.read(stream)
        elif opcode == Opcode.MESSAGE:
            yield Message.read(stream, len(content))


def _decompressed(chunk: bytes) -> bytes:
    """The records of a chunk as far as its bytes reach; its checksum covers all of it and cannot help."""
    name_end = _CHUNK_FIELDS + 4 + int.from_bytes(chunk[_CHUNK_FIELDS : _CHUNK_FIELDS + 4], 'little')
    compression = chunk[_CHUNK_FIELDS + 4 : name_end].decode('ascii', 'replace')
    payload = chunk[name_end + 8 :]
    if compression == 'zstd':
        return zstandard.ZstdDecompressor().decompressobj().decompress(payload)
    if compression == 'lz4':
        return lz4.frame.LZ4FrameDecompressor().decompress(payload)
    if compression:
        raise ValueError(f"a chunk is compressed with '{compression}', known: zstd, lz4")
    return payload
