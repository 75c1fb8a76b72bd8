#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Makes aloha_sim_model_input/ and aloha_sim_groot_model_input/: what a model must see of the last pictures.

Uses none of the project's own decoding and resizing, so that the pictures can tell when those go wrong. Needs
only pillow, opencv-python-headless and rosbags: python make_model_input.py
"""

import io
from pathlib import Path

import cv2
import numpy as np
from PIL import Image
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_typestore

HERE = Path(__file__).parent
SIDE = 224  # pixels of the square that Pi0.5 sees
# Of GR00T N1.6: side of the scaled squares, what the crop between them keeps, side of what the model sees.
GROOT_SIDE, GROOT_CROP, GROOT_TOKENS = 256, 0.95, 252


def pi_picture(picture: Image.Image) -> Image.Image:
    """The whole picture, scaled with Pillow's bilinear filter, centred on black."""
    ratio = max(picture.width / SIDE, picture.height / SIDE)
    scaled = picture.resize(
        (int(picture.width / ratio), int(picture.height / ratio)), Image.Resampling.BILINEAR
    )
    square = Image.new('RGB', (SIDE, SIDE))
    square.paste(scaled, ((SIDE - scaled.width) // 2, (SIDE - scaled.height) // 2))
    return square


def groot_picture(picture: Image.Image) -> Image.Image:
    """Padded to a square, scaled, its middle cut out and scaled by OpenCV, fitted to tokens by Pillow."""
    side = max(picture.size)
    square = Image.new('RGB', (side, side))
    square.paste(picture, ((side - picture.width) // 2, (side - picture.height) // 2))
    scaled = cv2.resize(np.asarray(square), (GROOT_SIDE, GROOT_SIDE), interpolation=cv2.INTER_AREA)
    kept = int(GROOT_SIDE * GROOT_CROP)
    edge = (GROOT_SIDE - kept) // 2
    middle = scaled[edge : edge + kept, edge : edge + kept]
    whole = cv2.resize(middle, (GROOT_SIDE, GROOT_SIDE), interpolation=cv2.INTER_AREA)
    return Image.fromarray(whole).resize((GROOT_TOKENS, GROOT_TOKENS), Image.Resampling.BICUBIC)


def main() -> None:
    store = get_typestore(Stores.ROS2_KILTED)
    newest: dict[str, bytes] = {}
    with Reader(HERE / 'aloha_sim') as reader:
        cameras = [item for item in reader.connections if item.msgtype.endswith('/CompressedImage')]
        for connection, _, raw in reader.messages(cameras):
            slot = connection.topic.split('/')[1]
            newest[slot] = store.deserialize_cdr(raw, connection.msgtype).data.tobytes()
    for name, picture in (
        ('aloha_sim_model_input', pi_picture),
        ('aloha_sim_groot_model_input', groot_picture),
    ):
        (HERE / name).mkdir(exist_ok=True)
        for slot, jpeg in newest.items():
            seen = picture(Image.open(io.BytesIO(jpeg)).convert('RGB'))
            seen.save(HERE / name / f'{slot}.png', optimize=True)


if __name__ == '__main__':
    main()
