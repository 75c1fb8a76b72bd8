# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The first of two passes over samples: factors that even out channels of activations, by how large they get.

The second pass measures the scales of the model that these factors make.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from flashrt_core.engine import Engine, native_core
from flashrt_core.errors import Error
from flashrt_core.kept_observations import read_observations

if TYPE_CHECKING:
    from flashrt_core._core import Equalisation


def equalise(observations: Iterable[tuple[str, Engine, tuple]], strength: float) -> 'Equalisation':
    """Of all norms whose result the recipe quantises; engines hold quantised activations in float.

    observations: name, engine and its inputs as Engine.infer takes them. strength: 1 evens out the
    activations, towards 0 the weights.
    """
    maxima = cast(Any, native_core()).ChannelMaxima()
    last = None
    for _, engine, inputs in observations:
        engine.observe_channels(maxima, *inputs)
        last = engine
    if last is None:
        raise Error('calibrate: no sample was given')
    return last.equalise(maxima, strength)


def kept_equalisation(kept_in: Path | None, strength: float) -> 'Equalisation | None':
    """That of a file of observations, which go on as they began; None where there is no file yet."""
    if kept_in is None or not kept_in.exists():
        return None
    equalisation = read_observations(kept_in).equalisation
    if equalisation.strength != strength:
        how = f'with strength {equalisation.strength}' if equalisation.octaves else 'nowhere'
        raise Error(
            f'calibrate: {kept_in} was observed of a model that is equalised {how}, asked for is {strength}; '
            'remove the file to observe anew, or name another one'
        )
    return equalisation
