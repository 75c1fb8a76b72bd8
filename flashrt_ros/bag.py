# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Reads rosbag2 recordings (SQLite and MCAP) without ROS, also those whose recorder was killed.

Messages come in the order of their log times, ties in file order, so that two readings are the same.
"""

import heapq
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Self

import yaml
import zstandard

from flashrt_core.errors import Error
from flashrt_ros.mcap_reader import MAX_MESSAGE_BYTES, McapFile
from flashrt_ros.sqlite_reader import SqliteFile

Warn = Callable[[str], None]

_SUFFIXES = ('.db3', '.mcap')
_MAX_METADATA_BYTES = 2 << 20  # a description of a thousand files has some hundred thousand
_MAX_GAP_NS = 3600 * 1_000_000_000
# What a packed file may unpack to: raw pictures of still scenes shrink tenfold to fiftyfold, a file that was
# made to fill the disk a thousandfold and more. Small files may be anything.
_MAX_UNPACKED_RATIO = 200
_SMALL_UNPACKED_BYTES = 1 << 30
_UNPACK_STEP_BYTES = 1 << 20


class BagError(Error):
    """A recording that cannot be used; the text says why and what to do."""


class BagMessage(NamedTuple):
    log_ns: int
    topic: str
    type: str
    cdr: bytes  # serialised as ROS 2 does


@dataclass(frozen=True)
class _Source:
    """One file of a recording; `read` yields its messages in order of time."""

    topics: Mapping[str, str]
    best_effort: frozenset[str]  # topics whose publisher offered no more
    count: int
    start_ns: int
    end_ns: int
    read: Callable[[], Iterator[BagMessage]]


class Bag:
    """An open recording; use it as a context manager."""

    def __init__(self, path: str | Path, warn: Warn) -> None:
        self.path = Path(path)
        self._warn = warn
        self._stack = ExitStack()
        self._sources: list[_Source] = []
        self.topics: dict[str, str] = {}  # name -> type

    def __enter__(self) -> Self:
        try:
            files, compression = self._locate()
            self._sources = [self._open(file, compression) for file in files]
            self.topics = self._merge_topics()
        except OSError as error:  # no permission, no space for unpacking, a damaged disk
            self._stack.close()
            raise BagError(f'{self.path} cannot be read: {error}') from None
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    @property
    def best_effort(self) -> set[str]:
        """Topics that were published best effort, as far as the recording tells."""
        return set().union(*(source.best_effort for source in self._sources))

    @property
    def count(self) -> int:
        """Messages that can be read."""
        return sum(source.count for source in self._sources)

    @property
    def start_ns(self) -> int:
        """Log time of the first message, 0 in an empty recording."""
        return min((source.start_ns for source in self._sources if source.count), default=0)

    @property
    def end_ns(self) -> int:
        """Log time of the last message, 0 in an empty recording."""
        return max((source.end_ns for source in self._sources if source.count), default=0)

    def messages(self) -> Iterator[BagMessage]:
        """Every message, by log time, ties in file order.

        Raises BagError where a file turns out damaged, or the log time makes a leap that nobody waits for.
        """
        last_ns = self.start_ns
        for message in heapq.merge(*(source.read() for source in self._sources), key=lambda m: m.log_ns):
            if message.log_ns - last_ns > _MAX_GAP_NS:
                raise BagError(
                    f'{self.path}: nothing was recorded from {last_ns / 1e9:.3f} s to '
                    f'{message.log_ns / 1e9:.3f} s. A log time is damaged, or the clock was set while the '
                    'recorder ran; cut the recording there with `ros2 bag convert`'
                )
            last_ns = message.log_ns
            yield message

    def _locate(self) -> tuple[list[Path], str]:
        """The data files in order, and how they are compressed ('', 'file' or 'message')."""
        if not self.path.exists():
            raise BagError(f'recording {self.path} does not exist')
        if self.path.is_file():
            return [self.path], ''
        metadata = self.path / 'metadata.yaml'
        if metadata.exists():
            return _read_metadata(metadata)
        files = sorted((file for file in self.path.iterdir() if file.suffix in _SUFFIXES), key=_natural)
        if not files:
            raise BagError(f'recording {self.path} has neither metadata.yaml nor a .db3 or .mcap file')
        self._warn(
            f'{self.path} has no metadata.yaml (was the recorder killed?): reading '
            f'{", ".join(file.name for file in files)} directly; `ros2 bag reindex {self.path}` rebuilds it'
        )
        return files, ''

    def _open(self, file: Path, compression: str) -> _Source:
        if compression == 'file':
            file = self._unpack(file)
        if file.suffix not in _SUFFIXES:
            raise BagError(f'{file} is not a recording: known are {" and ".join(_SUFFIXES)} files')
        try:
            reader = McapFile(file) if file.suffix == '.mcap' else SqliteFile(file)
        except ValueError as error:
            raise BagError(f'{file} cannot be read: {error}') from None
        self._stack.callback(reader.close)
        if reader.warning:
            self._warn(reader.warning)
        return _Source(
            topics=reader.topics,
            best_effort=frozenset(reader.best_effort),
            count=reader.count,
            start_ns=reader.start_ns,
            end_ns=reader.end_ns,
            read=lambda: _checked(reader.messages(), file, compression),
        )

    def _unpack(self, file: Path) -> Path:
        folder = self._stack.enter_context(tempfile.TemporaryDirectory())
        plain = Path(folder) / file.stem
        packed_bytes, unpacked_bytes = file.stat().st_size, 0
        limit = max(_SMALL_UNPACKED_BYTES, _MAX_UNPACKED_RATIO * packed_bytes)
        try:
            with file.open('rb') as packed, plain.open('wb') as out:
                reader = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)
                while part := reader.read(_UNPACK_STEP_BYTES):
                    unpacked_bytes += len(part)
                    if unpacked_bytes > limit:
                        raise BagError(
                            f'{file} has {packed_bytes} bytes and unpacks to more than {limit}; if that is '
                            'right, unpack it with `zstd -d` and replay the result'
                        )
                    out.write(part)
        except zstandard.ZstdError as error:
            raise BagError(f'{file} cannot be unpacked: {error}') from None
        return plain

    def _merge_topics(self) -> dict[str, str]:
        merged: dict[str, str] = {}
        for source in self._sources:
            for topic, kind in source.topics.items():
                if merged.setdefault(topic, kind) != kind:
                    raise BagError(
                        f'{self.path}: {topic} is {merged[topic]} in one file and {kind} in another'
                    )
        return merged


def select_topics(
    bag: Bag, needed: Mapping[str, str], is_known: Callable[[str], bool], warn: Warn
) -> set[str]:
    """The topics that can be replayed: those whose type is installed; a fault of a needed one is an error.

    needed: topic -> type that the node subscribes with.
    """
    if absent := sorted(needed.keys() - bag.topics.keys()):
        raise BagError(
            f'{bag.path} does not hold {", ".join(absent)}, which the parameters name; it holds '
            f'{", ".join(sorted(bag.topics)) or "no topic"}'
        )
    unknown = {topic: kind for topic, kind in bag.topics.items() if not is_known(kind)}
    if lacking := [f'{topic} ({unknown[topic]})' for topic in sorted(needed.keys() & unknown.keys())]:
        raise BagError(
            f'{bag.path}: the node needs {", ".join(lacking)}, whose message type is not installed'
        )
    for topic, kind in needed.items():
        if bag.topics[topic] != kind:
            raise BagError(
                f'{bag.path}: {topic} was recorded as {bag.topics[topic]}, but by the parameters it is {kind}'
            )
    for topic, kind in sorted(unknown.items()):
        warn(f'{bag.path}: {topic} is left out, its type {kind} is not installed here')
    return set(bag.topics) - unknown.keys()


def _checked(
    rows: Iterator[tuple[int, str, str, bytes]], file: Path, compression: str
) -> Iterator[BagMessage]:
    unpack = _unpacked if compression == 'message' else bytes
    try:
        for log_ns, topic, kind, data in rows:
            if len(data) > MAX_MESSAGE_BYTES:
                raise ValueError(f'a message has {len(data)} bytes, the limit is {MAX_MESSAGE_BYTES}')
            yield BagMessage(log_ns, topic, kind, unpack(data))
    except Exception as error:  # whatever the reader stumbles over in a damaged file
        raise BagError(f'{file} is damaged: {error or type(error).__name__}') from None


def _unpacked(data: bytes) -> bytes:
    size = zstandard.frame_content_size(data)
    if size > MAX_MESSAGE_BYTES:
        raise zstandard.ZstdError(f'a message unpacks to {size} bytes, the limit is {MAX_MESSAGE_BYTES}')
    return zstandard.ZstdDecompressor().decompress(data, max_output_size=MAX_MESSAGE_BYTES)


def _read_metadata(path: Path) -> tuple[list[Path], str]:
    if path.stat().st_size > _MAX_METADATA_BYTES:
        raise BagError(
            f'{path} is {path.stat().st_size} bytes long, a description has at most {_MAX_METADATA_BYTES}'
        )
    try:
        content = yaml.safe_load(path.read_text(encoding='utf-8'))['rosbag2_bagfile_information']
        names = content['relative_file_paths']
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise TypeError('relative_file_paths is no list of texts')
        mode = str(content.get('compression_mode') or '').lower()
        packing = str(content.get('compression_format') or '')
    except (yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BagError(
            f'{path} is not the description of a recording ({error!r}); `ros2 bag reindex` rebuilds it'
        ) from None
    compression = '' if mode == 'none' else mode
    if compression not in ('', 'file', 'message') or (compression and packing != 'zstd'):
        raise BagError(
            f"{path}: compression '{packing}' by '{mode}' is not known; known: zstd by file or message"
        )
    return [_inside(path, name) for name in names], compression


def _inside(metadata: Path, name: str) -> Path:
    """The file that a description names; early versions wrote the name of the folder before it."""
    pure = PurePosixPath(name)
    file = metadata.parent / pure.name
    if pure.is_absolute() or '..' in pure.parts or file.resolve().parent != metadata.parent.resolve():
        raise BagError(f"{metadata} names the file '{name}', which is outside of the recording's folder")
    if not file.is_file():
        raise BagError(f"{metadata} names the file '{pure.name}', which is missing")
    return file


def _natural(path: Path) -> list[object]:
    """rosbag2 numbers its files without leading zeros: _9 comes before _10."""
    return [int(part) if part.isdigit() else part for part in re.split(r'(\d+)', path.name)]
