"""Local search for digraphs of short, evenly used paths: what all-to-all takes least time on.

The hops of all pairs are a lower bound on all-to-all, and one that good digraphs meet: where there
are several shortest paths the links can be used alike. So random voltage digraphs climb by the sum
of their distances first, and the best of them, and line digraphs of smaller ones, go on by how
evenly their shortest paths use the links. The best are voltage digraphs of a few rows: those of one
row are too regular, and those without symmetry are too many.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Self, final

import numpy as np

from ocs_codesign.core.bounds import hop_sum, moore_steps
from ocs_codesign.core.compute.integers import divisors
from ocs_codesign.core.compute.kernels import compiled, for_work
from ocs_codesign.core.progress import tell
from ocs_codesign.graphs.expansions.line import Line
from ocs_codesign.graphs.families.cayley import Lift
from ocs_codesign.graphs.recipe import Recipe
from ocs_codesign.search.alltoall.kernels import NEVER, climb, even_hops, spread
from ocs_codesign.search.bases import cayley_recipe
from ocs_codesign.search.generators import multiplication_table, words_of
from ocs_codesign.search.small_groups import groups_of_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.graphs.groups.group import Group
    from ocs_codesign.schedules.design import Question
    from ocs_codesign.search.bases import Effort


# Voltage digraphs as arrays: what the search for short paths moves, scores and expands.
#
# A digraph with few rows over a large group has few link orbits, so its all-to-all is solved
# exactly in milliseconds. The line digraph of a voltage digraph is one over the same group.


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


_WORD = 64
_MAX_TRIVIAL_NODES = 256
_MAX_GROUPS = 6
_LEAST_MOVES = 50
_LONGER, _EVENED = 4, 8
_HEAT, _LINE_HEAT = 4.0, 1.0
_SLOT_MOVES, _LINE_SLOT_MOVES = 1536, 64
_VISITS_OF_USE = 10
_ROUNDING = 1e-9


@final
@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """Voltage digraphs of a size with so many rows over a group."""

    question: Question
    table: GroupTable
    num_rows: int

    def start(self, rng: np.random.Generator) -> VoltageDigraph | None:
        """A random one; None if links cannot all have a reverse."""
        order, degree = self.table.group.order, self.question.degree
        slots = self.num_rows * degree
        row = np.arange(slots) // degree
        voltage = rng.integers(0, order, slots)
        mate = np.full(slots, ONE_WAY)
        if not self.question.bidirectional:
            return VoltageDigraph(self.table, degree, rng.permutation(row) * order + voltage, mate)
        shuffled = rng.permutation(slots)
        pairs = shuffled[: slots // 2 * 2].reshape(-1, 2)
        mate[pairs] = pairs[:, ::-1]
        voltage[pairs[:, 1]] = self.table.inverse[voltage[pairs[:, 0]]]
        if slots % 2:
            involutions = self.table.involutions()
            if not len(involutions):
                return None
            mate[shuffled[-1]] = shuffled[-1]
            voltage[shuffled[-1]] = rng.choice(involutions)
        return VoltageDigraph(self.table, degree, row[mate] * order + voltage, mate)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Climbed:
    """A digraph and the spread of its shortest paths; ``by_line`` if it began as a line digraph."""

    digraph: VoltageDigraph
    spread: Spread
    by_line: bool = False

    @property
    def rank(self) -> tuple[float, float, int]:
        """Smaller is better: even hops, hops, the size of its all-to-all program."""
        return self.spread.even_hops, self.spread.hops, self.digraph.num_columns

    @property
    def kind(self) -> tuple[int, Group]:
        """The number of rows and the group."""
        return self.digraph.num_rows, self.digraph.table.group


def climbed(
    question: Question, effort: Effort, visits: int, max_rows: int, lines: Sequence[Climbed] = ()
) -> list[Climbed]:
    """Digraphs of a size found in so many visits of links, and these lines, the best first.

    They have at most so many rows, on which the cost of solving their all-to-all depends.
    A quarter of the visits goes to one climb of every kind, a quarter to longer climbs of the best
    kinds, and the rest to even out the best of several kinds and of the lines. Longer climbs are
    left out where hops are the least possible, or too many to compete with the lines; evening out
    ends where one has the least hops, and these even.
    """
    kinds = list(_kinds(question, max_rows))
    climbs = _Climbs(question, effort, len(kinds) + _LONGER + _EVENED)
    share = visits // 4
    found = [one for kind in kinds for one in climbs.by_hops(kind, share // len(kinds))]
    found.sort(key=_by_hops)
    enough = min((one.spread.even_hops for one in (*found, *lines)), default=0.0)
    if found and climbs.least < found[0].spread.hops <= enough:
        for one in found[:_LONGER]:
            kind = Kind(question, one.digraph.table, one.digraph.num_rows)
            found += climbs.by_hops(kind, share // _LONGER)
        found.sort(key=_by_hops)
        visits -= share
    begins = [one for one in _first_of_kinds([*lines, *found]) if one.spread.hops <= enough]
    for one in begins[:_EVENED]:
        if any(other.spread.even_hops <= climbs.least + _ROUNDING for other in (*found, *lines)):
            break
        found += climbs.by_even_hops(one, (visits - share) // min(len(begins), _EVENED))
    return sorted([*found, *lines], key=lambda one: one.rank)


@final
class _Climbs:
    """The climbs of one question; each draws from a seed of its own."""

    def __init__(self, question: Question, effort: Effort, number: int) -> None:
        size, both = (question.num_nodes, question.degree), question.bidirectional
        self.least = hop_sum(*size, bidirectional=both)
        self._question, self._seed = question, effort.seed
        self._begun, self._number = 0, number

    def by_hops(self, kind: Kind, visits: int) -> Iterator[Climbed]:
        """What a climb from a random digraph leads to; nothing if the visits do not suffice."""
        rng = self._begin()
        start = kind.start(rng)
        if start is not None and (moves := visits // _visits(start)) >= _LEAST_MOVES:
            yield from self._climb(Climbed(start, start.spread()), False, _HEAT, moves, rng)

    def by_even_hops(self, one: Climbed, visits: int) -> Iterator[Climbed]:
        """What several climbs lead to; nothing if the visits do not suffice.

        A line digraph is close to the best: many short climbs from there find more than a long one.
        From others the first climb goes on, and the next ones start from anywhere.
        """
        rng = self._begin()
        moves = visits // (one.digraph.num_rows * one.digraph.num_links * _VISITS_OF_USE)
        enough = len(one.digraph.to) * (_LINE_SLOT_MOVES if one.by_line else _SLOT_MOVES)
        attempts = max(1, moves // enough)
        for attempt in range(attempts if moves >= _LEAST_MOVES else 0):
            start = one
            if attempt and not one.by_line:
                kind = Kind(self._question, one.digraph.table, one.digraph.num_rows)
                start = Climbed(kind.start(rng) or one.digraph, one.spread)
            heat = _LINE_HEAT if one.by_line else _HEAT
            yield from self._climb(start, True, heat, moves // attempts, rng)

    def _begin(self) -> np.random.Generator:
        tell(self._begun, self._number)
        self._begun += 1
        asked = self._question
        sizes = (asked.num_nodes, asked.degree, int(asked.bidirectional))
        return np.random.default_rng((self._seed, *sizes, self._begun))

    def _climb(
        self, start: Climbed, by_use: bool, heat: float, moves: int, rng: np.random.Generator
    ) -> Iterator[Climbed]:
        """Where a climb ends; nothing if no digraph on its way was strongly connected."""
        begin = start.digraph
        to, mate, table, least = begin.to.copy(), begin.mate.copy(), begin.table, self.least
        arrays = (to, mate, table.columns, table.inverse)
        sizes = (begin.degree, float(least * begin.num_rows))
        with words_of(rng, 3 * moves, 2 * moves) as drawn:
            score = compiled(climb)(*arrays, *sizes, by_use, heat, moves, *drawn)
        if score < NEVER:
            made = VoltageDigraph(table, begin.degree, to, mate)
            yield Climbed(made, made.spread(), start.by_line)


def _kinds(question: Question, max_rows: int) -> Iterator[Kind]:
    """Numbers of rows that divide N, each with some groups."""
    nodes = question.num_nodes
    for rows in divisors(nodes):
        if rows <= max_rows and (rows <= _WORD or rows == nodes <= _MAX_TRIVIAL_NODES):
            for group in islice(groups_of_order(nodes // rows), _MAX_GROUPS):
                yield Kind(question, GroupTable.of(group), rows)


def _by_hops(one: Climbed) -> tuple[float, int]:
    return one.spread.hops, one.digraph.num_columns


def _first_of_kinds(found: Iterable[Climbed]) -> list[Climbed]:
    """The first of every kind."""
    first: dict[tuple[int, Group], Climbed] = {}
    for one in found:
        first.setdefault(one.kind, one)
    return list(first.values())


def _visits(digraph: VoltageDigraph) -> int:
    """Visits of links that counting its hops takes, about a nanosecond each."""
    rows = digraph.num_rows
    passes = moore_steps(digraph.num_nodes, digraph.degree) + 1 if rows > 1 else 2
    return digraph.num_links * passes * -(-rows // _WORD)
