# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What one scale per value costs rows of different ranges in whole models.

Pictures beside words in the prefix of Pi0.5, the first token beside the others in the prompts of Pi0.5 and
GR00T. The values are those of a float32 run, the scales those of a calibration on other observations; each
group of rows is rounded as the format does it. `test/core/test_mixed_ranges.cpp` shows the same in a plan of
six calls.
"""

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from number_formats import FORMATS, rounded
from numpy.typing import NDArray
from planted_faults import GROOT, Tensors, larger_words, outlier_token, plant
from rich.console import Console
from rich.table import Table

from flashrt_core.bench import ACCURACY_SEED, CALIBRATION_SEED, BenchSettings, random_samples
from flashrt_core.calibrate import CalibrationSettings, calibrate_programs
from flashrt_core.programs import ProgramKey, Programs

GOLDEN = Path(__file__).parents[1] / 'golden'
E4M3_LARGEST = 448.0


@dataclass(frozen=True)
class Model:
    """A checkpoint with two ranges planted, and where its rows lie."""

    name: str
    checkpoint: str  # in the golden folder
    fault: Callable[[Tensors], None]
    prefix: str  # of the sites that are looked at
    groups: dict[str, slice]  # of the rows
    slot: int = -1

    CAMERAS, WORDS = 1, 12

    @property
    def recipe(self) -> dict:
        """Whatever the linears there read in e4m3, also what recipes of the package hold in bfloat16."""
        plain = {'match': '*', 'weight': 'f32', 'activation': 'f32'}
        rules = [plain, plain | {'match': f'{self.prefix}*', 'activation': 'e4m3'}]
        return {
            'format': 'flashrt_recipe',
            'version': 1,
            'name': 'mixed_ranges',
            'values': 'f32',
            'rules': rules,
        }


@dataclass(frozen=True)
class Site:
    """What one linear reads: per group of rows its largest magnitude, and per format its relative error."""

    model: str
    site: str
    largest: dict[str, float]
    errors: dict[str, dict[str, float]]


PICTURE_ROWS = 256  # of the one camera of pi05_heads
TOKEN = {'first token': slice(0, 1), 'other tokens': slice(1, None)}
MODELS = (
    Model(
        'pi05_heads, words x 300',
        'pi05_heads',
        partial(larger_words, factor=300),
        'prefix.',
        {'pictures': slice(0, PICTURE_ROWS), 'words': slice(PICTURE_ROWS, None)},
    ),
    Model(
        'pi05_heads, first token x 300',
        'pi05_heads',
        partial(outlier_token, factor=300),
        'prefix.',
        {
            'first token': slice(PICTURE_ROWS, PICTURE_ROWS + 1),
            'pictures': slice(0, PICTURE_ROWS),
            'other words': slice(PICTURE_ROWS + 1, None),
        },
    ),
    Model('groot_n16_tiny, first token x 300', 'groot_n16_tiny', partial(outlier_token, factor=300, **GROOT),
          'prompt.', TOKEN, slot=0),
)  # fmt: skip


def measure(model: Model, folder: Path) -> list[Site]:
    """Every site of the model; files go into the folder."""
    checkpoint = plant(GOLDEN / model.checkpoint, folder / model.name, model.fault)
    recipe = folder / 'recipe.json'
    recipe.write_text(json.dumps(model.recipe))
    settings = BenchSettings(
        checkpoint=str(checkpoint), cameras=model.CAMERAS, prompt_length=model.WORDS, steps=1
    )
    watched = Programs(checkpoint, recipe=str(recipe), float_activations=True, embodiment_slot=model.slot)
    observations = random_samples(watched.config, settings, CALIBRATION_SEED, 4)
    calibration = calibrate_programs(
        watched,
        [(f'observation {i}', sample) for i, sample in enumerate(observations)],
        CalibrationSettings(recipe=str(recipe)),
    )
    exact = Programs(checkpoint, embodiment_slot=model.slot)
    (sample,) = random_samples(exact.config, settings, ACCURACY_SEED, 1)
    sites = [site for site in calibration.sites if site.startswith(model.prefix)]
    traced = exact.get(ProgramKey.of(sample).keeping_values()).trace(sites, *sample.inputs)
    return [_site(model, site, traced[site], calibration.scales(site)[0] * E4M3_LARGEST) for site in sites]


def residual_of_prefix(folder: Path) -> Site:
    """Pictures and words where they are placed beside each other, as if the plan rounded them there.

    It does not: their readers are norms, and they stay in the type of values.
    """
    model = MODELS[0]
    checkpoint = plant(GOLDEN / model.checkpoint, folder / model.name, model.fault)
    settings = BenchSettings(
        checkpoint=str(checkpoint), cameras=model.CAMERAS, prompt_length=model.WORDS, steps=1
    )
    exact = Programs(checkpoint)
    (sample,) = random_samples(exact.config, settings, ACCURACY_SEED, 1)
    names = ['vision.projector', 'prompt.embed']
    traced = exact.get(ProgramKey.of(sample).keeping_values()).trace(names, *sample.inputs)
    rows = np.concatenate([traced[name] for name in names])
    return _site(model, 'prefix.embeds, not rounded by any recipe', rows, float(np.abs(rows).max()))


def _site(model: Model, site: str, rows: NDArray, limit: float) -> Site:
    parts = {name: rows[group] for name, group in model.groups.items()}
    return Site(
        model=model.name,
        site=site,
        largest={name: float(np.abs(part).max()) for name, part in parts.items()},
        errors={
            format: {
                name: float(np.linalg.norm(rounded(format, part, limit) - part) / np.linalg.norm(part))
                for name, part in parts.items()
            }
            for format in FORMATS
        },
    )


def table_of(sites: list[Site]) -> Table:
    table = Table(title=sites[0].model, box=None, title_justify='left', header_style='bold', pad_edge=False)
    for name in ('site', 'rows', 'largest', *FORMATS):
        table.add_column(name, justify='left' if name in ('site', 'rows') else 'right')
    for site in sites:
        for i, (group, largest) in enumerate(site.largest.items()):
            errors = [f'{site.errors[format][group]:.2%}' for format in FORMATS]
            table.add_row('' if i else site.site, group, f'{largest:.3g}', *errors)
    return table


def main() -> None:
    console = Console(width=120)
    with tempfile.TemporaryDirectory() as folder:
        console.print(table_of([residual_of_prefix(Path(folder))]), highlight=False)
        for model in MODELS:
            console.print(table_of(measure(model, Path(folder))), highlight=False)


if __name__ == '__main__':
    main()
