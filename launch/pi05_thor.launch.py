# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Pi0.5 on a robot: one policy node, brought to 'active' unless autostart is false.

Active means receiving and inferring. Commanding begins with the service ~/start. Configuring loads and warms
the model, which can take minutes; the transition below waits for as long as that takes. A transition that
fails leaves the node for another try; a node that ends ends the launch, with exit code 1 if it died.
"""

from pathlib import Path

from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    LogInfo,
    OpaqueFunction,
    RegisterEventHandler,
    Shutdown,
)
from launch.events import matches_action
from launch.events.process import ProcessExited
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import LifecycleNode
from launch_ros.event_handlers import OnStateTransition
from launch_ros.events.lifecycle import ChangeState
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare
from lifecycle_msgs.msg import Transition

from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity

ARGUMENTS = (
    DeclareLaunchArgument(
        'params_file',
        default_value=PathJoinSubstitution([FindPackageShare('flashrt_ros'), 'config', 'pi05_thor.yaml']),
        description='parameters of the node; copy the default and put in your robot',
    ),
    DeclareLaunchArgument('namespace', default_value='', description='of the node and of all its topics'),
    DeclareLaunchArgument('use_sim_time', default_value='false', description='take the time from /clock'),
    DeclareLaunchArgument('autostart', default_value='true', description='configure and activate at once'),
    DeclareLaunchArgument('log_level', default_value='info', description='debug, info, warn or error'),
    DeclareLaunchArgument('prompt', default_value='', description='replaces prompt'),
    DeclareLaunchArgument('checkpoint', default_value='', description='replaces model.checkpoint'),
    DeclareLaunchArgument('dry_run', default_value='', description='replaces dry_run'),
    DeclareLaunchArgument('output_type', default_value='', description='replaces output.type'),
)

# Launch argument -> the parameter that it replaces when it is given, and the type of its value.
# The type matters: a prompt such as 'off' would otherwise become a boolean.
REPLACES = {
    'prompt': ('prompt', str),
    'checkpoint': ('model.checkpoint', str),
    'dry_run': ('dry_run', bool),
    'output_type': ('output.type', str),
}


def generate_launch_description() -> LaunchDescription:
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=bring_up)])


def bring_up(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    params_file = Path(LaunchConfiguration('params_file').perform(context))
    # launch itself would only warn, and the node would start without parameters
    if not params_file.is_file():
        raise FileNotFoundError(f'params_file {params_file} does not exist')
    replaced = {'use_sim_time': ParameterValue(LaunchConfiguration('use_sim_time'), value_type=bool)}
    for argument, (parameter, value_type) in REPLACES.items():
        if LaunchConfiguration(argument).perform(context):
            replaced[parameter] = ParameterValue(LaunchConfiguration(argument), value_type=value_type)
    node = LifecycleNode(
        package='flashrt_ros',
        executable='policy_node',
        name='policy',
        namespace=LaunchConfiguration('namespace'),
        parameters=[str(params_file), replaced],
        ros_arguments=['--log-level', LaunchConfiguration('log_level')],
        output='screen',
        on_exit=node_ended,
    )
    autostart = LaunchConfiguration('autostart').perform(context).lower()
    if autostart not in ('true', 'false'):
        raise ValueError(f"autostart is '{autostart}', wanted true or false")
    if autostart == 'false':
        return [node]
    name = f'/{LaunchConfiguration("namespace").perform(context).strip("/")}/policy'.replace('//', '/')
    # The first time only: who configures later, by hand, activates by hand.
    activate_when_configured = OnStateTransition(
        target_lifecycle_node=node,
        start_state='configuring',
        goal_state='inactive',
        entities=[change(node, Transition.TRANSITION_ACTIVATE)],
        handle_once=True,
    )
    handlers = (
        activate_when_configured,
        report_failure(node, name, 'configure', 'configuring', 'unconfigured'),
        report_failure(node, name, 'activate', 'activating', 'inactive'),
    )
    return [*map(RegisterEventHandler, handlers), node, change(node, Transition.TRANSITION_CONFIGURE)]


def change(node: LifecycleNode, transition: int) -> EmitEvent:
    return EmitEvent(event=ChangeState(lifecycle_node_matcher=matches_action(node), transition_id=transition))


def report_failure(node: LifecycleNode, name: str, verb: str, start: str, goal: str) -> OnStateTransition:
    again = f'`ros2 lifecycle set {name} {verb}`'
    text = (
        f'{name} did not {verb}: the reason is in its log and on {name}/status. Then try again with {again}'
    )
    return OnStateTransition(
        target_lifecycle_node=node, start_state=start, goal_state=goal, entities=[LogInfo(msg=text)]
    )


def node_ended(event: ProcessExited, context: LaunchContext) -> Shutdown:
    if event.returncode and not context.is_shutdown:
        # An error in a handler is what makes launch end with an exit code.
        raise RuntimeError(f'the policy node died with code {event.returncode}; its last words are above')
    return Shutdown(reason='the policy node ended')
