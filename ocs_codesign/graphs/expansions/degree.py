"""Degree expansion: n copies of every node."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Symmetry, Topology
from ocs_codesign.graphs.recipe import Recipe, Shape, Unary, size

if TYPE_CHECKING:
    from numpy.typing import NDArray


@final
@dataclass(frozen=True, slots=True, repr=False)
class Degree(Unary):
    """Degree expansion: n copies of every node; N -> n N, d -> n d, steps + 1, T_B + (n - 1)/(n N).

    Copy i of node v is node v * n + i; link e = (u, v) of G becomes the links (u_i, v_j) for all
    i, j, numbered e * n^2 + i * n + j. G must not have self-loops. Source: Zhao et al. (arXiv
    2202.03356), degree expansion.

    >>> from ocs_codesign.graphs.families.dense import Complete
    >>> Degree(Complete(3), 2).predict()
    Cost(steps=2, t_b=Fraction(5, 6))
    >>> Degree(Complete(2), 2).topology().head.tolist()
    [2, 3, 2, 3, 0, 1, 0, 1]
    """

    g: Recipe
    n: int

    samples = (
        "Complete(2), 3",
        "UniRing(1, 4), 2",
        "GeneralizedKautz(2, 6), 2",
        "DirectedCirculant(8, (1, 3)), 2",
        "Torus((3, 2)), 3",
        "ModifiedDeBruijn(3, 2), 2",
        "Line(Complete(3)), 2",
        "Complete(4), 1",
        "Cayley(Semidirect(7, 3, 2), ((1, 0), (0, 1))), 2",
    )

    def __post_init__(self) -> None:
        Unary.__post_init__(self)
        if self.g.has_self_loops:
            raise ValueError(f"Degree needs a graph without self-loops: {self.g!r} has some")

    @property
    def shape(self) -> Shape:
        part, n = self.g.shape, size(self.n, "n", 1)
        return Shape(part.num_nodes * n, part.degree * n)

    def build(self) -> Topology:
        return self._copies_of(self.g.topology())

    def _copies_of(self, base: Topology) -> Topology:
        n, copies = self.n, np.arange(self.n)
        shape = (base.num_links, n, n)
        tail = np.broadcast_to((base.tail[:, None] * n + copies)[:, :, None], shape)
        head = np.broadcast_to((base.head[:, None] * n + copies)[:, None, :], shape)
        symmetry = None
        if base.symmetry is not None:
            turn = (copies[None, :] - copies[:, None]) % n
            orbit = (base.symmetry.link_orbit[:, None, None].astype(np.int64) * n + turn).ravel()
            symmetry = Symmetry(np.repeat(base.symmetry.node_orbit, n), orbit.astype(np.int32))
        return Topology(base.num_nodes * n, tail.ravel(), head.ravel(), symmetry=symmetry)

    def loads(self, transposed: bool) -> tuple[Fraction, ...]:
        """The loads of G, then (n - 1)/(n d): the other copies' shards from all in-neighbours."""
        part = self.g.gather_loads(transposed=transposed)
        return part if self.n == 1 else (*part, Fraction(self.n - 1, self.degree))

    def schedule(self, transposed: bool) -> Schedule:
        """Copy i receives what G's node receives, from the copies i; then a node's copies swap.

        ((v, C), (u, w), t) becomes ((v_j, C), (u_j, w_i), t) for all i, j. In the last step u_j
        gets part a of n d parts of the shard of every other copy u_i from its a-th in-neighbour.
        """
        base, n = self.g.gather_schedule(transposed=transposed), self.n
        if n == 1:
            return base
        expanded = self._copies_of(base.topology)
        chunks = lcm(base.num_chunks, self.degree)
        base = base.with_chunks(chunks)
        shape = (base.num_sends, n, n)
        i, j = np.arange(n), np.arange(n)[:, None]
        root = base.root.astype(np.int64)[:, None, None] * n + j
        link = base.link.astype(np.int64)[:, None, None] * n * n + j * n + i
        swap_root, swap_link, part = self._swap(expanded)
        lo, hi, step = (
            np.broadcast_to(column[:, None, None], shape).ravel()
            for column in (base.lo, base.hi, base.step)
        )
        width = chunks // self.degree
        return Schedule(
            expanded,
            base.collective,
            chunks,
            np.concatenate([np.broadcast_to(root, shape).ravel(), swap_root]),
            np.concatenate([lo, part * width]),
            np.concatenate([hi, (part + 1) * width]),
            np.concatenate([link.ravel(), swap_link]),
            np.concatenate([step, np.full(len(part), base.num_steps + 1)]),
        )

    def _swap(
        self, expanded: Topology
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Root, link and part of the last step: every in-link brings its part of n - 1 shards."""
        n, ports = self.n, self.degree
        incoming = expanded.links_by_head().order.reshape(-1, ports)
        receiver = np.arange(expanded.num_nodes)
        others = receiver[:, None] // n * n + (receiver[:, None] % n + np.arange(1, n)) % n
        shape = (expanded.num_nodes, n - 1, ports)
        root = np.broadcast_to(others[:, :, None], shape)
        link = np.broadcast_to(incoming[:, None, :], shape)
        part = np.broadcast_to(np.arange(ports), shape)
        return root.ravel(), link.ravel(), part.ravel()

    def label(self) -> str:
        return f"{self.g.bracketed_label()}*{self.n}"
