"""Exact search: whether transfers can do what is wanted in so many ticks, as clauses.

A variable is a transfer of a chunk that starts on a link at a tick, or that a node has a chunk by a
tick. Starts in whole ticks lose nothing, for every schedule can be shifted to sums of durations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.kernels import compiled
from ocs_codesign.schedulers.greedy import sat_kernels
from ocs_codesign.schedulers.greedy.bounds import held_ways, spare_ticks
from ocs_codesign.schedulers.greedy.transfers import ChunkTransfers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from numpy.typing import NDArray

    from ocs_codesign.schedulers.greedy.problem import ChunkProblem

MAX_STARTS = 12_000
"""Possible starts of transfers up to which a problem is small."""

_MAX_PAIRS = 2**20
"""Chunks times links up to which starts are counted one by one."""

_CONFLICT_STARTS = 2**26
_MAX_CONFLICTS = 60_000
"""Conflicts, and conflicts times starts, after which it stays open: seconds."""

_LEARNED_LITERALS = 2**23


def num_starts(problem: ChunkProblem, travel: NDArray[np.int64], ticks: int) -> int:
    """Starts of transfers that can do something useful in so many ticks, at least."""
    links = problem.links
    pairs = problem.num_chunks * links.num_links
    if pairs > _MAX_PAIRS:
        return pairs
    use = _last_use(problem, travel, ticks)
    first = travel[problem.source][:, links.tail]
    last = use[:, links.head] - links.ticks
    return int(np.maximum(np.where(first < 0, 0, last - first + 1), 0).sum())


def _last_use(problem: ChunkProblem, travel: NDArray[np.int64], ticks: int) -> NDArray[np.int64]:
    """The last tick at which it helps that a node gets a chunk, -1 if never; (chunks, nodes)."""
    far = np.where(travel < 0, 2**40, travel)
    last = np.empty((len(problem.wanted), len(travel)), dtype=np.int64)
    for group, members in enumerate(problem.wanted):
        last[group] = ticks - far[:, members].min(axis=1)
    return np.maximum(last, -1)[problem.group]


def in_time(
    problem: ChunkProblem, travel: NDArray[np.int64], ticks: int
) -> ChunkTransfers | bool | None:
    """Transfers that take at most so many ticks; False if there are none, None if that is open."""
    clauses = _Clauses(problem, travel, ticks)
    if clauses.is_impossible:
        return False
    outcome, is_true = clauses.solved()
    if outcome != sat_kernels.SATISFIED:
        return False if outcome == sat_kernels.IMPOSSIBLE else None
    rows = np.array([row for row, (_, number) in enumerate(clauses.starts) if is_true[number]])
    chosen = np.array([clauses.starts[row][0] for row in rows]).reshape(-1, 3)
    # A node that gets a chunk twice keeps the first.
    end = chosen[:, 2] + problem.links.ticks[chosen[:, 0]]
    order = np.lexsort((chosen[:, 0], end))
    place = chosen[order, 1] * problem.links.num_nodes + problem.links.head[chosen[order, 0]]
    chosen = chosen[order[np.unique(place, return_index=True)[1]]]
    return ChunkTransfers(*chosen.T.astype(np.int64)).by_start().used(problem)


@final
class _Clauses:
    """The clauses of a problem: ``starts`` are (link, chunk, tick) and the variable of each."""

    def __init__(self, problem: ChunkProblem, travel: NDArray[np.int64], ticks: int) -> None:
        self.lits: list[int] = []
        self.first: list[int] = [0]
        self.num_variables = 0
        self.is_impossible = False
        self.starts: list[tuple[tuple[int, int, int], int]] = []
        self._problem, self._ticks = problem, ticks
        self._since = travel[problem.source]
        self._until = _last_use(problem, travel, ticks)
        self._holds: dict[tuple[int, int], int] = {}
        self._ways, self._spare = travel, 0
        if problem.is_move:
            self._targets = problem.target()
            self._ways = held_ways(problem, travel)
            self._spare = spare_ticks(problem, self._ways, ticks)
        self._add_holds()
        self._add_transfers()

    def solved(self) -> tuple[int, NDArray[np.bool_]]:
        """What the solver says, and the values of the variables."""
        clauses = len(self.first) - 1
        lits = np.zeros(len(self.lits) + _LEARNED_LITERALS, dtype=np.int32)
        lits[: len(self.lits)] = self.lits
        conflicts = min(_MAX_CONFLICTS, _CONFLICT_STARTS // max(1, len(self.starts)))
        first = np.zeros(len(self.first) + conflicts, dtype=np.int64)
        first[: len(self.first)] = self.first
        is_true = np.zeros(self.num_variables, dtype=bool)
        solve: Callable[..., Any] = compiled(sat_kernels.solve)
        return solve(lits, first, clauses, is_true, conflicts), is_true

    def _variable(self) -> int:
        self.num_variables += 1
        return self.num_variables - 1

    def _clause(self, literals: Iterable[int]) -> None:
        """At least one of the literals is true: 2 v for a variable, 2 v + 1 for its negation."""
        self.lits.extend(literals)
        self.first.append(len(self.lits))

    def _add_holds(self) -> None:
        """Variables for what nodes have from when on; what they have they keep."""
        problem = self._problem
        wanted = problem.wanted[problem.group]
        for chunk, source in enumerate(problem.source.tolist()):
            for node in range(problem.links.num_nodes):
                since, until = int(self._since[chunk, node]), int(self._until[chunk, node])
                if node == source or since < 0 or since > until:
                    self.is_impossible |= node != source and bool(wanted[chunk, node])
                    continue
                first = self.num_variables
                self.num_variables += until - since + 1
                self._holds[chunk, node] = first
                for number in range(first, self.num_variables - 1):
                    self._clause((2 * number + 1, 2 * number + 2))
                if wanted[chunk, node]:
                    self._clause((2 * self.num_variables - 2,))

    def _add_transfers(self) -> None:
        """Variables for transfers; a node has what came to it, or what it had before."""
        links = self._problem.links
        comes: dict[int, list[int]] = {}
        for link in range(links.num_links):
            on_link: dict[int, list[int]] = {}
            for chunk in range(self._problem.num_chunks):
                if not self._is_detour(chunk, link):
                    self._add_starts(link, chunk, on_link, comes)
            self._one_at_a_time(on_link, int(links.busy[link]))
        for (chunk, node), first in self._holds.items():
            span = int(self._until[chunk, node] - self._since[chunk, node]) + 1
            for number in range(first, first + span):
                before = [2 * number - 2] if number > first else []
                came = [2 * one for one in comes.get(number, [])]
                self._clause([2 * number + 1, *before, *came])

    def _add_starts(
        self, link: int, chunk: int, on_link: dict[int, list[int]], comes: dict[int, list[int]]
    ) -> None:
        """Variables for the starts of a transfer; its sender has the chunk by then."""
        links = self._problem.links
        tail, head, ticks = int(links.tail[link]), int(links.head[link]), int(links.ticks[link])
        is_source = tail == self._problem.source[chunk]
        got, held = self._holds.get((chunk, head)), self._holds.get((chunk, tail), 0)
        if got is None or not (is_source or (chunk, tail) in self._holds):
            return
        since = 0 if is_source else int(self._since[chunk, tail])
        shift = got + ticks - int(self._since[chunk, head])
        for tick in range(since, int(self._until[chunk, head]) - ticks + 1):
            number = self._variable()
            self.starts.append(((link, chunk, tick), number))
            on_link.setdefault(tick, []).append(number)
            comes.setdefault(shift + tick, []).append(number)
            if not is_source:
                at = held + min(tick, int(self._until[chunk, tail])) - since
                self._clause((2 * number + 1, 2 * at))

    def _is_detour(self, chunk: int, link: int) -> bool:
        """Whether what is moved holds more links that way than all links have to spare."""
        if not self._problem.is_move:
            return False
        links, ways = self._problem.links, self._ways
        source, target = self._problem.source[chunk], self._targets[chunk]
        way = ways[source, links.tail[link]] + links.busy[link] + ways[links.head[link], target]
        return bool(way - ways[source, target] > self._spare)

    def _one_at_a_time(self, on_link: dict[int, list[int]], busy: int) -> None:
        """At most one start of a tick, and none while the link is occupied."""
        begins: dict[int, int] = {}
        for tick, numbers in on_link.items():
            some = numbers[0]
            for number in numbers[1:]:  # a sequential counter: ``some`` of those so far starts
                self._clause((2 * some + 1, 2 * number + 1))
                joined = self._variable()
                self._clause((2 * some + 1, 2 * joined))
                self._clause((2 * number + 1, 2 * joined))
                some = joined
            begins[tick] = some
        if self._problem.is_move and self._spare == 0 and busy == 1:
            for number in begins.values():
                self._clause((2 * number,))
        for tick, number in begins.items():
            for later in range(tick + 1, tick + busy):
                if later in begins:
                    self._clause((2 * number + 1, 2 * begins[later] + 1))
