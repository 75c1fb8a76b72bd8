# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Recordings that are cut, damaged or made to do harm: what is read is counted, the rest refused by name."""

import json
import re
import shutil
import sqlite3
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path

import lz4.frame
import pytest
import yaml
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from flashrt_ros.bag import Bag, BagError
from flashrt_ros.mcap_chunks import MAX_CHUNK_BYTES

BAGS = Path(__file__).resolve().parent.parent / 'cases' / 'bags'
NAMES = sorted(json.loads((BAGS / 'index.json').read_text()))
STORE = get_typestore(Stores.ROS2_KILTED)
PACK: dict[str, Callable[[bytes], bytes]] = {
    '': bytes,
    'zstd': zstandard.ZstdCompressor().compress,
    'lz4': lz4.frame.compress,
}
MEGABYTE = 1 << 20
U64 = st.integers(0, 2**64 - 1)
few = settings(
    max_examples=60, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip


def data_file(name: str) -> Path:
    [file] = [file for file in (BAGS / name).iterdir() if file.suffix in ('.db3', '.mcap')]
    return file


Seen = tuple[int, str, int]  # log time, topic, checksum of the content


def read(path: Path) -> list[Seen] | str:
    """The messages, after a check that their number is stated; or the refusal, after a check of its name."""
    warnings: list[str] = []
    refusal = ''
    try:
        with Bag(path, warnings.append) as bag:
            messages = [(m.log_ns, m.topic, zlib.crc32(m.cdr)) for m in bag.messages()]
            assert bag.count == len(messages)
            assert all(bag.start_ns <= log_ns <= bag.end_ns for log_ns, _, _ in messages)
    except BagError as error:
        refusal = str(error)
    if refusal:
        assert str(path) in refusal
        return refusal
    for warning in warnings:
        if 'cut short' in warning:
            assert f': {len(messages)} messages are whole' in warning
    return messages


def read_twice(path: Path) -> list[Seen] | str:
    first = read(path)
    assert read(path) == first
    return first


@cache
def whole(name: str) -> list[Seen]:
    return read(BAGS / name)


def test_every_case_is_read():
    counts = {name: len(whole(name)) for name in NAMES}
    assert counts == {
        'arm_and_gripper_apart': 160,
        'clock_jumps_back': 480,
        'no_metadata': 140,
        'out_of_order_stamps': 140,
        'plain_db3': 140,
        'plain_mcap': 140,
        'stamp_zero': 140,
        'truncated_mcap': 81,
        'unknown_type': 150,
    }


@few
@given(st.sampled_from(['plain_db3', 'plain_mcap', 'truncated_mcap']), st.data())
def test_cut_file_gives_the_messages_before_the_cut_or_is_refused(tmp_path, name, data):
    content = data_file(name).read_bytes()
    cut = data.draw(st.integers(0, len(content) - 1), label='cut')
    file = tmp_path / data_file(name).name
    file.write_bytes(content[:cut])
    found = read_twice(file)
    if name == 'plain_db3':
        assert isinstance(found, str)
    elif isinstance(found, list):
        assert found == whole(name)[: len(found)]


@few
@given(st.sampled_from(['plain_db3', 'plain_mcap', 'truncated_mcap']), st.data())
def test_file_with_other_bytes_is_read_or_refused(tmp_path, name, data):
    content = bytearray(data_file(name).read_bytes())
    changes = st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255))
    for at, value in data.draw(st.lists(changes, min_size=1, max_size=100), label='changes'):
        content[at] = value
    file = tmp_path / data_file(name).name
    file.write_bytes(content)
    read_twice(file)


@pytest.mark.parametrize('suffix', ['.db3', '.mcap'])
@few
@given(content=st.binary(max_size=200))
def test_other_content_is_refused(tmp_path, suffix, content):
    file = tmp_path / f'file{suffix}'
    for start in (b'', b'\x89MCAP0\r\n', b'SQLite format 3\0'):
        file.write_bytes(start + content)
        assert isinstance(read_twice(file), str) or suffix == '.db3'


