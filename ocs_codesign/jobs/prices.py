"""What messages of a job take: alpha-beta costs of an algorithm at the level they stay in."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from math import lcm
from typing import TYPE_CHECKING, Protocol, final

import numpy as np

from ocs_codesign.core.cost import Cost, CostModel
from ocs_codesign.core.machines.nccl import MODELS
from ocs_codesign.core.network import shortest_routes
from ocs_codesign.core.plans import Book
from ocs_codesign.core.quantities import exact
from ocs_codesign.core.schedule import Messages, busiest_links
from ocs_codesign.core.topology import Topology, places
from ocs_codesign.jobs.job_graph import COLLECTIVES, FIRST_COLLECTIVE, MAX_TICKS, SEND, JobGraph
from ocs_codesign.jobs.patterns import collective_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.machines.machine import RealMachine
    from ocs_codesign.core.network import Network
    from ocs_codesign.core.networks.aggregation import AggregationProfile
    from ocs_codesign.core.plans import Plan


_TWICE = ("allreduce", "broadcast", "reduce")
FINEST_TICK_S = Fraction(1, 10**12)


def ring_cost(collective: str, num_ranks: int) -> Cost:
    """One neighbour at a time: p - 1 steps of M/p; twice for an allreduce.

    A broadcast is a scatter and an allgather, a reduce the mirror of it.

    >>> ring_cost("allreduce", 4)
    Cost(steps=6, t_b=Fraction(3, 2))
    """
    return _halves(collective, Cost(num_ranks - 1, Fraction(num_ranks - 1, num_ranks)))


def direct_cost(collective: str, num_ranks: int) -> Cost:
    """Every rank sends to all others at once, in one step.

    >>> direct_cost("alltoall", 4)
    Cost(steps=1, t_b=Fraction(3, 4))
    """
    return _halves(collective, Cost(int(num_ranks > 1), Fraction(num_ranks - 1, num_ranks)))


def bruck_cost(collective: str, num_ranks: int) -> Cost:
    """Bruck's algorithm: as few steps as there are; an all-to-all passes pieces on.

    >>> bruck_cost("allgather", 6), bruck_cost("alltoall", 8)
    (Cost(steps=3, t_b=Fraction(5, 6)), Cost(steps=3, t_b=Fraction(3, 2)))
    """
    steps = (num_ranks - 1).bit_length()
    if collective == "alltoall":
        passed = sum(rank.bit_count() for rank in range(num_ranks))
        return Cost(steps, Fraction(passed, num_ranks))
    return _halves(collective, Cost(steps, Fraction(num_ranks - 1, num_ranks)))


ALGORITHMS: dict[str, Callable[[str, int], Cost]] = {
    "ring": ring_cost,
    "direct": direct_cost,
    "bruck": bruck_cost,
}
"""What a collective of so many ranks costs, by the algorithm that makes it."""


@final
@dataclass(frozen=True, slots=True)
class Level:
    """Blocks of ``num_ranks`` consecutive ranks, and what messages inside a block cost.

    Collectives cost what a schedule of ``costs`` does, by name and number of ranks, and without one
    what ``algorithm`` does, one of ALGORITHMS. ``topologies`` are the recipes of those schedules by
    their number of ranks. Where switches of the level have an ``aggregation`` they add up
    allreduces, if that is faster.

    >>> level = Level(8, CostModel(0, 1), costs={("allgather", 4): Cost(2, Fraction(3, 4))})
    >>> level.cost("allgather", 4).steps, level.cost("allgather", 8).steps
    (2, 7)
    """

    num_ranks: int
    model: CostModel
    algorithm: str = "ring"
    costs: Mapping[tuple[str, int], Cost] = field(default_factory=dict)
    topologies: Mapping[int, str] = field(default_factory=dict)
    aggregation: AggregationProfile | None = None

    def __post_init__(self) -> None:
        if self.num_ranks < 1:
            raise ValueError(f"num_ranks of a level is {self.num_ranks}: it is at least 1")
        if self.algorithm not in ALGORITHMS:
            known = ", ".join(ALGORITHMS)
            raise ValueError(f"algorithm is {self.algorithm!r}: it is one of {known}")

    def cost(self, collective: str, num_ranks: int) -> Cost:
        """What a collective of so many ranks costs here."""
        found = self.costs.get((collective, num_ranks))
        return ALGORITHMS[self.algorithm](collective, num_ranks) if found is None else found

    def in_network_s(
        self, collective: str, num_ranks: int, size_bytes: int
    ) -> tuple[Fraction, Fraction] | None:
        """Seconds of an allreduce that switches add up: a round trip, and the rest; None without.

        One step of alpha is the way up and down again, through one switch that adds up.
        """
        profile = self.aggregation
        if profile is None or collective != "allreduce" or num_ranks < 2 or not size_bytes:
            return None
        bandwidth = self.model.node_bandwidth_Bps
        trip_s = profile.round_trip_s(self.model.alpha_s, bandwidth)
        return trip_s, profile.stream_s(size_bytes, bandwidth, trip_s) - trip_s


@final
@dataclass(frozen=True, slots=True)
class Machine:
    """Levels, the innermost first; a message goes over the first one whose block holds its ranks.

    Collectives take what the ``library`` of a real machine does, where that is known. Raises
    ValueError unless every block is made of whole blocks of the level inside it.

    >>> inside, between = CostModel(1e-6, 4e11), CostModel(5e-6, 5e10)
    >>> Machine((Level(8, inside), Level(64, between))).level_of(8, 17)
    1
    """

    levels: tuple[Level, ...]
    library: RealMachine | None = None

    def __post_init__(self) -> None:
        if not self.levels:
            raise ValueError("a machine has a level: what a message between ranks costs")
        sizes = [level.num_ranks for level in self.levels]
        for inner, outer in pairwise(sizes):
            if outer % inner or outer == inner:
                raise ValueError(f"a level of {outer} ranks is not several blocks of {inner}")

    @property
    def num_ranks(self) -> int:
        """Ranks of the whole machine."""
        return self.levels[-1].num_ranks

    def level_of(self, first_rank: int, last_rank: int) -> int:
        """The innermost level whose block holds both; ValueError if none."""
        for number, level in enumerate(self.levels):
            if first_rank // level.num_ranks == last_rank // level.num_ranks:
                return number
        raise ValueError(f"rank {last_rank} is not there: the machine has {self.num_ranks}")

    def aggregating(self, profile: AggregationProfile) -> Machine:
        """The machine whose outermost level adds up like this, if it does not already."""
        *inner, last = self.levels
        last = last if last.aggregation else replace(last, aggregation=profile)
        return replace(self, levels=(*inner, last))

    @classmethod
    def of_library(cls, real: RealMachine, num_ranks: int) -> Machine:
        """A real machine for so many ranks: nodes, and what is between them if there are several.

        >>> from ocs_codesign.core.machines.machine import machine_named
        >>> [level.num_ranks for level in Machine.of_library(machine_named("h100"), 20).levels]
        [8, 24]
        """
        a_node, nodes = real.ranks_a_node, real.nodes_of(num_ranks)
        models = {
            name: real.cost_model(exact(real.number(f"{name}_peak_GBps")) * 10**9, 1, name)
            for name in real.classes
        }
        return cls.of_servers(a_node, nodes, models.get("inside"), models.get("net"), real)

    @classmethod
    def of_servers(
        cls,
        each: int,
        num_servers: int,
        inside: CostModel | None,
        between: CostModel | None,
        library: RealMachine | None = None,
    ) -> Machine:
        """Servers of so many ranks each: what is inside them, and between several of them.

        >>> Machine.of_servers(8, 1, CostModel(0, 4), CostModel(0, 1)).num_ranks
        8
        """
        levels = [Level(each, inside)] if inside is not None and each > 1 else []
        if between is not None and (num_servers > 1 or not levels):
            levels.append(Level(num_servers * each, between))
        return cls(tuple(levels), library)

    def _library_s(
        self, collective: str, num_ranks: int, size_bytes: int, first_rank: int, last_rank: int
    ) -> tuple[Fraction, Fraction] | None:
        """What the library takes for a byte, and the rest; None where that is not known."""
        real = self.library
        if real is None or num_ranks < 2 or not size_bytes:
            return None
        apart = max(1, (last_rank - first_rank) // (num_ranks - 1))
        each = max(1, min(num_ranks, real.ranks_a_node // apart))
        try:
            asked = collective, num_ranks, -(-num_ranks // each), [1, size_bytes]
            times = real.clocked_library(*asked, MODELS[-1])
        except ValueError:
            return None
        least, whole = sorted(exact(time.seconds) for time in times)
        return least, whole - least

    def parts_s(
        self, kind: int, num_ranks: int, size_bytes: int, first_rank: int, last_rank: int
    ) -> tuple[Fraction, Fraction]:
        """Seconds of a message: what every part of it takes, and what is divided among parts."""
        level = self.levels[self.level_of(first_rank, last_rank)]
        model = level.model
        if kind == SEND:
            return model.parts_s(1, Fraction(1), size_bytes)
        name = COLLECTIVES[kind - FIRST_COLLECTIVE]
        cost = level.cost(name, num_ranks)
        by_ranks = model.parts_s(cost.steps, cost.t_b, size_bytes)
        message = num_ranks, size_bytes, first_rank, last_rank
        by_ranks = self._library_s(name, *message) or by_ranks
        in_network = level.in_network_s(name, num_ranks, size_bytes)
        return by_ranks if in_network is None else min(by_ranks, in_network, key=sum)

    def adds_up(
        self, kind: int, num_ranks: int, size_bytes: int, first_rank: int, last_rank: int
    ) -> bool:
        """Whether switches add up a message, since it takes less than ranks do."""
        if kind == SEND:
            return False
        level = self.levels[self.level_of(first_rank, last_rank)]
        parts = level.in_network_s(COLLECTIVES[kind - FIRST_COLLECTIVE], num_ranks, size_bytes)
        message = kind, num_ranks, size_bytes, first_rank, last_rank
        return parts is not None and parts == self.parts_s(*message)


class MessagePrices(Protocol):
    """Whatever says what a message takes, as a Machine does."""

    def parts_s(
        self, kind: int, num_ranks: int, size_bytes: int, first_rank: int, last_rank: int
    ) -> tuple[Fraction, Fraction]:
        """Seconds of a message: what every part of it takes, and what is divided among parts."""
        ...


def priced(
    graph: JobGraph, machine: MessagePrices, which: NDArray[np.bool_] | None = None
) -> JobGraph:
    """The job with the latency and the work of all its messages on a machine, exact if it can be.

    Only those of the nodes ``which`` are priced, if it is given.

    Ticks become finer where a whole number of them is else not exact, down to a picosecond; what is
    not whole even then is rounded.

    >>> from ocs_codesign.jobs.job_draft import JobDraft
    >>> draft = JobDraft(2)
    >>> nodes = draft.collective("allreduce", (0, 1), 3000, {})
    >>> job = priced(draft.graph(), Machine((Level(2, CostModel(1e-6, 1e9)),)))
    >>> job.latency.tolist(), job.work.tolist()
    ([2000, 2000], [3000, 3000])
    """
    talks, different, number = _messages(graph, which)
    parts = [machine.parts_s(*row) for row in different.tolist()]
    often = np.bincount(number, minlength=len(parts)).tolist()
    timed = zip(often, parts, strict=True)
    tick_s = tick_of(graph, [(count, part) for count, both in timed for part in both])
    ticks = np.array([[round(part / tick_s) for part in both] for both in parts] or [[0, 0]])
    finer = int(graph.tick_s / tick_s)
    latency, work = graph.latency * finer, graph.work * finer
    latency[talks], work[talks] = ticks[number, 0], ticks[number, 1]
    return graph.changed(latency=latency, work=work, tick_s=tick_s)


def added_up(graph: JobGraph, machine: Machine) -> tuple[int, int]:
    """Nodes of allreduces of a job whose messages switches add up, and of all its allreduces.

    >>> from ocs_codesign.jobs.job_draft import JobDraft
    >>> draft = JobDraft(2)
    >>> nodes = draft.collective("allreduce", (0, 1), 3000, {})
    >>> added_up(draft.graph(), Machine((Level(2, CostModel(1e-6, 1e9)),)))
    (0, 2)
    """
    _, different, number = _messages(graph)
    is_allreduce = different[:, 0] == FIRST_COLLECTIVE + COLLECTIVES.index("allreduce")
    counts = np.bincount(number, minlength=len(different))
    adds = np.array([machine.adds_up(*row) for row in different.tolist()], dtype=bool)
    return int(counts[adds].sum()), int(counts[is_allreduce].sum())


def _messages(
    graph: JobGraph, which: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Nodes that send, the different messages (kind, ranks, bytes, between which), of each one."""
    chosen = graph.is_communication if which is None else graph.is_communication & which
    talks = np.flatnonzero(chosen)
    groups = graph.group[talks]
    sizes = np.where(groups < 0, 2, np.append(graph.group_size, 0)[groups])
    rows = np.stack(
        [
            *(graph.kind[talks].astype(np.int64), sizes, graph.size_bytes[talks]),
            *(graph.first_rank[talks], graph.last_rank[talks]),
        ],
        axis=1,
    )
    different, number = np.unique(rows, axis=0, return_inverse=True)
    return talks, different, number.reshape(-1)


