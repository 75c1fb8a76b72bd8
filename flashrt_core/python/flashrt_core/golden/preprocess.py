# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Checks a folder of transforms: pictures, normalisation, state bins, relative actions, robots, prompts."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import cast, get_args

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error
from flashrt_core.golden import bounds
from flashrt_core.golden.files import data_files
from flashrt_core.golden.options import RunOptions
from flashrt_core.golden.report import Gap, Report
from flashrt_core.json_fields import read_object, read_objects
from flashrt_core.normalise import make_scaler
from flashrt_core.platforms import OPENPI_SLOTS, ROBOTS, AlohaActions, AlohaState, Family, camera_masks
from flashrt_core.prompt import StatePrompt, state_bins
from flashrt_core.relative import RelativeActions, expand_mask, mask_by_name
from flashrt_core.resample import Arithmetic
from flashrt_core.resize import Resize, float_to_bytes, letterbox
from flashrt_core.settings import Normalisation, Origin
from flashrt_core.statistics import Statistics, read_norm_stats
from flashrt_core.tensor_file import TensorFile

MOST_PIXELS = 1 << 13  # of one side of a picture
MOST_COLUMNS = 1 << 10  # of a state or actions


def check_preprocess(folder: Path, options: RunOptions, report: Report) -> None:
    """Runs the check of every file that is there."""
    for path in data_files(folder):
        compared = len(report.comparisons)
        if path.suffix == '.safetensors':
            check = _TENSORS.get(path.stem)
            if check is not None:
                file = TensorFile(path)
                check(file, report)
                report.add_unused(path.stem, file.unused())
                continue
        elif path.suffix == '.json':
            if path.stem in _DOCUMENTS:
                _DOCUMENTS[path.stem](path, report)
                if len(report.comparisons) == compared:
                    report.gaps.append(Gap(path.name, 'all of it', 'it holds no case'))
                continue
            if path.stem in _PARAMETERS:
                continue
        report.gaps.append(Gap(path.name, 'all of it', 'no check knows this file'))


# ---- resizing

# Name in the files -> arithmetic, bound.
_RESIZED: dict[str, tuple[Arithmetic, float]] = {
    'pil_u8': ('pil', bounds.EXACT),
    'bilinear_u8': ('torch_u8', bounds.EXACT),
    'antialias_u8': ('jax', bounds.RESIZED_ANTIALIASED_U8),
    'antialias_f32': ('jax', bounds.RESIZED_FLOAT),
    'bilinear_f32': ('torch', bounds.RESIZED_FLOAT),
}


def _picture(height: int, width: int) -> NDArray[np.uint8]:
    """The input_formula of resize_cases.json."""
    y, x, c = np.ogrid[:height, :width, :3]
    return ((3 * x + 5 * y + 17 * c + 2 * ((x * y) % 97)) % 256).astype(np.uint8)


def _check_resized(file: TensorFile, report: Report) -> None:
    for name in file.names():
        parts = re.fullmatch(r'(\w+)\.(\d+)x(\d+)_to_(\d+)x(\d+)', name)
        if parts is None or parts[1] not in _RESIZED:
            continue
        arithmetic, bound = _RESIZED[parts[1]]
        rows, columns, height, width = (int(part) for part in parts.groups()[1:])
        picture: NDArray = _picture(rows, columns)
        if parts[1] == 'antialias_f32':
            picture = picture.astype(np.float32) / np.float32(255) * np.float32(2) - np.float32(1)
        resized = Resize(height, width, arithmetic)(picture)
        report.compare(f'{rows}x{columns} to {height}x{width}', parts[1], resized, file.take(name, 3), bound)


