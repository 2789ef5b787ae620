"""Greedy synthesis of any collective: its transfers in time, with what none can beat."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.demand import demands_of
from ocs_codesign.given import takes_topology
from ocs_codesign.schedule import Schedule
from ocs_codesign.schedulers.greedy.bounds import (
    allreduce_bound,
    cut_bound,
    quick_bound,
    travel_times,
)
from ocs_codesign.schedulers.greedy.links import (
    BLOCKING,
    MODELS,
    PIPELINED,
    links_of_network,
    links_of_topology,
)
from ocs_codesign.schedulers.greedy.problem import problem_of
from ocs_codesign.schedulers.greedy.search import search
from ocs_codesign.schedulers.greedy.switches import unrolled
from ocs_codesign.schedulers.greedy.transfers import ChunkTransfers
from ocs_codesign.timed import Timed
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ocs_codesign.collective import Collective
    from ocs_codesign.demand import Demand
    from ocs_codesign.network import Network
    from ocs_codesign.schedulers.greedy.links import TickLinks
    from ocs_codesign.schedulers.greedy.problem import ChunkProblem
    from ocs_codesign.schedulers.greedy.search import FoundTransfers
    from ocs_codesign.schedulers.greedy.switches import Unrolled


@final
@dataclass(frozen=True, slots=True, eq=False)
class Synthesis:
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
    collective: Collective,
    chunks: int = 1,
    seed: int = 0,
    *,
    network: Network | None = None,
    message_bytes: Fraction | None = None,
    model: str = PIPELINED,
    on_progress: Callable[[int, int], None] | None = None,
) -> Synthesis:
    """The fastest schedule of a collective that is found, a unit of weight cut into ``chunks``.

    ``topology`` is that of the ``network``, if there is one; without a message size times are
    relative and latency is left out, unless the network itself says what a chunk takes. The same
    arguments give the same schedule. Raises ValueError for what does not fit, and if a host is out
    of reach.

    >>> from ocs_codesign.collective import Collective
    >>> from ocs_codesign.topology import Topology
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
    demands = demands_of(collective, hosts)
    if network is None and message_bytes is not None:
        raise ValueError("a message takes a time on a network with bandwidths, not on a topology")
    if network is None:
        physical = links_of_topology(topology)
    else:
        units = max(demand.message_units for demand in demands) * chunks
        size = None if message_bytes is None else message_bytes / units
        physical = links_of_network(network, size)
    if network is None or hosts == network.num_nodes:
        links = physical.blocking() if model == BLOCKING else physical
        run = _Run.of(links, _halves(demands, links, chunks, seed, on_progress))
        return _direct(topology, collective, chunks, run, model, seed)
    made = []
    for way in unrolled(network, physical):
        links = way.links.blocking() if model == BLOCKING else way.links
        run = _Run.of(links, _halves(demands, links, chunks, seed, on_progress))
        made.append(_through(way, topology, collective, chunks, run, model, seed))
    return min(made, key=lambda one: one.timed.total_s)


_Half = tuple["ChunkProblem", "FoundTransfers"]
"""What a demand asks, and what was found for it."""


