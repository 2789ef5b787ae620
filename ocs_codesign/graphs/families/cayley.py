"""Cayley digraphs: one node a group element, one link g -> g * s a generator s."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.graphs.groups.group import Group, checked_group
from ocs_codesign.graphs.recipe import Base
from ocs_codesign.graphs.shape import Shape
from ocs_codesign.graphs.transitive import transitive

if TYPE_CHECKING:
    from ocs_codesign.topology import Topology


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
