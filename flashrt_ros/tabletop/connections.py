# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The tabletop as the parameters of a policy name its parts: which view each camera is, who follows what.

The topics are those of sim_robot, so that one parameter file serves the node and the evaluation.
"""

from dataclasses import dataclass

from flashrt_ros.outputs import OutputCommand
from flashrt_ros.parameter_table import ParameterFaults
from flashrt_ros.parameters import Parameters
from flashrt_ros.tabletop.arm import ARM_JOINTS, GRIPPER, JOINTS
from flashrt_ros.tabletop.robot import SimulatedRobot
from flashrt_ros.tabletop.variation import CAMERAS


@dataclass(frozen=True)
class Connections:
    """Made by `connect`."""

    views: tuple[int, ...]  # per camera of the parameters, which of CAMERAS it is
    joint_topic: str

    def send(self, robot: SimulatedRobot, command: OutputCommand) -> None:
        if command.names == ARM_JOINTS:
            robot.command_arm(command.due_s, command.rows)
        else:
            robot.command_gripper(float(command.rows[0, 0]))


def connect(parameters: Parameters) -> Connections:
    """Raises ParameterFaults with everything that is not of the tabletop."""
    faults = []
    views = []
    for camera in parameters.cameras:
        view = next((i for i, name in enumerate(CAMERAS) if name in camera.topic.split('/')), None)
        if view is None:
            faults.append(
                f'cameras.{camera.slot}.topic is {camera.topic}, the tabletop has '
                + ' and '.join(f'{name}/image_raw' for name in CAMERAS)
            )
        views.append(view)
    if parameters.known_joints != JOINTS:
        faults.append(
            f'the joints are {list(parameters.known_joints)}, those of the tabletop are {list(JOINTS)}'
        )
    wanted = {ARM_JOINTS: 'joint_trajectory', (GRIPPER,): 'float64_multi_array'}
    found = {output.joints: output.type for output in parameters.outputs}
    if found != wanted or any(output.quantity != 'position' for output in parameters.outputs):
        faults.append(
            f'outputs: {found}, needed positions of {list(ARM_JOINTS)} as joint_trajectory and of '
            f'{GRIPPER} as float64_multi_array'
        )
    if parameters.joint_limits != 'parameters':
        faults.append('joints.limits is robot_description, which nobody publishes here; give the limits')
    if faults:
        raise ParameterFaults('parameters and tabletop', faults)
    return Connections(tuple(views), parameters.joint_topics[0])
