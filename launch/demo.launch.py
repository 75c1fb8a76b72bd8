# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`make replay` of an installed package: `ros2 launch flashrt_ros demo.launch.py`."""

from launch.actions import DeclareLaunchArgument, ExecuteProcess, Shutdown
from launch.conditions import IfCondition, UnlessCondition
from launch.events.process import ProcessExited
from launch.substitutions import EnvironmentVariable, LaunchConfiguration

from launch import LaunchContext, LaunchDescription


def generate_launch_description() -> LaunchDescription:
    use_sim_time = LaunchConfiguration('use_sim_time')
    return LaunchDescription(
        [
            DeclareLaunchArgument('model', default_value='pi05', description='pi05 or groot'),
            DeclareLaunchArgument('out', default_value='out/replay', description='folder of all results'),
            DeclareLaunchArgument(
                'use_sim_time',
                default_value='false',
                description='keep the recorded stamps and publish /clock',
            ),
            _demo(UnlessCondition(use_sim_time)),
            _demo(IfCondition(use_sim_time), '--clock'),
        ]
    )


def _demo(condition: IfCondition, *options: str) -> ExecuteProcess:
    """The demo starts the node itself and ends with exit code 1 if something is wrong with the result."""
    return ExecuteProcess(
        cmd=[
            *('python3', '-m', 'flashrt_ros.replay_demo'),
            *('--model', LaunchConfiguration('model'), '--out', LaunchConfiguration('out')),
            *options,
        ],
        # On the domain of whoever launches it, so that its topics can be looked at meanwhile.
        additional_env={'ROS_DOMAIN_ID': EnvironmentVariable('ROS_DOMAIN_ID', default_value='0')},
        output='screen',
        condition=condition,
        on_exit=_demo_ended,
    )


def _demo_ended(event: ProcessExited, context: LaunchContext) -> Shutdown:
    if event.returncode and not context.is_shutdown:
        # An error in a handler is what makes launch end with an exit code.
        raise RuntimeError(f'the demo failed with code {event.returncode}; the reason is above')
    return Shutdown(reason='the demo ended')
