"""Recipes of base graphs: one frozen class a family, named as in ``families.FAMILIES``.

Those of shift digraphs are in ``recipe.shifts``.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, final

from ocs_codesign.families.named import named_graph
from ocs_codesign.groups import Group
from ocs_codesign.recipe.base import Base
from ocs_codesign.recipe.shifts import DeBruijn, GeneralizedKautz, Kautz, ModifiedDeBruijn


class _Symmetric(Base):
    """A base that is isomorphic to its transpose and has no self-loops."""

    __slots__ = ()

    @property
    def reverse_symmetric(self) -> bool:
        return True

    @property
    def has_self_loops(self) -> bool:
        return False


class _Undirected(_Symmetric):
    """A base with every link in both directions and no self-loops."""

    __slots__ = ()

    @property
    def bidirectional(self) -> bool:
        return True


@final
@dataclass(frozen=True, slots=True, repr=False)
class Complete(_Undirected):
    """Complete graph on n nodes: d = n - 1, one step, bandwidth-optimal.

    >>> Complete(3).predict()
    Cost(steps=1, t_b=Fraction(2, 3))
    """

    n: int

    def label(self) -> str:
        return f"K{self.n}"


@final
@dataclass(frozen=True, slots=True, repr=False)
class CompleteBipartite(_Undirected):
    """Complete bipartite graph on 2d nodes: two steps, bandwidth-optimal."""

    d: int

    def label(self) -> str:
        return f"K{self.d},{self.d}"


@final
@dataclass(frozen=True, slots=True, repr=False)
class Hamming(_Undirected):
    """Hamming graph H(m, q): N = q^m, d = m (q - 1), m steps, bandwidth-optimal."""

    m: int
    q: int

    def label(self) -> str:
        return f"H({self.m},{self.q})"


@final
@dataclass(frozen=True, slots=True, repr=False)
class Circulant(_Undirected):
    """Undirected circulant graph: v is linked with v + a and v - a for every offset a."""

    n: int
    offsets: tuple[int, ...]

    def label(self) -> str:
        return f"C({self.n},{_set(self.offsets)})"


@final
@dataclass(frozen=True, slots=True, repr=False)
class DirectedCirculant(_Symmetric):
    """Directed circulant graph: a link from v to v + a for every offset a.

    >>> DirectedCirculant(8, (1, 3)).predict()
    Cost(steps=3, t_b=Fraction(7, 8))
    """

    n: int
    offsets: tuple[int, ...]

    @property
    def bidirectional(self) -> bool:
        return sorted(self.offsets) == sorted(self.n - offset for offset in self.offsets)

    def label(self) -> str:
        return f"DiC({self.n},{_set(self.offsets)})"


@final
@dataclass(frozen=True, slots=True, repr=False)
class UniRing(_Symmetric):
    """One-way ring of m nodes, d parallel links: m - 1 steps, bandwidth-optimal."""

    d: int
    m: int

    @property
    def bidirectional(self) -> bool:
        return self.m == 2

    def label(self) -> str:
        return f"UniRing({self.d},{self.m})"


@final
@dataclass(frozen=True, slots=True, repr=False)
class BiRing(_Undirected):
    """Two-way ring of m nodes, d/2 parallel links each way: floor(m/2) steps, bandwidth-optimal."""

    d: int
    m: int

    def label(self) -> str:
        return f"BiRing({self.d},{self.m})"


@final
@dataclass(frozen=True, slots=True, repr=False)
class Torus(_Undirected):
    """Torus with the given sides: floor(side/2) steps a side, bandwidth-optimal for any sides."""

    sides: tuple[int, ...]

    def label(self) -> str:
        return "Torus " + "×".join(map(str, self.sides))


@final
@dataclass(frozen=True, slots=True, repr=False)
class Hypercube(_Undirected):
    """Hypercube of dimension n: N = 2^n, n steps, bandwidth-optimal."""

    n: int

    def label(self) -> str:
        return f"Q{self.n}"


@final
@dataclass(frozen=True, slots=True, repr=False)
class Named(Base):
    """A graph stored under a name in base_topologies/.

    >>> Named("petersen").predict()
    Cost(steps=2, t_b=Fraction(9, 10))
    """

    name: str

    @property
    def reverse_symmetric(self) -> bool:
        return not named_graph(self.name).directed

    @property
    def bidirectional(self) -> bool:
        return not named_graph(self.name).directed

    def label(self) -> str:
        return named_graph(self.name).label


@final
@dataclass(frozen=True, slots=True, repr=False)
class Cayley(Base):
    """Cayley digraph: a link from g to g * s for every generator s of the tuple.

    >>> from ocs_codesign.groups import Dihedral
    >>> Cayley(Dihedral(3), ((1, 0), (0, 1))).num_nodes
    6
    """

    group: Group
    generators: tuple[Any, ...]

    @property
    def reverse_symmetric(self) -> bool:
        return self.group.is_abelian or self.bidirectional

    @property
    def has_self_loops(self) -> bool:
        return any(self.group.index(generator) == 0 for generator in self.generators)

    def label(self) -> str:
        inner = ",".join(str(generator).replace(" ", "") for generator in self.generators)
        return f"Cay({self.group.label()},{{{inner}}})"


@final
@dataclass(frozen=True, slots=True, repr=False)
class Lift(Base):
    """Lift of a voltage digraph: row u of ``heads`` lists the out-neighbours of (u, identity).

    Node (v, g) has the number v * order + g; a link (u, g) -> (v, g * a) for every entry
    v * order + a of row u. Over ``Cyclic(1)`` the rows are an adjacency list: any regular digraph.

    >>> from ocs_codesign.groups import Cyclic
    >>> Lift(Cyclic(1), ((1, 2), (2, 0), (0, 1))).predict() == Complete(3).predict()
    True
    """

    group: Group
    heads: tuple[tuple[int, ...], ...]

    @property
    def reverse_symmetric(self) -> bool:
        return self.bidirectional

    def label(self) -> str:
        digits = blake2b(repr(self.heads).encode(), digest_size=2).hexdigest()
        return f"Lift({len(self.heads)}×{self.group.label()},{digits})"


BASES: dict[str, type[Base]] = {
    base.__name__: base
    for base in (
        Complete,
        CompleteBipartite,
        Hamming,
        Circulant,
        DirectedCirculant,
        UniRing,
        BiRing,
        Torus,
        Hypercube,
        GeneralizedKautz,
        Kautz,
        DeBruijn,
        ModifiedDeBruijn,
        Named,
        Cayley,
        Lift,
    )
}
"""Every base recipe by its family's name."""


def _set(values: tuple[int, ...]) -> str:
    return "{" + ",".join(map(str, values)) + "}"