def _check_letterbox(path: Path, report: Report) -> None:
    for case in read_object(path).objects('cases'):
        rows, columns, height, width = (case.integer(key, 1, MOST_PIXELS) for key in 'hwHW')
        name = f'{rows}x{columns} to {height}x{width}'
        place = letterbox(rows, columns, height, width)
        saved = [case.integer(key) for key in ('inner_h', 'inner_w', 'pad_top', 'pad_left')]
        report.compare(name, 'letterbox', [place.height, place.width, place.top, place.left], saved)
        # Sizes and sums are exact in float64.
        report.compare(name, 'input sum', _picture(rows, columns).sum(), case.number('input_sum'))


# ---- normalisation

_KINDS: dict[str, Normalisation] = {
    'zscore': 'zscore',
    'mean_std': 'zscore',
    'quantile': 'quantile',
    'quantiles': 'quantile',
    'min_max': 'min_max',
    'quantile10': 'quantile10',
}
_STATISTICS = ('mean', 'std', 'q01', 'q99', 'min', 'max', 'q10', 'q90')


def _check_normalised(origin: Origin, prefix: str) -> Callable[[TensorFile, Report], None]:
    def check(file: TensorFile, report: Report) -> None:
        values = {kind: file.take(prefix + kind, 1) for kind in _STATISTICS if prefix + kind in file}
        statistics = Statistics('golden', values)
        state, actions = file.take('state', 2), file.take('model_actions')
        for name in file.names():
            parts = re.fullmatch(r'(\w+)\.(state_normalised|actions_unnormalised)(?:_(?:first)?(\d+))?', name)
            if parts is None or parts[1] not in _KINDS:
                continue
            scaler = make_scaler(origin, _KINDS[parts[1]], statistics)
            columns = slice(None if parts[3] is None else int(parts[3]))
            if parts[2] == 'state_normalised':
                actual = scaler.normalise(state[..., columns])
            else:
                actual = scaler.unnormalise(actions[..., columns])
            saved = file.take(name)
            report.compare(f'{origin} {name}', parts[2], actual, saved, bounds.normalised(saved))

    return check


def _check_norm_stats(path: Path, report: Report) -> None:
    """The file as the policy reads it, against the arrays beside it."""
    read, arrays = read_norm_stats(path), TensorFile(path.parent / 'normalise_openpi.safetensors')
    for group in (read.state, read.actions):
        for kind, values in group.values.items():
            report.compare(f'{group.name} {kind}', 'norm_stats.json', values, arrays.take(kind, 1))


# ---- state bins and prompts


def _check_bins(file: TensorFile, report: Report) -> None:
    for kind in ('f32', 'f64'):
        bins = state_bins(file.take(f'value_{kind}', 1))
        report.compare(f'value_{kind}', 'state bins', bins, file.take(f'bin_{kind}', 1))


def _check_lerobot_prompts(path: Path, report: Report) -> None:
    for index, case in enumerate(read_objects(path)):
        bins = state_bins(case.numbers('state', axes=1).astype(np.float32))
        text = ''.join(StatePrompt().pieces(case.text('task'), bins))
        report.compare_text(f'{path.stem}[{index}]', 'lerobot prompt', text, case.text('prompt'))


# ---- relative actions


def _check_delta(file: TensorFile, report: Report) -> None:
    for name, case in read_object(file.path.with_suffix('.json')).members().items():
        mask = expand_mask(case.integers('mask_spec', -MOST_COLUMNS, MOST_COLUMNS))
        report.compare(name, 'delta mask', np.array(mask), file.take(f'{name}.mask', 1).astype(bool))
        report.compare(name, 'delta mask in JSON', np.array(mask), np.array(case.flags('mask')))
        state, actions = file.take(f'{name}.state'), file.take(f'{name}.actions')
        if len(mask) > min(state.shape[-1], actions.shape[-1]):
            raise Error(
                f'{case.place}: mask_spec says {len(mask)} columns, {file.path} has a state '
                f'{list(state.shape)} and actions {list(actions.shape)}'
            )
        relative = RelativeActions(mask)
        for key, actual in (
            ('delta', relative.to_relative(actions, state)),
            ('absolute', relative.to_absolute(actions, state)),
        ):
            report.compare(name, f'{key} actions', actual, file.take(f'{name}.{key}'), bounds.NORMALISED)


