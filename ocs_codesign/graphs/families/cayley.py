"""Cayley digraphs: one node a group element, one link g -> g * s a generator s."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, final

import numpy as np

from ocs_codesign.core.topology import Symmetry, Topology
from ocs_codesign.graphs.families.rings import transitive
from ocs_codesign.graphs.groups.group import Group, checked_group
from ocs_codesign.graphs.recipe import Base, Shape


@final
@dataclass(frozen=True, slots=True, repr=False)
class Cayley(Base):
    """Cayley digraph: a link from g to g * s for every generator s of the tuple.

    Left multiplication by the group is an automorphism. Parallel links (a generator listed twice)
    and self-loops (the identity) are kept as ports. The link by the i-th generator out of node v is
    v * d + i.

    >>> from ocs_codesign.graphs.groups.cyclic import Cyclic
    >>> Cayley(Cyclic(5), (1, 2)).topology().head.tolist()
    [1, 2, 2, 3, 3, 4, 4, 0, 0, 1]
    """

    group: Group
    generators: tuple[Any, ...]

    samples = ("Cyclic(5), (1, 1, 0)", "Dihedral(4), ((1, 0), (0, 1), (0, 1))")

    def __post_init__(self) -> None:
        group, generators = checked_group(self.group), self.generators
        if not isinstance(generators, tuple) or not generators:
            raise ValueError(
                f"generators is {generators!r}: it must be a non-empty tuple of elements"
            )
        for generator in generators:
            group.index(generator)
        _ = self.shape

    @property
    def shape(self) -> Shape:
        return Shape(self.group.order, len(self.generators))

    def build(self) -> Topology:
        group, nodes = self.group, np.arange(self.group.order, dtype=np.int64)
        return transitive([group.right_multiply(nodes, group.index(s)) for s in self.generators])

    @property
    def reverse_symmetric(self) -> bool:
        return self.group.is_abelian or self.bidirectional

    @property
    def has_self_loops(self) -> bool:
        return any(self.group.index(generator) == 0 for generator in self.generators)

    def label(self) -> str:
        inner = ",".join(str(generator).replace(" ", "") for generator in self.generators)
        return f"Cay({self.group.label()},{{{inner}}})"


# Lifts: derived graphs of voltage digraphs, and any digraph as the lift over the trivial group.


MAX_ORBITS = 2**16


@final
@dataclass(frozen=True, slots=True, repr=False)
class Lift(Base):
    """Lift of a voltage digraph: row u of ``heads`` lists the out-neighbours of (u, identity).

    Node (v, g) has the number v * order + g; a link (u, g) -> (v, g * a) for every entry
    v * order + a of row u, the one by the i-th entry out of node v being v * d + i. Over
    ``Cyclic(1)`` the rows are an adjacency list: any regular digraph.

    A voltage digraph has one node an orbit and an element of the group on every link; its lift is
    regular if it is, and left multiplication by the group moves the nodes of the lift freely, so
    one receiver an orbit tells the cost of all. Source: Gross (1974), voltage graphs.

    >>> from ocs_codesign.graphs.groups.cyclic import Cyclic
    >>> Lift(Cyclic(1), ((1, 2), (2, 0), (0, 1))).predict()
    Cost(steps=1, t_b=Fraction(2, 3))
    >>> Lift(Cyclic(3), ((1, 3), (2, 4))).topology().head.reshape(6, 2).tolist()
    [[1, 3], [2, 4], [0, 5], [2, 4], [0, 5], [1, 3]]
    """

    group: Group
    heads: tuple[tuple[int, ...], ...]

    samples = (
        "Cyclic(1), ((1, 1), (0, 2), (0, 2))",
        "Cyclic(5), ((1, 2),)",
        "Cyclic(7), ((1, 7, 9), (3, 5, 12))",
        "Cyclic(12), ((13, 25), (25, 1), (11, 14))",
        "Dihedral(3), ((1, 6, 8), (2, 9, 5))",
        "Semidirect(7, 3, 2), ((1, 22), (3, 40))",
    )

    def __post_init__(self) -> None:
        _check_rows(checked_group(self.group), self.heads)
        _ = self.shape

    @property
    def shape(self) -> Shape:
        return Shape(self.group.order * len(self.heads), len(self.heads[0]))

    def build(self) -> Topology:
        group, heads, shape = self.group, self.heads, self.shape
        order, degree = group.order, shape.degree
        elements = np.arange(order, dtype=np.int64)
        head = np.empty((len(heads), order, degree), dtype=np.int64)
        for u, row in enumerate(heads):
            for i, number in enumerate(row):
                v, voltage = divmod(number, order)
                head[u, :, i] = v * order + group.right_multiply(elements, voltage)
        node_orbit = np.repeat(np.arange(len(heads), dtype=np.int32), order)
        link_orbit = np.arange(len(heads) * degree, dtype=np.int32).reshape(len(heads), 1, degree)
        return Topology(
            shape.num_nodes,
            np.repeat(np.arange(shape.num_nodes, dtype=np.int32), degree),
            head.ravel().astype(np.int32),
            symmetry=Symmetry(node_orbit, np.repeat(link_orbit, order, axis=1).ravel()),
        )

    @property
    def reverse_symmetric(self) -> bool:
        return self.bidirectional

    def label(self) -> str:
        digits = blake2b(repr(self.heads).encode(), digest_size=2).hexdigest()
        return f"Lift({len(self.heads)}×{self.group.label()},{digits})"


def _check_rows(group: Group, heads: Any) -> None:
    """ValueError unless every orbit has d links in and out, all to nodes that there are."""
    if not isinstance(heads, tuple) or not 1 <= len(heads) <= MAX_ORBITS:
        raise ValueError(f"heads of a lift must be a tuple of 1 to {MAX_ORBITS} rows")
    nodes = group.order * len(heads)
    degree = len(heads[0]) if isinstance(heads[0], tuple) else 0
    links_in = [0] * len(heads)
    for u, row in enumerate(heads):
        if not isinstance(row, tuple) or not row or len(row) != degree:
            raise ValueError(f"row {u} of a lift is {row!r}: all rows are tuples of one length")
        for head in row:
            if type(head) is not int or not 0 <= head < nodes:
                raise ValueError(
                    f"row {u} of a lift names node {head!r}: nodes are 0 to {nodes - 1}"
                )
            links_in[head // group.order] += 1
    for v, number in enumerate(links_in):
        if number != degree:
            raise ValueError(
                f"orbit {v} of a lift has {number} links in but {degree} out: it must have as many"
            )
