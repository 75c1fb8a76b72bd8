# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""A process that repeats what it is told, until its parent is gone."""

from flashrt_core.errors import Error
from flashrt_ros.soak.child import Answer, Parent


def repeat(line: str) -> Answer:
    if line.startswith('refuse'):
        raise Error('not understood')
    return {'words': line.split()}


if __name__ == '__main__':
    parent = Parent(repeat)
    parent.listen({'is_ready': True})
    parent.is_gone.wait()
