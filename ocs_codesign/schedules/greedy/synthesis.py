"""Greedy synthesis of any collective: its transfers in time, with what none can beat."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.circuits import Timed
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.core.demand import demands_of
from ocs_codesign.core.given import takes_topology
from ocs_codesign.core.progress import tell
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.shown import Brief
from ocs_codesign.core.topology import Topology, places
from ocs_codesign.schedules.greedy import kernels, search_kernels
from ocs_codesign.schedules.greedy.bounds import (
    MAX_STARTS,
    allreduce_bound,
    check_reach,
    cut_bound,
    in_time,
    num_starts,
    quick_bound,
    travel_times,
)
from ocs_codesign.schedules.greedy.orbit import one_orbit, one_orbit_of_moves
from ocs_codesign.schedules.greedy.problem import (
    BLOCKING,
    MAX_ENTRIES,
    MODELS,
    PIPELINED,
    ChunkTransfers,
    links_of_network,
    links_of_topology,
    problem_of,
    unrolled,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.core.demand import Demand
    from ocs_codesign.core.network import Network
    from ocs_codesign.schedules.greedy.problem import ChunkProblem, TickLinks


# One matching after another, each with its own random ties, until none can be better.


NEVER = 2**62


def matched(
    problem: ChunkProblem, travel: NDArray[np.int64], seed: int, restart: int, limit: int = NEVER
) -> ChunkTransfers | None:
    """Transfers that do what is wanted before tick ``limit``; None if this matching does not."""
    rng = np.random.default_rng([seed, restart])
    make = _moves if problem.is_move else _copies
    if restart % 2 and problem.links.delay.any():
        # As if links were held until arrival: events stay together, and some schedules shorter.
        held = replace(problem, links=problem.links.blocking())
        made = make(held, travel, rng, NEVER, restart)
        return made and made.by_start().as_early(problem.links, problem.num_chunks)
    return make(problem, travel, rng, limit, restart)


def _copies(
    problem: ChunkProblem,
    travel: NDArray[np.int64],
    rng: np.random.Generator,
    limit: int,
    restart: int,
) -> ChunkTransfers | None:
    links, chunks = problem.links, problem.num_chunks
    # Fast links choose first.
    columns = links.indexed(rng.random(links.num_links), links.ticks)
    state = _roles(problem, travel, slack=restart % 3)
    most = int((state != kernels.BARRED).sum()) - chunks
    has_relays = bool((state == kernels.RELAYS).any())
    rows = np.empty((3, most), dtype=np.int64)
    random = rng.integers(1, 2**31, 1)
    loop = for_work(kernels.match_copies, 8 * most)
    done = loop(columns, problem.source, state, rng.permutation(chunks), random, limit, rows)
    if done < 0:
        return None
    found = ChunkTransfers(*rows[:, :done])
    return found.used(problem) if has_relays else found


def _roles(problem: ChunkProblem, travel: NDArray[np.int64], slack: int) -> NDArray[np.int8]:
    """What every node has to do with every chunk, shape (N, chunks).

    Nodes that do not want a chunk pass it on where that is a way to one that does, longer than the
    shortest by at most ``slack`` times the slowest link.
    """
    wanted, source = problem.wanted[problem.group].T, problem.source
    roles = np.where(wanted, np.int8(kernels.WANTS), np.int8(kernels.BARRED))
    if not wanted.all():
        far = np.where(travel < 0, NEVER // 4, travel)
        longest = slack * int(problem.links.ticks.max(initial=0))
        for kind in np.unique(source * len(problem.wanted) + problem.group):
            root, group = divmod(int(kind), len(problem.wanted))
            to = np.flatnonzero(problem.wanted[group])
            detour = far[root][:, None] + far[:, to] - far[root, to]
            passes = (detour <= longest).any(axis=1) & ~problem.wanted[group]
            mine = np.flatnonzero((source == root) & (problem.group == group))
            roles[np.ix_(np.flatnonzero(passes), mine)] = kernels.RELAYS
    roles[source, np.arange(len(source))] = kernels.HAS
    return roles


def _moves(
    problem: ChunkProblem,
    travel: NDArray[np.int64],
    rng: np.random.Generator,
    limit: int,
    restart: int,
) -> ChunkTransfers | None:
    links, target = problem.links, problem.target()
    # Detours every third time: what is closer may be on a faster way that others need.
    slack = int(links.ticks.max(initial=0)) if restart % 3 == 2 else 0
    ways = travel[problem.source, target] + slack
    most = int((ways // links.ticks.min()).sum())
    rows = np.empty((3, most), dtype=np.int64)
    random = rng.integers(1, 2**31, 1)
    nodes, tie = links.num_nodes, rng.permutation(links.num_nodes)
    top, below = np.full((nodes, nodes), -1), np.full(problem.num_chunks, -1)
    moves = kernels.Moves(target, travel, slack, tie, top, below)
    loop = for_work(kernels.match_moves, most * nodes // 4)
    done = loop(links.indexed(), problem.source, moves, random, limit, rows)
    return None if done < 0 else ChunkTransfers(*rows[:, :done])


# Local repair: what was found, with some chunks taken out and put back where they are earlier.


_WORK = 40_000_000
_MAX_ROUNDS = 4_000


def repaired(problem: ChunkProblem, found: ChunkTransfers, least: int, seed: int) -> ChunkTransfers:
    """Transfers that take no longer; the search ends when they take ``least`` ticks."""
    links, chunks = problem.links, problem.num_chunks
    rounds = min(_MAX_ROUNDS, _WORK // (links.num_links * (chunks + 64)))
    if rounds < 1:
        return found
    order = np.lexsort((found.start, found.link))
    count = np.bincount(found.link, minlength=links.num_links)
    link, place = places(0 * count, count)
    begun = np.zeros((links.num_links, chunks), dtype=np.int64)
    what = np.zeros_like(begun)
    begun[link, place] = found.start[order]
    what[link, place] = found.chunk[order]
    latest = np.zeros(chunks, dtype=np.int64)
    np.maximum.at(latest, found.chunk, found.end(links))
    random = np.random.default_rng([seed, 1]).integers(1, 2**31, 1)
    loop = for_work(search_kernels.repair, rounds * links.num_links * 8)
    loop(
        *(problem.source, problem.wanted[problem.group], links.indexed()),
        *(begun, what, count, latest, least, rounds, random),
    )
    link, place = places(0 * count, count)
    return ChunkTransfers(link, what[link, place], begun[link, place]).by_start()


# The search for the fastest transfers: symmetry, matchings with restarts, repair, exact search.


MAX_RESTARTS = 150
_TRANSFERS_IN_ALL = 5_000_000
"""Transfers of all restarts together: some seconds."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class _FoundTransfers:
    """Transfers that do what is wanted, how long they take, and what no others can beat, in ticks.

    ``how`` says what found them: "one orbit", "matching", "repair" or "exact search";
    ``restart`` which matching it was or began with.
    """

    transfers: ChunkTransfers
    ticks: int
    bound: int
    how: str
    restart: int

    @property
    def is_optimal(self) -> bool:
        """Whether none can be faster."""
        return self.ticks == self.bound


