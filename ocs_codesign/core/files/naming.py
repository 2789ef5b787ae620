"""Nodes by name: which names there are, and how the importers number them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.shown import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


MAX_LINE_BYTES = 2**16
MAX_NAME = 1000
"""Characters of a node's name."""

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")


def check_name(name: str) -> None:
    """ValueError for what is no name of a node."""
    if len(name) > MAX_NAME:
        raise ValueError(f"{shown(name)} is not a node name: it has {len(name):,} characters")
    if not name or not name.isprintable():
        raise ValueError(f"{shown(name)} is not a node name: it must be printable text")


def numbers(names: Sequence[str]) -> NDArray[np.int64]:
    """The number of every name: its rank if all are integers, else its position.

    >>> numbers(["10", "2", "7"]).tolist(), numbers(["b", "a", "7"]).tolist()
    ([2, 0, 1], [0, 1, 2])
    """
    number = np.arange(len(names))
    if all(_INTEGER.fullmatch(name) for name in names):
        number[np.argsort([int(name) for name in names], kind="stable")] = np.arange(len(names))
    return number


def text_of_line(line: bytes, number: int) -> str:
    """The text of a line of this number, from 1, without blanks around it; ValueError if none."""
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"a line of {len(line):,} bytes is none of an edge list")
    return line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
