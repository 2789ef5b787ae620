"""Bounds: times that no schedule of a problem can beat, exact in whole ticks."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import lcm
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.compute.cuts import bottleneck, dissemination
from ocs_codesign.core.compute.kernels import compiled, for_work
from ocs_codesign.core.topology import Topology
from ocs_codesign.schedules.greedy import kernels, search_kernels
from ocs_codesign.schedules.greedy.problem import ChunkTransfers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from numpy.typing import NDArray

    from ocs_codesign.schedules.greedy.problem import ChunkProblem, TickLinks


_ALL_CUTS_NODES = 10
_MAX_SINGLES = 64
"""Up to so many nodes all sets are tried; so many single nodes and groups otherwise."""

_MAX_CORNERS = 6
_MAX_CAPACITY = 2**40
_FAR = 2**62


def travel_times(links: TickLinks) -> NDArray[np.int64]:
    """Ticks of the fastest way from row to column for one chunk, shape (N, N); -1 without any.

    >>> from ocs_codesign.schedules.greedy.problem import links_of_topology
    >>> travel_times(links_of_topology(Topology(2, [0, 1], [1, 0], [1, 3])))
    array([[0, 3],
           [1, 0]])
    """
    nodes = links.num_nodes
    if links.step_ticks is not None:
        hops = Topology(nodes, links.tail, links.head).distances().astype(np.int64)
        return np.where(hops < 0, -1, hops * links.step_ticks)
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    order = np.lexsort((links.ticks, links.head, links.tail))
    pair = links.tail[order] * nodes + links.head[order]
    order = order[np.flatnonzero(np.diff(pair, prepend=-1))]
    ends = links.tail[order], links.head[order]
    graph = csr_array((links.ticks[order].astype(float), ends), shape=(nodes, nodes))
    # Whole numbers below 2^53 are exact as floats.
    ticks = dijkstra(graph)
    return np.where(np.isinf(ticks), -1, ticks).astype(np.int64)


def check_reach(problem: ChunkProblem, travel: NDArray[np.int64]) -> None:
    """ValueError that names the nodes if a chunk cannot come where it must."""
    first = np.unique(problem.source * len(problem.wanted) + problem.group)
    source, group = np.divmod(first, len(problem.wanted))
    cut_off = problem.wanted[group] & (travel[source] < 0)
    if cut_off.any():
        row, node = np.argwhere(cut_off)[0].tolist()
        ends = (node, int(source[row])) if problem.is_sum else (int(source[row]), node)
        raise ValueError(f"node {ends[1]} is out of node {ends[0]}'s reach")


def quick_bound(problem: ChunkProblem, travel: NDArray[np.int64]) -> int:
    """Ingress and distance, and for what is moved the work in all: a bound in ticks."""
    least = _receivers(problem, travel)
    if problem.is_move:
        least = max(least, _receivers(problem.mirrored(), travel.T), _work(problem, travel))
    return least


def cut_bound(problem: ChunkProblem, travel: NDArray[np.int64]) -> int:
    """All that a set of nodes lacks must enter it, and the last of that reach all who want it.

    The sets are all nodes but one, up to 10 nodes all sets, and beyond the bottlenecks of the
    forests of all groups, so that no fractional schedule of whatever number of pieces is below this
    bound; where chunks are moved, the nodes that are nearer to one of two corners.
    """
    cases = [(problem, travel)]
    if problem.is_move:
        cases.append((problem.mirrored(), travel.T))
    least = 0
    for case, times in cases:
        counts = _counts(case)
        for inside in _sides(case, counts):
            least = max(least, _entry(case, times, counts, inside))
    return least


def _counts(problem: ChunkProblem) -> NDArray[np.float64]:
    """Chunks of every source and group, shape (N, groups); floats, which multiply fast."""
    nodes, groups = problem.links.num_nodes, len(problem.wanted)
    key = problem.source * groups + problem.group
    return np.bincount(key, minlength=nodes * groups).reshape(nodes, groups).astype(float)


def _receivers(problem: ChunkProblem, travel: NDArray[np.int64]) -> int:
    """Chunks from far away come late, and a link brings one at a time: the worst node."""
    links, nodes = problem.links, problem.links.num_nodes
    lacks = _counts(problem) @ problem.wanted
    np.fill_diagonal(lacks, 0)
    ticks, farther = [], []
    for node in range(nodes):
        sources = np.flatnonzero(lacks[:, node])
        times, place = np.unique(travel[sources, node], return_inverse=True)
        count = np.bincount(place, weights=lacks[sources, node], minlength=len(times))
        ticks.append(times)
        farther.append(np.cumsum(count[::-1])[::-1].astype(np.int64))
    first, most = np.cumsum([0, *map(len, ticks)]), max(map(len, ticks))
    columns = (first, np.concatenate(ticks), np.concatenate(farther))
    return _over_in_links(links, 40 * most, *columns)


def _over_in_links(links: TickLinks, rounds: int, *columns: NDArray[np.int64]) -> int:
    """The bound of the worst node, in so many rounds a link."""
    into = links.indexed()
    times = links.busy[into.in_link], links.delay[into.in_link]
    loop = for_work(kernels.receivers_bound, rounds * links.num_links)
    return int(loop(into.in_first, *times, *columns))


def held_ways(problem: ChunkProblem, travel: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ticks for which a chunk holds links on its way from row to column, at least."""
    links = problem.links
    if not links.delay.any():
        return travel
    return travel_times(replace(links, delay=np.zeros_like(links.delay)))


