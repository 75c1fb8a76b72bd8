# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Checks from include and import lines that nothing points upward between the rooms of the project.

Run as a program it prints every violation and fails; test_layers.py shows that it catches one of each kind.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Backends as the core sees them: that of CUDA is loaded at run time.
WITHOUT_CUDA = ('backends/backend.hpp', 'backends/module.hpp', 'backends/cpu')

# Room of flashrt_core -> the rooms it may include beside itself. A path names a file of a room.
INCLUDES: dict[str, tuple[str, ...]] = {
    'include': (),
    'base': (),
    'checkpoint': ('base',),
    'plan': ('base',),
    'quant': ('base', 'plan', 'checkpoint'),
    'models': ('base', 'plan', 'checkpoint/model_config.hpp'),
    'kernels': ('base',),
    'backends': ('base', 'plan', 'checkpoint', 'quant'),
    'backends/cpu': ('base', 'plan', 'checkpoint', 'quant', 'backends/backend.hpp'),
    'backends/cuda': (
        *('base', 'plan', 'checkpoint', 'quant', 'kernels'),
        *('backends/backend.hpp', 'backends/module.hpp'),
    ),
    'bench': ('base', 'plan', 'checkpoint', 'quant', 'models', 'kernels', 'backends', 'runtime'),
    'runtime': ('include', 'base', 'plan', 'checkpoint', 'quant', 'models', *WITHOUT_CUDA),
    'bindings': ('include', 'base', 'plan', 'checkpoint', 'quant', 'models', 'runtime', *WITHOUT_CUDA),
}

# A model describes mathematics: these words have no place in it, not even in a comment.
NOT_IN_MODELS = re.compile(r'\b(cpu|cuda|fp8|e4m3|kernels?)\b', re.IGNORECASE)

# Root of Python files -> the packages it may not import.
ROS_PACKAGES = ('rclpy', 'launch', 'launch_ros', 'rosbag2_py', 'cv_bridge', 'ament_index_python')
FORBIDDEN_IMPORTS: dict[str, tuple[str, ...]] = {
    'flashrt_core/python': (*ROS_PACKAGES, 'flashrt_ros'),
    'flashrt_ros': ('launch', 'launch_ros', 'rosbag2_py'),
    'test/python': ROS_PACKAGES,
}
# The modules of flashrt_ros that talk to ROS; the others are plain Python and run without it.
RCLPY_MODULES = (
    'bag_player.py',
    'description_topic.py',
    'demo.py',
    'graph_observer.py',
    'live_tabletop.py',
    'local_ros.py',
    'node_clock.py',
    'node_parameters.py',
    'node_process.py',
    'policy_node.py',
    'program_process.py',
    'qos.py',
    'replay_live.py',
    'run.py',
    'sim_process.py',
    'sim_robot.py',
    'soak/camera.py',
    'soak/recorder.py',
    'soak/rig.py',
    'soak/robot.py',
    'soak/seclusion.py',
    'status.py',
    'topics.py',
    'transitions.py',
    'witness.py',
)


@dataclass(frozen=True)
class Violation:
    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f'{self.path}:{self.line}: {self.text}'


def check(root: Path) -> list[Violation]:
    """All violations in the project at `root`."""
    return [*_check_cpp(root), *_check_python(root)]


def _check_cpp(root: Path) -> Iterator[Violation]:
    core = root / 'flashrt_core'
    sources = [path for suffix in ('hpp', 'cpp', 'cuh', 'cu') for path in core.rglob(f'*.{suffix}')]
    for path in sorted(sources):
        local = path.relative_to(core)
        room = _room(local.parts)
        if room is None:
            yield Violation(
                path.relative_to(root), 1, f'{local.parts[0]}/ is no room of {Path(__file__).name}'
            )
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            include = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if include and not _may_include(room, include[1]):
                text = f'{room}/ may not include "{include[1]}"'
                yield Violation(path.relative_to(root), number, text)
            if room == 'models' and (word := NOT_IN_MODELS.search(line)):
                text = f'models/ may not speak of "{word[0]}"'
                yield Violation(path.relative_to(root), number, text)


def _room(parts: tuple[str, ...]) -> str | None:
    """The innermost known room of a path relative to flashrt_core, or None."""
    for depth in (2, 1):
        room = '/'.join(parts[:depth])
        if len(parts) > depth and room in INCLUDES:
            return room
    return None


def _may_include(room: str, header: str) -> bool:
    if header.startswith('flashrt_core/'):
        header = f'include/{header}'
    allowed = any(header == target or header.startswith(f'{target}/') for target in INCLUDES[room])
    return allowed or _room(tuple(header.split('/'))) == room


def _check_python(root: Path) -> Iterator[Violation]:
    for folder, forbidden in FORBIDDEN_IMPORTS.items():
        for path in sorted((root / folder).rglob('*.py')):
            local = path.relative_to(root / folder).as_posix()
            without_rclpy = folder == 'flashrt_ros' and local not in RCLPY_MODULES
            names = (*forbidden, 'rclpy') if without_rclpy else forbidden
            for number, module in _imports(path):
                if module.split('.')[0] in names:
                    text = f'{path.name} in {folder}/ may not import {module}'
                    yield Violation(path.relative_to(root), number, text)


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of every imported module, also of those imported inside functions."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module


if __name__ == '__main__':
    violations = check(Path(__file__).parents[2])
    print(*violations, f'{len(violations)} layer violations', sep='\n')
    sys.exit(bool(violations))
