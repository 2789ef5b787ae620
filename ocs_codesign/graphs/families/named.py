"""Named graphs: the distance-regular and other single graphs stored in base_topologies/."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.base_topologies import base_topologies_path, read_checked, read_index
from ocs_codesign.graphs.recipe import Base, Shape

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction


@final
@dataclass(frozen=True, slots=True, repr=False)
class Named(Base):
    """A graph stored under a name in base_topologies/; both directions of an undirected edge.

    >>> Named("petersen").predict(), Named("petersen").topology().diameter()
    (Cost(steps=2, t_b=Fraction(9, 10)), 2)
    """

    name: str

    samples = ('"k4"', '"diamond"', '"petersen"', '"k55_minus_matching"', '"twisted_3_cube"')

    @property
    def shape(self) -> Shape:
        entry = named_graph(self.name)
        return Shape(entry.nodes, entry.degree)

    def build(self) -> Topology:
        entry = named_graph(self.name)
        content = read_checked(base_topologies_path() / entry.file, entry.sha256)
        edges = np.array(content["edges"], dtype=np.int32)
        if not entry.directed:
            edges = np.concatenate([edges, edges[:, ::-1]])
        order = np.lexsort((edges[:, 1], edges[:, 0]))
        return Topology(entry.nodes, edges[order, 0], edges[order, 1])

    @property
    def reverse_symmetric(self) -> bool:
        return not named_graph(self.name).directed

    @property
    def bidirectional(self) -> bool:
        return not named_graph(self.name).directed

    def label(self) -> str:
        return named_graph(self.name).label


@final
@dataclass(frozen=True, slots=True)
class _NamedGraph:
    """An entry of the index: declared facts of one stored graph and where they come from."""

    name: str
    label: str
    nodes: int
    degree: int
    directed: bool
    steps: int
    t_b: Fraction
    distance_regular: bool
    source: str
    file: str
    sha256: str


@cache
def named_graphs() -> Mapping[str, _NamedGraph]:
    """All entries of the index by name.

    >>> named_graphs()["petersen"].nodes
    10
    """
    entries = read_index(base_topologies_path(), "graphs")
    return MappingProxyType({entry["name"]: _NamedGraph(**entry) for entry in entries})


def named_graph(name: str) -> _NamedGraph:
    """The entry of that name; ValueError with the nearest names if there is none."""
    known = named_graphs()
    if not isinstance(name, str) or name not in known:
        from difflib import get_close_matches

        near = get_close_matches(str(name), known, n=3, cutoff=0.4)
        hint = f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(known)}"
        raise ValueError(f"no graph is named {name!r}: {hint}")
    return known[name]
