# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""GR00T N1.6 on a robot: the launch of pi05_thor.launch.py, with its arguments, on other parameters."""

from pathlib import Path

from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import PathJoinSubstitution
from launch_ros.substitutions import FindPackageShare

from launch import LaunchDescription

NODE = Path(__file__).with_name('pi05_thor.launch.py')


def generate_launch_description() -> LaunchDescription:
    return LaunchDescription(
        [
            # Declared first, it is what the included file finds instead of its own default.
            DeclareLaunchArgument(
                'params_file',
                default_value=PathJoinSubstitution(
                    [FindPackageShare('flashrt_ros'), 'config', 'groot_thor.yaml']
                ),
                description='parameters of the node; copy the default and put in your robot',
            ),
            IncludeLaunchDescription(PythonLaunchDescriptionSource(str(NODE))),
        ]
    )
