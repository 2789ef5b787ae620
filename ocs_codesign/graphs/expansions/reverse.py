"""Transpose and Bidirected: all links reversed, and a graph united with its transpose."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest
from typing import final

import numpy as np

from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Symmetry, Topology
from ocs_codesign.graphs.recipe import Recipe, Shape, Unary


@final
@dataclass(frozen=True, slots=True, repr=False)
class Transpose(Unary):
    """Every link reversed, link ids kept: allgather and reduce-scatter change places.

    >>> from ocs_codesign.graphs.families.shifts import GeneralizedKautz
    >>> str(Transpose(GeneralizedKautz(2, 9)).predict().t_b)
    '10/9'
    """

    g: Recipe

    samples = (
        "Complete(3)",
        "GeneralizedKautz(2, 9)",
        "ModifiedDeBruijn(2, 5)",
        "Line(GeneralizedKautz(2, 5))",
        "Product(GeneralizedKautz(2, 5), Complete(3))",
        "Cayley(Dihedral(5), ((1, 0), (1, 1)))",
    )

    @property
    def shape(self) -> Shape:
        return self.g.shape

    def build(self) -> Topology:
        return self.g.topology().transpose()

    def loads(self, transposed: bool) -> tuple[Fraction, ...]:
        """The loads of the transpose's allgather."""
        return self.g.gather_loads(transposed=not transposed)

    def schedule(self, transposed: bool) -> Schedule:
        """The transpose's allgather."""
        return self.g.gather_schedule(transposed=not transposed)

    def label(self) -> str:
        return f"{self.g.bracketed_label()}ᵀ"


@final
@dataclass(frozen=True, slots=True, repr=False)
class Bidirected(Unary):
    """A graph united with its transpose: every link in both directions, d -> 2d.

    The links of G come first, then those of its transpose.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> Bidirected(DirectedCirculant(8, (1, 3))).predict()
    Cost(steps=3, t_b=Fraction(7, 8))
    """

    g: Recipe

    is_operator = False
    samples = (
        "UniRing(1, 5)",
        "GeneralizedKautz(2, 9)",
        "DeBruijn(2, 3)",
        "ModifiedDeBruijn(2, 5)",
        "Line(Complete(3))",
        "Transpose(GeneralizedKautz(3, 7))",
        "Cayley(Semidirect(7, 3, 2), ((1, 0), (0, 1)))",
    )

    reverse_symmetric = True
    bidirectional = True

    @property
    def shape(self) -> Shape:
        return Shape(self.g.num_nodes, 2 * self.g.degree)

    def build(self) -> Topology:
        return bidirected(self.g.topology())

    def loads(self, transposed: bool) -> tuple[Fraction, ...]:
        """Half of the data on each copy: half the larger of the two loads of a step."""
        forward, backward = (
            self.g.gather_loads(transposed=way) for way in (transposed, not transposed)
        )
        pairs = zip_longest(forward, backward, fillvalue=Fraction(0))
        return tuple(max(pair) / 2 for pair in pairs)

    def schedule(self, transposed: bool) -> Schedule:
        """The first half of every shard on G, the second on its transpose."""
        forward, backward = (
            self.g.gather_schedule(transposed=way) for way in (transposed, not transposed)
        )
        chunks = int(np.lcm(forward.num_chunks, backward.num_chunks))
        forward, backward = forward.with_chunks(chunks), backward.with_chunks(chunks)
        pairs = zip(forward.columns(), backward.columns(), strict=True)
        root, lo, hi, link, step = (np.concatenate(pair) for pair in pairs)
        second = slice(forward.num_sends, None)
        lo[second] += chunks
        hi[second] += chunks
        link[second] += forward.topology.num_links
        topology = bidirected(forward.topology)
        return Schedule(topology, forward.collective, 2 * chunks, root, lo, hi, link, step)

    def label(self) -> str:
        return f"Bi({self.g.label()})"


def bidirected(base: Topology) -> Topology:
    """The links of any graph, then those of its transpose.

    >>> bidirected(Topology(3, [0, 1, 2], [1, 2, 0])).is_undirected()
    True
    """
    symmetry = None
    if base.symmetry is not None:
        orbit = base.symmetry.link_orbit
        twin = orbit + np.int32(int(orbit.max(initial=-1)) + 1)
        symmetry = Symmetry(base.symmetry.node_orbit, np.concatenate([orbit, twin]))
    return Topology(
        base.num_nodes,
        np.concatenate([base.tail, base.head]),
        np.concatenate([base.head, base.tail]),
        symmetry=symmetry,
    )
