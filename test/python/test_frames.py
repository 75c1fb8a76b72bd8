# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Frames of cameras that the engine resizes itself: the bytes of the Python transform, whatever the frame."""

from dataclasses import replace

import numpy as np
import pytest

from flashrt_core import CameraFrame, Error, Observation, _core
from flashrt_core.policy import PolicySettings, load_policy
from flashrt_core.resize import Resize, Rotate, unit_to_model_range
from flashrt_core.types import BYTE_ENCODINGS

SIDE, MAX_BYTES = 56, 640 * 480 * 4
# width, height, bytes of padding after each row
SIZES = [
    (640, 480, 0),
    (320, 240, 13),
    (333, 97, 1),
    (97, 333, 0),
    (225, 224, 3),
    (56, 56, 0),
    (57, 55, 2),
    (40, 58, 0),
    (33, 21, 7),
    (3, 2, 0),
    (1, 1, 5),
]


on_each_backend = pytest.mark.parametrize('backend', ['cpu', pytest.param('cuda', marks=pytest.mark.gpu)])


def random_frame(rng, width, height, padding, encoding):
    step = width * BYTE_ENCODINGS[encoding].count + padding
    data = rng.integers(0, 256, height * step, np.uint8).tobytes()
    return CameraFrame(data, encoding, height, width, step)


def native(frame):
    return _core.Frame(frame.data, frame.encoding, frame.height, frame.width, frame.step)


@pytest.fixture(scope='module')
def rest():
    """What the engine is given beside pictures."""
    rng = np.random.default_rng(5)
    return {'tokens': np.arange(3, 9, dtype=np.int32), 'noise': rng.standard_normal((10, 32), np.float32)}


def make_engine(golden, cameras, **options):
    sizes = {'cameras': cameras, 'prompt_capacity': 24, 'steps': 2, 'threads': 2}
    return _core.Engine(golden / 'pi05_tiny', **sizes, **options)


def seen(engine, frames, rest):
    return engine.trace(['input.images'], [native(frame) for frame in frames], **rest)['input.images']


@on_each_backend
@pytest.mark.parametrize('fit', ['letterbox', 'stretch'])
@pytest.mark.parametrize('rotation', [0, 90, 180, 270])
def test_bytes_are_those_of_the_python_transform(golden, rest, fit, rotation, backend):
    options = [_core.FrameOptions(fit=fit, rotation=rotation)]
    engine = make_engine(golden, 1, max_image_bytes=MAX_BYTES, frame_options=options, backend=backend)
    rng = np.random.default_rng(rotation)
    for width, height, padding in SIZES:
        for encoding in BYTE_ENCODINGS:
            frame = random_frame(rng, width, height, padding, encoding)
            want = Resize(SIDE, SIDE, 'pil', fit)(Rotate(rotation)(frame.rgb()))
            got = seen(engine, [frame], rest)[0]
            np.testing.assert_array_equal(got, want, f'{width}x{height} {encoding}')


# The sums of NumPy and of the engine are rounded in another order: a few units in the last place of 1.
@on_each_backend
@pytest.mark.parametrize('bars', [-1.0, -3.0])
def test_floats_are_those_of_the_python_transform(golden, rest, bars, backend):
    options = [_core.FrameOptions(rotation=90, bars=bars)]
    engine = make_engine(
        golden, 1, max_image_bytes=MAX_BYTES, frame_options=options, float_images=True, backend=backend
    )
    rng = np.random.default_rng(0)
    resize = Resize(SIDE, SIDE, 'torch', 'letterbox', (bars + 1) / 2)
    for width, height, padding in SIZES:
        frame = random_frame(rng, width, height, padding, 'bgr8')
        want = unit_to_model_range(resize(Rotate(90)(frame.rgb())))
        np.testing.assert_allclose(seen(engine, [frame], rest)[0], want, rtol=0, atol=1e-6)


@on_each_backend
def test_actions_are_those_of_resized_images(golden, rest, backend):
    rng = np.random.default_rng(1)
    frames = [random_frame(rng, 64, 48, 0, 'rgb8'), random_frame(rng, 30, 90, 3, 'bgra8')]
    images = np.stack([Resize(SIDE, SIDE, 'pil')(frame.rgb()) for frame in frames])
    actions = make_engine(golden, 2, backend=backend).infer(images, **rest)
    engine = make_engine(golden, 2, max_image_bytes=MAX_BYTES, backend=backend)
    given = [native(frame) for frame in frames]
    for _ in range(2):
        np.testing.assert_array_equal(engine.infer(given, **rest), actions)
    assert not np.array_equal(engine.infer(given[::-1], **rest), actions)
    np.testing.assert_array_equal(engine.infer(given, **rest), actions)  # sizes have changed and changed back


