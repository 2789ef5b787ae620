"""Affine digraphs with their loops spliced: few steps and nearly even balls at any size."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.topology import Symmetry, Topology
from ocs_codesign.graphs.recipe import Base, Shape, size, sizes

if TYPE_CHECKING:
    from numpy.typing import NDArray


@final
@dataclass(frozen=True, slots=True, repr=False)
class AffineSpliced(Base):
    """Affine digraph: links from x to q x + r modulo N for every r of ``shifts``; loops spliced.

    ``q`` is a unit modulo N, the shifts differ. After k hops a node reaches q^k x and the same set
    of sums for every x, so that balls hardly depend on the node. Where a map has fixed points
    their loops would be wasted ports: a loop at x is led to the next node with a loop instead,
    cyclically. If q - 1 is a unit every map has one loop, and they follow each other in the order
    of the shifts; otherwise those of one map do, ascending, and adding N / gcd(q - 1, N) is an
    automorphism. A single loop stays.

    Without the splices q = d and q = -d with consecutive shifts are the generalized de Bruijn and
    Kautz digraphs of Imase and Itoh (1981, 1983), and q = 1 gives directed circulants.
    """

    num_points: int
    q: int
    shifts: tuple[int, ...]

    notation = "Aff({};{};{})"
    samples = (
        "5, 2, (0, 1)",
        "7, 3, (0, 1)",
        "9, 4, (0, 2)",
        "8, 5, (0, 1, 6)",
        "10, 3, (0, 1)",
        "12, 1, (1, 5)",
        "13, 5, (0, 1, 3, 9)",
        "5, 1, (1,)",
    )

    @property
    def shape(self) -> Shape:
        points = size(self.num_points, "num_points", 2)
        q = size(self.q, "q", 1, points - 1)
        shifts = sizes(self.shifts, "shifts", 0, points - 1)
        if gcd(q, points) > 1:
            raise ValueError(f"q is {q}: it must have no factor in common with {points}")
        if len(set(shifts)) < len(shifts):
            raise ValueError(f"shifts are {shifts}: they must differ")
        return Shape(points, len(shifts))

    def build(self) -> Topology:
        points, degree = self.num_points, len(self.shifts)
        x = np.arange(points, dtype=np.int64)
        heads = (self.q * x[:, None] + np.array(self.shifts)) % points
        for nodes, ports in self.loops():
            heads[nodes, ports] = np.roll(nodes, -1)
        tails = np.repeat(x, degree)
        return Topology(points, tails, heads.ravel(), symmetry=self.symmetry())

    def loops(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Nodes with loops and their ports, a pair of arrays for every cycle that they become."""
        x = np.arange(self.num_points, dtype=np.int64)
        fixed = [np.flatnonzero((self.q * x + r - x) % self.num_points == 0) for r in self.shifts]
        pairs = [(nodes, np.full(len(nodes), port)) for port, nodes in enumerate(fixed)]
        if self._turns() == 1:
            return [tuple(map(np.concatenate, zip(*pairs, strict=True)))]  # type: ignore[list-item]
        return [(nodes, ports) for nodes, ports in pairs if len(nodes)]

    def symmetry(self) -> Symmetry | None:
        """Orbits of adding N / gcd(q - 1, N), None if that is N."""
        turns = self._turns()
        if turns == 1:
            return None
        period = self.num_points // turns
        node_orbit = (np.arange(self.num_points) % period).astype(np.int32)
        ports = np.arange(len(self.shifts), dtype=np.int32)
        link_orbit = node_orbit[:, None] * np.int32(len(ports)) + ports
        return Symmetry(node_orbit, link_orbit.ravel())

    def _turns(self) -> int:
        return gcd(self.q - 1, self.num_points)
