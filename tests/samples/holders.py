"""A pipe that processes hold open: they say over it that they have begun, and it ends with them."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def held(path: Path) -> Iterator[int]:
    """A new pipe at a path, and where it is read."""
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    yield reader
    os.close(reader)


def heard(reader: int) -> bytes:
    """What holders say as soon as one does, or nothing when the last of them is gone."""
    assert select.select([reader], [], [], 300)[0], "for five minutes nobody began or ended"
    return os.read(reader, 99)


def all_are_gone(reader: int) -> bool:
    """Once the last of them has ended."""
    while heard(reader):
        pass
    return True
