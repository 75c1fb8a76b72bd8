# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`flashrt pack`: weights as a recipe reads them, for a fast start."""

from pathlib import Path
from typing import Annotated

import typer

from flashrt_core._core import pack_weights
from flashrt_core.cli.options import EmbodimentSlot, Seed, Threads
from flashrt_core.errors import Error


def run(
    checkpoint: Annotated[
        str,
        typer.Argument(help='Folder with config.json and weights; with --seed pi05, pi0, groot_n16 too.'),
    ],
    output: Annotated[Path, typer.Option('--output', '-o', help='The file to write (safetensors).')],
    recipe: Annotated[
        str, typer.Option(help='f32, bf16, fp8, fp8_f16, fp8_mixed or the path of a recipe file.')
    ] = 'fp8',
    seed: Seed = None,
    threads: Threads = 0,
    embodiment_slot: EmbodimentSlot = -1,
) -> None:
    """Fold, pack and round the weights once, so that an engine only has to read them.

    The file is tied to the weights it was made of, to the recipe, and to this version of the plan; an engine
    refuses it otherwise. config.json of the checkpoint is still needed, its weights are not.
    """
    folder = output.resolve().parent
    if not folder.is_dir():
        raise Error(f'pack: folder {folder} of the output does not exist')
    digest = pack_weights(
        checkpoint,
        output,
        recipe=recipe,
        random_seed=seed,
        threads=threads,
        embodiment_slot=embodiment_slot,
    )
    print(f'{output}: {output.stat().st_size / 1e9:.2f} GB for recipe {recipe}, of weights {digest}')
