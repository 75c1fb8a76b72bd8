# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Lays the views of a model side by side under the names of their slots; no pixel of a view is changed."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

GAP_PX, TITLE_PX = 8, 20
_PAPER, _INK = (255, 255, 255), (0, 0, 0)


def draw_views(names: Sequence[str], views: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """[cameras, size, size, 3] -> RGB picture; view i lies at `view_corner(i, size)`."""
    size = views.shape[1]
    last_top, last_left = view_corner(len(views) - 1, size)
    sheet = Image.new('RGB', (last_left + size + GAP_PX, last_top + size + GAP_PX), _PAPER)
    font = ImageFont.load_default()
    for i, (name, view) in enumerate(zip(names, views, strict=True)):
        top, left = view_corner(i, size)
        title = Image.new('RGB', (size, TITLE_PX), _PAPER)  # cuts off what is longer than the view
        ImageDraw.Draw(title).text((0, 4), name, _INK, font)
        sheet.paste(title, (left, top - TITLE_PX))
        sheet.paste(Image.fromarray(view), (left, top))
    return np.asarray(sheet)


def view_corner(index: int, size: int) -> tuple[int, int]:
    """(row, column) of the first pixel of a view in the drawn picture."""
    return TITLE_PX, GAP_PX + index * (size + GAP_PX)
