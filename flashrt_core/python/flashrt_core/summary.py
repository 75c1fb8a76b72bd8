# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Results of several tools as one table: what each way of running a model costs, and how far it is off."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from flashrt_core import bench, proposal, sensitivity
from flashrt_core.json_fields import Fields
from flashrt_core.result_file import read_result
from flashrt_core.sensitivity_file import StoredStudy, StoredVariant, worst_joint

FORMAT, VERSION = 'flashrt_summary', 1
SOURCES = {
    sensitivity.FORMAT: sensitivity.VERSION,
    proposal.FORMAT: proposal.VERSION,
    bench.FORMAT: bench.VERSION,
}


@dataclass(frozen=True)
class Latency:
    """A median in milliseconds, from inputs in the memory of the host to actions in its memory."""

    median_ms: float
    on: str  # backend and device
    file: str


@dataclass(frozen=True)
class Row:
    """One way of running a model."""

    variant: str
    weight_bytes: int
    relative: float | None  # RMS error of actions - noise as a part of their RMS; None: not measured
    interval: tuple[float, float] | None
    cosine: float | None
    worst_joint: str | None  # None: the units of the robot are not known
    worst_joint_error: float | None  # RMS, in its unit
    latency: Latency | None
    runs_on: str
    weights_digest: str
    checkpoint: str
    calibration: str
    observations: int
    recipe: Mapping[str, Any]  # as a recipe file holds it
    command: str
    file: str


@dataclass(frozen=True)
class _Timed:
    """A file of `flashrt bench`."""

    row: Row

    def fits(self, row: Row) -> bool:
        """The same weights in the same types."""
        same = self.row.weights_digest == row.weights_digest
        return same and all(self.row.recipe[name] == row.recipe[name] for name in ('values', 'rules'))


def summarise(paths: Sequence[Path]) -> list[Row]:
    """Rows in the order of the files.

    A file of `flashrt bench` gives its latency to all rows of the same weights and recipe; it is a row of its
    own where there is none, or where it holds errors itself.
    """
    rows: list[Row] = []
    timed: list[_Timed] = []
    for path in paths:
        content = read_result(path, SOURCES)
        kind = content.text('format')
        if kind == bench.FORMAT:
            timed.append(_Timed(_bench_row(path, content)))
        elif kind == sensitivity.FORMAT:
            rows += _study_rows(StoredStudy.parse(path, content))
        else:
            rows.append(_proposal_row(path, content))
    for one in timed:
        fitting = [i for i, row in enumerate(rows) if one.fits(row)]
        for i in fitting:
            rows[i] = replace(rows[i], latency=one.row.latency)
        if not fitting or one.row.relative is not None:
            rows.append(one.row)
    return rows


def content(rows: Sequence[Row], command: str) -> dict[str, Any]:
    """For the summary file."""
    return {
        'format': FORMAT,
        'version': VERSION,
        'command': command,
        'rows': [asdict(row) for row in rows],
    }


def _study_rows(study: StoredStudy) -> list[Row]:
    """Nothing kept, the top of the ranking kept, and all of it."""
    rows = []
    for size in range(len(study.groups) + 1):
        kept = study.ranking[:size]
        if (variant := study.variants.get(frozenset(kept))) is None:
            continue
        name = 'all quantised' if not size else f'top {size} in {study.kept}'
        if size == len(study.groups):
            name = f'all in {study.kept}'
        rows.append(_study_row(study, variant, name))
        if not study.ranking:
            break  # interrupted before there was one
    return rows


def _study_row(study: StoredStudy, variant: StoredVariant, name: str) -> Row:
    return Row(
        variant=f'{study.recipe.name}, {name}',
        weight_bytes=variant.weight_bytes,
        **_errors(variant.errors),
        latency=None,
        runs_on=variant.runs_on,
        weights_digest=study.weights_digest,
        checkpoint=study.checkpoint,
        calibration=_calibration(study.calibration),
        observations=len(study.observations),
        recipe=variant.recipe,
        command=study.command,
        file=str(study.path),
    )


