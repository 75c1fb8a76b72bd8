# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The launch files: against launch itself where it is installed, else against a stand-in (R-32)."""

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest
from launch_stand_in import Recorded, run_launch_file
from lifecycle_msgs.msg import Transition

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / 'launch' / 'pi05_thor.launch.py'


def has_launch() -> bool:
    """Another program called launch exists."""
    if importlib.util.find_spec('launch_ros') is None or importlib.util.find_spec('launch') is None:
        return False
    import launch

    return hasattr(launch, 'LaunchDescription')


def run(**given: str) -> list[Recorded]:
    return run_launch_file(FILE, ROOT, given)


def node_of(started: list[Recorded]) -> Recorded:
    (node,) = (entity for entity in started if entity.kind == 'LifecycleNode')
    return node


def values(node: Recorded) -> dict[str, tuple[str, type]]:
    return {name: (value.value, value.value_type) for name, value in node.parameters[1].items()}


def test_defaults_start_the_executable_with_the_example():
    node = node_of(run())
    assert (node.package, node.executable, node.name) == ('flashrt_ros', 'policy_node', 'policy')
    assert node.namespace == ''
    assert node.parameters[0] == str(ROOT / 'config' / 'pi05_thor.yaml')
    assert node.ros_arguments == ['--log-level', 'info']
    assert values(node) == {'use_sim_time': ('false', bool)}


def test_given_arguments_replace_parameters_with_their_types(tmp_path):
    file = tmp_path / 'robot.yaml'
    file.write_text('')
    node = node_of(
        run(
            params_file=str(file), namespace='robot_a', use_sim_time='true', log_level='debug', prompt='off',
            checkpoint='/models/arm', dry_run='true', output_type='joint_state', autostart='false',
        )
    )  # fmt: skip
    assert node.namespace == 'robot_a'
    assert node.parameters[0] == str(file)
    assert node.ros_arguments == ['--log-level', 'debug']
    assert values(node) == {
        'use_sim_time': ('true', bool),
        'prompt': ('off', str),
        'model.checkpoint': ('/models/arm', str),
        'dry_run': ('true', bool),
        'output.type': ('joint_state', str),
    }


def test_bring_up_configures_and_then_activates():
    handler, node, first = run()
    transition = handler.event_handler
    assert (transition.start_state, transition.goal_state) == ('configuring', 'inactive')
    assert transition.target_lifecycle_node is node
    (then,) = transition.entities
    assert then.event.transition_id == Transition.TRANSITION_ACTIVATE
    assert first.event.transition_id == Transition.TRANSITION_CONFIGURE
    assert first.event.lifecycle_node_matcher.target_action is node


def test_autostart_can_be_left_out():
    assert [entity.kind for entity in run(autostart='false')] == ['LifecycleNode']
    with pytest.raises(ValueError, match="autostart is 'no'"):
        run(autostart='no')


@pytest.mark.parametrize(('use_sim_time', 'options'), [('false', []), ('true', ['--clock'])])
def test_demo_runs_one_program(use_sim_time: str, options: list[str]):
    demo = ROOT / 'launch' / 'demo.launch.py'
    (process,) = run_launch_file(demo, ROOT, {'out': '/tmp/out', 'use_sim_time': use_sim_time})
    assert process.cmd == ['python3', '-m', 'flashrt_ros.demo', '--out', '/tmp/out', *options]
    assert set(process.additional_env) == {'ROS_DOMAIN_ID'}


def test_missing_file_stops_the_launch():
    with pytest.raises(FileNotFoundError, match=r'params_file /nowhere/robot.yaml does not exist'):
        run(params_file='/nowhere/robot.yaml')


def test_stand_in_rejects_what_launch_does_not_have(tmp_path):
    for text, error in (
        ("LifecycleNode(package='a', autostart=True)", TypeError),
        ("LifecycleNode('a')", TypeError),
        ("LifecycleNode(package=LaunchConfiguration('undeclared'))", LookupError),
    ):
        path = tmp_path / 'wrong.launch.py'
        path.write_text(
            'from launch import LaunchDescription\n'
            'from launch.substitutions import LaunchConfiguration\n'
            'from launch_ros.actions import LifecycleNode\n'
            f'def generate_launch_description():\n    return LaunchDescription([{text}])\n'
        )
        with pytest.raises(error):
            run_launch_file(path, ROOT, {})
    with pytest.raises(LookupError, match='parms_file'):
        run(parms_file='x')


@pytest.mark.skipif(not has_launch(), reason='launch and launch_ros are not installed')
def test_real_launch_knows_the_arguments():
    shown = subprocess.run(
        [shutil.which('ros2') or 'ros2', 'launch', str(FILE), '--show-args'], capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stderr
    arguments = 'params_file namespace use_sim_time autostart log_level prompt checkpoint dry_run output_type'
    for argument in arguments.split():
        assert f"'{argument}':" in shown.stdout