def search(problem: ChunkProblem, seed: int = 0) -> _FoundTransfers:
    """The fastest transfers that are found, the same for the same seed.

    Raises ValueError if a node is out of reach, or for more than can be searched.
    """
    links, step = problem.links.in_steps()
    small = replace(problem, links=links)
    entries = problem.num_chunks * max(links.num_nodes, links.num_links)
    if not problem.is_move and entries > 4 * MAX_ENTRIES:
        raise ValueError(
            f"{problem.num_chunks:,} chunks over {links.num_links:,} links: too large for greedy "
            "synthesis"
        )
    found = _searched(small, seed)
    transfers = replace(found.transfers, start=found.transfers.start * step).by_start()
    return replace(found, transfers=transfers, ticks=found.ticks * step, bound=found.bound * step)


def _searched(problem: ChunkProblem, seed: int) -> _FoundTransfers:
    travel = travel_times(problem.links)
    check_reach(problem, travel)
    found = _matched(problem, travel, seed)
    if found.is_optimal:
        return found
    found = replace(found, bound=max(found.bound, cut_bound(problem, travel)))
    if not found.is_optimal:
        found = _better(
            problem, found, "repair", repaired(problem, found.transfers, found.bound, seed)
        )
    while not found.is_optimal and num_starts(problem, travel, found.ticks - 1) <= MAX_STARTS:
        answer = in_time(problem, travel, found.ticks - 1)
        if not isinstance(answer, ChunkTransfers):
            return found if answer is None else replace(found, bound=found.ticks)
        found = _better(problem, found, "exact search", answer)
    return found


