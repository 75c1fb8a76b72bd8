#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Records the sample bag: the simulated two-arm ALOHA robot hands a cube over, as ROS 2 messages.

Needs its own environment (requirements_record.txt) and, for headless rendering, Debian's libegl1:

    MUJOCO_GL=egl python record_aloha_sim.py aloha_sim

The motion is scripted: a first pass moves the grippers along way-points with the end-effector model of
gym-aloha and keeps the joint angles; a second pass lets the position-controlled model follow those angles
while cameras and joints are sampled at their own rates, with their own jitter, in simulated time.
"""

import argparse
import io
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
from gym_aloha import constants
from numpy.typing import NDArray
from PIL import Image
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

SEED = 20260
SECONDS = 8.0
SETTLE_S = 1.0  # simulated time before the recording begins; its stamps start here
TIMESTEP_S = 0.0005  # finer than the model's 2 ms, so that jittered stamps are true simulation times
CONTROL_HZ = 50.0
JPEG_QUALITY = 75
CUBE_POSITION = (0.12, 0.5, 0.02)
JOINTS = ('waist', 'shoulder', 'elbow', 'forearm_roll', 'wrist_angle', 'wrist_rotate', 'gripper')


@dataclass(frozen=True)
class Stream:
    """When one sensor samples, and how much later its message reaches the recorder."""

    topic: str
    rate_hz: float
    phase_s: float
    jitter_s: float
    delay_s: tuple[float, float]


@dataclass(frozen=True)
class Camera(Stream):
    name: str  # in the MJCF
    frame_id: str


@dataclass(frozen=True)
class Arm(Stream):
    prefix: str
    first: int  # of its 8 joints in qpos: six of the arm, two fingers


CAMERAS = (
    Camera(
        '/cam_high/image_raw/compressed', 15.0, 0.003, 0.0010, (0.004, 0.009),
        'top', 'cam_high_optical_frame',
    ),
    Camera(
        '/cam_left_wrist/image_raw/compressed', 15.0, 0.014, 0.0015, (0.004, 0.009),
        'left_wrist', 'cam_left_wrist_optical_frame',
    ),
    Camera(
        '/cam_right_wrist/image_raw/compressed', 15.0, 0.009, 0.0015, (0.004, 0.009),
        'right_wrist', 'cam_right_wrist_optical_frame',
    ),
)  # fmt: skip
ARMS = (
    Arm('/left_arm/joint_states', 50.0, 0.000, 0.0004, (0.0003, 0.0012), 'left', 0),
    Arm('/right_arm/joint_states', 50.0, 0.006, 0.0004, (0.0003, 0.0012), 'right', 8),
)


def quaternion(axis: tuple[float, float, float], degrees: float) -> NDArray[np.float64]:
    result = np.zeros(4)
    mujoco.mju_axisAngle2Quat(result, np.array(axis, dtype=float), np.radians(degrees))
    return result


PICK = quaternion((0, 1, 0), -60)
MEET_LEFT = quaternion((1, 0, 0), 90)
LEVEL = np.array([1.0, 0, 0, 0])
MEET = np.array([0.0, 0.5, 0.25])
CUBE = np.array(CUBE_POSITION)

# (time [s], gripper link position, orientation, opening 0..1)
LEFT_PATH = (
    (0.0, (-0.31718881, 0.5, 0.29525084), LEVEL, 0.0),
    (2.0, MEET + (-0.16, 0, 0.06), MEET_LEFT, 1.0),
    (4.4, MEET + (-0.16, 0, 0.06), MEET_LEFT, 1.0),
    (5.3, MEET + (0.01, 0, 0.06), MEET_LEFT, 1.0),
    (5.8, MEET + (0.01, 0, 0.06), MEET_LEFT, 0.0),
    (6.3, MEET + (0.01, 0, 0.06), MEET_LEFT, 0.0),
    (7.3, MEET + (-0.10, 0, 0.06), MEET_LEFT, 0.0),
    (8.0, MEET + (-0.10, 0, 0.06), MEET_LEFT, 0.0),
)
RIGHT_PATH = (
    (0.0, (0.31718881, 0.49999888, 0.29525084), LEVEL, 0.0),
    (1.4, CUBE + (0, 0, 0.10), PICK, 1.0),
    (2.1, CUBE + (0, 0, -0.002), PICK, 1.0),
    (2.6, CUBE + (0, 0, -0.002), PICK, 0.0),
    (3.8, MEET + (0.05, 0, 0), PICK, 0.0),
    (4.4, MEET, PICK, 0.0),
    (5.8, MEET, PICK, 0.0),
    (6.2, MEET, PICK, 1.0),
    (7.2, MEET + (0.10, 0, 0), PICK, 1.0),
    (8.0, MEET + (0.10, 0, 0), PICK, 1.0),
)


def interpolate(path: tuple, t: float) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Position, orientation and opening at time t, with zero speed at every way-point."""
    times = [point[0] for point in path]
    index = min(max(int(np.searchsorted(times, t, side='right')) - 1, 0), len(path) - 2)
    (t0, position0, turn0, open0), (t1, position1, turn1, open1) = path[index : index + 2]
    share = min(max((t - t0) / (t1 - t0), 0.0), 1.0)
    share = share * share * (3 - 2 * share)
    turn = (1 - share) * turn0 + share * turn1
    position = (1 - share) * np.asarray(position0) + share * np.asarray(position1)
    return position, turn / np.linalg.norm(turn), (1 - share) * open0 + share * open1


