# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Every choice that turns a GR00T checkpoint into a policy; its files decide the rest."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from flashrt_core.errors import Error
from flashrt_core.settings import CheckpointSettings, check_choices

LetterboxChoice = Literal['auto', 'on', 'off']


@dataclass(frozen=True, kw_only=True)
class GrootSettings(CheckpointSettings):
    """tokenizer: a folder with vocab.json, merges.txt and added_tokens.json, which no checkpoint has."""

    embodiment_tag: str  # whose keys, statistics and slot of the model are used
    # Whether pictures are padded to squares: fine-tunes since 24 February 2026 were trained that way,
    # the base checkpoint and older ones were not. 'auto': as the code of the model does now, which is on.
    letterbox: LetterboxChoice = 'auto'
    # View -> height and width of its camera, needed with letterbox off: the model is compiled for them.
    picture_sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    allow_untrained: bool = False  # take an embodiment whose weights look as if they were never trained

    def __post_init__(self) -> None:
        check_choices(self, letterbox=LetterboxChoice)
        super().__post_init__()
        if not self.embodiment_tag:
            raise Error("policy settings: 'embodiment_tag' is needed; the files of the checkpoint list them")
        if bool(self.picture_sizes) != (self.letterbox == 'off'):
            raise Error(
                f"policy settings: letterbox is '{self.letterbox}' and picture_sizes "
                f'{dict(self.picture_sizes)}; sizes are needed where it is off, and mean nothing elsewhere'
            )
        for name, size in self.picture_sizes.items():
            if len(size) != 2 or not all(type(side) is int and side > 0 for side in size):
                raise Error(
                    f"policy settings: picture_sizes of '{name}' is {size!r}, needed height and width"
                )
        for name, what in (
            ('real_time_chunking', 'GR00T was not trained to continue a chunk, and cannot be guided yet'),
            ('max_image_bytes', 'pictures of GR00T are not resized by the engine yet'),
        ):
            if getattr(self, name):
                raise Error(f'policy settings: {name} is {getattr(self, name)}; {what}')
