# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""How the models of a golden folder are run."""

from dataclasses import dataclass, field
from pathlib import Path

from flashrt_core.errors import Error
from flashrt_core.programs import BackendOptions, Programs


@dataclass(frozen=True)
class RunOptions:
    """model: the weights, where the folder has none; or a folder that holds the models its cases name."""

    model: Path | None = None
    backend: str = 'cpu'
    recipe: str = 'f32'
    packed: Path | None = None  # of `flashrt pack`, read instead of the weights
    backend_options: BackendOptions = field(default_factory=BackendOptions)

    def programs(self, checkpoint: Path, embodiment_slot: int = -1) -> Programs:
        return Programs(
            checkpoint,
            recipe=self.recipe,
            packed=self.packed,
            backend=self.backend,
            embodiment_slot=embodiment_slot,
            **self.backend_options,
        )

    def check_recipe(self, *bounded: str) -> None:
        """Refuses recipes for whose results there are no bounds."""
        if self.recipe not in bounded:
            bounds = ' and '.join(bounded)
            raise Error(
                f"golden: recipe is '{self.recipe}'; these saved results have bounds for {bounds}"
                '; measure other recipes against f32 with `flashrt compare`'
            )
