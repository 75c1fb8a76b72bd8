# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Reading recordings: both storages, R-26 to R-29, and files that nobody should trust."""

import itertools
import shutil
import struct
from pathlib import Path
from random import Random

import lz4.frame
import pytest
import zstandard
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from flashrt_ros.bag import Bag, BagError, BagMessage, select_topics
from flashrt_ros.bag_inputs import is_known

BAGS = Path(__file__).resolve().parent.parent / 'cases' / 'bags'
SAMPLE = Path(__file__).resolve().parent.parent / 'data' / 'aloha_sim'
STORE = get_typestore(Stores.ROS2_KILTED)
JOINTS, IMAGE = 'sensor_msgs/msg/JointState', 'sensor_msgs/msg/Image'
MANY = 15_000  # messages: several blocks of a compressor, and less than one chunk of the writer


def read(path: Path) -> tuple[list[BagMessage], list[str]]:
    warnings: list[str] = []
    with Bag(path, warnings.append) as bag:
        messages = list(bag.messages())
        assert len(messages) == bag.count
        assert messages[0].log_ns == bag.start_ns
        assert messages[-1].log_ns == bag.end_ns
    return messages, warnings


def write(path: Path, times: list[int], storage: StoragePlugin, mode=CompressionMode.NONE) -> None:
    text = STORE.types['std_msgs/msg/String']
    recording = Writer(path, version=9, storage_plugin=storage)
    if mode is not CompressionMode.NONE:
        recording.set_compression(mode, CompressionFormat.ZSTD)
    with recording as writer:
        connection = writer.add_connection('/text', text.__msgtype__, typestore=STORE)
        for number, time in enumerate(times):
            writer.write(connection, time, STORE.serialize_cdr(text(str(number)), text.__msgtype__))


def texts(messages: list[BagMessage]) -> list[str]:
    return [STORE.deserialize_cdr(message.cdr, message.type).data for message in messages]


def test_both_storages_hold_the_same_messages():
    sqlite, mcap = read(BAGS / 'plain_db3'), read(BAGS / 'plain_mcap')
    assert len(sqlite[0]) == 140
    assert sqlite == mcap
    assert not sqlite[1]


def test_sample_recording_is_as_described():
    with Bag(SAMPLE, pytest.fail) as bag:
        counts = dict.fromkeys(bag.topics, 0)
        for message in bag.messages():
            counts[message.topic] += 1
        assert bag.best_effort == {topic for topic in bag.topics if 'cam' in topic}
    cameras = {f'/cam_{name}/image_raw/compressed': 120 for name in ('high', 'left_wrist', 'right_wrist')}
    assert counts == cameras | {'/left_arm/joint_states': 400, '/right_arm/joint_states': 400}
    assert sum(file.stat().st_size for file in SAMPLE.iterdir()) < 5_000_000


def test_a_data_file_can_be_named_directly():
    assert read(BAGS / 'plain_db3' / 'plain_db3.db3') == read(BAGS / 'plain_db3')


def test_r26_no_metadata_is_read_with_one_warning():
    messages, warnings = read(BAGS / 'no_metadata')
    assert messages == read(BAGS / 'plain_db3')[0]
    assert len(warnings) == 1
    assert 'no metadata.yaml' in warnings[0]
    assert 'ros2 bag reindex' in warnings[0]


def test_r26_files_without_metadata_come_in_the_order_of_their_numbers(tmp_path):
    folder = tmp_path / 'bag'
    folder.mkdir()
    for number in (9, 10, 2):
        write(tmp_path / f'part_{number}', [5, 5], StoragePlugin.SQLITE3)
        shutil.copy(tmp_path / f'part_{number}' / f'part_{number}.db3', folder / f'bag_{number}.db3')
    warnings: list[str] = []
    with Bag(folder, warnings.append) as bag:
        assert bag.count == 6
    assert 'bag_2.db3, bag_9.db3, bag_10.db3' in warnings[0]


def test_r27_cut_mcap_gives_its_whole_messages():
    messages, warnings = read(BAGS / 'truncated_mcap')
    assert messages == read(BAGS / 'plain_mcap')[0][:81]
    [cut] = [warning for warning in warnings if 'cut short' in warning]
    assert '81 messages are whole' in cut
    assert f'{messages[-1].log_ns / 1e9:.3f} s' in cut
    assert 'mcap recover' in cut


@pytest.mark.parametrize('cut', range(60, 2200, 61))
def test_r27_wherever_it_is_cut_a_prefix_is_read_or_the_file_refused(tmp_path, cut):
    write(tmp_path / 'whole', list(range(1, 21)), StoragePlugin.MCAP)
    content = (tmp_path / 'whole' / 'whole.mcap').read_bytes()
    assert cut < len(content)
    path = tmp_path / 'cut.mcap'
    path.write_bytes(content[:cut])
    warnings: list[str] = []
    try:
        with Bag(path, warnings.append) as bag:
            found = texts(list(bag.messages()))
    except BagError:
        found = []
    assert found == [str(number) for number in range(len(found))]
    assert len(warnings) == bool(found)


