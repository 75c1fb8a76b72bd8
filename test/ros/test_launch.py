# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The launch files: against launch itself where it is installed, else against a stand-in (R-32)."""

import importlib.util
import os
import shutil
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from launch_stand_in import Recorded, run_launch_file
from lifecycle_msgs.msg import Transition

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / 'launch' / 'pi05_thor.launch.py'
GROOT = ROOT / 'launch' / 'groot_thor.launch.py'
TABLETOP = ROOT / 'launch' / 'tabletop.launch.py'


def has_launch() -> bool:
    """Another program called launch exists."""
    if importlib.util.find_spec('launch_ros') is None or importlib.util.find_spec('launch') is None:
        return False
    import launch

    return hasattr(launch, 'LaunchDescription')


def run(file: Path = FILE, **given: str) -> list[Recorded]:
    return run_launch_file(file, ROOT, given)


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


def test_groot_is_launched_alike_with_an_example_of_its_own(tmp_path):
    node = node_of(run(GROOT))
    assert node.parameters[0] == str(ROOT / 'config' / 'groot_thor.yaml')
    file = tmp_path / 'robot.yaml'
    file.write_text('')
    given = {'params_file': str(file), 'namespace': 'left', 'prompt': 'off', 'autostart': 'false'}
    [node], [other] = run(GROOT, **given), run(FILE, **given)
    assert node.parameters[0] == str(file)
    assert values(node) == values(other)
    assert (node.executable, node.namespace) == (other.executable, other.namespace) == ('policy_node', 'left')
    kinds = [[entity.kind for entity in run(launched)] for launched in (GROOT, FILE)]
    assert kinds[0] == kinds[1]


def test_the_tabletop_is_a_robot_beside_the_policy_that_is_launched_alike():
    robot, *policy = run(TABLETOP)
    assert (robot.kind, robot.package, robot.executable) == ('Node', 'flashrt_ros', 'sim_robot')
    task = 'stack the red block on the blue block'
    assert {name: (value.value, value.value_type) for name, value in robot.parameters[0].items()} == {
        'seed': ('4', int),
        'task': (task, str),
        'pace': ('real_time', str),
    }
    node = node_of(policy)
    assert node.parameters[0] == str(ROOT / 'config' / 'pi05_tabletop.yaml')
    assert values(node) == {'use_sim_time': ('true', bool), 'prompt': (task, str)}
    assert [entity.kind for entity in policy] == [entity.kind for entity in run(FILE)]


def test_the_prompt_of_the_tabletop_is_told_and_judged():
    given = {'prompt': 'lift the red block', 'scene': '7', 'pace': 'lockstep', 'namespace': 'table'}
    robot, *policy = run(TABLETOP, **given, autostart='false')
    values_of_robot = {name: value.value for name, value in robot.parameters[0].items()}
    assert values_of_robot == {'seed': '7', 'task': 'lift the red block', 'pace': 'lockstep'}
    assert values(node_of(policy))['prompt'] == ('lift the red block', str)
    assert robot.namespace == node_of(policy).namespace == 'table'
    assert ended(robot, 0).kind == 'Shutdown'
    with pytest.raises(RuntimeError, match='the robot died with code 1'):
        ended(robot, 1)


def transitions(started: list[Recorded]) -> list[Recorded]:
    return [entity.event_handler for entity in started if entity.kind == 'RegisterEventHandler']


def test_bring_up_configures_and_then_activates():
    *handlers, node, first = run()
    transition = transitions(handlers)[0]
    assert (transition.start_state, transition.goal_state) == ('configuring', 'inactive')
    assert transition.target_lifecycle_node is node
    assert transition.handle_once, 'a later configure by hand must not activate'
    (then,) = transition.entities
    assert then.event.transition_id == Transition.TRANSITION_ACTIVATE
    assert first.event.transition_id == Transition.TRANSITION_CONFIGURE
    assert first.event.lifecycle_node_matcher.target_action is node


@pytest.mark.parametrize(
    ('namespace', 'name'),
    [('', '/policy'), ('left', '/left/policy'), ('/cell_2/left/', '/cell_2/left/policy')],
)
def test_transition_that_fails_is_reported_with_the_command_for_another_try(namespace: str, name: str):
    started = run(namespace=namespace)
    reports = {}
    for handler in transitions(started)[1:]:
        assert handler.target_lifecycle_node is node_of(started)
        (report,) = handler.entities
        assert report.kind == 'LogInfo', 'nothing ends and nothing is tried again without being asked'
        reports[handler.start_state, handler.goal_state] = report.msg
    assert reports == {
        ('configuring', 'unconfigured'): f'{name} did not configure: the reason is in its log and on '
        f'{name}/status. Then try again with `ros2 lifecycle set {name} configure`',
        ('activating', 'inactive'): f'{name} did not activate: the reason is in its log and on '
        f'{name}/status. Then try again with `ros2 lifecycle set {name} activate`',
    }