# The description


@pytest.fixture
def described(tmp_path) -> Path:
    folder = tmp_path / 'bag'
    shutil.copytree(BAGS / 'plain_db3', folder)
    return folder


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@few
@given(ANYTHING, ANYTHING, ANYTHING)
def test_counts_and_times_of_the_description_are_not_believed(described, count, start, topics):
    path = described / 'metadata.yaml'
    content = yaml.safe_load((BAGS / 'plain_db3' / 'metadata.yaml').read_text())
    content['rosbag2_bagfile_information'] |= {
        'message_count': count, 'starting_time': start, 'duration': start, 'files': topics,
        'topics_with_message_count': topics,
    }  # fmt: skip
    path.write_text(yaml.safe_dump(content, allow_unicode=True), encoding='utf-8')
    assert read(described) == whole('plain_db3')


@few
@given(ANYTHING, ANYTHING, ANYTHING)
def test_files_and_compression_of_the_description_are_checked(described, names, mode, packing):
    content = {'relative_file_paths': names, 'compression_mode': mode, 'compression_format': packing}
    text = yaml.safe_dump({'rosbag2_bagfile_information': content}, allow_unicode=True)
    (described / 'metadata.yaml').write_text(text, encoding='utf-8')
    assert read(described) == [] or isinstance(read(described), str)


@few
@given(st.data())
def test_description_that_is_cut_or_changed_is_read_or_refused(described, data):
    content = bytearray((BAGS / 'plain_db3' / 'metadata.yaml').read_bytes())
    changes = st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255))
    for at, value in data.draw(st.lists(changes, max_size=20), label='changes'):
        content[at] = value
    (described / 'metadata.yaml').write_bytes(content[: data.draw(st.integers(0, len(content)), label='cut')])
    read(described)


@pytest.mark.parametrize('text', ['[' * 100_000, 'a: ' + '{b: ' * 5000, 'when: 2020-13-45', '? [a]\n: b'])
def test_description_that_yaml_stumbles_over_is_refused(described, text):
    (described / 'metadata.yaml').write_text(text)
    assert 'is not the description of a recording' in read(described)


def test_description_of_many_megabytes_is_refused_unread(described):
    (described / 'metadata.yaml').write_bytes(b'#' * (2 * MEGABYTE + 1))
    assert 'a description has at most 2097152' in read(described)


def test_file_that_cannot_be_opened_is_refused(tmp_path):
    folder = tmp_path / 'bag'
    (folder / 'data.mcap').mkdir(parents=True)
    assert 'cannot be read' in read(folder)


# Columns of SQLite


@pytest.mark.parametrize('value', ["'soon'", 'NULL', '-1', '1.5', "x'00'", '9e99'])
def test_log_time_that_is_none_is_refused(described, value):
    with closing(sqlite3.connect(described / 'plain_db3.db3')) as database, database:
        database.execute('CREATE TABLE loose AS SELECT * FROM messages')
        database.execute('DROP TABLE messages')
        database.execute(f'UPDATE loose SET timestamp = {value} WHERE rowid % 7 = 3')
        database.execute('ALTER TABLE loose RENAME TO messages')
    assert re.search('cannot be read|is damaged', read_twice(described))


@few
@given(st.integers(3600 * 10**9 + 1, 2**62))
def test_leap_of_the_log_time_is_refused(described, leap):
    """Nobody waits years for the next message, and no control tick is played for each period of them."""
    shutil.copy(BAGS / 'plain_db3' / 'plain_db3.db3', described)
    with closing(sqlite3.connect(described / 'plain_db3.db3')) as database, database:
        database.execute('UPDATE messages SET timestamp = timestamp + ? WHERE id > 70', (leap,))
    assert 'nothing was recorded from' in read(described)


