"""Which chunk is where at first and who must get it: a demand cut into chunks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, gcd, lcm
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.core.demand import MOVE, SUM, mirrored_demand
from ocs_codesign.core.quantities import parse_bandwidth
from ocs_codesign.schedules.forest.optimum import optimum
from ocs_codesign.schedules.forest.splitting import split_off
from ocs_codesign.schedules.greedy import kernels
from ocs_codesign.schedules.greedy.kernels import Links

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.demand import Demand
    from ocs_codesign.core.network import Network
    from ocs_codesign.core.topology import Symmetry, Topology


MAX_CHUNKS = 2**22
MAX_ENTRIES = 2**27
"""Chunks, and chunks times nodes, that are searched."""


@final
@dataclass(frozen=True, eq=False)
class ChunkProblem:
    """Chunks that are at one node each, and the nodes that must get them, over links.

    Chunk i is at ``source[i]`` and is for the nodes of group ``group[i]`` (int64), those that
    ``wanted[group[i]]`` (bool, groups x nodes) marks. With ``is_move`` it is for one node and at
    one place at a time, else nodes may copy it. ``item`` and ``place`` tell which chunk of which
    item of the demand it is. With ``is_sum`` links and time are reversed: what is to be summed
    up.
    """

    links: TickLinks
    source: NDArray[np.int64]
    group: NDArray[np.int64]
    wanted: NDArray[np.bool_]
    item: NDArray[np.int64]
    place: NDArray[np.int64]
    is_move: bool
    is_sum: bool

    @property
    def num_chunks(self) -> int:
        """Number of chunks."""
        return len(self.source)

    def target(self) -> NDArray[np.int64]:
        """The only node that each chunk is for, where chunks are moved."""
        target: NDArray[np.int64] = self.wanted.argmax(axis=1)[self.group]
        return target

    def mirrored(self) -> ChunkProblem:
        """What is moved, moved back over reversed links."""
        target, nodes = self.target(), self.links.num_nodes
        return replace(
            self,
            links=self.links.reversed(),
            source=target,
            group=self.source,
            wanted=np.eye(nodes, dtype=bool),
        )


def problem_of(demand: Demand, links: TickLinks, chunks_per_unit: int) -> ChunkProblem:
    """The chunks of a demand that lack something; a unit of weight is cut into so many.

    Raises ValueError for kinds that are mixed, for too many chunks, and for a node that is out of
    reach.
    """
    kinds = np.unique(demand.kind).tolist()
    if len(kinds) > 1:
        raise ValueError("greedy synthesis copies, moves or sums up, but one of them at a time")
    is_sum, is_move = kinds == [SUM], kinds == [MOVE]
    if is_sum:
        demand, links = mirrored_demand(demand), links.reversed()
    num_chunks = int(demand.weight.sum()) * chunks_per_unit
    if num_chunks > MAX_CHUNKS:
        raise ValueError(f"{num_chunks:,} chunks in all: at most {MAX_CHUNKS:,} are scheduled")
    units = demand.first_units() * chunks_per_unit
    piece = np.repeat(np.arange(demand.num_pieces), demand.weight * chunks_per_unit)
    item = demand.item_of_piece()[piece]
    place = np.arange(len(piece)) - units[demand.piece_start[item]]
    groups = len(demand.group_start) - 1
    wanted = np.zeros((groups, links.num_nodes), dtype=bool)
    wanted[np.repeat(np.arange(groups), np.diff(demand.group_start)), demand.member] = True
    source, group = demand.root[item].astype(np.int64), demand.group[piece].astype(np.int64)
    lacking = wanted.sum(axis=1)[group] - wanted[group, source] > 0
    return ChunkProblem(
        links,
        source[lacking],
        group[lacking],
        wanted,
        item[lacking],
        place[lacking],
        is_move,
        is_sum,
    )


# Links as greedy synthesis sees them: the ticks that a chunk occupies one and is on the way.


BLOCKING, PIPELINED = "blocking", "pipelined"
MODELS = (PIPELINED, BLOCKING)
"""A chunk holds its link until it has arrived, or until it has left: its latency is on the way."""

MAX_TICKS = 2**46
"""Ticks that a chunk may take on a link: sums of very many of them fit into 64 bits."""


@final
@dataclass(frozen=True, eq=False)
class TickLinks:
    """Links from ``tail`` to ``head`` (int64) that carry one chunk at a time.

    A chunk sent at tick s occupies link i until s + ``busy[i]`` and is there at s + ``busy[i]`` +
    ``delay[i]`` (int64). A tick is ``tick_s`` seconds, None where time has no unit. ``symmetry``
    may be declared, apart from times.
    """

    num_nodes: int
    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    busy: NDArray[np.int64]
    delay: NDArray[np.int64]
    tick_s: Fraction | None = None
    symmetry: Symmetry | None = None

    @property
    def num_links(self) -> int:
        """Number of links."""
        return len(self.tail)

    @property
    def ticks(self) -> NDArray[np.int64]:
        """From the start of a transfer to its arrival, shape (links,)."""
        return self.busy + self.delay

    @cached_property
    def step_ticks(self) -> int | None:
        """Ticks of a transfer where all links are alike and free when it ends, None elsewhere."""
        alike = self.num_links and (self.busy == self.busy[0]).all() and not self.delay.any()
        return int(self.busy[0]) if alike else None

    def reversed(self) -> TickLinks:
        """The same links leading the other way."""
        return replace(self, tail=self.head, head=self.tail)

    def indexed(self, *keys: NDArray[np.generic]) -> Links:
        """The columns for loops; those into a node are sorted by the keys, the last one first."""
        nodes = np.arange(self.num_nodes + 1)
        into, out = np.lexsort((*keys, self.head)), np.argsort(self.tail, kind="stable")
        return Links(
            *(self.tail, self.head, self.busy, self.delay),
            *(np.searchsorted(self.head[into], nodes), into),
            *(np.searchsorted(self.tail[out], nodes), out),
        )

    def blocking(self) -> TickLinks:
        """The same links, each held until the chunk has arrived."""
        return replace(self, busy=self.ticks, delay=np.zeros_like(self.delay))

    def in_steps(self) -> tuple[TickLinks, int]:
        """The same in the longest ticks in which all times are whole, and how many make one."""
        common = int(np.gcd.reduce(np.concatenate([self.busy, self.delay]))) or 1
        return replace(self, busy=self.busy // common, delay=self.delay // common), common


def links_of_topology(topology: Topology) -> TickLinks:
    """Links of a topology, a chunk taking the less the faster a link is; no latency.

    >>> from ocs_codesign.core.topology import Topology
    >>> links_of_topology(Topology(2, [0, 1], [1, 0], [1, 3])).busy.tolist()
    [3, 1]
    """
    speeds = topology.speeds()
    whole = lcm(*np.unique(speeds).tolist())
    if whole > MAX_TICKS:
        raise ValueError(f"the speeds have a common multiple of {whole}: at most {MAX_TICKS}")
    ends = topology.num_nodes, topology.tail, topology.head
    return replace(_links(*ends, whole // speeds, 0 * speeds), symmetry=topology.symmetry)


def links_of_network(network: Network, chunk_bytes: Fraction | None) -> TickLinks:
    """Links of a network that carry chunks of so many bytes, in the longest ticks that are whole.

    A network of ``chunk_ticks`` says itself what a chunk takes. ``chunk_bytes`` of None leaves
    the latency out and counts time relative to the fastest link.

    >>> from ocs_codesign.core.networks.builders import mesh
    >>> links = links_of_network(mesh((2, 2), (100, 50), 500, "GB/s"), Fraction(10**6))
    >>> links.busy.tolist(), links.delay.tolist(), links.tick_s
    ([20, 20, 20, 20, 40, 40, 40, 40], [1, 1, 1, 1, 1, 1, 1, 1], Fraction(1, 2000000))
    """
    ends = network.num_nodes, network.tail, network.head
    if network.chunk_ticks is not None:
        if chunk_bytes is not None:
            raise ValueError("this network says how many ticks a chunk takes, of whatever size")
        return _links(*ends, network.chunk_ticks, network.latency, network.tick_s)
    widths, wide = np.unique(network.bandwidth, return_inverse=True)
    waits, wait = np.unique(network.latency, return_inverse=True)
    if chunk_bytes is None:
        busy = [Fraction(1, width) for width in widths.tolist()]
        delay, unit_s = [Fraction(0)] * len(waits), None
    elif not network.unit:
        raise ValueError("bandwidths without a unit, such as GB/s: a message takes no known time")
    else:
        rate = Fraction(parse_bandwidth(f"1{network.unit}"))
        busy = [chunk_bytes / (rate * width) for width in widths.tolist()]
        delay, unit_s = [network.tick_s * ticks for ticks in waits.tolist()], Fraction(1)
    tick = _common_tick(busy + delay)
    holds, ways = (np.array([int(time / tick) for time in times]) for times in (busy, delay))
    return _links(*ends, holds[wide], ways[wait], unit_s and tick * unit_s)


def _common_tick(times: list[Fraction]) -> Fraction:
    """The longest tick of which all times are whole numbers."""
    down = lcm(*(time.denominator for time in times))
    tick = Fraction(gcd(*(int(time * down) for time in times)) or 1, down)
    if max(times, default=Fraction(0)) / tick > MAX_TICKS:
        raise ValueError(
            f"the links' times have no common tick of which each takes at most {MAX_TICKS}"
        )
    return tick


def _links(
    num_nodes: int,
    tail: NDArray[np.int32],
    head: NDArray[np.int32],
    busy: NDArray[np.int64],
    delay: NDArray[np.int64],
    tick_s: Fraction | None = None,
) -> TickLinks:
    ends = tail.astype(np.int64), head.astype(np.int64)
    return TickLinks(num_nodes, *ends, busy.astype(np.int64), delay.astype(np.int64), tick_s)


# Transfers: which link carries which chunk from when on.


@final
@dataclass(frozen=True, slots=True, eq=False)
class ChunkTransfers:
    """Transfer i sends ``chunk[i]`` over ``link[i]`` from ``start[i]`` on (int64), by start."""

    link: NDArray[np.int64]
    chunk: NDArray[np.int64]
    start: NDArray[np.int64]

    def end(self, links: TickLinks) -> NDArray[np.int64]:
        """When each has arrived."""
        return self.start + links.ticks[self.link]

    def total_ticks(self, links: TickLinks) -> int:
        """When the last has arrived."""
        return int(self.end(links).max(initial=0))

    def at(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> ChunkTransfers:
        """Some of them."""
        return ChunkTransfers(self.link[rows], self.chunk[rows], self.start[rows])

    def by_start(self) -> ChunkTransfers:
        """The same in the order of starts, and of links."""
        return self.at(np.lexsort((self.link, self.start)))

    def mirrored(self, links: TickLinks, total: int) -> ChunkTransfers:
        """The same read backwards from a tick on: over reversed links."""
        return ChunkTransfers(self.link, self.chunk, total - self.end(links)).by_start()

    def used(self, problem: ChunkProblem) -> ChunkTransfers:
        """Without those that bring what is neither wanted nor sent on, each as early as it can."""
        links = problem.links
        needs = problem.wanted[problem.group].copy()
        keep = np.zeros(len(self.link), dtype=bool)
        ends = links.tail[self.link], links.head[self.link]
        loop = for_work(kernels.mark_used, len(self.link))
        loop(*ends, self.chunk, needs, keep)
        return self.at(keep).as_early(links, problem.num_chunks)

    def as_early(self, links: TickLinks, num_chunks: int) -> ChunkTransfers:
        """Every transfer as early as its sender and its link are ready, in this order."""
        return ChunkTransfers(
            self.link, self.chunk, self.early_starts(links, num_chunks)
        ).by_start()

    def early_starts(self, links: TickLinks, num_chunks: int) -> NDArray[np.int64]:
        """The first ticks at which senders and links are ready, if none overtakes on a link.

        Of what is summed up a sender has all once the last contribution has come.
        """
        start = np.empty_like(self.start)
        ready = np.zeros((links.num_nodes, num_chunks), dtype=np.int64)
        free = np.zeros(links.num_links, dtype=np.int64)
        loop = for_work(kernels.start_early, len(start))
        loop(links.indexed(), self.link, self.chunk, ready, free, start)
        return start


# Switches unrolled: links between hosts alone, paths through switches with a part of their rate.
#
# Parts are divided for ever, although not all links are busy at all times: what is found over
# them is an upper bound.


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Unrolled:
    """Links between hosts, number i over the network's links ``paths[i]``, None: over itself.

    A tick of the network's own ``physical`` links is the same as theirs.
    """

    links: TickLinks
    paths: tuple[tuple[int, ...], ...] | None
    physical: TickLinks


def unrolled(network: Network | None, physical: TickLinks) -> Iterator[_Unrolled]:
    """The ways to do without switches, if there are any, each with links at their exact rates.

    A star of equal hosts becomes links to d others each, for d that divide all others, at 1/d of
    the rate. The switches of any network are split off as those of forests are. Raises ValueError
    if hosts cannot reach each other.
    """
    if network is None or network.num_hosts == network.num_nodes:
        yield _Unrolled(physical, None, physical)
        return
    hosts, alike = network.num_hosts, (physical.busy == physical.busy[:1]).all()
    up, down = (
        np.flatnonzero((end < hosts) & (other == hosts))
        for end, other in ((network.tail, network.head), (network.head, network.tail))
    )
    is_star = network.num_nodes == hosts + 1 and network.num_links == 2 * hosts == 2 * len(up)
    if is_star and alike and len(np.unique(network.tail[up])) == hosts == len(down):
        out = up[np.argsort(network.tail[up])].tolist()
        into = down[np.argsort(network.head[down])].tolist()
        for offsets in (number for number in range(1, hosts) if (hosts - 1) % number == 0):
            pairs = [(i, (i + g) % hosts) for g in range(1, offsets + 1) for i in range(hosts)]
            paths = [(out[tail], into[head]) for tail, head in pairs]
            rates = [Fraction(1, offsets)] * len(pairs)
            yield _over(physical, hosts, pairs, rates, paths, network.chunk_ticks is not None)
        return
    yield _split(network, physical)


def _split(network: Network, physical: TickLinks) -> _Unrolled:
    """Switches split off so that an allgather in many pieces stays as fast as it is."""
    found = optimum(network, Collective.ALLGATHER)
    whole, problem = found.whole(0), found.tasks[0].problem
    ends = found.tasks[0].ends(network)
    links = replace(problem, tail=ends[0], head=ends[1], capacity=whole.capacity)
    arcs = split_off(links, whole.num_trees)
    scale = whole.inv_rate * arcs.num_trees
    is_host = (arcs.tail < network.num_hosts) & (arcs.head < network.num_hosts)
    live = np.flatnonzero((arcs.capacity > 0) & is_host & (arcs.tail != arcs.head))
    path_start, on_path = arcs.paths(live)
    paths = [tuple(path.tolist()) for path in np.split(on_path, path_start[1:-1])]
    rates = [
        Fraction(part) / scale / int(network.bandwidth[path[0]])
        for part, path in zip(arcs.capacity[live].tolist(), paths, strict=True)
    ]
    between = list(zip(arcs.tail[live].tolist(), arcs.head[live].tolist(), strict=True))
    ticks_given = network.chunk_ticks is not None
    return _over(physical, network.num_hosts, between, rates, paths, ticks_given)


def _over(
    physical: TickLinks,
    num_hosts: int,
    pairs: list[tuple[int, int]],
    rates: list[Fraction],
    paths: Sequence[tuple[int, ...]],
    ticks_given: bool,
) -> _Unrolled:
    """Links over paths with a part of the rate of their first links; in finer ticks if need be.

    Where ticks are given they stay, and links take the next whole number of them.
    """
    busy = [int(physical.busy[path[0]]) / rate for rate, path in zip(rates, paths, strict=True)]
    finer = 1 if ticks_given else lcm(*{time.denominator for time in busy})
    if finer * max(busy) > MAX_TICKS:
        finer = 1  # times are rounded up then
    delay = np.array([sum(physical.delay[list(path)].tolist()) for path in paths])
    ends: NDArray[np.int64] = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    tick = None if physical.tick_s is None else physical.tick_s / finer
    links = TickLinks(
        num_hosts,
        ends[:, 0],
        ends[:, 1],
        np.array([ceil(time * finer) for time in busy], dtype=np.int64),
        delay.astype(np.int64) * finer,
        tick,
    )
    hold, wait = physical.busy * finer, physical.delay * finer
    own = replace(physical, busy=hold, delay=wait, tick_s=tick, symmetry=None)
    return _Unrolled(links, tuple(paths), own)
