#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Makes aloha_sim_model_input/: what a model must see of the last picture of each camera, by Pillow alone.

Uses none of the project's own decoding and resizing, so that the pictures can tell when those go wrong. Needs
only pillow and rosbags: python make_model_input.py
"""

import io
from pathlib import Path

from PIL import Image
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_typestore

HERE = Path(__file__).parent
SIDE = 224  # pixels of the square that the model sees


def letterbox(picture: Image.Image) -> Image.Image:
    """The whole picture, scaled with Pillow's bilinear filter, centred on black."""
    ratio = max(picture.width / SIDE, picture.height / SIDE)
    scaled = picture.resize(
        (int(picture.width / ratio), int(picture.height / ratio)), Image.Resampling.BILINEAR
    )
    square = Image.new('RGB', (SIDE, SIDE))
    square.paste(scaled, ((SIDE - scaled.width) // 2, (SIDE - scaled.height) // 2))
    return square


def main() -> None:
    store = get_typestore(Stores.ROS2_KILTED)
    newest: dict[str, bytes] = {}
    with Reader(HERE / 'aloha_sim') as reader:
        cameras = [item for item in reader.connections if item.msgtype.endswith('/CompressedImage')]
        for connection, _, raw in reader.messages(cameras):
            slot = connection.topic.split('/')[1]
            newest[slot] = store.deserialize_cdr(raw, connection.msgtype).data.tobytes()
    folder = HERE / 'aloha_sim_model_input'
    folder.mkdir(exist_ok=True)
    for slot, jpeg in newest.items():
        letterbox(Image.open(io.BytesIO(jpeg)).convert('RGB')).save(folder / f'{slot}.png', optimize=True)


if __name__ == '__main__':
    main()