def tick_of(graph: JobGraph, times_s: Sequence[tuple[int, Fraction]]) -> Fraction:
    """A tick that divides the graph's and, if it can be, all times; each is there so often.

    Raises ValueError where all nodes together take more than 2^56 of the graph's own ticks.
    """
    ticks = [(count, time / graph.tick_s) for count, time in times_s]
    finer = lcm(*(time.denominator for _, time in ticks))
    longest = float(graph.ticks.sum(dtype=float)) + sum(
        count * float(time) for count, time in ticks
    )
    if finer * longest < MAX_TICKS / 64:
        return graph.tick_s / finer
    if longest >= MAX_TICKS / 64:
        raise ValueError(f"the job takes more than 2^56 ticks of {float(graph.tick_s):g} s")
    coarse = max(1, int(graph.tick_s / FINEST_TICK_S))
    return graph.tick_s / (coarse if coarse * longest < MAX_TICKS / 64 else 1)


def _halves(collective: str, half: Cost) -> Cost:
    return half + half if collective in _TWICE else half


# GroupBook: a book of schedules that groups of a job take, and what its plans cost there.


@final
@dataclass(frozen=True, slots=True)
class GroupBook:
    """A ``book`` for groups of as many ranks as it has hosts, host i being the i-th rank.

    It is for messages of a ``label``, or of a ``level`` of the machine, or for all where neither is
    given. Of several that serve a message the one of its label is taken, then that of its level.
    """

    book: Book
    label: str | None = None
    level: int | None = None

    def __post_init__(self) -> None:
        collective = self.book.collective
        known = [name for name in COLLECTIVES if collective == collective_of(name)]
        if not known:
            raise ValueError(f"a book of {collective.text} is none of a job: {COLLECTIVES}")
        if self.label is not None and self.level is not None:
            raise ValueError(f"a book is for the label {self.label!r} or level {self.level}")

    @property
    def num_ranks(self) -> int:
        """Ranks of the groups that take it."""
        return self.book.network.num_hosts

    @property
    def told(self) -> str:
        """What it is, in words."""
        whose = "" if self.level is None else f" of level {self.level}"
        whose = whose if self.label is None else f" of {self.label}"
        return f"book of {self.num_ranks} ranks{whose}"

    def serves(self, collective: str, num_ranks: int, label: str, level: int | None) -> bool:
        """Whether such a message of a group takes it."""
        return (
            collective == self.book.collective.name
            and num_ranks == self.num_ranks
            and self.label in (None, label)
            and self.level in (None, level)
        )