@pytest.mark.parametrize('codec', ['zstd', 'lz4'])
def test_r27_messages_of_a_cut_compressed_chunk_are_read(tmp_path, codec):
    """The chunk's own records are recovered as far as the compressed bytes reach."""
    write(tmp_path / 'whole', list(range(1, MANY + 1)), StoragePlugin.MCAP)
    content = (tmp_path / 'whole' / 'whole.mcap').read_bytes()
    start, records = chunk_of(content)
    packed = {'zstd': zstandard.ZstdCompressor().compress, 'lz4': lz4.frame.compress}[codec](records)
    fields = struct.pack('<QQQI', 1, MANY, len(records), 0) + struct.pack('<I', len(codec)) + codec.encode()
    body = fields + struct.pack('<Q', len(packed)) + packed
    path = tmp_path / 'cut.mcap'
    path.write_bytes(content[:start] + b'\x06' + struct.pack('<Q', len(body)) + body[: len(body) * 9 // 10])
    messages, _ = read(path)
    assert MANY // 2 < len(messages) < MANY
    assert texts(messages) == [str(number) for number in range(len(messages))]


def chunk_of(content: bytes) -> tuple[int, bytes]:
    """Where the first chunk record begins, and the records in it."""
    position = 8
    while content[position] != 6:
        position += 9 + struct.unpack_from('<Q', content, position + 1)[0]
    fields = position + 9 + 28
    name_length = struct.unpack_from('<I', content, fields)[0]
    assert name_length == 0
    length = struct.unpack_from('<Q', content, fields + 4)[0]
    return position, content[fields + 12 : fields + 12 + length]


def test_r27_cut_database_is_refused_by_name(tmp_path):
    content = (BAGS / 'plain_db3' / 'plain_db3.db3').read_bytes()
    path = tmp_path / 'cut.db3'
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(BagError, match=r'cut\.db3'):
        read(path)


@pytest.mark.parametrize('name', ['plain_db3', 'plain_mcap', 'truncated_mcap'])
def test_damage_anywhere_gives_messages_or_a_refusal_by_name(tmp_path, name):
    [source] = [file for file in (BAGS / name).iterdir() if file.suffix in ('.db3', '.mcap')]
    random = Random(4)
    outcomes = set()
    for _ in range(60):
        content = bytearray(source.read_bytes())
        for _ in range(random.choice((1, 20, 200))):
            content[random.randrange(len(content))] = random.randrange(256)
        file = tmp_path / source.name
        file.write_bytes(content)
        try:
            with Bag(file, lambda text: None) as bag:
                list(bag.messages())
            outcomes.add('read')
        except BagError as error:
            outcomes.add('refused' if source.name in str(error) else f'without the name: {error}')
    assert outcomes == {'read', 'refused'}


def test_damaged_packed_file_is_refused_by_name(tmp_path):
    write(tmp_path / 'bag', [1, 2], StoragePlugin.SQLITE3, CompressionMode.FILE)
    [file] = (tmp_path / 'bag').glob('*.zstd')
    file.write_bytes(b'no zstd' + file.read_bytes())
    with pytest.raises(BagError, match='cannot be unpacked'):
        read(tmp_path / 'bag')


def test_packed_file_that_would_fill_the_disk_is_refused_by_name(tmp_path, monkeypatch):
    write(tmp_path / 'bag', [1, 2], StoragePlugin.SQLITE3, CompressionMode.FILE)
    [file] = (tmp_path / 'bag').glob('*.zstd')
    file.write_bytes(zstandard.ZstdCompressor().compress(bytes(50_000_000)))
    monkeypatch.setattr('flashrt_ros.bag._SMALL_UNPACKED_BYTES', 1_000_000)
    with pytest.raises(BagError, match=r'\.zstd has \d+ bytes and unpacks to more than 1000000'):
        read(tmp_path / 'bag')


def test_packed_file_of_several_frames_is_read_whole(tmp_path):
    write(tmp_path / 'bag', [1, 2], StoragePlugin.SQLITE3, CompressionMode.FILE)
    [file] = (tmp_path / 'bag').glob('*.zstd')
    with zstandard.open(file) as packed:
        content = packed.read()
    compress = zstandard.ZstdCompressor().compress
    file.write_bytes(compress(content[:5000]) + compress(content[5000:]))
    assert texts(read(tmp_path / 'bag')[0]) == ['0', '1']


def test_r28_unknown_type_costs_its_topic_and_one_warning():
    warnings: list[str] = []
    with Bag(BAGS / 'unknown_type', warnings.append) as bag:
        topics = select_topics(bag, {'/joint_states': JOINTS}, is_known, warnings.append)
        assert topics == set(bag.topics) - {'/gripper_force'}
        assert len(list(bag.messages())) == 150
    assert len(warnings) == 1
    assert '/gripper_force' in warnings[0]
    assert 'acme_interfaces/msg/GripperForce' in warnings[0]


def test_r28_unknown_type_of_a_needed_topic_is_refused():
    words = r'/gripper_force \(acme_interfaces/msg/GripperForce\)'
    with Bag(BAGS / 'unknown_type', pytest.fail) as bag, pytest.raises(BagError, match=words):
        select_topics(bag, {'/gripper_force': JOINTS}, is_known, pytest.fail)


def test_a_needed_topic_that_was_not_recorded_is_named():
    words = 'does not hold /cam_left.*it holds .*/joint_states'
    with Bag(BAGS / 'plain_db3', pytest.fail) as bag, pytest.raises(BagError, match=words):
        select_topics(bag, {'/cam_left': IMAGE, '/joint_states': JOINTS}, is_known, pytest.fail)


def test_a_needed_topic_of_another_type_is_refused():
    words = '/cam_base/image_raw/compressed was recorded as sensor_msgs/msg/CompressedImage.*it is .*/Image'
    with Bag(BAGS / 'plain_db3', pytest.fail) as bag, pytest.raises(BagError, match=words):
        select_topics(bag, {'/cam_base/image_raw/compressed': IMAGE}, is_known, pytest.fail)


@pytest.mark.parametrize('storage', list(StoragePlugin))
def test_r29_equal_log_times_keep_the_order_of_the_file(tmp_path, storage):
    times = [7, 5, 5, 7, 5, 5, 7, 7, 5] * 20
    write(tmp_path / 'ties', times, storage)
    order = sorted(range(len(times)), key=lambda number: times[number])
    assert texts(read(tmp_path / 'ties')[0]) == [str(number) for number in order]


def test_r29_equal_log_times_of_two_files_keep_the_order_of_the_files(tmp_path):
    for number in (0, 1):
        write(tmp_path / f'part_{number}', [1, 2, 3], StoragePlugin.SQLITE3)
    folder = tmp_path / 'bag'
    folder.mkdir()
    for number in (0, 1):
        shutil.copy(tmp_path / f'part_{number}' / f'part_{number}.db3', folder / f'bag_{number}.db3')
    with Bag(folder, lambda _: None) as bag:
        assert [message.log_ns for message in bag.messages()] == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ('storage', 'mode'),
    [
        *itertools.product(StoragePlugin, [CompressionMode.FILE, CompressionMode.MESSAGE]),
        (StoragePlugin.MCAP, CompressionMode.STORAGE),  # its chunks
    ],
)
def test_compressed_recordings_are_read(tmp_path, storage, mode):
    write(tmp_path / 'packed', [1, 2, 3], storage, mode)
    messages, warnings = read(tmp_path / 'packed')
    assert texts(messages) == ['0', '1', '2']
    assert not warnings


@pytest.mark.parametrize('name', ['../plain_db3.db3', '/etc/hostname', 'a/../../plain_db3.db3'])
def test_files_named_outside_of_the_folder_are_refused(tmp_path, name):
    shutil.copy(BAGS / 'plain_db3' / 'plain_db3.db3', tmp_path)
    with pytest.raises(BagError, match="outside of the recording's folder"):
        read(described(tmp_path, name))


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    folder = described(tmp_path, 'plain_db3.db3')
    (folder / 'plain_db3.db3').symlink_to(BAGS / 'plain_db3' / 'plain_db3.db3')
    with pytest.raises(BagError, match="outside of the recording's folder"):
        read(folder)


def test_old_names_with_the_folder_in_front_are_read(tmp_path):
    folder = described(tmp_path, 'bag/plain_db3.db3')
    shutil.copy(BAGS / 'plain_db3' / 'plain_db3.db3', folder)
    assert len(read(folder)[0]) == 140


def described(tmp_path: Path, name: str) -> Path:
    """A recording whose description names the file `name`."""
    folder = tmp_path / 'bag'
    folder.mkdir()
    text = (BAGS / 'plain_db3' / 'metadata.yaml').read_text()
    assert '- plain_db3.db3' in text
    (folder / 'metadata.yaml').write_text(text.replace('- plain_db3.db3', f'- {name}'))
    return folder


@pytest.mark.parametrize(
    ('content', 'words'),
    [
        ('[1, 2]', 'not the description'),
        ('rosbag2_bagfile_information: !!python/object/apply:os.system [true]', 'not the description'),
        ('rosbag2_bagfile_information: {relative_file_paths: [gone.db3]}', "'gone.db3', which is missing"),
        (
            'rosbag2_bagfile_information: '
            '{relative_file_paths: [], compression_mode: FILE, compression_format: lzma}',
            "compression 'lzma'",
        ),
    ],
)
def test_faulty_descriptions_are_refused(tmp_path, content, words):
    (tmp_path / 'metadata.yaml').write_text(content)
    with pytest.raises(BagError, match=words):
        read(tmp_path)


def test_what_is_no_recording_is_refused(tmp_path):
    with pytest.raises(BagError, match='does not exist'):
        read(tmp_path / 'gone')
    with pytest.raises(BagError, match='neither metadata'):
        read(tmp_path)
    for name in ('note.txt', 'note.mcap', 'note.db3'):
        (tmp_path / name).write_text('nothing of the kind')
        with pytest.raises(BagError, match=name):
            read(tmp_path / name)
