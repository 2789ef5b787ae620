"""What messages of a job take: alpha-beta costs of an algorithm at the level they stay in."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from math import lcm
from typing import TYPE_CHECKING, Protocol, final

import numpy as np

from ocs_codesign.cost import Cost, CostModel
from ocs_codesign.workload.job_graph import (
    COLLECTIVES,
    FIRST_COLLECTIVE,
    MAX_TICKS,
    SEND,
    JobGraph,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from ocs_codesign.aggregation import AggregationProfile

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

    Raises ValueError unless every block is made of whole blocks of the level inside it.

    >>> inside, between = CostModel(1e-6, 4e11), CostModel(5e-6, 5e10)
    >>> Machine((Level(8, inside), Level(64, between))).level_of(8, 17)
    1
    """

    levels: tuple[Level, ...]

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
        return Machine((*inner, last if last.aggregation else replace(last, aggregation=profile)))

    def parts_s(
        self, kind: int, num_ranks: int, size_bytes: int, first_rank: int, last_rank: int
    ) -> tuple[Fraction, Fraction]:
        """Seconds of a message: what every part of it takes, and what is divided among parts."""
        level = self.levels[self.level_of(first_rank, last_rank)]
        model = level.model
        if kind == SEND:
            return model.time_s(1, Fraction(0), 0), model.time_s(0, Fraction(1), size_bytes)
        name = COLLECTIVES[kind - FIRST_COLLECTIVE]
        cost = level.cost(name, num_ranks)
        by_ranks = model.time_s(cost.steps, Fraction(0), 0), model.time_s(0, cost.t_b, size_bytes)
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

    >>> from ocs_codesign.workload.job_draft import JobDraft
    >>> draft = JobDraft(2)
    >>> nodes = draft.collective("allreduce", (0, 1), 3000, {})
    >>> job = priced(draft.graph(), Machine((Level(2, CostModel(1e-6, 1e9)),)))
    >>> job.latency.tolist(), job.work.tolist()
    ([2000, 2000], [3000, 3000])
    """
    talks, different, number = _messages(graph, which)
    parts = [machine.parts_s(*row) for row in different.tolist()]
    tick_s = tick_of(graph, [part for both in parts for part in both])
    ticks = np.array([[round(part / tick_s) for part in both] for both in parts] or [[0, 0]])
    finer = int(graph.tick_s / tick_s)
    latency, work = graph.latency * finer, graph.work * finer
    latency[talks], work[talks] = ticks[number, 0], ticks[number, 1]
    return graph.changed(latency=latency, work=work, tick_s=tick_s)


def added_up(graph: JobGraph, machine: Machine) -> tuple[int, int]:
    """Nodes of allreduces of a job whose messages switches add up, and of all its allreduces.

    >>> from ocs_codesign.workload.job_draft import JobDraft
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


def tick_of(graph: JobGraph, times_s: list[Fraction]) -> Fraction:
    """A tick that divides the graph's and, if it can be, all of these times."""
    finer = lcm(*((time / graph.tick_s).denominator for time in times_s)) if times_s else 1
    longest = float(graph.ticks.sum(dtype=float)) + sum(
        float(time / graph.tick_s) for time in times_s
    ) * max(graph.num_nodes, 1)
    if finer * longest < MAX_TICKS / 64:
        return graph.tick_s / finer
    if longest >= MAX_TICKS / 64:
        raise ValueError(f"the job takes more than 2^56 ticks of {float(graph.tick_s):g} s")
    coarse = max(1, int(graph.tick_s / FINEST_TICK_S))
    return graph.tick_s / (coarse if coarse * longest < MAX_TICKS / 64 else 1)


def _halves(collective: str, half: Cost) -> Cost:
    return half + half if collective in _TWICE else half