def book_for(
    books: Sequence[GroupBook], collective: str, num_ranks: int, label: str, level: int | None
) -> GroupBook | None:
    """The book that a message takes, None without one."""
    fitting = [one for one in books if one.serves(collective, num_ranks, label, level)]
    return max(
        fitting, key=lambda one: (one.label is not None, one.level is not None), default=None
    )


def check_books(books: Sequence[GroupBook]) -> None:
    """Raise ValueError if two books are for the same messages."""
    seen = set()
    for one in books:
        key = one.book.collective.name, one.num_ranks, one.label, one.level
        if key in seen:
            raise ValueError(f"another {one.told} is of {key[0]} too: one is enough")
        seen.add(key)


def plan_cost(plan: Plan, network: Network) -> Cost:
    """Steps and t_b of a plan on its network when every step waits for the one before.

    t_b is in M/B, B being the largest bandwidth out of a host. Messages take shortest routes.

    >>> from ocs_codesign.core.networks.builders import star
    >>> from ocs_codesign.schedules.classic.registry import CLASSIC
    >>> plan_cost(CLASSIC["ring"].messages("allgather", 4), star(4, 100))
    Cost(steps=3, t_b=Fraction(3, 4))
    """
    if not isinstance(plan, Messages):
        return plan.synchronous_cost()
    hosts = network.num_hosts
    ends = plan.source.astype(np.int64) * hosts + plan.target
    pairs, number = np.unique(ends, return_inverse=True)
    routes = shortest_routes(Topology(hosts, *np.divmod(pairs, hosts)), network)
    row, place = places(routes.start[number], np.diff(routes.start)[number])
    link = routes.link[place]
    busiest = busiest_links(plan.step[row], link, np.ones(len(row), np.int64), network.bandwidth)
    t_b = sum(busiest, Fraction(0)) * plan.item_size * network.host_bandwidth()
    return Cost(plan.num_steps, t_b)


