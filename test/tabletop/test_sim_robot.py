# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The node `sim_robot` over DDS: it is the plain world with topics around it."""

from collections.abc import Callable, Iterator

import cv2
import numpy as np
import pytest
from builtin_interfaces.msg import Duration
from rclpy.node import Node
from ros_spinner import Spinner, eventually
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CompressedImage, Image, JointState
from sim_bench import Player, SimBench
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from flashrt_ros.conversions import stamp_ns
from flashrt_ros.parameter_table import ParameterFaults
from flashrt_ros.sim_robot import SimRobot
from flashrt_ros.tabletop.arm import ARM_JOINTS, GRIPPER, ROW_PERIOD_S
from flashrt_ros.tabletop.evaluate_expert import plan_for
from flashrt_ros.tabletop.judge import RUNNING
from flashrt_ros.tabletop.robot import TICKS_PER_ROW, SimulatedRobot
from flashrt_ros.tabletop.tasks import Task
from flashrt_ros.tabletop.variation import EVALUATION, draw_layout

START = Callable[..., SimBench]


@pytest.fixture
def start(ros: Spinner) -> Iterator[START]:
    benches: list[SimBench] = []

    def begin(**parameters: object) -> SimBench:
        benches.append(SimBench(ros, **parameters))
        eventually(benches[-1].is_connected, 'the controllers')
        return benches[-1]

    yield begin
    for bench in benches:
        bench.close()


def arm_positions(messages: list[JointState], begin_ns: int) -> dict[int, tuple[float, ...]]:
    """ms since begin_ns -> positions of the arm."""
    return {
        (stamp_ns(item.header.stamp) - begin_ns) // 1_000_000: tuple(item.position)
        for item in messages
        if item.name[0] == ARM_JOINTS[0]
    }


def test_an_episode_over_dds_is_that_of_the_plain_world_bit_for_bit(
    ros: Spinner, start: START, robot: SimulatedRobot
):
    """The expert's rows, sent by a node at the times of /clock, and played in the plain world."""
    scene, task = 4, Task('lift', 'green')
    layout = draw_layout(scene, EVALUATION)
    robot.reset(layout, task)
    plan = plan_for(layout, task, robot)
    measured = {0: tuple(robot.world.measured()[:-1])}

    def note() -> None:
        measured[round(robot.world.time_s * 1000)] = tuple(robot.world.measured()[:-1])

    row = 0
    while robot.verdict.state == RUNNING:
        row = min(row + 1, len(plan.rows) - 1)
        robot.command_arm([ROW_PERIOD_S], plan.rows[row][np.newaxis, :-1])
        robot.command_gripper(plan.rows[row][-1])
        robot.advance(TICKS_PER_ROW, note)

    bench = start(seed=scene, task=task.prompt(), pace='lockstep')
    player = Player(ros, bench, plan.rows)
    eventually(lambda: bench.state() not in ('', 'waiting', RUNNING), 'the end of the episode', 60.0)
    values = bench.values()
    assert (values['state'], values['acted_on']) == ('succeeded', 'green')
    assert values['time_s'] == f'{robot.verdict.time_s:.2f}'
    assert (values['clamped'], values['refused']) == ('0', '0')

    heard = arm_positions(bench.joints, player.begin_ns)
    common = sorted(set(heard) & set(measured))
    assert len(common) > 0.9 * robot.verdict.time_s * 50  # of 50 a second
    assert all(heard[ms] == measured[ms] for ms in common)


def test_streams_are_those_of_a_robot_on_one_clock(ros: Spinner, start: START):
    bench = start()
    ear = ros.add(Node('ear', context=ros.context))
    clocks, fronts, wrists = [], [], []
    ear.create_subscription(Clock, '/clock', clocks.append, 100)
    ear.create_subscription(Image, 'front/image_raw', fronts.append, 10)
    ear.create_subscription(Image, 'wrist/image_raw', wrists.append, 10)
    eventually(lambda: min(len(clocks), len(fronts), len(wrists)) >= 5, 'clock and pictures')
    eventually(lambda: len(bench.joints) > 20, 'joint states')
    assert {tuple(item.name) for item in bench.joints} == {ARM_JOINTS, (GRIPPER,)}
    assert ear.count_publishers('joint_states') == 2
    for messages in (clocks, fronts, wrists):
        stamps = [stamp_ns(item.clock if messages is clocks else item.header.stamp) for item in messages]
        assert (np.diff(stamps) > 0).all()
    assert {(item.encoding, item.height, item.width, item.step) for item in (*fronts, *wrists)} == {
        ('rgb8', 112, 112, 336)
    }
    assert bytes(fronts[0].data) != bytes(wrists[0].data)
    assert bench.state() == 'waiting'


