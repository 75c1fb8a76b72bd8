# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Run by an environment's own Python: is the package that was installed into it complete?

python installed_package.py PREFIX [--ros]
"""

import os
import sys
import tomllib
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType


def main(prefix: str, ros: str = '') -> None:
    check_modules(Path(prefix))
    check_checkpoint(Path(prefix))
    check_entry_points()
    if ros == '--ros':
        check_share(Path(prefix))
        check_message_exchange()
    else:
        check_no_messages()


def check_modules(prefix: Path) -> None:
    for name in ('flashrt_core', 'flashrt_core._core', 'flashrt_ros'):
        file = import_module(name).__file__ or ''
        assert Path(file).is_relative_to(prefix), f'{name} comes from {file}, not from {prefix}'
    tabletop = Path(import_module('flashrt_ros.tabletop').__file__ or '')
    assert tabletop.with_name('scene.xml').is_file(), f'{tabletop.parent} has no scene.xml'
    core = import_module('flashrt_core._core')
    try:
        core.read_model_config('/no/such/checkpoint')
    except core.Error as error:
        message = str(error)
    else:
        raise AssertionError('a checkpoint that does not exist was read')
    assert '/no/such/checkpoint' in message, message
    check_cuda(core)


def check_cuda(core: ModuleType) -> None:
    """The CUDA backend is there if it was built, and finds the libraries that it needs, GPU or not."""
    assert core.__file__
    is_built = Path(core.__file__).with_name('flashrt_cuda.so').exists()
    try:
        core.Engine('/no/such/checkpoint', cameras=1, backend='cuda')
    except core.Error as error:
        message = str(error)
    else:
        raise AssertionError('a checkpoint that does not exist was loaded')
    reasons = ('cannot be used', '/no/such/checkpoint') if is_built else ('is not part of this installation',)
    assert any(reason in message for reason in reasons), message


def check_checkpoint(prefix: Path) -> None:
    """An installed parameter file finds the policy that comes with the package."""
    from flashrt_core._core import check_weight_files, read_model_config
    from flashrt_ros.parameters import load_parameters_file

    parameters, _ = load_parameters_file(prefix / 'share' / 'flashrt_ros' / 'config' / 'pi05_tabletop.yaml')
    for path in (parameters.checkpoint, parameters.tokenizer, parameters.statistics):
        assert Path(path).is_relative_to(prefix), f'{path} is not in {prefix}'
        assert Path(path).exists(), f'{path} was not installed'
    check_weight_files(parameters.checkpoint, read_model_config(parameters.checkpoint))


def check_entry_points() -> None:
    """Sub-commands of `flashrt`, and what reads recordings."""
    project = tomllib.loads((Path(__file__).parents[2] / 'pyproject.toml').read_text())['project']
    for group, expected in project['entry-points'].items():
        entries = {entry.name: entry for entry in metadata.entry_points(group=group)}
        assert entries.keys() == expected.keys(), (group, entries)
        for entry in entries.values():
            assert callable(entry.load()), entry


def check_share(prefix: Path) -> None:
    for path in ('share/flashrt_ros/package.xml', 'share/ament_index/resource_index/packages/flashrt_ros'):
        assert (prefix / path).is_file(), f'{prefix / path} was not installed'
    launch = prefix / 'share' / 'flashrt_ros' / 'launch'
    assert any(launch.iterdir()), f'{launch} was installed empty'
    for name in ('policy_node', 'sim_robot'):
        assert os.access(prefix / 'lib' / 'flashrt_ros' / name, os.X_OK), f'{name} is no executable'
    import_module('flashrt_ros.policy_node')


def check_message_exchange() -> None:
    """Sends one chunk through DDS: the type support is loaded by name, not by the loader."""
    import rclpy

    from flashrt_ros.msg import ActionChunk

    rclpy.init()
    node = rclpy.create_node('installed_package')
    received: list[ActionChunk] = []
    node.create_subscription(ActionChunk, 'chunk', received.append, 1)
    publisher = node.create_publisher(ActionChunk, 'chunk', 1)
    for _ in range(100):
        publisher.publish(ActionChunk(prompt='pick', actions=[0.25, -1.0], rows=1))
        rclpy.spin_once(node, timeout_sec=0.1)
        if received:
            break
    assert received, 'no message arrived within 10 s'
    assert list(received[0].actions) == [0.25, -1.0]
    assert received[0].prompt == 'pick'
    rclpy.shutdown()


def check_no_messages() -> None:
    try:
        import_module('flashrt_ros.msg')
    except ModuleNotFoundError:
        return
    raise AssertionError('there are messages although ROS 2 was absent')


if __name__ == '__main__':
    main(*sys.argv[1:])