@final
@dataclass(frozen=True, slots=True)
class _Prices:
    """What messages take that a book serves, at the level that they stay in."""

    book: Book
    machine: Machine
    costs: dict[int, Cost]

    def parts_s(
        self,
        kind: int,  # noqa: ARG002 - as all prices are asked
        num_ranks: int,  # noqa: ARG002
        size_bytes: int,
        first_rank: int,
        last_rank: int,
    ) -> tuple[Fraction, Fraction]:
        page = self.book.page_of(size_bytes)
        if page.from_bytes not in self.costs:
            self.costs[page.from_bytes] = plan_cost(page.plan, self.book.network)
        cost = self.costs[page.from_bytes]
        model = self.machine.levels[self.machine.level_of(first_rank, last_rank)].model
        return model.parts_s(cost.steps, cost.t_b, size_bytes)


def served_by(
    graph: JobGraph, books: Sequence[GroupBook], machine: Machine | None
) -> NDArray[np.int64]:
    """Which book each node's message takes, -1 for none (int64, nodes).

    What has no bytes takes its time, and no book.
    """
    found = np.full(graph.num_nodes, -1, dtype=np.int64)
    nodes = np.flatnonzero((graph.kind >= FIRST_COLLECTIVE) & (graph.size_bytes > 0))
    sizes = graph.group_size[graph.group[nodes]]
    columns = graph.kind[nodes], sizes, graph.label[nodes], graph.first_rank[nodes]
    rows = np.stack([*columns, graph.last_rank[nodes]], axis=1).astype(np.int64)
    different, number = np.unique(rows, axis=0, return_inverse=True)
    which = []
    for kind, size, label, low, high in different.tolist():
        level = None if machine is None else machine.level_of(low, high)
        name = COLLECTIVES[kind - FIRST_COLLECTIVE]
        taken = book_for(books, name, size, graph.labels[label], level)
        which.append(-1 if taken is None else list(books).index(taken))
    found[nodes] = np.array(which, dtype=np.int64)[number.reshape(-1)]
    return found


