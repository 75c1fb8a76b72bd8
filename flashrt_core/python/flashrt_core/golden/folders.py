# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Tells from what lies in a golden folder which check it needs."""

from collections.abc import Callable
from pathlib import Path

from flashrt_core.errors import Error
from flashrt_core.golden.end_to_end import check_end_to_end
from flashrt_core.golden.groot_codec import check_groot_codec
from flashrt_core.golden.groot_pictures import check_groot_pictures
from flashrt_core.golden.groot_tokens import check_groot_tokens
from flashrt_core.golden.groot_wire import check_groot_wire
from flashrt_core.golden.guided import check_guided
from flashrt_core.golden.models import check_models
from flashrt_core.golden.options import RunOptions
from flashrt_core.golden.preprocess import check_preprocess
from flashrt_core.golden.report import Gap, Report
from flashrt_core.golden.tokens import check_tokens

Check = Callable[[Path, RunOptions, Report], None]

# The first pattern that a file matches decides; the flag says whether a model runs.
_CHECKS: tuple[tuple[str, Check, bool], ...] = (
    ('case_*.safetensors', check_models, True),
    ('config.json', check_models, True),
    ('*.norm_stats.json', check_end_to_end, True),
    ('guided_*.safetensors', check_guided, True),
    ('trained_*.safetensors', check_guided, True),
    ('prefix_weights.json', check_guided, True),
    ('prompt_cases.json', check_tokens, False),
    ('fast_cases.json', check_tokens, False),
    ('policy_*.safetensors', check_groot_codec, False),
    ('image_*.safetensors', check_groot_pictures, False),
    ('added_tokens.json', check_groot_tokens, False),
    ('*.msgpack', check_groot_wire, False),
    ('resize_cases.json', check_preprocess, False),
    ('normalise_*.safetensors', check_preprocess, False),
    ('state_bins.safetensors', check_preprocess, False),
    ('platforms.safetensors', check_preprocess, False),
)


def check_folder(folder: Path, options: RunOptions | None = None) -> Report:
    """Compares everything in the folder that this version knows; the report lists what it did not compare.

    Folders in it are checked as if they stood alone.
    """
    options = options or RunOptions()
    if not folder.is_dir():
        raise Error(f'golden: {folder} is not a folder')
    report = Report(str(folder))
    inner = [path for path in sorted(folder.iterdir()) if path.is_dir() and not path.name.startswith('.')]
    is_known = _check_files(folder, options, report)
    for path in inner:
        part = Report(str(path))
        if path.is_symlink() or not _check_files(path, options, part):
            part.gaps.append(Gap('', 'all of it', 'no check knows this folder'))
        else:
            is_known = True
        report.add_part(path.name, part)
    if not is_known:
        raise Error(
            f'golden: {folder} holds nothing to compare; known are '
            f'{", ".join(pattern for pattern, *_ in _CHECKS)}'
        )
    return report


def _check_files(folder: Path, options: RunOptions, report: Report) -> bool:
    """Whether there was something to check."""
    for pattern, check, runs_model in _CHECKS:
        if any(folder.glob(pattern)):
            if runs_model:
                report.backend, report.recipe = options.backend, options.recipe
            check(folder, options, report)
            return True
    return False
