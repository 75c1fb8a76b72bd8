# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Checks a folder of GR00T pictures: every stage of the way to the model, byte by byte."""

from pathlib import Path

import numpy as np

from flashrt_core.errors import Error
from flashrt_core.golden.files import data_files, notes
from flashrt_core.golden.options import RunOptions
from flashrt_core.golden.report import Gap, Report
from flashrt_core.groot.pictures import TOKEN_PIXELS, PadToSquare, picture_steps
from flashrt_core.tensor_file import TensorFile

_PATTERN = 'image_*.safetensors'
_MOST_PIXELS = 1 << 13  # of one side
# Stages that may be saved; without letterbox there is no first one.
_STAGES = ('stage1.letterbox', 'stage2.resize', 'stage3.crop', 'stage4.resize', 'stage5.vlm_resize')


def check_groot_pictures(folder: Path, options: RunOptions, report: Report) -> None:
    """Every image_*.safetensors; a stage that a file does not have is run all the same."""
    for path in data_files(folder):
        if not path.match(_PATTERN):
            report.gaps.append(Gap(path.name, 'all of it', 'no check knows this file'))
            continue
        file = TensorFile(path)
        _check_picture(file, report)
        report.add_unused(path.stem, file.unused())


def _check_picture(file: TensorFile, report: Report) -> None:
    case = file.path.stem
    said = notes(file)
    steps = picture_steps(
        said.flag('letterbox'),
        said.integer('shortest_image_edge', 1, _MOST_PIXELS),
        said.number('crop_fraction'),
    )
    image = file.take('in.image', 3)
    if image.dtype != 'uint8' or image.shape[2] != 3 or 0 in image.shape:
        raise Error(
            f'{file.path}: in.image is {image.dtype} {list(image.shape)}, needed bytes [rows, columns, 3]'
        )
    names = _STAGES if isinstance(steps[0], PadToSquare) else _STAGES[1:]
    for name, step in zip(names, steps, strict=True):
        image = step(image)
        if name in file:
            report.compare(case, name, image, file.take(name, 3))
    tokens = np.array(image.shape[:2]) // TOKEN_PIXELS
    report.compare(case, 'patch grid', 2 * tokens, said.integers('patch_grid_hw'))
    report.compare(case, 'image tokens', tokens.prod(), said.integer('image_tokens'))