def ended(process: Recorded, code: int, *, is_shutdown: bool = False) -> Recorded:
    """What the launch does when its process ends with this code."""
    return process.on_exit(SimpleNamespace(returncode=code), SimpleNamespace(is_shutdown=is_shutdown))


@pytest.mark.parametrize('autostart', ['true', 'false'])
def test_node_that_ends_ends_the_launch(autostart: str):
    node = node_of(run(autostart=autostart))
    assert ended(node, 0).kind == 'Shutdown'
    for code in (1, -signal.SIGSEGV):
        with pytest.raises(RuntimeError, match=f'the policy node died with code {code}'):
            ended(node, code)
        # Ended by the launch itself, which says so.
        assert ended(node, code, is_shutdown=True).kind == 'Shutdown'


def test_two_robots_share_no_name():
    """The file is launched once per robot; what is not in the namespace would be shared."""
    left, right = (node_of(run(namespace=namespace)) for namespace in ('left', 'right'))
    assert (left.name, right.name) == ('policy', 'policy')
    assert (left.namespace, right.namespace) == ('left', 'right')
    assert not {'remappings', 'arguments'} & (set(left.arguments) | set(right.arguments))


def test_autostart_can_be_left_out():
    assert [entity.kind for entity in run(autostart='false')] == ['LifecycleNode']
    with pytest.raises(ValueError, match="autostart is 'no'"):
        run(autostart='no')


@pytest.mark.parametrize(('use_sim_time', 'options'), [('false', []), ('true', ['--clock'])])
def test_demo_runs_one_program(use_sim_time: str, options: list[str]):
    demo = ROOT / 'launch' / 'demo.launch.py'
    given = {'model': 'groot', 'out': '/tmp/out', 'use_sim_time': use_sim_time}
    (process,) = run_launch_file(demo, ROOT, given)
    command = ['python3', '-m', 'flashrt_ros.replay_demo', '--model', 'groot', '--out', '/tmp/out', *options]
    assert process.cmd == command
    (default,) = run_launch_file(demo, ROOT, {'use_sim_time': use_sim_time})
    assert default.cmd[4] == 'pi05'
    assert set(process.additional_env) == {'ROS_DOMAIN_ID'}
    assert ended(process, 0).kind == 'Shutdown'
    with pytest.raises(RuntimeError, match='the demo failed with code 1'):
        ended(process, 1)


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


with_launch = pytest.mark.skipif(not has_launch(), reason='launch and launch_ros are not installed')


def ros2_launch(*arguments: str, domain_id: int, file: Path = FILE) -> subprocess.CompletedProcess:
    environment = os.environ | {'ROS_DOMAIN_ID': str(domain_id)}
    command = [shutil.which('ros2') or 'ros2', 'launch', str(file), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


@with_launch
def test_real_launch_stops_on_a_missing_file(domain_id: int):
    done = ros2_launch('params_file:=/nowhere/robot.yaml', domain_id=domain_id)
    assert done.returncode == 1
    assert 'params_file /nowhere/robot.yaml does not exist' in done.stdout + done.stderr


@with_launch
def test_real_launch_ends_with_a_node_that_dies(tmp_path: Path, domain_id: int):
    file = tmp_path / 'robot.yaml'
    file.write_text('policy:\n\tros__parameters: {}\n')  # a tab: the node refuses the file and ends
    done = ros2_launch(f'params_file:={file}', domain_id=domain_id)
    assert done.returncode == 1
    assert 'the policy node died with code 1' in done.stdout + done.stderr


@with_launch
def test_real_launch_reports_a_configure_that_fails_and_keeps_the_node(tmp_path: Path, domain_id: int):
    file = tmp_path / 'robot.yaml'
    file.write_text('/**:\n  policy:\n    ros__parameters: {prompt: pick}\n')
    command = [shutil.which('ros2') or 'ros2', 'launch', str(FILE), f'params_file:={file}', 'namespace:=left']
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=os.environ | {'ROS_DOMAIN_ID': str(domain_id)},
    )  # fmt: skip
    try:
        seen = []
        for line in process.stdout:
            seen.append(line)
            if 'ros2 lifecycle set /left/policy configure' in line:
                break
        else:
            pytest.fail(''.join(seen))
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


@with_launch
@pytest.mark.parametrize('launched', [FILE, GROOT, TABLETOP], ids=lambda path: path.stem)
def test_real_launch_knows_the_arguments(domain_id: int, launched: Path):
    shown = ros2_launch('--show-args', domain_id=domain_id, file=launched)
    assert shown.returncode == 0, shown.stderr
    arguments = 'params_file namespace use_sim_time autostart log_level prompt checkpoint dry_run output_type'
    for argument in arguments.split():
        assert f"'{argument}':" in shown.stdout
