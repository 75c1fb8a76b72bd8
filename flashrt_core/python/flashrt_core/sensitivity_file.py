# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Result files of `flashrt sensitivity`, as other tools read them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashrt_core.errors import Error
from flashrt_core.group_costs import MovedBytes
from flashrt_core.json_fields import Fields
from flashrt_core.recipes import Recipe
from flashrt_core.result_file import file_digest, read_result
from flashrt_core.sensitivity import FORMAT, VERSION
from flashrt_core.trials import Source

# What an error may be judged by.
MEASURES = {
    'relative': 'RMS error of actions - noise, as a part of their RMS',
    'rms': 'RMS error of actions - noise',
    'joint': 'RMS error of the worst joint, in its unit',
}


@dataclass(frozen=True)
class StoredVariant:
    """A recipe that was measured."""

    kept: frozenset[str]  # groups in float
    weight_bytes: int
    recipe: Mapping[str, Any]  # as a recipe file holds it
    runs_on: str
    errors: Mapping[str, Any]  # as Errors.content() has them

    def error(self, measure: str) -> float:
        return error_of(self.errors, measure)


@dataclass(frozen=True)
class StoredStudy:
    """A study that was finished, or interrupted."""

    path: Path
    complete: bool
    command: str
    model: str
    checkpoint: str
    weights_digest: str
    recipe_option: str
    recipe: Recipe
    kept: str
    reference: str
    by: str
    calibration: Mapping[str, str] | None  # path, sha256, origin
    calibration_made: bool  # of observations of the source that are not judged
    same_samples: bool
    source: Source
    observations: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]]  # name -> calls
    moved: Mapping[str, MovedBytes]  # of the groups; empty where the study was interrupted
    variants: Mapping[frozenset[str], StoredVariant]
    ranking: tuple[str, ...]
    note: str  # what the intervals are worth

    @classmethod
    def read(cls, path: Path) -> 'StoredStudy':
        return cls.parse(path, read_result(path, {FORMAT: VERSION}))

    @classmethod
    def parse(cls, path: Path, content: Fields) -> 'StoredStudy':
        groups = content.objects('groups')
        variants = [_variant(fields) for fields in content.objects('variants')]
        names = {group.text('name'): tuple(group.texts('calls')) for group in groups}
        for variant in variants:
            if unknown := sorted(variant.kept - set(names)):
                raise Error(f"{path}: a variant keeps group '{unknown[0]}', which the file does not list")
        recipe = content.child('recipe')
        for rule in recipe.objects('rules'):
            for name in ('match', 'weight', 'activation'):
                rule.text(name)
        recipe.text('name'), recipe.text('values')
        return cls(
            path=path,
            complete=content.flag('complete'),
            command=content.text('command'),
            model=content.text('model'),
            checkpoint=content.text('checkpoint'),
            weights_digest=content.text('weights_digest'),
            recipe_option=content.text('recipe_option'),
            recipe=Recipe.parse(recipe.values),
            kept=content.text('kept'),
            reference=content.text('reference'),
            by=content.text('by'),
            calibration=_calibration(content),
            calibration_made=content.has('calibration') and content.child('calibration').flag('made'),
            same_samples=content.flag('same_samples'),
            source=Source.parse(str(path), content.child('source').values),
            observations=tuple(content.texts('observations')),
            groups=names,
            moved=_moved(groups),
            variants={variant.kept: variant for variant in variants},
            ranking=tuple(one.text('group') for one in content.objects('ranking')),
            note=content.child('intervals').text('note'),
        )

    def keeping_only(self, name: str) -> StoredVariant:
        kept = frozenset([name])
        if kept not in self.variants:
            raise Error(
                f'{self.path} holds no error with {name} in float; the study was interrupted, run it again: '
                f'{self.command}'
            )
        return self.variants[kept]

    def checked_calibration(self) -> str | None:
        """Its path; Error where the file is another one by now."""
        if self.calibration is None:
            return None
        path = self.calibration['path']
        if file_digest(path) != self.calibration['sha256']:
            raise Error(
                f'{path} has changed since {self.path} was measured with it; run again: {self.command}'
            )
        return path


def error_of(errors: Mapping[str, Any], measure: str) -> float:
    """errors: as Errors.content() has them."""
    if measure == 'joint':
        return worst_joint(errors)[1]
    return float(errors[measure])


def worst_joint(errors: Mapping[str, Any]) -> tuple[str, float]:
    """Its name and RMS error in its unit; Error where the units of the robot are not known."""
    if not errors['joints']:
        raise Error('errors of joints are known only of a recording that is read with --params')
    worst = max(errors['joints'], key=lambda joint: joint['rms'])
    return worst['name'], float(worst['rms'])


def _variant(fields: Fields) -> StoredVariant:
    errors = fields.child('errors')
    for name in ('rms', 'relative', 'cosine', 'worst'):
        errors.number(name)
    for joint in errors.objects('joints'):
        joint.text('name'), joint.number('rms')
    return StoredVariant(
        kept=frozenset(fields.texts('kept')),
        weight_bytes=fields.integer('weight_bytes', most=1 << 60),
        recipe=fields.child('recipe').values,
        runs_on=fields.text('runs_on'),
        errors=errors.values,
    )


def _calibration(content: Fields) -> Mapping[str, str] | None:
    if not content.has('calibration'):
        return None
    fields = content.child('calibration')
    return {name: fields.text(name) for name in ('path', 'sha256', 'origin')}


def _moved(groups: list[Fields]) -> dict[str, MovedBytes]:
    moved = {}
    for group in groups:
        if not group.has('moved_bytes'):
            return {}
        sides = group.child('moved_bytes')
        moved[group.text('name')] = MovedBytes(sides.number('quantised'), sides.number('float'))
    return moved