def spare_ticks(problem: ChunkProblem, ways: NDArray[np.int64], time: int) -> int:
    """Ticks of links that what is moved does not need, of those that they can be held by then."""
    links = problem.links
    need = int(ways[problem.source, problem.target()].sum())
    kinds, number = np.unique(np.stack([links.busy, links.delay]), axis=1, return_counts=True)
    chunks = np.maximum(time - kinds[1], 0) // kinds[0]
    return int(sum((chunks.astype(object) * kinds[0] * number).tolist())) - need


def _work(problem: ChunkProblem, travel: NDArray[np.int64]) -> int:
    """What is moved holds links all its way, and all of them together have but so much time."""
    ways = held_ways(problem, travel)
    low, high = -1, 1
    while spare_ticks(problem, ways, high) < 0:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if spare_ticks(problem, ways, middle) < 0 else (low, middle)
    return high


def _sides(problem: ChunkProblem, counts: NDArray[np.float64]) -> Iterator[NDArray[np.bool_]]:
    """The sets of receivers that are tried."""
    nodes = problem.links.num_nodes
    if nodes <= _ALL_CUTS_NODES:
        for number in range(1, 2**nodes - 1):
            yield (number >> np.arange(nodes)) & 1 > 0
        return
    for node in np.flatnonzero(counts.any(axis=1)).tolist()[:_MAX_SINGLES]:
        yield np.arange(nodes) != node
    if problem.is_move:
        yield from _halves(travel_times(problem.links))
        return
    links = problem.links
    whole = min(lcm(*np.unique(links.busy).tolist()), _MAX_CAPACITY)
    capacity = np.maximum(whole // links.busy, 1)
    for group in range(min(len(problem.wanted), _MAX_SINGLES)):
        weight = counts[:, group].astype(np.int64)
        if weight.any() and problem.wanted[group].sum() > 1:
            ranks = problem.wanted[group] | (weight > 0)
            ends = (links.tail, links.head)
            yield ~bottleneck(dissemination(ranks, weight, *ends, capacity)).side


def _halves(travel: NDArray[np.int64]) -> Iterator[NDArray[np.bool_]]:
    """The nodes that are so much farther from one corner than from another."""
    corners = [0]
    while len(corners) < _MAX_CORNERS:
        corners.append(int(travel[corners].min(axis=0).argmax()))
    for corner, other in combinations(corners, 2):
        farther = travel[corner] - travel[other]
        for least in np.unique(farther)[1:].tolist():
            yield farther >= least


def _entry(
    problem: ChunkProblem,
    travel: NDArray[np.int64],
    counts: NDArray[np.float64],
    inside: NDArray[np.bool_],
) -> int:
    """When all that is lacking can have entered a set of nodes and gone where it must."""
    links = problem.links
    hit = (problem.wanted & inside).any(axis=1)
    crossing = counts[~inside][:, hit]
    enters = np.flatnonzero(~inside[links.tail] & inside[links.head])
    need = int(crossing.sum())
    if not need:
        return 0
    times = links.busy[enters], links.delay[enters]
    least_time = for_work(kernels.least_time, 20 * len(enters))
    time = int(least_time(0, len(enters), *times, 0, need, 0))
    reach = travel[np.unique(links.head[enters])].copy()
    reach[reach < 0] = _FAR
    onward = reach.min(axis=0)
    groups = np.flatnonzero(hit)[crossing.any(axis=0)]
    last = np.where(problem.wanted[groups] & inside, onward, 0).max(axis=1)
    return time + int(last.min())


def allreduce_bound(
    sums: ChunkProblem, copies: ChunkProblem, to_root: NDArray[np.int64], travel: NDArray[np.int64]
) -> int:
    """What no reduce-scatter and then allgather of these chunks can beat, in ticks.

    A chunk is summed up at its root before it is copied from there, and crosses a link into every
    other node of its group in each half; ``to_root`` are travel times over reversed links.
    """
    links, hosts = copies.links, copies.wanted[copies.group]
    far = [
        np.where(hosts, times[problem.source], 0).max(axis=1)
        for problem, times in ((sums, to_root), (copies, travel))
    ]
    least = int((far[0] + far[1]).max(initial=0))
    # A node gets all other chunks, and of its own at least one contribution.
    need = hosts.sum(axis=0)
    least = max(least, _over_in_links(links, 4, np.arange(links.num_nodes + 1), 0 * need, need))
    total = for_work(kernels.least_time, 40 * links.num_links)
    every = 2 * int(hosts.sum() - len(hosts))
    return int(total(0, links.num_links, links.busy, links.delay, 0, every, least))


# Exact search: whether transfers can do what is wanted in so many ticks, as clauses.
#
# A variable is a transfer of a chunk that starts on a link at a tick, or that a node has a chunk
# by a tick. Starts in whole ticks lose nothing, for every schedule can be shifted to sums of
# durations.


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
    if outcome != search_kernels.SATISFIED:
        return False if outcome == search_kernels.IMPOSSIBLE else None
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
        solve: Callable[..., Any] = compiled(search_kernels.solve)
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
