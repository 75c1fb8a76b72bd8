# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What equalisation wins where channels of an activation are far larger than the others, and where none are.

Of weights alone, and of mxfp4, whose activations need no calibration.
"""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from format_errors import FOOTNOTE, Error, Model, Way, label, table
from hard_cases import CASES
from rich.console import Console

from flashrt_core.engine import native_core
from flashrt_core.programs import ProgramKey

if TYPE_CHECKING:
    from flashrt_core._core import Equalisation

STRENGTHS = (0.3, 0.5, 0.7, 1.0)
WAYS = (
    Way('e4m3', activations=False),
    Way('int8', activations=False),
    Way('nvfp4', activations=False, weight_scale=None),
    Way('mxfp4', weight_scale=None),
)
NAMES = ('no fault', 'channels x 10', 'channels x 100', 'channels x 1000')


def equalisation(model: Model, strength: float, folder: Path) -> 'Equalisation':
    """Of all norms whose readers are quantised."""
    recipe = folder / 'observed.json'
    recipe.write_text(Way('e4m3').recipe())
    programs = model.programs(str(recipe), float_activations=True)
    maxima = cast(Any, native_core()).ChannelMaxima()
    for sample in model.calibration_samples(programs):
        engine = programs.get(ProgramKey.of(sample))
        engine.observe_channels(maxima, *sample.inputs)
    return engine.equalise(maxima, strength)


def errors(model: Model, way: Way, folder: Path) -> list[Error]:
    """As it is, then by strength."""
    recipe = folder / 'recipe.json'
    recipe.write_text(way.recipe())
    found = [model.error(model.programs(str(recipe)))]
    for strength in STRENGTHS:
        factors = equalisation(model, strength, folder)
        found.append(model.error(model.programs(str(recipe), equalisation=factors)))
    return found


def main() -> None:
    rows = []
    cases = {case.name: case for case in CASES}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name in NAMES:
            model = cases[name].model(folder)
            for way in WAYS:
                what = 'weights and activations' if way.activations else 'weights'
                rows.append(
                    (f'{name}: {what} in {way.format}{label(way.format)}', errors(model, way, folder))
                )
    columns = ['as it is', *(f'strength {strength}' for strength in STRENGTHS)]
    console = Console(width=120)
    console.print(table('error of actions - noise against float32', columns, rows), highlight=False)
    console.print(FOOTNOTE)


if __name__ == '__main__':
    main()
