"""Rank order: which host every rank of a job is on, so that its groups take least.

Groups of a class (tensor, data, ...) communicate at the same time and share links; classes follow
each other. What a class takes is what its busiest link takes; the time of an order is the sum over
classes. Few ranks are tried in all orders; of many, orders that keep the groups of a class together
are bettered by swaps, and a bound says how far they may be from the best.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ocs_codesign.core.compute.components import strong_components
from ocs_codesign.core.compute.kernels import compiled
from ocs_codesign.core.network import Network, shortest_routes
from ocs_codesign.core.progress import counted
from ocs_codesign.core.proven import Proven
from ocs_codesign.core.topology import Topology, starts_of
from ocs_codesign.jobs.job_graph import COLLECTIVES, FIRST_COLLECTIVE, SEND
from ocs_codesign.jobs.rank_order_kernels import all_orders, grow_cycle, swap_down, total_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.jobs.job_graph import JobGraph

MAX_EXACT = 12
MAX_RANKS, MAX_HOSTS = 4096, 8192
MAX_PLACEMENTS = 20_000_000
SWAPS = 60_000
"""Swaps that are tried from every start, and at most _SWAPS_A_RANK for a rank."""
_SWAPS_A_RANK = 200

_ROUND = {"allgather": 1, "reduce-scatter": 1, "allreduce": 2, "broadcast": 1, "reduce": 1}


class RankTraffic(NamedTuple):
    """Flows between ranks: ``size`` bytes (int64) of a class of communication, by name."""

    names: tuple[str, ...]
    num_ranks: int
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    size: NDArray[np.int64]
    kind: NDArray[np.int64]
    groups: tuple[tuple[tuple[int, ...], ...], ...]


@final
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RankOrder(Proven[Fraction]):
    """The order of least time that was found: rank r is on host ``host[r]`` (int64).

    ``value``, ``bound`` and ``given`` (rank r on host r) are what the classes take together, in
    bytes over a unit of bandwidth; ``times`` and ``given_times`` what each takes.
    """

    network: Network
    traffic: RankTraffic
    host: NDArray[np.int64]
    given: Fraction
    times: tuple[Fraction, ...]
    given_times: tuple[Fraction, ...]


def ring_traffic(
    num_ranks: int, classes: Sequence[tuple[str, Sequence[Sequence[int]], int]]
) -> RankTraffic:
    """The traffic of classes by name, groups of ranks and bytes that a rank hands on round each.

    Raises ValueError for ranks that are none, or twice in a group.
    """
    flows: Counter[tuple[int, int, int]] = Counter()
    for number, (name, groups, size) in enumerate(classes):
        for group in groups:
            if len(set(group)) < len(group) or not all(0 <= one < num_ranks for one in group):
                raise ValueError(f"{name}: a group has different ranks below {num_ranks}")
            for place, rank in enumerate(group if len(group) > 1 else ()):
                flows[number, rank, group[(place + 1) % len(group)]] += size
    names = tuple(name for name, _, _ in classes)
    listed = tuple(tuple(map(tuple, groups)) for _, groups, _ in classes)
    return _traffic(names, num_ranks, flows, listed)


def traffic_of(job: JobGraph) -> RankTraffic:
    """The traffic of a job of ranks: round rings, or to all others, a class for every label.

    Raises ValueError for a job of classes of like ranks.
    """
    if (job.ranks > 1).any():
        raise ValueError("every rank of the job is needed, not classes of like ranks")
    owners = [f"{job.labels[one]}" for one in range(len(job.labels))]
    flows: Counter[tuple[int, int, int]] = Counter()
    used: dict[int, int] = {}
    groups: dict[int, dict[tuple[int, ...], None]] = defaultdict(dict)
    seen: set[int] = set()
    for node in np.flatnonzero((job.kind == SEND) | (job.kind >= FIRST_COLLECTIVE)).tolist():
        instance, kind, size = (
            int(job.instance[node]),
            int(job.kind[node]),
            int(job.size_bytes[node]),
        )
        if instance in seen:
            continue
        seen.add(instance)
        number = used.setdefault(int(job.label[node]), len(used))
        if kind == SEND:
            members = [int(job.owner[one]) for one in np.flatnonzero(job.instance == instance)]
            flows[number, members[0], members[1]] += size
            groups[number][tuple(members)] = None
            continue
        at = int(job.group[node])
        ranks = job.group_owner[job.group_start[at] : job.group_start[at + 1]].tolist()
        groups[number][tuple(ranks)] = None
        for source, target, part in _sent(COLLECTIVES[kind - FIRST_COLLECTIVE], ranks, size):
            flows[number, source, target] += part
    names = tuple(owners[label] or "messages" for label in used)
    ranks = int((job.ranks > 0).sum())
    return _traffic(names, ranks, flows, tuple(tuple(groups[one]) for one in range(len(used))))


def _sent(name: str, ranks: list[int], size: int) -> list[tuple[int, int, int]]:
    """What a collective sends: round a ring, or a piece to everybody."""
    if name == "alltoall":
        part = -(-size // len(ranks))
        return [(one, other, part) for one in ranks for other in ranks if one != other]
    share = size if name in ("broadcast", "reduce") else size * (len(ranks) - 1) // len(ranks)
    after = [*ranks[1:], ranks[0]]
    return [(one, other, _ROUND[name] * share) for one, other in zip(ranks, after, strict=True)]


def _traffic(
    names: tuple[str, ...],
    num_ranks: int,
    flows: Mapping[tuple[int, int, int], int],
    groups: tuple[tuple[tuple[int, ...], ...], ...],
) -> RankTraffic:
    rows = np.array([(*key, size) for key, size in flows.items() if size], dtype=np.int64)
    kind, source, target, size = rows.reshape(-1, 4).T
    return RankTraffic(names, num_ranks, source, target, size, kind, groups)


def rank_order(
    network: Network, traffic: RankTraffic, seed: int = 0, swaps: int = SWAPS
) -> RankOrder:
    """The order of ranks on hosts that takes least, exact for MAX_EXACT ranks and fewer.

    Messages take shortest paths, evenly over switches that stand for each other. Of orders that
    take as long it is one of shorter ways. ``swaps`` are tried from every start. Raises ValueError
    for more ranks than hosts or MAX_RANKS, or more than MAX_HOSTS hosts.

    >>> from ocs_codesign.core.networks.products import leaf_spine
    >>> network = leaf_spine(4, 2, 1, 4, 1)
    >>> job = ring_traffic(8, [("tensor", [(0, 1), (2, 3), (4, 5), (6, 7)], 1),
    ...                        ("data", [(0, 2, 4, 6), (1, 3, 5, 7)], 64)])
    >>> found = rank_order(network, job)
    >>> found.given, found.value, found.is_optimal
    (Fraction(513, 4), Fraction(66, 1), True)
    """
    hosts = network.num_hosts
    if traffic.num_ranks > min(hosts, MAX_RANKS):
        most = f"the network has {hosts} hosts, and {MAX_RANKS} ranks are placed at most"
        raise ValueError(f"{traffic.num_ranks} ranks: {most}")
    if not len(traffic.size):
        raise ValueError("no rank of this job has anything for another: any order is as good")
    if hosts > MAX_HOSTS:
        raise ValueError(f"{hosts} hosts: ranks are placed on {MAX_HOSTS} at most")
    search = _Search(network, traffic, seed)
    best = search.bettered(swaps)
    proof, bound = "swaps", search.bound()
    if traffic.num_ranks <= MAX_EXACT and search.time(best) > bound:
        best, is_all = search.exhausted(best)
        bound, proof = (search.time(best), "all orders") if is_all else (bound, "most orders")
    as_it_is = np.arange(traffic.num_ranks)
    best = min(best, as_it_is, key=lambda host: (search.judged(host), host is not as_it_is))
    times, given = search.times(best), search.times(as_it_is)
    value = sum(times, Fraction(0))
    return RankOrder(
        value,
        min(bound, value),
        "bound" if value == bound and proof == "swaps" else proof,
        network=network,
        traffic=traffic,
        host=best,
        given=sum(given, Fraction(0)),
        times=times,
        given_times=given,
    )


class _Search:
    """Ways between hosts and flows as kernels read them."""

    def __init__(self, network: Network, traffic: RankTraffic, seed: int) -> None:
        self.network, self.traffic = merged_switches(network), traffic
        self.rng = np.random.default_rng(seed)
        hosts, ranks = network.num_hosts, traffic.num_ranks
        pair = np.arange(hosts * hosts)
        tail, head = pair // hosts, pair % hosts
        apart = tail != head
        routes = shortest_routes(Topology(hosts, tail[apart], head[apart]), self.network)
        counts = np.zeros(hosts * hosts, dtype=np.int64)
        counts[apart] = np.diff(routes.start)
        self.way = (starts_of(counts).astype(np.int64), routes.link.astype(np.int64), hosts)
        self.width = self.network.bandwidth.astype(float)
        at = np.concatenate([traffic.source, traffic.target])
        order = np.argsort(at, kind="stable")
        start = starts_of(np.bincount(at, minlength=ranks)).astype(np.int64)
        flow_of = np.tile(np.arange(len(traffic.size)), 2)[order]
        columns = (traffic.source, traffic.target, traffic.size.astype(float), traffic.kind)
        self.flows = (start, flow_of, *columns)

    def loads(self, host: NDArray[np.int64]) -> NDArray[np.int64]:
        """Bytes on every link by class (classes x links)."""
        traffic, (start, link, hosts) = self.traffic, self.way
        found = np.zeros((len(traffic.names), self.network.num_links), dtype=np.int64)
        pair = host[traffic.source] * hosts + host[traffic.target]
        counts = start[pair + 1] - start[pair]
        row = np.repeat(np.arange(len(pair)), counts)
        within = np.arange(len(row)) - np.repeat(starts_of(counts)[:-1], counts)
        np.add.at(found, (traffic.kind[row], link[start[pair][row] + within]), traffic.size[row])
        return found

    def times(self, host: NDArray[np.int64]) -> tuple[Fraction, ...]:
        """What every class takes, exactly."""
        width = self.network.bandwidth
        found = []
        for loads in self.loads(host):
            worst = int(np.argmax(loads / width))
            near = np.flatnonzero(loads / width >= loads[worst] / width[worst] * (1 - 1e-12))
            found.append(max(Fraction(int(loads[one]), int(width[one])) for one in near))
        return tuple(found)

    def time(self, host: NDArray[np.int64]) -> Fraction:
        """What all take together."""
        return sum(self.times(host), Fraction(0))

    def judged(self, host: NDArray[np.int64]) -> tuple[Fraction, int]:
        """What all take together, and the bytes on all links."""
        return self.time(host), int(self.loads(host).sum())

    def bettered(self, swaps: int) -> NDArray[np.int64]:
        """The best of all starts after swaps; the given order stays unless another takes less."""
        ranks = self.traffic.num_ranks
        best = np.arange(ranks)
        least = self.judged(best)
        down = compiled(swap_down)
        for start in counted(self._starts()):
            host, loads = start.copy(), self.loads(start).astype(float)
            tried = min(swaps, _SWAPS_A_RANK * ranks)
            pairs = self.rng.integers(0, ranks, (tried, 2))
            down(host, pairs, self.flows, self.way, self.width, loads)
            if (found := self.judged(host)) < least:
                best, least = host, found
        return best

    def _starts(self) -> list[NDArray[np.int64]]:
        """The given order, and hosts in order, or round a cycle of them, group by group."""
        ranks = np.arange(self.traffic.num_ranks)
        found = [ranks.copy()]
        lines = [np.arange(self.network.num_hosts)]
        cycle = self._cycle()
        if cycle is not None:
            lines.append(cycle)
        for groups in self.traffic.groups:
            listed = [rank for group in groups for rank in group]
            order = np.array([*dict.fromkeys(listed), *sorted(set(ranks.tolist()) - set(listed))])
            for line in lines:
                host = np.empty_like(ranks)
                host[order] = line[: len(order)]
                found.append(host)
        return found

    def _cycle(self) -> NDArray[np.int64] | None:
        """Hosts in a row that are linked one to the next, a closed one if it is found."""
        network = self.network
        if network.num_hosts != network.num_nodes or network.num_nodes < 3:
            return None
        order = np.lexsort((network.head, network.tail))
        start = starts_of(np.bincount(network.tail, minlength=network.num_nodes)).astype(np.int64)
        after = network.head[order].astype(np.int64)
        path = np.zeros(network.num_nodes, dtype=np.int64)
        place = np.empty_like(path)
        choices = self.rng.integers(0, 2**30, 200 * network.num_nodes)
        length = compiled(grow_cycle)(start, after, path, place, choices)
        return path if abs(length) == network.num_nodes else None

    def exhausted(self, best: NDArray[np.int64]) -> tuple[NDArray[np.int64], bool]:
        """The best of all orders, and whether all were seen."""
        traffic = self.traffic
        weight = np.bincount(traffic.source, traffic.size, traffic.num_ranks)
        order = np.argsort(-weight, kind="stable")
        host, loads = best.copy(), self.loads(best).astype(float)
        before = compiled(total_time)(loads, self.width)
        kinds = len(traffic.names)
        _, is_all = compiled(all_orders)(
            *(order, self._twins(), self.flows, self.way, self.width, kinds, before, host),
            MAX_PLACEMENTS,
        )
        return host, bool(is_all)

    def _twins(self) -> NDArray[np.int64]:
        """Hosts with the same number have links of the same widths to the same nodes."""
        network = self.network
        marks = [_links_at(network, host) for host in range(network.num_hosts)]
        number: dict[Any, int] = {}
        return np.array([number.setdefault(mark, len(number)) for mark in marks])

    def bound(self) -> Fraction:
        """What no order takes less than: of every class the busiest rank, and what leaves a switch.

        A switch whose hosts are no whole groups lets out what one rank hands on, at least. Where
        links above some width join fewer hosts than a group has ranks, a message of it takes a
        link of that width or less.
        """
        network, traffic = self.network, self.traffic
        hosts = network.num_hosts
        out = np.zeros(network.num_nodes, dtype=np.int64)
        np.add.at(out, network.tail, network.bandwidth)
        widest = int(out[:hosts].max())
        joined = self._joined_above()
        total = Fraction(0)
        for kind, groups in enumerate(traffic.groups):
            mine = traffic.kind == kind
            sent = np.bincount(traffic.source[mine], traffic.size[mine], traffic.num_ranks)
            least = Fraction(int(sent.max(initial=0)), widest)
            if mine.any():  # a message takes one way, over a link at least
                whole = int(traffic.size[mine].max())
                least = max(least, Fraction(whole, int(network.bandwidth.max())))
                largest, smallest = max(map(len, groups)), int(traffic.size[mine].min())
                narrow = next((width for width, most in joined if most < largest), None)
                least = least if narrow is None else max(least, Fraction(smallest, narrow))
            if traffic.num_ranks == hosts and mine.any():
                sizes = {len(group) for group in groups}
                for count, width in self._leaves():
                    fits = len(sizes) == 1 and count % next(iter(sizes)) == 0
                    if not fits and sum(map(len, groups)) == hosts and len(sizes) == 1:
                        least = max(least, Fraction(smallest, width))
            total += least
        return total

    def _joined_above(self) -> list[tuple[int, int]]:
        """Widths of links, the least first, and the most hosts that wider ones join."""
        network, found = self.network, []
        for width in np.unique(network.bandwidth).tolist():
            wide = network.bandwidth > width
            ends = (network.tail[wide].astype(np.int64), network.head[wide].astype(np.int64))
            part = strong_components(*ends, network.num_nodes)[: network.num_hosts]
            found.append((width, int(np.unique(part, return_counts=True)[1].max())))
        return found

    def _leaves(self) -> list[tuple[int, int]]:
        """Switches with hosts: how many these are, and what leaves the switch elsewhere."""
        network, found = self.network, []
        hosts = network.num_hosts
        for switch in range(hosts, network.num_nodes):
            mine = np.unique(network.tail[(network.head == switch) & (network.tail < hosts)])
            only = all(
                (network.head[network.tail == host] == switch).all() for host in mine.tolist()
            )
            up = (network.tail == switch) & ~np.isin(network.head, mine)
            if len(mine) and only and up.any() and len(mine) < hosts:
                found.append((len(mine), int(network.bandwidth[up].sum())))
        return found


def _links_at(network: Network, node: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Where the links of a node lead, and come from, with their widths."""
    found = []
    for mine, ends in ((network.tail, network.head), (network.head, network.tail)):
        at = np.flatnonzero(mine == node)
        rows = zip(ends[at].tolist(), network.bandwidth[at].tolist(), strict=True)
        found.append(tuple(sorted(rows)))
    return tuple(found)


def merged_switches(network: Network) -> Network:
    """The network in which switches with the same links to the same nodes are one, as wide as all.

    RankTraffic that splits evenly over them takes as long.
    """
    hosts = network.num_hosts
    while True:
        marks: dict[Any, int] = {}
        number = np.arange(network.num_nodes)
        for switch in range(hosts, network.num_nodes):
            out, into = network.tail == switch, network.head == switch
            there = sorted(
                zip(network.head[out].tolist(), network.bandwidth[out].tolist(), strict=True)
            )
            back = sorted(
                zip(network.tail[into].tolist(), network.bandwidth[into].tolist(), strict=True)
            )
            number[switch] = marks.setdefault((tuple(there), tuple(back)), switch)
        kept, place = np.unique(number, return_inverse=True)
        if len(kept) == network.num_nodes:
            return network
        ends = place[network.tail].astype(np.int64) * len(kept) + place[network.head]
        pair, row = np.unique(ends, return_inverse=True)
        width = np.zeros(len(pair), dtype=np.int64)
        np.add.at(width, row, network.bandwidth)
        names = [network.name(node) for node in kept.tolist()]
        network = Network(
            *(hosts, len(kept), pair // len(kept), pair % len(kept), width),
            unit=network.unit,
            names=names,
        )
