"""Messages of a job placed on a network: transfers over its links, in columns of a loop."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.routes import shortest_routes
from ocs_codesign.runs import before, places, starts_of
from ocs_codesign.topology import Topology
from ocs_codesign.workload.issue import members_of
from ocs_codesign.workload.job_graph import JobGraph
from ocs_codesign.workload.stand_ins import links_under

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from ocs_codesign.network import Network
    from ocs_codesign.simulate.rules import TimingRules
    from ocs_codesign.workload.link_plans import MessagePlans
    from ocs_codesign.workload.patterns import GroupPattern

MAX_STATES = 2**28


@final
@dataclass(frozen=True, slots=True, eq=False)
class PlacedMessages:
    """Messages on a network: of every instance of a job its shape, -1 for one that takes a time.

    A shape is a pattern on certain ranks with a size M; ``names`` say what it is, ``group_of`` has
    the same number for those on the same ranks (int64, shapes). ``column``
    (shapes, 5) and ``columns`` are what the loop of events reads. ``busiest`` (int64, shapes) are
    the ticks that the busiest link of a shape sends, ``used_start``, ``used_link`` and ``used``
    the links that it uses, as a CSR, and for how many ticks.
    """

    network: Network
    rules: TimingRules
    shape_of: NDArray[np.int64]
    names: tuple[str, ...]
    group_of: NDArray[np.int64]
    column: NDArray[np.int64]
    columns: tuple[NDArray[Any], ...]
    busiest: NDArray[np.int64]
    used_start: NDArray[np.int64]
    used_link: NDArray[np.int64]
    used: NDArray[np.int64]
    used_hops: NDArray[np.int64]

    @property
    def num_transfers(self) -> int:
        """Transfers of an iteration."""
        sizes = self.column[:, 1]
        return int(sizes[self.shape_of[self.shape_of >= 0]].sum())

    def shapes_on(self, link: int) -> NDArray[np.int64]:
        """The shapes that send over a link, ascending."""
        owner = np.repeat(np.arange(len(self.column)), np.diff(self.used_start))
        found: NDArray[np.int64] = owner[self.used_link == link]
        return found

    def link_ticks(self, shape_of: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Ticks that every link sends if each instance runs once (links,)."""
        return self._summed(self.used, shape_of)

    def link_hops(self, shape_of: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Messages over every link if each instance runs once (links,)."""
        return self._summed(self.used_hops, shape_of)

    def _summed(
        self, values: NDArray[np.int64], shape_of: NDArray[np.int64] | None
    ) -> NDArray[np.int64]:
        which = self.shape_of if shape_of is None else shape_of
        times = np.bincount(which[which >= 0], minlength=len(self.column))
        total = np.zeros(self.network.num_links, dtype=np.int64)
        np.add.at(total, self.used_link, values * np.repeat(times, np.diff(self.used_start)))
        return total


def placed(
    graph: JobGraph,
    network: Network,
    rules: TimingRules,
    plans: MessagePlans,
    which: NDArray[np.bool_] | None = None,
) -> PlacedMessages:
    """The messages of a job on a network, rank r on host r; what has no bytes takes its time.

    Only the instances ``which`` (bool, instances) are placed, if it is given.
    Ranks of a pair that no link joins send over the shortest path. Raises ValueError for a network
    of too few hosts, rules that cost nodes something, and classes whose ranks form groups of their
    own side by side, which is not known from the class.
    """
    if not rules.is_free_at_ends:
        raise ValueError("jobs are simulated on links: nodes take nothing for sends and receives")
    num_ranks = int(graph.ranks.sum())
    if num_ranks > network.num_hosts:
        raise ValueError(f"{num_ranks} ranks on a network of {network.num_hosts} hosts")
    shape_of, messages = _shapes(graph, plans, which)
    patterns = {}
    for name, ranks, _ in messages:
        if (name, len(ranks)) not in patterns:
            patterns[name, len(ranks)] = plans.pattern(name, len(ranks), network)
    rows = {key: at for at, key in enumerate(patterns)}
    row_start = starts_of(np.array([one.num_rows for one in patterns.values()], dtype=np.int64))
    joined, path_of = _paths(network, patterns, messages)
    classes, busy, flight, link_class = _ticks(network, rules, patterns, messages)
    column = np.zeros((len(messages), 5), dtype=np.int64)
    numbers = [rows[name, len(ranks)] for name, ranks, _ in messages]
    column[:, 1] = np.diff(row_start)[numbers] if messages else 0
    column[:, 2] = row_start[numbers] if messages else 0
    column[:, 3] = path_of
    column[:, 4] = [classes[name, len(ranks), size][1] for name, ranks, size in messages]
    column[:, 0] = starts_of(column[:, 1])[:-1]
    size_class = [np.unique(one.size, return_inverse=True)[1] for one in patterns.values()]
    columns = (
        *_joined(patterns.values(), size_class),
        *(joined[0], joined[1], link_class, busy, flight),
    )
    used = _used(column, columns, network.num_links)
    busiest = np.zeros(len(messages), dtype=np.int64)
    np.maximum.at(busiest, np.repeat(np.arange(len(messages)), np.diff(used[0])), used[2])
    names = tuple(", ".join(name) for name, _, _ in messages)
    number: dict[tuple[int, ...], int] = {}
    groups = [number.setdefault(ranks, len(number)) for _, ranks, _ in messages]
    group_of = np.array(groups, dtype=np.int64)
    return PlacedMessages(
        network, rules, shape_of, names, group_of, column, columns, busiest, *used
    )


def _shapes(
    graph: JobGraph, plans: MessagePlans, wanted: NDArray[np.bool_] | None
) -> tuple[NDArray[np.int64], list[tuple[tuple[str, ...], tuple[int, ...], int]]]:
    """The shape of every instance, and of every shape what sends, its ranks and its bytes."""
    start, members = members_of(graph)
    first_rank = starts_of(graph.ranks)
    number: dict[tuple[tuple[str, ...], tuple[int, ...], int], int] = {}
    of_group: dict[int, tuple[int, ...]] = {}
    shape_of = np.full(graph.num_instances, -1, dtype=np.int64)
    for which, (low, high) in enumerate(pairwise(start.tolist())):
        node = int(members[low])
        size = int(graph.size_bytes[node])
        if size == 0 or (wanted is not None and not wanted[which]):
            continue
        group = int(graph.group[node])
        if group < 0:
            ranks = tuple(first_rank[graph.owner[members[low:high]]].tolist())
            alone = (graph.ranks[graph.owner[members[low:high]]] == 1).all()
        else:
            owners = graph.group_owner[graph.group_start[group] : graph.group_start[group + 1]]
            alone = int(graph.ranks[owners].sum()) == int(graph.group_size[group])
            if alone and group not in of_group:
                run = places(first_rank[owners], graph.ranks[owners])[1]
                of_group[group] = tuple(run.tolist())
            ranks = of_group.get(group, ())
        if not alone:
            raise ValueError(
                f"{graph.told(node)} is of a class of {graph.ranks[graph.owner[node]]} like ranks: "
                "over links every rank is simulated by itself"
            )
        label = graph.labels[graph.label[node]]
        key = plans.name(int(graph.kind[node]), ranks, size, label), ranks, size
        shape_of[which] = number.setdefault(key, len(number))
    return shape_of, list(number)


def _paths(
    network: Network, patterns: dict[Any, GroupPattern], messages: list[Any]
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], list[int]]:
    """Paths of the logical links of all places, and where those of each shape begin."""
    hosts, most = network.num_hosts, 1
    place_of: dict[tuple[Any, tuple[int, ...]], int] = {}
    keys: list[NDArray[np.int64]] = []
    counts: list[int] = []
    for name, ranks, _ in messages:
        pattern = patterns[name, len(ranks)]
        if (name, ranks) in place_of:
            continue
        place_of[name, ranks] = len(counts)
        counts.append(len(pattern.tail))
        if pattern.is_of_network:
            keys.append(-1 - np.arange(len(pattern.tail)))
            continue
        if pattern.names_switches:
            keys.append(-1 - links_under(pattern, ranks, network))
            continue
        at = np.array(ranks, dtype=np.int64)
        ends = at[pattern.tail] * hosts + at[pattern.head]
        turn = before(ends, np.ones_like(ends))
        most = max(most, int(turn.max(initial=0)) + 1)
        keys.append(np.stack([ends, turn]))
    flat = np.concatenate(
        [key if key.ndim == 1 else key[0] * most + key[1] for key in keys]
        or [np.zeros(0, np.int64)]
    )
    asked, number = np.unique(flat[flat >= 0], return_inverse=True)
    topology = Topology(hosts, *np.divmod(asked // most, hosts))
    routes = shortest_routes(topology, network)
    length = np.ones(len(flat), dtype=np.int64)
    first = -1 - flat
    routed = flat >= 0
    length[routed] = np.diff(routes.start)[number]
    first[routed] = routes.start[:-1][number] + network.num_links
    entries = np.concatenate([np.arange(network.num_links), routes.link.astype(np.int64)])
    links = entries[places(first, length)[1]]
    begin = starts_of(np.array(counts, dtype=np.int64))
    return (starts_of(length), links), [
        int(begin[place_of[name, ranks]]) for name, ranks, _ in messages
    ]


def _ticks(
    network: Network, rules: TimingRules, patterns: dict[Any, GroupPattern], messages: list[Any]
) -> tuple[dict[Any, Any], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Ticks of all sizes of messages on all classes of links, and where those of a shape begin."""
    found: dict[Any, tuple[int, int]] = {}
    busy, flight, first = [], [], 0
    link_class = np.zeros(network.num_links, dtype=np.int64)
    for name, ranks, size in messages:
        key = name, len(ranks), size
        if key in found:
            continue
        pattern = patterns[name, len(ranks)]
        sizes = np.unique(pattern.size)
        on_links, flies, of_link = rules.link_ticks(network, pattern.share * size, sizes)
        found[key] = len(sizes), first
        first += len(sizes)
        busy.append(on_links)
        flight.append(flies)
        link_class = of_link.astype(np.int64)
    empty = np.zeros((0, 1), dtype=np.int64)
    return (
        *(found, np.concatenate(busy) if busy else empty),
        *(np.concatenate(flight) if flight else empty, link_class),
    )


def _joined(
    patterns: Iterable[GroupPattern], size_class: list[NDArray[Any]]
) -> tuple[NDArray[Any], ...]:
    """The columns of all patterns one after the other; rows count from 0 in each."""
    every = list(patterns)

    def chained(values: list[NDArray[Any]]) -> NDArray[np.int64]:
        return np.concatenate([np.zeros(0, np.int64), *values]).astype(np.int64)

    follow = starts_of(np.array([len(one.follow) for one in every], dtype=np.int64))
    start = [one.follow_start[:-1] + shift for one, shift in zip(every, follow, strict=False)]
    return (
        *(chained([one.logical for one in every]), chained(size_class)),
        *(chained([one.waits for one in every]), chained([one.compute for one in every])),
        chained([one.following for one in every]),
        np.append(chained(start), follow[-1]),
        chained([one.follow for one in every]),
    )


def _used(
    column: NDArray[np.int64], columns: tuple[NDArray[Any], ...], num_links: int
) -> tuple[NDArray[np.int64], ...]:
    """Of every shape its links, as a CSR, how many ticks it sends over each, and how often."""
    logical, size_class, path_start, path_link, link_class, busy = (
        columns[at] for at in (0, 1, 7, 8, 9, 10)
    )
    links, ticks, hops, counts = [], [], [], []
    for _, rows, first, base, at in column.tolist():
        here = logical[first : first + rows]
        row = np.flatnonzero(here >= 0)
        path = here[row] + base
        which, place = places(path_start[path], (path_start[path + 1] - path_start[path]))
        link = path_link[place]
        lasts = busy[at + size_class[first + row[which]], link_class[link]]
        total, count = np.zeros((2, num_links), dtype=np.int64)
        np.add.at(total, link, lasts)
        np.add.at(count, link, 1)
        some = np.flatnonzero(count)
        links.append(some)
        ticks.append(total[some])
        hops.append(count[some])
        counts.append(len(some))
    empty = np.zeros(0, dtype=np.int64)
    return (
        starts_of(np.array(counts, dtype=np.int64)),
        *(np.concatenate([empty, *parts]) for parts in (links, ticks, hops)),
    )