def load_model(name: str) -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = mujoco.MjModel.from_xml_path(str(constants.ASSETS_DIR / f'{name}.xml'))
    model.opt.timestep = TIMESTEP_S
    data = mujoco.MjData(model)
    data.qpos[:16] = constants.START_ARM_POSE
    data.qpos[16:] = (*CUBE_POSITION, 1, 0, 0, 0)
    return model, data


def plan_joints() -> list[NDArray[np.float64]]:
    """Control targets of the 16 joints, one row per control period, SETTLE_S + SECONDS long."""
    model, data = load_model('bimanual_viperx_end_effector_transfer_cube')
    substeps = round(1 / CONTROL_HZ / TIMESTEP_S)
    targets = []
    for tick in range(round((SETTLE_S + SECONDS) * CONTROL_HZ)):
        t = tick / CONTROL_HZ - SETTLE_S
        fingers = []
        for side, path in enumerate((LEFT_PATH, RIGHT_PATH)):
            data.mocap_pos[side], data.mocap_quat[side], opening = interpolate(path, t)
            finger = constants.unnormalize_puppet_gripper_position(opening)
            fingers.append((finger, -finger))
        data.ctrl[:] = (*fingers[0], *fingers[1])
        mujoco.mj_step(model, data, substeps)
        row = data.qpos[:16].copy()
        row[6:8], row[14:16] = fingers
        targets.append(row)
    return targets


def sample_times(stream: Stream, rng: np.random.Generator) -> Iterator[float]:
    for k in range(int(SECONDS * stream.rate_hz)):
        jitter = float(np.clip(rng.normal(0, stream.jitter_s), -3 * stream.jitter_s, 3 * stream.jitter_s))
        yield SETTLE_S + max(k / stream.rate_hz + stream.phase_s + jitter, 0.0)


def encode(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, 'jpeg', quality=JPEG_QUALITY, optimize=True)
    return np.frombuffer(buffer.getvalue(), np.uint8)


def qos(reliability: QosReliability, depth: int) -> Qos:
    unset = QosTime(0, 0)
    return Qos(
        QosHistory.KEEP_LAST, depth, reliability, QosDurability.VOLATILE, unset, unset,
        QosLiveliness.AUTOMATIC, unset, False,
    )  # fmt: skip


def record(folder: Path) -> None:
    rng = np.random.default_rng(SEED)
    store = get_typestore(Stores.ROS2_KILTED)
    header_type = store.types['std_msgs/msg/Header']
    time_type = store.types['builtin_interfaces/msg/Time']
    image_type = store.types['sensor_msgs/msg/CompressedImage']
    joint_type = store.types['sensor_msgs/msg/JointState']

    targets = plan_joints()
    model, data = load_model('bimanual_viperx_transfer_cube')
    renderer = mujoco.Renderer(model, 480, 640)
    due = sorted(
        (
            (t, order, stream)
            for order, stream in enumerate((*ARMS, *CAMERAS))
            for t in sample_times(stream, rng)
        ),
        key=lambda item: item[:2],
    )

    def header(frame_id: str) -> object:
        nanoseconds = round(data.time * 1e9)
        return header_type(time_type(*divmod(nanoseconds, 1_000_000_000)), frame_id)

    def image(camera: Camera) -> object:
        renderer.update_scene(data, camera.name)
        return image_type(header(camera.frame_id), 'rgb8; jpeg compressed bgr8', encode(renderer.render()))

    def joints(arm: Arm) -> object:
        """As gym-aloha and openpi define them: six angles [rad], then the opening, 0 closed to 1 open."""
        here = slice(arm.first, arm.first + 6)
        finger = arm.first + 6
        opening = constants.normalize_puppet_gripper_position(data.qpos[finger])
        speed = constants.normalize_puppet_gripper_velocity(data.qvel[finger])
        return joint_type(
            header(''),
            [f'{arm.prefix}_{name}' for name in JOINTS],
            np.append(data.qpos[here], opening),
            np.append(data.qvel[here], speed),
            np.append(data.actuator_force[here], data.actuator_force[finger]),
        )

    messages = []
    for t, _, stream in due:
        while data.time < t - TIMESTEP_S / 2:
            data.ctrl[:] = targets[min(int(data.time * CONTROL_HZ + 1e-6), len(targets) - 1)]
            mujoco.mj_step(model, data)
        mujoco.mj_forward(model, data)
        message = image(stream) if isinstance(stream, Camera) else joints(stream)
        log_ns = round((data.time + rng.uniform(*stream.delay_s)) * 1e9)
        messages.append((log_ns, stream.topic, message))

    x, y, z = data.qpos[16:19]
    if z < 0.2 or x > 0:
        raise SystemExit(
            f'the left gripper should hold the cube at the end, but it is at [{x:.3f}, {y:.3f}, {z:.3f}] m'
        )

    shutil.rmtree(folder, ignore_errors=True)
    with Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connections = {}
        for stream in (*CAMERAS, *ARMS):
            is_camera = isinstance(stream, Camera)
            connections[stream.topic] = writer.add_connection(
                stream.topic,
                image_type.__msgtype__ if is_camera else joint_type.__msgtype__,
                typestore=store,
                offered_qos_profiles=[
                    qos(QosReliability.BEST_EFFORT, 5) if is_camera else qos(QosReliability.RELIABLE, 10)
                ],
            )
        for log_ns, topic, message in sorted(messages, key=lambda item: item[0]):
            connection = connections[topic]
            writer.write(connection, log_ns, store.serialize_cdr(message, connection.msgtype))


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('folder', type=Path, help='where the bag is written; replaced if it exists')
    record(parser.parse_args().folder)