def priced_by_books(graph: JobGraph, books: Sequence[GroupBook], machine: Machine) -> JobGraph:
    """The job whose messages that take a book cost what its plans do, at the level of each.

    Raises ValueError for a book that no message takes, and for two for the same messages.
    """
    check_books(books)
    taken = served_by(graph, books, machine)
    for at, one in enumerate(books):
        mine = taken == at
        if not mine.any():
            raise ValueError(_unused(graph, one, machine))
        graph = priced(graph, _Prices(one.book, machine, {}), mine)
    return graph


def _unused(graph: JobGraph, one: GroupBook, machine: Machine) -> str:
    """Why no message takes a book: the groups of its collective that there are."""
    name = one.book.collective.name
    talks = graph.kind == FIRST_COLLECTIVE + COLLECTIVES.index(name)
    if one.label is not None:
        labels = sorted({graph.labels[at] for at in graph.label[graph.is_communication].tolist()})
        if one.label not in labels:
            told = ", ".join(repr(label) for label in labels[:8])
            return f"a book is for messages called {one.label!r}: there are {told}"
        talks = talks & (graph.label == graph.labels.index(one.label))
    if one.level is not None and one.level >= len(machine.levels):
        return f"a book is for level {one.level}: the machine has 0 to {len(machine.levels) - 1}"
    if one.level is not None:
        ends = zip(graph.first_rank.tolist(), graph.last_rank.tolist(), strict=True)
        levels = [machine.level_of(*pair) if talks[at] else -1 for at, pair in enumerate(ends)]
        talks = talks & (np.array(levels) == one.level)
    sizes = np.unique(graph.group_size[graph.group[talks]]).tolist()
    there = f"groups of {', '.join(map(str, sizes[:8]))} ranks" if sizes else "none"
    return f"no message takes the {one.told}: of {name} there are {there}"
