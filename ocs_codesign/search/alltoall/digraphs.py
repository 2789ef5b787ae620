"""Voltage digraphs as arrays: what the search for short paths moves, scores and expands.

A digraph with few rows over a large group has few link orbits, so its all-to-all is solved exactly
in milliseconds. The line digraph of a voltage digraph is one over the same group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, final

import numpy as np

from ocs_codesign.graphs.expansions.line import Line
from ocs_codesign.graphs.families.lift import Lift
from ocs_codesign.graphs.recipe import Recipe
from ocs_codesign.kernels import for_work
from ocs_codesign.search.alltoall.kernels import even_hops, spread
from ocs_codesign.search.bases import cayley_recipe
from ocs_codesign.search.generators import multiplication_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.graphs.groups.group import Group

ONE_WAY = -1
"""Mate of a link that has none in the other direction."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class GroupTable:
    """A group's table by right factor, ``columns[a, g]`` the number of g * a, and its inverses."""

    group: Group
    columns: NDArray[np.int32]
    inverse: NDArray[np.int64]

    @classmethod
    def of(cls, group: Group) -> Self:
        """The tables of a group; they take order^2 time and space."""
        table = multiplication_table(group)
        return cls(group, np.ascontiguousarray(table.T), np.argmin(table, axis=1))

    def involutions(self) -> NDArray[np.int64]:
        """Elements but the identity that are their own inverses."""
        return np.flatnonzero(self.inverse[1:] == np.arange(1, len(self.inverse))) + 1


@final
@dataclass(frozen=True, slots=True)
class Spread:
    """How long and how even the shortest paths of a digraph are; all -1 if some pair has none.

    ``hops`` is the sum of the distances from a node, averaged over the nodes. If every pair takes
    all its shortest paths alike, ``even_hops`` is d times the root mean square of what a link
    carries, and ``most_hops`` d times the most: both are ``hops`` if all carry the same. All-to-all
    takes between ``hops`` / N and ``most_hops`` / N, in M/B.
    """

    hops: float
    even_hops: float
    most_hops: float
    diameter: int


@final
@dataclass(frozen=True, slots=True, eq=False)
class VoltageDigraph:
    """Links and their mates as in ``kernels``, and how often its line digraph is meant."""

    table: GroupTable
    degree: int
    to: NDArray[np.int64]
    mate: NDArray[np.int64]
    base: VoltageDigraph | None = None

    @property
    def num_rows(self) -> int:
        """Orbits of nodes under the group."""
        return len(self.to) // self.degree

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.num_rows * self.table.group.order

    @property
    def num_links(self) -> int:
        """Links of the whole digraph."""
        return self.num_nodes * self.degree

    @property
    def num_columns(self) -> int:
        """Columns of its all-to-all program but one: a flow a row and link."""
        return self.num_rows * self.num_links

    def recipe(self) -> Recipe:
        """Its recipe: a line digraph of the base, a Cayley digraph if it is one, or a lift.

        Loops and parallel links make one row a lift.
        """
        if self.base is not None:
            return Line(self.base.recipe())
        rows = np.sort(self.to.reshape(-1, self.degree), axis=1).tolist()
        if len(rows) == 1 and rows[0][0] > 0 and len(set(rows[0])) == self.degree:
            return cayley_recipe(self.table.group, rows[0])
        return Lift(self.table.group, tuple(tuple(row) for row in rows))

    def line(self) -> VoltageDigraph:
        """The line digraph: a link of row u to (w, a) is followed by every link out of row w.

        >>> from ocs_codesign.graphs.groups.cyclic import Cyclic
        >>> both = np.array([1, 2]), np.array([1, 0])
        >>> ring = VoltageDigraph(GroupTable.of(Cyclic(3)), 2, *both)
        >>> ring.line().to.tolist(), ring.line().num_nodes
        ([1, 4, 2, 5], 6)
        """
        order, degree = self.table.group.order, self.degree
        row, voltage = np.divmod(self.to, order)
        after = row[:, None] * degree + np.arange(degree)
        to = (after * order + voltage[:, None]).ravel()
        return VoltageDigraph(self.table, degree, to, np.full(len(to), ONE_WAY), self)

    def heads(self) -> NDArray[np.int32]:
        """Heads of all links by tail and port; node (u, g) has the number u * order + g."""
        order = self.table.group.order
        voltage = self.to % order
        heads = (self.to - voltage)[:, None] + self.table.columns[voltage]
        by_node = heads.reshape(self.num_rows, self.degree, order).transpose(0, 2, 1)
        return np.ascontiguousarray(by_node, dtype=np.int32).ravel()

    def spread(self) -> Spread:
        """Lengths and evenness of its shortest paths."""
        nodes, use = self.num_nodes, np.empty(len(self.to))
        places = (np.empty(nodes, np.int32), np.empty(nodes, np.int32))
        shares = (np.empty(nodes), np.empty(nodes))
        sizes = (self.table.group.order, self.num_rows, self.degree)
        count = for_work(spread, 2 * self.num_rows * self.num_links)
        hops, diameter = count(self.heads(), *sizes, *places, *shares, use)
        if diameter < 0:
            return Spread(-1, -1, -1, -1)
        even = for_work(even_hops, len(use))(use)
        most = float(use.max()) * self.degree
        return Spread(int(hops) / self.num_rows, float(even) / self.num_rows, most, int(diameter))
