# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Unpacks the chunks of an MCAP file: never more than they declare, and never more than a limit."""

import struct
import zlib
from dataclasses import dataclass
from io import BytesIO

import lz4.frame
import zstandard

MAX_CHUNK_BYTES = 256 << 20  # unpacked; recorders write chunks of about one megabyte
MAX_CHUNK_RECORD_BYTES = MAX_CHUNK_BYTES + (1 << 20)  # what does not shrink grows a little
_FIELDS = struct.Struct('<QQQI')  # start time, end time, unpacked size, checksum
_STEP_BYTES = 1 << 20


@dataclass(frozen=True)
class Chunk:
    """The fields of a chunk record and its packed content."""

    unpacked_bytes: int  # as the record declares
    checksum: int  # CRC-32 of the unpacked content, 0: none
    compression: str
    packed: memoryview
    is_whole: bool  # every packed byte is there


def parse_chunk(content: bytes) -> Chunk:
    """Raises ValueError where even the fields are not whole or ask for too much."""
    if len(content) < _FIELDS.size + 4:
        raise ValueError(f'a chunk has {len(content)} bytes only')
    _, _, unpacked_bytes, checksum = _FIELDS.unpack_from(content)
    if unpacked_bytes > MAX_CHUNK_BYTES:
        raise ValueError(f'a chunk declares {unpacked_bytes} bytes, the limit is {MAX_CHUNK_BYTES}')
    name_start = _FIELDS.size + 4
    name_end = name_start + int.from_bytes(content[_FIELDS.size : name_start], 'little')
    compression = content[name_start:name_end].decode('ascii', 'replace')
    if compression not in ('', 'zstd', 'lz4'):
        raise ValueError(f"a chunk is compressed with '{compression[:20]}', known: zstd, lz4")
    declared_bytes = int.from_bytes(content[name_end : name_end + 8], 'little')
    packed = memoryview(content)[name_end + 8 :]
    return Chunk(
        unpacked_bytes, checksum, compression, packed[:declared_bytes], len(packed) >= declared_bytes
    )


def unpack_chunk(chunk: Chunk) -> bytes:
    """The records of a chunk: all of them, or of one that was cut as far as its bytes reach.

    Raises ValueError where a whole chunk is not what it declares.
    """
    try:
        records = _unpacked(chunk)
    except (zstandard.ZstdError, RuntimeError) as error:  # lz4 raises the latter
        raise ValueError(f'a chunk cannot be unpacked: {error}') from None
    if not chunk.is_whole:
        return records[: chunk.unpacked_bytes]
    if len(records) != chunk.unpacked_bytes:
        has = f'more than {chunk.unpacked_bytes}' if len(records) > chunk.unpacked_bytes else len(records)
        raise ValueError(f'a chunk declares {chunk.unpacked_bytes} bytes and has {has}')
    if chunk.checksum and zlib.crc32(records) != chunk.checksum:
        raise ValueError('the checksum of a chunk is wrong')
    return records


def _unpacked(chunk: Chunk) -> bytes:
    """At most one byte more than declared."""
    if not chunk.compression:
        return bytes(chunk.packed[: chunk.unpacked_bytes + 1])
    if chunk.compression == 'zstd':
        read = zstandard.ZstdDecompressor().stream_reader(BytesIO(chunk.packed)).read
    else:
        read = _Lz4Reader(chunk.packed).read
    records = bytearray()
    while part := read(min(_STEP_BYTES, chunk.unpacked_bytes + 1 - len(records))):
        records += part
        if len(records) > chunk.unpacked_bytes:
            break
    return bytes(records)


class _Lz4Reader:
    """Unpacks step by step, where the module's own functions unpack everything at once."""

    def __init__(self, packed: memoryview) -> None:
        self._decompressor = lz4.frame.LZ4FrameDecompressor()
        self._packed: bytes | memoryview = packed

    def read(self, count: int) -> bytes:
        if self._decompressor.eof:
            return b''
        part = self._decompressor.decompress(self._packed, count)
        self._packed = b''  # the decompressor keeps what it has not used
        return part
