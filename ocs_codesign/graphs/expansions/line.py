"""Line digraph expansion: the links of a graph become the nodes."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Symmetry, Topology, places
from ocs_codesign.graphs.recipe import Recipe, Shape, Unary, size, superscript

_MAX_NESTING = 64


@final
@dataclass(frozen=True, slots=True, repr=False, init=False)
class Line(Unary):
    """Line digraph: N -> d N, steps + 1, T_B + 1/N at most. ``Line(g, 3)`` nests three times.

    Node e = (u, v) of Line(G) has links to every f = (v, w), parallel links of G staying distinct.
    Source: Zhao et al. (arXiv 2202.03356), line graph expansion.

    >>> from ocs_codesign.graphs.families.dense import CompleteBipartite
    >>> Line(CompleteBipartite(4), 2)
    Line(Line(CompleteBipartite(4)))
    >>> Line(CompleteBipartite(4), 2).predict()
    Cost(steps=4, t_b=Fraction(33, 32))
    """

    g: Recipe

    is_operator = False
    samples = (
        "Complete(2)",
        "UniRing(1, 5)",
        "UniRing(2, 3)",
        "CompleteBipartite(3)",
        "GeneralizedKautz(2, 7)",
        "DeBruijn(2, 2)",
        "ModifiedDeBruijn(2, 3)",
        "Line(DirectedCirculant(5, (1, 2)))",
        "Cayley(Dihedral(4), ((1, 0), (0, 1)))",
        'Named("petersen")',
    )

    def __init__(self, g: Recipe, times: int = 1) -> None:
        for _ in range(size(times, "the number of nestings", 1, _MAX_NESTING) - 1):
            g = Line(g)
        object.__setattr__(self, "g", g)
        self.__post_init__()

    @property
    def shape(self) -> Shape:
        part = self.g.shape
        return Shape(part.num_nodes * part.degree, part.degree)

    def build(self) -> Topology:
        return line_digraph(self.g.topology())

    def loads(self, transposed: bool) -> tuple[Fraction, ...]:
        """1 and then d times the loads of G: T_B + 1/N. An upper bound on BFB on the graph."""
        part, degree = self.g.gather_loads(transposed=transposed), self.degree
        return (Fraction(1), *(degree * load for load in part))

    def schedule(self, transposed: bool) -> Schedule:
        """Every node sends its own shard on all links; then each send of G is made d x d times.

        ((v, C), (u, w), t) becomes ((v'v, C), (uw, ww'), t + 1) for all in-neighbours v' of v and
        out-neighbours w' of w with v'v != ww'.
        """
        base = self.g.gather_schedule(transposed=transposed)
        graph, degree = base.topology, base.topology.degree
        expanded = line_digraph(graph)
        into = graph.links_by_head().order.reshape(-1, degree)
        out = graph.links_by_tail().order.reshape(-1, degree)
        shape = (base.num_sends, degree, degree)
        root = np.broadcast_to(into[base.root][:, :, None], shape)
        head = np.broadcast_to(out[graph.head[base.link]][:, None, :], shape)
        first_link = base.link.astype(np.int64) * degree
        link = np.broadcast_to(first_link[:, None, None] + np.arange(degree), shape)
        kept = root != head
        own = np.flatnonzero(expanded.tail != expanded.head)
        lo, hi, step = (
            np.concatenate([first, np.broadcast_to(then[:, None, None], shape)[kept]])
            for first, then in (
                (np.zeros_like(own), base.lo),
                (np.full_like(own, base.num_chunks), base.hi),
                (np.ones_like(own), base.step + 1),
            )
        )
        return Schedule(
            expanded,
            base.collective,
            base.num_chunks,
            np.concatenate([expanded.tail[own], root[kept]]),
            lo,
            hi,
            np.concatenate([own, link[kept]]),
            step,
        )

    @property
    def bidirectional(self) -> bool:
        # (u, v) leads to every (v, w); the way back exists only if w = u, so G is a pair of nodes.
        return self.g.num_nodes == 2 and not self.g.has_self_loops

    def label(self) -> str:
        times, inner = 1, self.g
        while isinstance(inner, Line):
            times, inner = times + 1, inner.g
        return f"L{superscript(times) if times > 1 else ''}({inner.label()})"


def line_digraph(base: Topology) -> Topology:
    """The line digraph of any graph; node e's links come in the order of those out of e's head.

    A group that acts on G acts on the links, so G's link orbits become node orbits.

    >>> line_digraph(Topology(2, [0, 1], [1, 0])).head.tolist()
    [1, 0]
    """
    out = base.links_by_tail()
    tail, place = places(out.start[base.head], np.diff(out.start)[base.head])
    head = out.order[place]
    symmetry = None
    if base.symmetry is not None:
        orbit = base.symmetry.link_orbit.astype(np.int64)
        pairs = orbit[tail] * (int(orbit.max(initial=0)) + 1) + orbit[head]
        numbered = np.unique(pairs, return_inverse=True)[1].astype(np.int32)
        symmetry = Symmetry(base.symmetry.link_orbit, numbered)
    return Topology(base.num_links, tail, head, symmetry=symmetry)
