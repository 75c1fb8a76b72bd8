# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The simulated tabletop and the policy that was trained for it: sim_robot beside pi05_thor.launch.py.

Nothing moves until the service /policy/start is called. The prompt is told to the policy, and judged.
"""

from pathlib import Path

from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, Shutdown
from launch.events.process import ProcessExited
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare

from launch import LaunchContext, LaunchDescription

POLICY = Path(__file__).with_name('pi05_thor.launch.py')
PARAMETERS = PathJoinSubstitution([FindPackageShare('flashrt_ros'), 'config', 'pi05_tabletop.yaml'])


def generate_launch_description() -> LaunchDescription:
    return LaunchDescription(
        [
            DeclareLaunchArgument('scene', default_value='4', description='number, below a million'),
            DeclareLaunchArgument('pace', default_value='real_time', description='real_time or lockstep'),
            DeclareLaunchArgument('namespace', default_value='', description='of both nodes'),
            # Declared first, these are what the included file finds instead of its own defaults.
            DeclareLaunchArgument(
                'prompt',
                default_value='stack the red block on the blue block',
                description='what is to be done, in one of the sentences that the policy knows',
            ),
            DeclareLaunchArgument('params_file', default_value=PARAMETERS, description='of the policy'),
            DeclareLaunchArgument('use_sim_time', default_value='true', description='the time of the robot'),
            Node(
                package='flashrt_ros',
                executable='sim_robot',
                name='sim_robot',
                namespace=LaunchConfiguration('namespace'),
                parameters=[
                    {
                        'seed': ParameterValue(LaunchConfiguration('scene'), value_type=int),
                        'task': ParameterValue(LaunchConfiguration('prompt'), value_type=str),
                        'pace': ParameterValue(LaunchConfiguration('pace'), value_type=str),
                    }
                ],
                output='screen',
                on_exit=robot_ended,
            ),
            IncludeLaunchDescription(PythonLaunchDescriptionSource(str(POLICY))),
        ]
    )


def robot_ended(event: ProcessExited, context: LaunchContext) -> Shutdown:
    if event.returncode and not context.is_shutdown:
        # An error in a handler is what makes launch end with an exit code.
        raise RuntimeError(f'the robot died with code {event.returncode}; its last words are above')
    return Shutdown(reason='the robot ended')
