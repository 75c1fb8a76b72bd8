# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Reads files that come with a checkpoint whole, unless they are larger than any of their kind."""

from pathlib import Path

from flashrt_core.errors import Error

# Statistics, tokenizers and descriptions; the largest known, a tokenizer of 256 thousand pieces, has 5 MB.
MOST_BYTES = 64 << 20


def read_small_file(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """The content; Error, and nothing is read, where there is more of it. OSError where it cannot be read."""
    with path.open('rb') as file:
        size = path.stat().st_size
        if size > most_bytes:
            raise Error(f'{path} has {size} bytes, a file of its kind has at most {most_bytes}')
        return file.read(most_bytes)