@on_each_backend
def test_a_frame_may_be_written_where_the_engine_reads_it(golden, rest, backend):
    rng = np.random.default_rng(2)
    frames = [random_frame(rng, 64, 48, 0, 'rgb8') for _ in range(2)]
    engine = make_engine(golden, 2, max_image_bytes=64 * 48 * 3, backend=backend)
    actions = engine.infer([native(frame) for frame in frames], **rest)
    landed = []
    for camera, frame in enumerate(frames):
        memory = engine.frame_buffer(camera)
        assert memory.size == 64 * 48 * 3
        memory[:] = 0
        memory[:] = np.frombuffer(frame.data, np.uint8)
        landed.append(_core.Frame(memory, 'rgb8', 48, 64, 192))
    np.testing.assert_array_equal(engine.infer(landed, **rest), actions)
    landed_memory = engine.frame_buffer(1)
    landed_memory[:] = 255 - landed_memory
    assert not np.array_equal(engine.infer(landed, **rest), actions)


def test_refusals_have_names_and_numbers(golden, rest):
    engine = make_engine(golden, 2, max_image_bytes=100)
    small = _core.Frame(bytes(75), 'rgb8', 5, 5, 15)
    images = np.zeros((2, SIDE, SIDE, 3), np.uint8)
    with pytest.raises(Error, match=r'images were given.*resizes frames'):
        engine.infer(images, **rest)
    with pytest.raises(Error, match=r'frames: 1 were given.*2 cameras'):
        engine.infer([small], **rest)
    with pytest.raises(Error, match=r'frame of camera 1: 108 bytes, max_image_bytes is 100'):
        engine.infer([small, _core.Frame(bytes(108), 'rgb8', 6, 6, 18)], **rest)
    with pytest.raises(Error, match='75 bytes: expected 60 bytes'):
        engine.infer([small, _core.Frame(bytes(75), 'rgb8', 4, 5, 15)], **rest)
    with pytest.raises(Error, match=r"'yuyv'.*known: rgb8"):
        _core.Frame(bytes(75), 'yuyv', 5, 5, 15)
    with pytest.raises(Error, match='without gaps'):
        _core.Frame(np.zeros((5, 30), np.uint8)[:, :15], 'rgb8', 5, 5, 15)
    with pytest.raises(Error, match="fit 'crop'"):
        _core.FrameOptions(fit='crop')
    plain = make_engine(golden, 2)
    with pytest.raises(Error, match=r'frames were given.*max_image_bytes'):
        plain.infer([small, small], **rest)
    with pytest.raises(Error, match='frame buffer of camera 0'):
        plain.frame_buffer(0)
    with pytest.raises(Error, match=r'frame options of 1 cameras, expected 2'):
        make_engine(golden, 2, max_image_bytes=100, frame_options=[_core.FrameOptions()])
    with pytest.raises(Error, match='max image bytes: -1'):
        make_engine(golden, 2, max_image_bytes=-1)


@pytest.mark.parametrize('resize', ['openpi', 'lerobot', 'lerobot_0_4'])
def test_a_policy_sees_the_same_either_way(golden, write_stats, resize):
    settings = PolicySettings(
        checkpoint=golden / 'pi05_tiny',
        tokenizer=golden / 'pi_tokenizer' / 'tiny_spm.model',
        origin='openpi',
        platform='none',
        cameras=('base_0_rgb', 'left_wrist_0_rgb'),
        resize=resize,
        fit='letterbox',
        state_in_prompt=True,
        actions='joint_position',
        statistics=write_stats(7, 7),
        normalisation='quantile',
        delta_mask=(),
        state_dim=7,
        action_dim=7,
        rotation={'left_wrist_0_rgb': 180},
        prompt_capacity=200,
        steps=2,
    )
    rng = np.random.default_rng(3)
    images = {
        'base_0_rgb': random_frame(rng, 64, 48, 8, 'bgr8'),
        'left_wrist_0_rgb': rng.integers(0, 256, (48, 64, 3), np.uint8)[:, ::-1],
    }
    chunks = []
    for max_image_bytes in (0, 64 * 48 * 4):
        policy = load_policy(replace(settings, max_image_bytes=max_image_bytes))
        policy.warm_up()
        observation = Observation(images, np.zeros(7), prompt_id=policy.set_prompt('go'))
        chunks.append(policy.infer(observation, seed=4).model_actions)
        assert policy.model_images(observation).shape == (2, SIDE, SIDE, 3)
    bound = 0 if resize == 'openpi' else 1e-4
    np.testing.assert_allclose(chunks[1], chunks[0], rtol=0, atol=bound)