def test_compressed_pictures(ros: Spinner, start: START):
    start(transport='compressed')
    ear = ros.add(Node('ear', context=ros.context))
    pictures: list[CompressedImage] = []
    ear.create_subscription(CompressedImage, 'wrist/image_raw/compressed', pictures.append, 10)
    eventually(lambda: pictures, 'a compressed picture')
    assert pictures[0].format == 'rgb8; jpeg compressed bgr8'
    assert ear.count_publishers('wrist/image_raw') == 0


def test_nothing_moves_before_the_first_trajectory_and_a_reset_waits_again(start: START):
    bench = start(seed=3)
    eventually(lambda: len(bench.joints) > 10, 'joint states')
    assert len({tuple(item.position) for item in bench.joints if len(item.name) == 6}) == 1
    bench.command(bench.sim.robot.target)
    eventually(lambda: bench.state() == RUNNING, 'the beginning')

    assert bench.set(seed=5, task='stack the red block on the blue block', start='any') == ['', '', '']
    assert bench.sim.settings.seed == 3  # until the reset
    assert bench.reset() == 'scene 5: stack the red block on the blue block'
    eventually(lambda: bench.state() == 'waiting', 'the reset')
    assert (bench.values()['seed'], bench.values()['task']) == ('5', 'stack the red block on the blue block')
    assert bench.sim.robot.task == Task('stack', 'red', 'blue')
    assert bench.sim.robot.world.cubes()[:, :2] == pytest.approx(draw_layout(5, EVALUATION).cubes[:, :2])


def test_another_task_is_asked_for_in_the_scene_as_it_is(ros: Spinner, start: START, robot: SimulatedRobot):
    """The cube that was lifted is put down elsewhere: for the task after it, that is where it was."""
    scene, task = 4, Task('lift', 'green')
    layout = draw_layout(scene, EVALUATION)
    robot.reset(layout, task)
    bench = start(seed=scene, task=task.prompt(), pace='lockstep')
    Player(ros, bench, plan_for(layout, task, robot).rows)
    eventually(lambda: bench.state() == 'succeeded', 'the lift', 60.0)
    lifted = bench.sim.robot.world.cubes()

    assert bench.set(task='touch the red block', seed=5) == ['', '']
    assert bench.call(bench.ask, Trigger.Request()).message == 'from now on: touch the red block'
    eventually(lambda: bench.values()['task'] == 'touch the red block', 'the task')
    assert (bench.values()['seed'], bench.sim.settings.seed) == ('4', 4)  # the seed waits for a reset
    assert bench.state() == RUNNING
    assert float(bench.values()['time_s']) < 1.0
    assert bench.sim.robot.world.cubes() == pytest.approx(lifted, abs=0.02)


def test_the_view_is_drawn_while_someone_looks(ros: Spinner, start: START):
    start()
    ear = ros.add(Node('ear', context=ros.context))
    pictures: list[CompressedImage] = []
    ear.create_subscription(CompressedImage, 'sim_robot/view/compressed', pictures.append, 10)
    eventually(lambda: pictures, 'a view')
    assert cv2.imdecode(np.frombuffer(pictures[0].data, np.uint8), cv2.IMREAD_COLOR).shape == (336, 336, 3)


@pytest.mark.parametrize(
    ('parameters', 'why'),
    [
        ({'task': 'fly'}, "'fly' is no task of the tabletop"),
        ({'seed': -1}, 'seed'),
        ({'delay_s': 0.2}, 'delay_s is for pace: lockstep'),
        ({'transport': 'compressed'}, 'set at the start of the node'),
    ],
)
def test_what_cannot_be_set_is_refused_in_words(start: START, parameters: dict[str, object], why: str):
    bench = start()
    assert why in bench.set(**parameters)[0]
    bench.reset()
    assert bench.sim.settings.task == 'touch the red block'


def test_wrong_parameters_at_the_start_are_refused_in_words(ros: Spinner):
    from rclpy.parameter import Parameter

    with pytest.raises(ParameterFaults, match="'fly' is no task"):
        SimRobot(context=ros.context, parameter_overrides=[Parameter('task', value='fly')])


def test_a_trajectory_that_no_controller_takes_is_counted_and_begins_nothing(start: START):
    bench = start()
    point = JointTrajectoryPoint(positions=[0.0], time_from_start=Duration(sec=1))
    bench.send(JointTrajectory(joint_names=['knee'], points=[point]))
    eventually(lambda: bench.values().get('refused') == '1', 'the refusal')
    assert bench.state() == 'waiting'


def test_lockstep_goes_on_without_a_commander_that_left(start: START, capfd: pytest.CaptureFixture):
    """One command, and no more: the wait ends by itself and is said."""
    bench = start(pace='lockstep')
    bench.command(bench.sim.robot.target)
    eventually(lambda: float(bench.values().get('time_s', 0)) > 0.2, 'time that passes')
    assert 'lockstep: no command of arm' in capfd.readouterr().err
