"""Nodes by name: how the importers number them and gather their links."""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.shown import shown
from ocs_codesign.core.topology import MAX_LINKS, Topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


MAX_SPEED = 2**31 - 1
MAX_LINE_BYTES = 2**16
MAX_NAME = 1000
"""Characters of a node's name."""

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_SPEED = re.compile(r"\+?0*[1-9][0-9]{0,9}")


class NamedLinks:
    """Nodes and links gathered one by one; ``topology`` numbers them.

    If all names are integers, nodes are numbered in ascending order, so 0 to N - 1 keep their
    numbers; otherwise in order of first appearance.
    """

    def __init__(self) -> None:
        self.number: dict[str, int] = {}
        self.tail, self.head, self.speed = array("i"), array("i"), array("q")

    def node(self, name: str) -> int:
        """The node of that name, new if it was not seen before."""
        known = self.number.get(name)
        if known is not None:
            return known
        if len(name) > MAX_NAME:
            raise ValueError(f"{shown(name)} is not a node name: it has {len(name):,} characters")
        if not name or not name.isprintable():
            raise ValueError(f"{shown(name)} is not a node name: it must be printable text")
        return self.number.setdefault(name, len(self.number))

    def link(self, tail: str, head: str, speed: int = 1) -> None:
        """Append a link."""
        if len(self.tail) == MAX_LINKS:
            raise ValueError(f"more than {MAX_LINKS} links: no more are supported")
        self.tail.append(self.node(tail))
        self.head.append(self.node(head))
        self.speed.append(speed)

    def edge(self, one: str, other: str, speed: int = 1) -> None:
        """Append an undirected edge: a link each way."""
        self.link(one, other, speed)
        self.link(other, one, speed)

    def topology(self) -> Topology:
        """The topology of all nodes and links, in the order in which the links were added."""
        if not self.number:
            raise ValueError("there are no nodes")
        number = numbers(list(self.number))
        tail, head = (number[np.frombuffer(ends, dtype=np.intc)] for ends in (self.tail, self.head))
        return Topology(len(number), tail, head, np.frombuffer(self.speed, dtype=np.int64))


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


def speed_of(value: object) -> int:
    """The relative link speed that a text or number states; ValueError unless a positive integer.

    >>> speed_of("4"), speed_of(1)
    (4, 1)
    """
    text = str(value) if type(value) is int else value
    if isinstance(text, str) and _SPEED.fullmatch(text.strip()) and int(text) <= MAX_SPEED:
        return int(text)
    raise ValueError(
        f"{shown(value)} is not a link speed: it must be a positive integer below 2^31"
    )