def _halves(
    demands: tuple[Demand, ...],
    links: TickLinks,
    chunks: int,
    seed: int,
    on_progress: Callable[[int, int], None] | None,
) -> list[_Half]:
    problems = [problem_of(demand, links, chunks) for demand in demands]
    if not problems[0].num_chunks:
        raise ValueError("nothing is to be sent: no host wants what another has")
    return [(problem, search(problem, seed, on_progress)) for problem in problems]


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """All transfers over some links, those of an allreduce with the half that they are of."""

    links: TickLinks
    transfers: ChunkTransfers
    phase: NDArray[np.int64] | None
    halves: list[_Half]

    @classmethod
    def of(cls, links: TickLinks, halves: list[_Half]) -> _Run:
        """The halves one after the other, the second as early as its sums are there."""
        runs = [
            found.transfers.mirrored(links, found.ticks) if problem.is_sum else found.transfers
            for problem, found in halves
        ]
        if len(runs) == 1:
            return cls(links, runs[0], None, halves)
        first, second = runs
        begin = halves[0][1].ticks
        both = ChunkTransfers(
            np.concatenate([first.link, second.link]),
            np.concatenate([first.chunk, second.chunk]),
            np.concatenate([first.start, second.start + begin]),
        )
        start = both.early_starts(links, halves[0][0].num_chunks)
        order = np.lexsort((both.link, start))
        phase = (order >= len(first.link)).astype(np.int64)
        return cls(links, replace(both, start=start).at(order), phase, halves)

    def schedule(
        self,
        topology: Topology,
        collective: Collective,
        chunks: int,
        paths: tuple[tuple[int, ...], ...] | None = None,
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
            *(topology, collective, self._num_chunks(collective, chunks)),
            *(problem.item[transfers.chunk[row]], place, place + 1, link, step[row]),
            None if self.phase is None else self.phase[row],
            num_hosts=self.links.num_nodes,
        )

    def _num_chunks(self, collective: Collective, chunks: int) -> int:
        demands = demands_of(collective, self.links.num_nodes)
        return chunks * max(int(demand.item_weight().max()) for demand in demands)

    def synthesis(
        self, timed: Timed, schedule: Schedule, bound: int, model: str, seed: int
    ) -> Synthesis:
        """The answer, with what is said of the half that was harder to find."""
        hardest = max((found for _, found in self.halves), key=lambda found: found.restart)
        return Synthesis(
            *(timed, schedule, timed.total_ticks, bound, model, self.links, seed),
            *(hardest.how, hardest.restart),
        )

    def timed(self, schedule: Schedule) -> Timed:
        """The schedule with its times, of which a tick without a unit is a second."""
        transfers, tick = self.transfers, self.links.tick_s or Fraction(1)
        return Timed(schedule, transfers.start, transfers.end(self.links), tick)


def _direct(
    topology: Topology,
    collective: Collective,
    chunks: int,
    run: _Run,
    model: str,
    seed: int,
) -> Synthesis:
    """The answer over links between hosts."""
    schedule = run.schedule(topology, collective, chunks)
    bound = run.halves[0][1].bound
    if len(run.halves) > 1:
        (sums, first), (copies, second) = run.halves
        times = travel_times(sums.links), travel_times(copies.links)
        bound = max(first.bound, second.bound, allreduce_bound(sums, copies, *times))
    return run.synthesis(run.timed(schedule), schedule, bound, model, seed)


def _through(
    way: Unrolled,
    topology: Topology,
    collective: Collective,
    chunks: int,
    run: _Run,
    model: str,
    seed: int,
) -> Synthesis:
    """The answer over links that are paths through switches; bounds are those of the network."""
    links = way.links
    timed = run.timed(run.schedule(_between_hosts(links), collective, chunks))
    bound = 0
    for problem, _ in run.halves:
        over = way.physical.reversed() if problem.is_sum else way.physical
        wide = np.zeros((len(problem.wanted), over.num_nodes), dtype=bool)
        wide[:, : links.num_nodes] = problem.wanted
        through = replace(problem, links=over, wanted=wide)
        # A switch may send a chunk on while it comes in: only latencies add up on the way.
        passing = travel_times(replace(over, busy=np.zeros_like(over.busy)))
        bound = max(bound, quick_bound(through, passing), cut_bound(through, passing))
    schedule = run.schedule(topology, collective, chunks, way.paths)
    return run.synthesis(timed, schedule, bound, model, seed)


def _between_hosts(links: TickLinks) -> Topology:
    """The topology of links between hosts, their speeds where they are whole numbers."""
    whole = lcm(*np.unique(links.busy).tolist())
    speeds = whole // links.busy if whole < 2**31 else None
    return Topology(links.num_nodes, links.tail, links.head, speeds)
