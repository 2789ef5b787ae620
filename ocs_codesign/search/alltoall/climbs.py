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
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.bounds import hop_sum, moore_steps
from ocs_codesign.kernels import compiled
from ocs_codesign.search.alltoall.digraphs import ONE_WAY, GroupTable, Spread, VoltageDigraph
from ocs_codesign.search.alltoall.kernels import NEVER, climb
from ocs_codesign.search.draws import words_of
from ocs_codesign.search.moves import divisors
from ocs_codesign.search.small_groups import groups_of_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ocs_codesign.graphs.groups.group import Group
    from ocs_codesign.question import Question
    from ocs_codesign.search.effort import Effort

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
    question: Question,
    effort: Effort,
    visits: int,
    max_rows: int,
    lines: Sequence[Climbed] = (),
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Climbed]:
    """Digraphs of a size found in so many visits of links, and these lines, the best first.

    They have at most so many rows, on which the cost of solving their all-to-all depends.
    A quarter of the visits goes to one climb of every kind, a quarter to longer climbs of the best
    kinds, and the rest to even out the best of several kinds and of the lines. Longer climbs are
    left out where hops are the least possible, or too many to compete with the lines; evening out
    ends where one has the least hops, and these even.
    """
    kinds = list(_kinds(question, max_rows))
    climbs = _Climbs(question, effort, len(kinds) + _LONGER + _EVENED, on_progress)
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


def least_hops(question: Question) -> int:
    """Least sum of the distances from a node, for paired links that of a tree without ways back.

    >>> from ocs_codesign.question import Question
    >>> least_hops(Question(36, 4)), least_hops(Question(36, 4, True))
    (81, 85)
    """
    if not question.bidirectional:
        return hop_sum(question.num_nodes, question.degree)
    total, hops, layer, left = 0, 0, question.degree, question.num_nodes - 1
    while left:
        hops, layer = hops + 1, min(layer, left)
        total += hops * layer
        left -= layer
        layer *= max(1, question.degree - 1)
    return total


@final
class _Climbs:
    """The climbs of one question; each draws from a seed of its own."""

    def __init__(
        self,
        question: Question,
        effort: Effort,
        number: int,
        on_progress: Callable[[int, int], None] | None,
    ) -> None:
        self.least = least_hops(question)
        self._question, self._seed = question, effort.seed
        self._begun, self._number, self._on_progress = 0, number, on_progress

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
        if self._on_progress is not None:
            self._on_progress(self._begun, self._number)
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
