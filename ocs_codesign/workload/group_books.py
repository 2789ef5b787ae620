"""GroupBook: a book of schedules that groups of a job take, and what its plans cost there."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.book import Book
from ocs_codesign.cost import Cost
from ocs_codesign.loads import busiest_links
from ocs_codesign.messages import Messages
from ocs_codesign.routes import shortest_routes
from ocs_codesign.runs import places
from ocs_codesign.topology import Topology
from ocs_codesign.workload.job_graph import COLLECTIVES, FIRST_COLLECTIVE
from ocs_codesign.workload.patterns import collective_of
from ocs_codesign.workload.prices import priced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.book import Plan
    from ocs_codesign.network import Network
    from ocs_codesign.workload.job_graph import JobGraph
    from ocs_codesign.workload.prices import Machine


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

    >>> from ocs_codesign.networks.switched import star
    >>> from ocs_codesign.schedulers.classic.registry import CLASSIC
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
        by_steps = model.time_s(cost.steps, Fraction(0), 0)
        return by_steps, model.time_s(0, cost.t_b, size_bytes)


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