def _check_relative(file: TensorFile, report: Report) -> None:
    state, actions = file.take('state', 2), file.take('actions', 3)
    for name, case in read_object(file.path.with_suffix('.json')).members().items():
        names = case.texts('action_names') if case.has('action_names') else None
        mask = mask_by_name(actions.shape[-1], names, case.texts('exclude_joints'))
        report.compare(name, 'relative mask', np.array(mask), file.take(f'{name}.mask', 1).astype(bool))
        report.compare(name, 'relative mask in JSON', np.array(mask), np.array(case.flags('mask')))
        relative = RelativeActions(mask)
        for key, actual in (
            ('relative', relative.to_relative(actions, state)),
            ('absolute', relative.to_absolute(actions, state)),
        ):
            report.compare(
                name, f'lerobot {key} actions', actual, file.take(f'{name}.{key}'), bounds.NORMALISED
            )


# ---- platforms


def _check_platforms(file: TensorFile, report: Report) -> None:
    for name, decode, encode in (
        ('aloha_adapt', AlohaState(), AlohaActions()),
        ('aloha_raw', lambda state: state, lambda actions: actions),
    ):
        if f'{name}.state_in' not in file:
            continue
        state, actions = file.take(f'{name}.state_in', 2), file.take(f'{name}.actions_in', 2)
        robot = actions[:, : ROBOTS['aloha'].action_dim]
        report.compare(
            name, 'ALOHA state', decode(state), file.take(f'{name}.state_out', 2), bounds.NORMALISED
        )
        report.compare(
            name, 'ALOHA actions', encode(robot), file.take(f'{name}.actions_out', 2), bounds.NORMALISED
        )
    if 'droid.state' in file:
        # Joints, then the gripper: the order in which the policy takes a state.
        state = np.append(np.arange(7) / 10, 0.7)
        report.compare('droid', 'DROID state', state, file.take('droid.state', 1), bounds.NORMALISED)
    if 'float_image.in' in file:
        report.compare(
            'float_image',
            'float image',
            float_to_bytes(file.take('float_image.in')),
            file.take('float_image.u8'),
        )


def _check_camera_masks(path: Path, report: Report) -> None:
    document = read_object(path)
    for name in document:
        platform, _, family = name.partition('/')
        # ALOHA's names say which cameras are there, the others which model it is.
        if platform not in ROBOTS or (platform != 'aloha' and family not in get_args(Family)):
            raise Error(
                f"{path}: '{name}' is no platform with a model; known are {sorted(ROBOTS)} with "
                f'{sorted(get_args(Family))}'
            )
        robot = ROBOTS[platform]
        present = set(robot.required)
        if family == 'all':
            present = set(OPENPI_SLOTS)
        model: Family = cast(Family, family) if platform != 'aloha' else 'pi0'
        if model == 'pi0_fast':
            present = {slot for slot in robot.fast_slots if slot not in robot.fast_black}
        masks = camera_masks(robot, model, present)
        report.compare_text(name, 'camera masks', repr(masks), repr(document.value(name)))


_TENSORS: dict[str, Callable[[TensorFile, Report], None]] = {
    'resize_openpi': _check_resized,
    'resize_lerobot': _check_resized,
    'normalise_openpi': _check_normalised('openpi', ''),
    'normalise_lerobot': _check_normalised('lerobot', 'stats.'),
    'state_bins': _check_bins,
    'delta_absolute': _check_delta,
    'relative_lerobot': _check_relative,
    'platforms': _check_platforms,
}
_DOCUMENTS: dict[str, Callable[[Path, Report], None]] = {
    'resize_cases': _check_letterbox,
    'norm_stats': _check_norm_stats,
    'camera_masks': _check_camera_masks,
    'prompt_text_lerobot': _check_lerobot_prompts,
}
# Read by the check of the tensors beside them.
_PARAMETERS = ('delta_absolute', 'relative_lerobot')