def test_what_a_killed_recorder_left_beside_the_file_is_named(tmp_path):
    file = tmp_path / 'plain_db3.db3'
    shutil.copy(BAGS / 'plain_db3' / file.name, file)
    warnings: list[str] = []
    with closing(sqlite3.connect(file)) as database:
        database.execute('PRAGMA journal_mode = WAL')
        database.execute('DELETE FROM messages WHERE id > 70')
        database.commit()
        with Bag(file, warnings.append) as bag:
            assert bag.count == 140
    [warning] = warnings
    assert f'{file}-wal is not read' in warning
    assert 'wal_checkpoint' in warning
    assert len(read(file)) == 70


@pytest.mark.parametrize('data', ["'text'", '7', 'NULL'])
def test_content_that_is_no_bytes_is_refused(described, data):
    with closing(sqlite3.connect(described / 'plain_db3.db3')) as database, database:
        database.execute('CREATE TABLE loose AS SELECT * FROM messages')
        database.execute('DROP TABLE messages')
        database.execute(f'UPDATE loose SET data = {data} WHERE rowid % 7 = 3')
        database.execute('ALTER TABLE loose RENAME TO messages')
    assert 'is damaged' in read_twice(described)


@pytest.mark.parametrize('column', ['name', 'type'])
@pytest.mark.parametrize('value', ['NULL', "x'00'"])
def test_topic_that_is_no_text_is_refused(described, column, value):
    with closing(sqlite3.connect(described / 'plain_db3.db3')) as database, database:
        database.execute('CREATE TABLE loose AS SELECT * FROM topics')
        database.execute('DROP TABLE topics')
        database.execute(f'UPDATE loose SET {column} = {value} WHERE rowid = 2')
        database.execute('ALTER TABLE loose RENAME TO topics')
    assert re.search('is none|cannot be read', read_twice(described))


@pytest.mark.parametrize('storage', list(StoragePlugin))
def test_topic_of_two_types_is_refused_or_read_up_to_the_second(tmp_path, storage):
    with Writer(tmp_path / 'bag', version=9, storage_plugin=storage) as writer:
        for number, kind in enumerate(('std_msgs/msg/String', 'std_msgs/msg/Bool')):
            connection = writer.add_connection('/text', kind, typestore=STORE)
            value = STORE.types[kind](bool(number) if number else '')
            writer.write(connection, 1 + number, STORE.serialize_cdr(value, kind))
    found = read_twice(tmp_path / 'bag')
    if storage is StoragePlugin.SQLITE3:
        assert '/text is std_msgs/msg/String and std_msgs/msg/Bool' in found
    else:
        assert [log_ns for log_ns, _, _ in found] == [1]


@pytest.mark.parametrize('storage', list(StoragePlugin))
def test_empty_recording_is_read(tmp_path, storage):
    with Writer(tmp_path / 'bag', version=9, storage_plugin=storage) as writer:
        writer.add_connection('/text', 'std_msgs/msg/String', typestore=STORE)
    assert read_twice(tmp_path / 'bag') == []
    with Bag(tmp_path / 'bag', pytest.fail) as bag:
        assert (bag.topics, bag.start_ns, bag.end_ns) == ({'/text': 'std_msgs/msg/String'}, 0, 0)


# Chunks and records of MCAP


def write_texts(path: Path, count: int, size: int = 1) -> bytes:
    """A recording of `count` texts, as MCAP in one chunk that is not compressed."""
    text = STORE.types['std_msgs/msg/String']
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection('/text', text.__msgtype__, typestore=STORE)
        for number in range(count):
            content = STORE.serialize_cdr(text(f'{number:0{size}}'), text.__msgtype__)
            writer.write(connection, 1 + number, content)
    return (path / f'{path.name}.mcap').read_bytes()


def first_chunk(content: bytes) -> tuple[int, int, bytes]:
    """Where the first chunk record begins and ends, and the records in it."""
    start = 8
    while content[start] != 6:
        start += 9 + struct.unpack_from('<Q', content, start + 1)[0]
    end = start + 9 + struct.unpack_from('<Q', content, start + 1)[0]
    return start, end, content[start + 9 + 40 : end]


