"""AggregationTree: who sends to which switch or host that adds up, and over which links."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_NODES = 2**30


@final
@dataclass(frozen=True, slots=True, eq=False)
class AggregationTree:
    """Who sends to which node that adds up.

    ``child`` (int32) are hosts and then what adds up, each below ``parent`` (int32); what comes to
    a parent is added up there, and goes on when all has come. Nodes from ``first_adder`` on are
    hosts that add up what others send with their own: host h is ``first_adder + h``, and its own
    data is below that. ``up`` and ``down`` are the links from each child to its parent and back, in
    order, none for a host's own data; between them switches only forward. ``bandwidth`` is what
    the tree has of its narrowest link, in the network's unit.
    """

    root: int
    child: NDArray[np.int32]
    parent: NDArray[np.int32]
    up: tuple[tuple[int, ...], ...]
    down: tuple[tuple[int, ...], ...]
    bandwidth: Fraction
    first_adder: int = MAX_NODES

    def __post_init__(self) -> None:
        for column in (self.child, self.parent):
            column.setflags(write=False)

    @property
    def adders(self) -> tuple[int, ...]:
        """Switches and hosts that add up."""
        return tuple(dict.fromkeys(self.parent.tolist()))

    @property
    def switches(self) -> tuple[int, ...]:
        """Switches that add up."""
        return tuple(node for node in self.adders if node < self.first_adder)

    @property
    def adding_hosts(self) -> tuple[int, ...]:
        """Hosts that add up what others send with their own, ascending."""
        return tuple(sorted(self.place(node) for node in self.adders if node >= self.first_adder))

    def place(self, node: int) -> int:
        """The node of the network that one of the tree is at."""
        return node - self.first_adder if node >= self.first_adder else node

    @property
    def num_steps(self) -> int:
        """Links that a packet crosses from the farthest host to the root, and back."""
        below = dict(zip(self.child.tolist(), range(len(self.child)), strict=True))
        most = 0
        for child in self.child.tolist():
            links, node = 0, child
            while node != self.root:
                at = below[node]
                links += len(self.up[at]) + len(self.down[at])
                node = int(self.parent[at])
            most = max(most, links)
        return most

    def link_loads(self) -> dict[int, int]:
        """How often a packet crosses every link: more than once where a switch only forwards."""
        loads: dict[int, int] = {}
        for links in (*self.up, *self.down):
            for link in links:
                loads[link] = loads.get(link, 0) + 1
        return loads


def of_ways(
    pairs: dict[tuple[int, int], int],
    root: int,
    ways: dict[int, tuple[int, ...]],
    left: list[Fraction],
    first_adder: int,
) -> AggregationTree:
    """The tree of the way of every child, in order, and the bandwidth that links have for it."""
    up, down = [], []
    for way in ways.values():
        nodes = [node - first_adder if node >= first_adder else node for node in way]
        steps = [pair for pair in itertools.pairwise(nodes) if pair[0] != pair[1]]
        up.append(tuple(pairs[pair] for pair in steps))
        down.append(tuple(pairs[pair[::-1]] for pair in steps)[::-1])
    child = np.array(list(ways), dtype=np.int32)
    parent = np.array([way[-1] for way in ways.values()], dtype=np.int32)
    made = AggregationTree(root, child, parent, tuple(up), tuple(down), Fraction(1), first_adder)
    width = min(left[link] / load for link, load in made.link_loads().items())
    return replace(made, bandwidth=width)
