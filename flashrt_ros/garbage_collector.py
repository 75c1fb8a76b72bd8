# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Keeps Python's garbage collector short while the robot is commanded."""

import gc


def freeze() -> None:
    """After activate: what exists now is not looked at again until unfreeze().

    A full collection visits every object there is while all threads wait; the 41,000 of the imported modules
    alone took it 16 ms where this was measured, most of a control period. What is made from now on stays
    collected: messages and chunks come and go, and cycles among them would grow without end.
    """
    gc.collect()  # garbage must not become permanent
    gc.freeze()


def unfreeze() -> None:
    """After deactivate, so that cleanup can free everything."""
    gc.unfreeze()
