"""A job on links: every message as transfers that queue at the links of a network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, final

import numpy as np

from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.core.network import shortest_routes
from ocs_codesign.core.topology import Topology, before, places, starts_of
from ocs_codesign.jobs.issue import (
    Discipline,
    JobRun,
    Steady,
    issue_rule,
    job_columns,
    members_of,
    period_bound_s,
    raise_stuck,
    steady,
)
from ocs_codesign.jobs.job_draft import JobDraft
from ocs_codesign.jobs.job_graph import COLLECTIVES, FIRST_COLLECTIVE, SEND, JobGraph
from ocs_codesign.jobs.patterns import (
    GroupPattern,
    algorithm_pattern,
    links_under,
    message_pattern,
    plan_pattern,
)
from ocs_codesign.jobs.prices import book_for, check_books
from ocs_codesign.schedules.simulate.columns import (
    Lanes,
    LinkColumns,
    Pieces,
    Places,
    Seen,
    TransferColumns,
)
from ocs_codesign.schedules.simulate.engine import serving
from ocs_codesign.schedules.simulate.event_kernels import run

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.network import Network
    from ocs_codesign.jobs.prices import GroupBook, Machine
    from ocs_codesign.schedules.simulate.transfers import TimingRules


# Messages of a job placed on a network: transfers over its links, in columns of a loop.


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


MAX_LANES = 6
_ROUNDS_A_NODE, _ROUNDS_A_HOP = 12, 10


@final
@dataclass(frozen=True, slots=True, eq=False)
class LinkRun:
    """A job that ran on links: ``job_run``, and what the links of ``placed`` did.

    ``waited`` (int64, links) and ``waited_of`` (int64, instances) are ticks that hops waited behind
    those of other messages. Bars are what the ``lanes``, the busiest links, sent: a link, from when
    until when, and for which instance.
    """

    job_run: JobRun
    placed: PlacedMessages
    shape_of: NDArray[np.int64]
    waited: NDArray[np.int64]
    waited_of: NDArray[np.int64]
    lanes: NDArray[np.int64]
    bar_link: NDArray[np.int64]
    bar_begin: NDArray[np.int64]
    bar_end: NDArray[np.int64]
    bar_instance: NDArray[np.int64]

    def link_busy(self) -> NDArray[np.int64]:
        """Ticks that every link sends."""
        return self.placed.link_ticks(self.shape_of)

    def instance_ticks(self) -> NDArray[np.int64]:
        """Ticks from the begin to the end of every instance."""
        run = self.job_run
        ticks = np.zeros(run.graph.num_instances, dtype=np.int64)
        np.add.at(ticks, run.piece_instance, run.piece_end - run.piece_begin)
        return ticks


def on_clock(graph: JobGraph, tick_s: Fraction) -> JobGraph:
    """The job in ticks of a network's clock; what is no whole number of them is rounded up.

    >>> draft = JobDraft(1)
    >>> node = draft.compute(0, 3)
    >>> on_clock(draft.graph(), Fraction(2, 10**9)).work.tolist()
    [2]
    """
    work, latency = (
        in_ticks(column, graph.tick_s, tick_s) for column in (graph.work, graph.latency)
    )
    return graph.changed(work=work, latency=latency, tick_s=tick_s)


def in_ticks(column: NDArray[np.int64], from_s: Fraction, tick_s: Fraction) -> NDArray[np.int64]:
    """Ticks of ``from_s`` seconds in those of ``tick_s``, rounded up, shape of ``column``."""
    over, under = (from_s / tick_s).as_integer_ratio()
    found = [-(-ticks * over // under) for ticks in column.ravel().tolist()]
    return np.array(found, dtype=np.int64).reshape(column.shape)


def run_on_links(
    graph: JobGraph, placed: PlacedMessages, discipline: Discipline | None = None
) -> LinkRun:
    """The job on the clock of a network, one iteration, or several that are ``unrolled``.

    Messages begin by the discipline as ``issue.run`` has it, when all their ranks have them in
    flight, and are over when their last transfer has ended; links serve hops in the order in which
    they ask, of whatever message. Raises ValueError for preemption, and RanksStuckError if ranks
    wait for each other for ever.
    """
    discipline = discipline or Discipline()
    if discipline.preemptive:
        raise ValueError("what is sent over links is not interrupted")
    if graph.tick_s != placed.network.tick_s:
        raise ValueError("the job is in other ticks than the network")
    times = graph.num_instances // max(len(placed.shape_of), 1)
    shape_of = np.tile(placed.shape_of, times)
    if len(shape_of) != graph.num_instances:
        raise ValueError("these are not the messages of this job")
    num, num_instances, links = graph.num_nodes, graph.num_instances, placed.network.num_links
    total = placed.link_ticks(shape_of)
    lanes = np.argsort(-total, kind="stable")[:MAX_LANES]
    lanes = lanes[total[lanes] > 0]
    hops = placed.link_hops(shape_of)
    lane_of = np.full(links, -1, dtype=np.int64)
    lane_of[lanes] = np.arange(len(lanes))
    bars = np.zeros((4, int(hops[lanes].sum()) + 1), dtype=np.int64)
    pieces = np.zeros((3, num_instances + 1), dtype=np.int64)
    # A message of one rank alone sends nothing, and takes no time.
    is_nothing = np.append(np.append(placed.column[:, 1] == 0, False)[shape_of], False)
    ticks = np.where(is_nothing[graph.instance], 0, graph.ticks)
    columns = job_columns(graph, ticks, np.zeros_like(ticks))
    transfers, on_links, places = _loop_columns(
        placed, np.where(is_nothing[:-1], -1, shape_of), discipline.window
    )
    rounds = _ROUNDS_A_NODE * num + _ROUNDS_A_HOP * int(hops.sum())
    in_flight = np.zeros((2, len(transfers.waits)), dtype=np.int64)
    ended, num_pieces, num_bars = for_work(run, rounds)(
        *(transfers, on_links, serving(placed.rules), Seen(in_flight[0, :0], *in_flight)),
        *(columns, issue_rule(discipline, in_turn=False)),
        *(Pieces(*pieces), places, Lanes(lane_of, *bars)),
    )
    if ended < num:
        raise_stuck(graph, columns.end)
    served = (part[:num_pieces] for part in pieces)
    return LinkRun(
        *(JobRun(graph, columns.start, columns.end, *served), placed, shape_of),
        *(places.waited, places.waited_of, lanes, *(part[:num_bars] for part in bars)),
    )


def _loop_columns(
    placed: PlacedMessages, shape_of: NDArray[np.int64], window: int
) -> tuple[TransferColumns, LinkColumns, Places]:
    """What the loop of events reads of messages, up to a window of each shape in flight."""
    network, shape = placed.network, placed.column.copy()
    shape[:, 0] *= window
    logical, size_class, waits, compute, following, after_start, after = placed.columns[:7]
    path_start, path_link, link_class, busy, flight = placed.columns[7:]
    in_flight = np.zeros((2, window * int(shape[:, 1].sum())), dtype=np.int64)
    nothing = np.zeros(len(busy), dtype=np.int64)
    return (
        TransferColumns(
            *(path_start, path_link, in_flight[0], after_start, after, following, compute),
            *(np.zeros(len(compute), dtype=np.bool_), size_class),
        ),
        LinkColumns(
            *(network.tail, network.head, link_class, busy, flight, nothing, nothing),
            np.zeros(network.num_links, dtype=np.int64),
            np.zeros((3, network.num_nodes), dtype=np.int64),
        ),
        Places(
            *(shape_of, shape, logical, waits, in_flight[1]),
            np.zeros(network.num_links, dtype=np.int64),
            np.zeros(len(shape_of), dtype=np.int64),
        ),
    )


def steady_on_links(
    graph: JobGraph, placed: PlacedMessages, discipline: Discipline | None = None
) -> tuple[Steady, LinkRun]:
    """The period of iterations on links one after the other, and the run that shows it."""
    runs: list[LinkRun] = []

    def run_once(several: JobGraph, chosen: Discipline | None) -> JobRun:
        runs.append(run_on_links(several, placed, chosen))
        return runs[-1].job_run

    return steady(graph, discipline, run_once), runs[-1]


def alone_ticks(placed: PlacedMessages) -> NDArray[np.int64]:
    """Ticks that a message of every shape takes if nothing else is on the links (int64, shapes)."""
    num = len(placed.column)
    if not num:
        return np.zeros(0, dtype=np.int64)
    draft, last = JobDraft(1, tick_s=placed.network.tick_s), list[int]()
    for _ in range(num):
        last = draft.collective("allreduce", (0,), 0, {0: last})
    in_turn = replace(placed, shape_of=np.arange(num))
    return run_on_links(draft.graph(), in_turn).instance_ticks()


def bound_on_links_s(graph: JobGraph, placed: PlacedMessages) -> Fraction:
    """Seconds that an iteration takes at least on these links, in whatever order is sent.

    That of ``period_bound_s``, where a message takes what its busiest link sends, and what the
    busiest link of all sends in an iteration.
    """
    shape = np.append(placed.shape_of, -1)[graph.instance]
    least = np.append(placed.busiest, 0)[shape]
    on_links = (shape >= 0) & graph.is_communication
    bounded = graph.changed(
        work=np.where(on_links, least, graph.work), latency=np.where(on_links, 0, graph.latency)
    )
    busiest = int(placed.link_ticks().max(initial=0)) * placed.network.tick_s
    return max(period_bound_s(bounded), busiest)


# LinkPlans: which transfers a message of a job becomes, by its collective, ranks and bytes.


RING = "ring"


class MessagePlans(Protocol):
    """Whatever says which transfers a message becomes, as LinkPlans do."""

    def name(
        self, kind: int, ranks: tuple[int, ...], size_bytes: int, label: str = ""
    ) -> tuple[str, ...]:
        """What the transfers of a message are of, in words: its collective and its maker."""
        ...

    def pattern(
        self, name: tuple[str, ...], num_ranks: int, network: Network | None = None
    ) -> GroupPattern:
        """The transfers of that name, for so many ranks; links may be those of the ``network``."""
        ...


@final
@dataclass(frozen=True, slots=True)
class LinkPlans:
    """What sends: plans of ``books``, schedules of the machine's topologies, its algorithms.

    A group takes a book of as many ranks, if there is one for its messages. Another one takes, at
    the level of the ``machine`` that it stays in, the best schedule of the topology of its size, or
    else the algorithm of the level; without a machine a ring. Raises ValueError for two books for
    the same messages.
    """

    machine: Machine | None = None
    books: Sequence[GroupBook] = ()

    def __post_init__(self) -> None:
        check_books(self.books)

    def name(
        self, kind: int, ranks: tuple[int, ...], size_bytes: int, label: str = ""
    ) -> tuple[str, ...]:
        """What the transfers of a message are of, in words: its collective and its maker."""
        if kind == SEND:
            return ("send",)
        collective = COLLECTIVES[kind - FIRST_COLLECTIVE]
        at = None if self.machine is None else self.machine.level_of(min(ranks), max(ranks))
        taken = book_for(self.books, collective, len(ranks), label, at)
        if taken is not None:
            page = taken.book.page_of(size_bytes)
            return collective, taken.told, f"from {page.from_bytes} bytes"
        if self.machine is None or at is None:
            return collective, RING
        level = self.machine.levels[at]
        if (collective, len(ranks)) in level.costs and len(ranks) in level.topologies:
            return collective, level.topologies[len(ranks)], "topology"
        return collective, level.algorithm

    def pattern(
        self, name: tuple[str, ...], num_ranks: int, network: Network | None = None
    ) -> GroupPattern:
        """The transfers of that name, for so many ranks; links may be those of the ``network``."""
        if name[0] == "send":
            return message_pattern()
        collective, maker = name[:2]
        for one in self.books:
            if (one.book.collective.name, one.told) == (collective, maker):
                pages = one.book.pages
                page = next(page for page in pages if name[2] == f"from {page.from_bytes} bytes")
                own = one.book.network
                is_own = network is not None and _same_links(network, own)
                return plan_pattern(page.plan, is_of_network=is_own, may_switch=True)
        if len(name) > 2:
            from ocs_codesign.schedules.design import build

            return plan_pattern(build(maker, collective).schedule)
        return algorithm_pattern(maker, collective, num_ranks)


def _same_links(network: Network, other: Network) -> bool:
    """Whether links of the same number join the same nodes in both."""
    mine, its = (
        (one.num_hosts, one.num_nodes, one.tail.tolist(), one.head.tolist())
        for one in (network, other)
    )
    return mine == its