def _better(
    problem: ChunkProblem, found: _FoundTransfers, how: str, transfers: ChunkTransfers
) -> _FoundTransfers:
    """What was found, or other transfers if they take less time."""
    ticks = transfers.total_ticks(problem.links)
    if ticks >= found.ticks:
        return found
    return replace(found, transfers=transfers, ticks=ticks, how=how)


def _matched(problem: ChunkProblem, travel: NDArray[np.int64], seed: int) -> _FoundTransfers:
    """The best of one matching after the other; the bound that ends them is a quick one."""
    least, found = quick_bound(problem, travel), None
    if problem.is_move:
        alike = one_orbit_of_moves(problem, travel, seed)
    else:
        alike = one_orbit(problem, least, seed)
    if alike is not None:
        found = _FoundTransfers(alike, alike.total_ticks(problem.links), least, "one orbit", 0)
    restarts, at = MAX_RESTARTS, 0
    while at < restarts and not (found and found.is_optimal):
        limit = NEVER if found is None else found.ticks
        if found is not None and at % 2:
            limit = least + 1  # slow links are left alone sooner
        transfers = matched(problem, travel, seed, at, limit)
        if transfers is not None:
            restarts = min(restarts, max(2, _TRANSFERS_IN_ALL // len(transfers.link)))
            ticks = transfers.total_ticks(problem.links)
            if found is None or ticks < found.ticks:
                found = _FoundTransfers(transfers, ticks, least, "matching", at)
        at += 1
        tell(at, restarts)
    if found is None:
        raise RuntimeError("no matching brings everything where it must be")
    return found


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Synthesis(Brief):
    """Transfers in time: ``timed`` takes ``ticks``, under a ``model`` of latency.

    No schedule of as many chunks takes less than ``bound`` ticks where every chunk keeps a link to
    itself; an allreduce is compared with those that sum up where these do. ``links`` say what a
    chunk takes on the links of ``timed``; ``schedule`` has the same transfers over the network's
    own links, switches included. ``how`` and ``restart`` tell what found the transfers, from which
    ``seed``.
    """

    timed: Timed
    schedule: Schedule
    ticks: int
    bound: int
    model: str
    links: TickLinks
    seed: int
    how: str
    restart: int

    @property
    def has_unit(self) -> bool:
        """Whether ticks are seconds, and not only relative."""
        return self.links.tick_s is not None

    @property
    def is_optimal(self) -> bool:
        """Whether the bound is met."""
        return self.ticks == self.bound


@takes_topology
def synthesis(
    topology: Topology,
    collective: Collective | str,
    chunks: int = 1,
    seed: int = 0,
    *,
    network: Network | None = None,
    message_bytes: Fraction | None = None,
    model: str = PIPELINED,
) -> Synthesis:
    """The fastest schedule of a collective that is found, a unit of weight cut into ``chunks``.

    ``topology`` is that of the ``network``, if there is one; without a message size times are
    relative and latency is left out, unless the network itself says what a chunk takes. The same
    arguments give the same schedule. Raises ValueError for what does not fit, and if a host is out
    of reach.

    >>> from ocs_codesign.core.collective import Collective
    >>> from ocs_codesign.core.topology import Topology, places
    >>> ring = Topology(4, [0, 1, 2, 3] * 2, [1, 2, 3, 0, 3, 0, 1, 2])
    >>> made = synthesis(ring, Collective.ALLREDUCE)
    >>> made.ticks, made.bound, made.schedule.num_steps
    (4, 4, 4)
    """
    if chunks < 1:
        raise ValueError(f"{chunks} chunks: there is at least one")
    if model not in MODELS:
        raise ValueError(f"model is {model!r}: it must be one of {', '.join(MODELS)}")
    hosts = topology.num_nodes if network is None else network.num_hosts
    collective = Collective.parse(collective)
    demands = demands_of(collective, hosts)
    if network is None and message_bytes is not None:
        raise ValueError("a message takes a time on a network with bandwidths, not on a topology")
    if network is None:
        physical = links_of_topology(topology)
    else:
        units = max(demand.message_units for demand in demands) * chunks
        size = None if message_bytes is None else message_bytes / units
        physical = links_of_network(network, size)
    made = []
    for way in unrolled(network, physical):
        links = way.links.blocking() if model == BLOCKING else way.links
        run = _Run(links, demands, collective, chunks, seed)
        if way.paths is None:
            timed = run.timed(topology)
            schedule, bound = timed.schedule, run.bound()
        else:
            timed = run.timed(_between_hosts(links))
            schedule, bound = run.schedule(topology, way.paths), run.bound_through(way.physical)
        # What is said of how is of the half that was harder to find.
        hardest = max((found for _, found in run.halves), key=lambda found: found.restart)
        made.append(
            Synthesis(
                *(timed, schedule, timed.total_ticks, bound, model, links, seed),
                *(hardest.how, hardest.restart),
            )
        )
    return min(made, key=lambda one: one.timed.total_s)


@final
class _Run:
    """All transfers over some links, with what each half of the demand asks and what was found.

    ``phase`` tells of an allreduce which half a transfer is of.
    """

    def __init__(
        self,
        links: TickLinks,
        demands: tuple[Demand, ...],
        collective: Collective,
        chunks: int,
        seed: int,
    ) -> None:
        problems = [problem_of(demand, links, chunks) for demand in demands]
        if not problems[0].num_chunks:
            raise ValueError("nothing is to be sent: no host wants what another has")
        self.links, self.collective = links, collective
        self.num_chunks = chunks * max(int(demand.item_weight().max()) for demand in demands)
        self.halves = [(problem, search(problem, seed)) for problem in problems]
        self.phase: NDArray[np.int64] | None = None
        self.transfers, *second = [
            found.transfers.mirrored(links, found.ticks) if problem.is_sum else found.transfers
            for problem, found in self.halves
        ]
        if second:
            self._follow_up(second[0])

    def _follow_up(self, second: ChunkTransfers) -> None:
        """Let the second half begin as early as its sums are there."""
        first, (problem, found) = self.transfers, self.halves[0]
        both = ChunkTransfers(
            np.append(first.link, second.link),
            np.append(first.chunk, second.chunk),
            np.append(first.start, second.start + found.ticks),
        )
        start = both.early_starts(self.links, problem.num_chunks)
        order = np.lexsort((both.link, start))
        self.phase = (order >= len(first.link)).astype(np.int64)
        self.transfers = replace(both, start=start).at(order)

    def schedule(
        self, topology: Topology, paths: tuple[tuple[int, ...], ...] | None = None
    ) -> Schedule:
        """The transfers as sends in steps: those that start together, over the links of paths."""
        problem, transfers = self.halves[0][0], self.transfers
        alike = self.links.step_ticks
        if alike is None:
            step = np.unique(transfers.start, return_inverse=True)[1] + 1
        else:
            step = transfers.start // alike + 1
        row, link = np.arange(len(step)), transfers.link
        if paths is not None:
            hops = np.array([len(path) for path in paths])[link]
            row = np.repeat(row, hops)
            link = np.concatenate([paths[number] for number in link.tolist()])
        place = problem.place[transfers.chunk[row]]
        return Schedule(
            *(topology, self.collective, self.num_chunks),
            *(problem.item[transfers.chunk[row]], place, place + 1, link, step[row]),
            None if self.phase is None else self.phase[row],
            num_hosts=self.links.num_nodes,
        )

    def timed(self, topology: Topology) -> Timed:
        """The transfers with their times, of which a tick without a unit is a second."""
        transfers, tick = self.transfers, self.links.tick_s or Fraction(1)
        return Timed(self.schedule(topology), transfers.start, transfers.end(self.links), tick)

    def bound(self) -> int:
        """What no transfers over these links can beat."""
        if len(self.halves) == 1:
            return self.halves[0][1].bound
        (sums, first), (copies, second) = self.halves
        times = travel_times(sums.links), travel_times(copies.links)
        return max(first.bound, second.bound, allreduce_bound(sums, copies, *times))

    def bound_through(self, physical: TickLinks) -> int:
        """What none over the links of the network can beat, of which these are paths."""
        bound = 0
        for problem, _ in self.halves:
            over = physical.reversed() if problem.is_sum else physical
            wide = np.zeros((len(problem.wanted), over.num_nodes), dtype=bool)
            wide[:, : self.links.num_nodes] = problem.wanted
            through = replace(problem, links=over, wanted=wide)
            # A switch may send a chunk on while it comes in: only latencies add up on the way.
            passing = travel_times(replace(over, busy=np.zeros_like(over.busy)))
            bound = max(bound, quick_bound(through, passing), cut_bound(through, passing))
        return bound


def _between_hosts(links: TickLinks) -> Topology:
    """The topology of links between hosts, their speeds where they are whole numbers."""
    whole = lcm(*np.unique(links.busy).tolist())
    speeds = whole // links.busy if whole < 2**31 else None
    return Topology(links.num_nodes, links.tail, links.head, speeds)