def chunk_record(records: bytes, codec: str, declared: int, packed: bytes | None = None) -> bytes:
    packed = PACK[codec](records) if packed is None else packed
    body = struct.pack('<QQQI', 1, 2, declared, 0) + struct.pack('<I', len(codec)) + codec.encode()
    body += struct.pack('<Q', len(packed)) + packed
    return b'\x06' + struct.pack('<Q', len(body)) + body


@pytest.fixture(scope='module')
def texts(tmp_path_factory) -> tuple[bytes, bytes, bytes]:
    """A file before its chunk, the records of the chunk, and the file behind it."""
    content = write_texts(tmp_path_factory.mktemp('texts') / 'bag', 20)
    start, end, records = first_chunk(content)
    return content[:start], records, content[end:]


@pytest.mark.parametrize('codec', PACK)
def test_chunks_of_each_compression_are_read(tmp_path, texts, codec):
    before, records, behind = texts
    file = tmp_path / 'file.mcap'
    file.write_bytes(before + chunk_record(records, codec, len(records)) + behind)
    assert len(read_twice(file)) == 20


@pytest.mark.parametrize('codec', PACK)
@few
@given(declared=st.integers(0, 3000) | U64)
def test_chunk_that_declares_another_size_is_refused(tmp_path, texts, codec, declared):
    before, records, behind = texts
    file = tmp_path / 'file.mcap'
    file.write_bytes(before + chunk_record(records, codec, declared) + behind)
    assert isinstance(read_twice(file), str) == (declared != len(records))


@pytest.mark.parametrize('codec', ['zstd', 'lz4'])
@few
@given(data=st.data())
def test_damaged_compressed_chunk_gives_messages_or_a_refusal(tmp_path, texts, codec, data):
    before, records, behind = texts
    packed = bytearray(PACK[codec](records))
    changes = st.tuples(st.integers(0, len(packed) - 1), st.integers(0, 255))
    for at, value in data.draw(st.lists(changes, min_size=1, max_size=5), label='changes'):
        packed[at] = value
    file = tmp_path / 'file.mcap'
    file.write_bytes(before + chunk_record(records, codec, len(records), bytes(packed)) + behind)
    read_twice(file)


@few
@given(U64, st.integers(0, 255))
def test_record_of_any_declared_size_ends_the_reading(tmp_path, texts, length, opcode):
    before, records, behind = texts
    file = tmp_path / 'file.mcap'
    chunk = chunk_record(records, '', len(records))
    file.write_bytes(before + chunk + struct.pack('<BQ', opcode, length) + behind)
    found = read_twice(file)
    assert len(found) == 20 or 'cannot be read' in found


# Memory


def peak_bytes(path: Path) -> tuple[int, int | str]:
    """The most memory that reading took at once, and how many messages it gave."""
    tracemalloc.start()
    try:
        with Bag(path, lambda _: None) as bag:
            found: int | str = sum(1 for _ in bag.messages())
    except BagError as error:
        found = str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak, found


@pytest.mark.parametrize('codec', ['zstd', 'lz4'])
@pytest.mark.parametrize('declared', [1000, MAX_CHUNK_BYTES + 1, 2**64 - 1])
def test_chunk_that_would_fill_the_memory_is_refused(tmp_path, texts, codec, declared):
    packed = PACK[codec](bytes(64 * MEGABYTE))
    file = tmp_path / 'file.mcap'
    file.write_bytes(texts[0] + chunk_record(b'', codec, declared, packed) + texts[2])
    peak, found = peak_bytes(file)
    assert 'a chunk declares' in found
    assert peak < 8 * MEGABYTE


@pytest.mark.parametrize('share', [1.0, 0.8])
def test_recording_larger_than_the_memory_can_be_read_whole_or_cut(tmp_path, share):
    """24 megabytes stand for it: no more than a few chunks are in memory at once."""
    content = write_texts(tmp_path / 'bag', 240, 100_000)
    file = tmp_path / 'file.mcap'
    file.write_bytes(content[: round(len(content) * share)])
    peak, found = peak_bytes(file)
    assert 0.7 * 240 * share < found <= 240 * share
    assert peak < 10 * MEGABYTE
