# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""A film of the tabletop: a strip of its pictures, a row per task, and an animation."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from flashrt_core.errors import Error

_PER_TASK = 5  # pictures in a row of the strip
_WIDTH_IN, _DPI = 11.0, 100
_COLOURS = {'succeeded': '#2ca02c', 'failed': '#d62728'}
_SIDE_PX, _STRIP_PX = 240, 34  # of the animation: its picture, and the text below
_EVERY_S = 0.2
_REST_MS = 1500  # of the last picture, before it begins again
_TONES = 255


@dataclass(frozen=True, eq=False)
class Take:
    """One picture and what was the case."""

    time_s: float  # since the begin of the film
    jpeg: bytes
    prompt: str
    state: str  # running | succeeded | failed

    @property
    def picture(self) -> NDArray[np.uint8]:
        """[height, width, 3] RGB"""
        picture = cv2.imdecode(np.frombuffer(self.jpeg, np.uint8), cv2.IMREAD_COLOR)
        if picture is None:
            raise Error(f'the picture at {self.time_s:.2f} s cannot be decoded')
        return cv2.cvtColor(picture, cv2.COLOR_BGR2RGB)


def write_strip(takes: Sequence[Take], path: Path) -> None:
    """A row per task: its first picture, its last one, and some between at even distances."""
    rows = list(_by_prompt(takes))
    side_in = _WIDTH_IN / _PER_TASK
    figure = Figure(figsize=(_WIDTH_IN, len(rows) * (side_in + 0.55)), layout='constrained')
    FigureCanvasAgg(figure)
    for band, row in zip(np.atleast_1d(figure.subfigures(len(rows))), rows, strict=True):
        band.suptitle(f'“{row[0].prompt}”', fontsize=13)
        chosen = [row[index] for index in np.linspace(0, len(row) - 1, _PER_TASK).round().astype(int)]
        for axes, take in zip(band.subplots(1, _PER_TASK), chosen, strict=True):
            axes.imshow(take.picture)
            axes.set(xticks=[], yticks=[])
            axes.set_xlabel(f'{take.time_s:.1f} s  {take.state}', color=_COLOURS.get(take.state, 'black'))
            for spine in axes.spines.values():
                spine.set_color(_COLOURS.get(take.state, '#bbbbbb'))
    figure.savefig(path, dpi=_DPI)


def write_animation(takes: Sequence[Take], path: Path) -> None:
    """A GIF in the time of the film, again and again."""
    due_s = np.arange(takes[0].time_s, takes[-1].time_s + _EVERY_S, _EVERY_S)
    times_s = np.array([take.time_s for take in takes])
    chosen = sorted({int(np.abs(times_s - due).argmin()) for due in due_s} | {len(takes) - 1})
    frames = [_frame(takes[index]) for index in chosen]
    steps_ms = [*(np.diff(times_s[chosen]) * 1e3).round().astype(int).tolist(), _REST_MS]
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=steps_ms, loop=0, optimize=True)


def _frame(take: Take) -> Image.Image:
    frame = Image.new('RGB', (_SIDE_PX, _SIDE_PX + _STRIP_PX), 'white')
    frame.paste(Image.fromarray(take.picture).resize((_SIDE_PX, _SIDE_PX), Image.Resampling.LANCZOS))
    draw = ImageDraw.Draw(frame)
    draw.text((4, _SIDE_PX + 3), take.prompt, fill='black')
    state = f'{take.time_s:4.1f} s  {take.state}'
    draw.text((4, _SIDE_PX + 18), state, fill=_COLOURS.get(take.state, 'black'))
    return frame.quantize(_TONES, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)


def _by_prompt(takes: Sequence[Take]) -> list[list[Take]]:
    """Consecutive takes of one prompt."""
    if not takes:
        raise Error('there is no picture to make a film of')
    rows: list[list[Take]] = []
    for take in takes:
        if not rows or rows[-1][-1].prompt != take.prompt:
            rows.append([])
        rows[-1].append(take)
    return rows