def _proposal_row(path: Path, content: Fields) -> Row:
    recipe = content.child('recipe')
    calibration = content.child('calibration').values if content.has('calibration') else None
    errors = content.child('errors')
    for name in ('relative', 'cosine'):
        errors.number(name)
    return Row(
        variant=f'{path.name.removesuffix(".report.json")}: {recipe.text("name")}',
        weight_bytes=content.integer('weight_bytes', most=1 << 60),
        **_errors(errors.values),
        latency=None,
        runs_on=content.text('runs_on'),
        weights_digest=content.text('weights_digest'),
        checkpoint=content.text('checkpoint'),
        calibration=_calibration(calibration),
        observations=len(content.texts('observations')),
        recipe=recipe.values,
        command=content.text('command'),
        file=str(path),
    )


def _bench_row(path: Path, content: Fields) -> Row:
    settings = content.child('settings')
    recipe = content.child('recipe')
    latency = Latency(
        content.child('inference').number('median'),
        f'{settings.text("backend")}, {content.text("device")}',
        str(path),
    )
    errors: dict[str, Any] = dict.fromkeys(_ERRORS)
    observations = 0
    if content.has('accuracy'):
        chunk = content.child('accuracy').child('chunk')
        rms, reference = chunk.number('rms'), chunk.number('reference_rms')
        errors |= {
            'relative': rms / reference if reference else float(rms > 0),
            'cosine': chunk.number('cosine'),
        }
        observations = settings.integer('reference_samples')
    return Row(
        variant=recipe.text('name'),
        weight_bytes=content.integer('stored_weight_bytes', most=1 << 60),
        **errors,
        latency=latency,
        runs_on=content.text('runs_on'),
        weights_digest=content.text('weights_digest'),
        checkpoint=settings.text('checkpoint'),
        calibration=content.text('calibration_origin'),
        observations=observations,
        recipe=recipe.values,
        command=content.text('command'),
        file=str(path),
    )


_ERRORS = ('relative', 'interval', 'cosine', 'worst_joint', 'worst_joint_error')


def _errors(errors: Mapping[str, Any]) -> dict[str, Any]:
    joint, joint_error = worst_joint(errors) if errors['joints'] else (None, None)
    interval = errors['relative_interval']
    values = (
        float(errors['relative']),
        tuple(interval) if interval else None,
        float(errors['cosine']),
        joint,
        joint_error,
    )
    return dict(zip(_ERRORS, values, strict=True))


def _calibration(calibration: Mapping[str, Any] | None) -> str:
    if calibration is None:
        return 'none'
    return f'{Path(calibration["path"]).name} ({calibration["sha256"][:12]}): {calibration["origin"]}'


HEADINGS = (
    *('variant', 'weights MB', 'relative error', '95 %', 'cosine', 'worst joint', 'ms', 'runs on'),
    *('weights', 'calibration', 'observations', 'file'),
)


def cells(row: Row) -> tuple[str, ...]:
    """Of a table with those headings."""
    joint = '' if row.worst_joint is None else f'{row.worst_joint} {row.worst_joint_error:.2e}'
    return (
        row.variant,
        f'{row.weight_bytes / 1e6:.2f}',
        '' if row.relative is None else f'{row.relative:.3e}',
        '' if row.interval is None else f'{row.interval[0]:.2e} .. {row.interval[1]:.2e}',
        '' if row.cosine is None else f'{row.cosine:.6f}',
        joint,
        '' if row.latency is None else f'{row.latency.median_ms:.3f} ({row.latency.on})',
        row.runs_on,
        row.weights_digest,
        row.calibration,
        str(row.observations),
        Path(row.file).name,
    )


def markdown(rows: Sequence[Row], picture: str, command: str) -> str:
    """The table, the picture, and how each row was made."""
    lines = [
        '# Accuracy and latency',
        '',
        'Errors are of actions - noise against the reference, over the observations of the file. A row '
        'without ms was not timed.',
        '',
        f'| {" | ".join(HEADINGS)} |',
        f'|{" --- |" * len(HEADINGS)}',
        *(f'| {" | ".join(cell.replace("|", "&#124;") for cell in cells(row))} |' for row in rows),
        '',
        f'![accuracy against latency]({picture})',
        '',
        'Commands:',
        '',
        *dict.fromkeys(f'- `{Path(row.file).name}`: `{row.command}`' for row in rows),
        f'- this table: `{command}`',
    ]
    return '\n'.join(lines) + '\n'
