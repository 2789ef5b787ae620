"""The search for the best sequence of configurations: a dynamic program, then the clock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import gcd
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.circuits.legs.plan import plan_round
from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.core.progress import tell
from ocs_codesign.jobs.issue import RanksStuckError, members_of, period_bound_s
from ocs_codesign.jobs.order_kernels import topological_order
from ocs_codesign.jobs.reconfigured.clock import (
    SwitchedIteration,
    cuts_of,
    fastest_held,
    formula_clock,
    with_changes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ocs_codesign.circuits.legs.plan import LegPlan
    from ocs_codesign.jobs.issue import Steady
    from ocs_codesign.jobs.job_graph import JobGraph
    from ocs_codesign.jobs.reconfigured.clock import Clock
    from ocs_codesign.jobs.reconfigured.prices import ConfiguredJob


# The order in which messages over circuits follow each other, and what is computed in between.


@final
@dataclass(frozen=True, slots=True, eq=False)
class MessageOrder:
    """Messages over circuits (``instances``, int64) as they begin in an iteration.

    ``gaps`` (int64, ticks) are those before each in which none of them was in flight, that before
    the first one since the iteration before. ``is_chain``: whatever the configurations, messages
    and computation follow one after the other, so gaps stay what they are.
    """

    instances: NDArray[np.int64]
    gaps: NDArray[np.int64]
    is_chain: bool


def order_of(job: ConfiguredJob, held: Steady) -> MessageOrder:
    """The order of a late iteration of a job that holds one configuration."""
    graph, times = job.graph, held.num_iterations
    num = held.job_run.graph.num_nodes // times
    turn = max(0, times - 2)
    start, end = (
        times_of.reshape(times, num)[:, : graph.num_nodes]
        for times_of in (held.job_run.start, held.job_run.end)
    )
    begin, first_node = members_of(graph)
    lead = first_node[begin[:-1]]  # the first of its members is a collective's, or the send
    which = np.flatnonzero(job.over_circuits)
    starts, ends = start[:, lead[which]], end[:, lead[which]]
    rank = _topological_rank(graph)[lead[which]]
    by_start = np.lexsort((rank, starts[turn]))
    starts, ends = starts[:, by_start], ends[:, by_start]
    free = np.maximum.accumulate(ends[turn])
    gaps = np.maximum(0, starts[turn] - np.concatenate([[0], free[:-1]]))
    if turn + 1 < times and len(gaps):
        gaps[0] = max(0, int(starts[turn + 1].min()) - int(free[-1]))
    return MessageOrder(which[by_start], gaps, _is_chain(graph))


def gradients_last(job: ConfiguredJob, order: MessageOrder) -> MessageOrder | None:
    """The same messages, gradients after all others; None if that is the same order."""
    graph = job.graph
    late = np.zeros(graph.num_instances, dtype=bool)
    late[graph.instance[graph.is_gradient & (graph.instance >= 0)]] = True
    by_part = np.argsort(late[order.instances], kind="stable")
    if (np.diff(by_part) > 0).all():
        return None
    return MessageOrder(order.instances[by_part], np.zeros_like(order.gaps), is_chain=False)


def _topological_rank(graph: JobGraph) -> NDArray[np.int64]:
    vertex, start, after = graph.meeting_graph()
    waits = np.bincount(after, minlength=len(start) - 1)
    order = for_work(topological_order, len(vertex) + len(after))(start, after, waits)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank[vertex]


def _is_chain(graph: JobGraph) -> bool:
    """Whether there is one owner, whose nodes wait for each other in turn, round the iteration."""
    if graph.num_owners > 1:
        return False
    before, node = graph.edges()
    rank = _topological_rank(graph)
    last = graph.num_nodes - 1
    consecutive = np.unique(rank[before[rank[node] == rank[before] + 1]])
    if len(consecutive) < last:
        return False
    ends = np.argsort(rank)[[last, 0]]
    closed = (graph.carried == ends).all(axis=1).any() if len(graph.carried) else True
    return bool(closed)


MAX_ENUMERATED = 256
"""Sequences of an order that are all put on the clock, if there are no more of them."""
_MOST_TRIED, _NODES_TRIED = 300, 2_000_000
_FACTORS = (Fraction(1), Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(2), Fraction(4))
"""Parts of the delay that a change is planned for, where computation beside it may hide some."""


@final
class Search:
    """Sequences of a job on a clock: ``held``, the ``orders`` of messages, and what was tried."""

    def __init__(self, job: ConfiguredJob, clock: Clock, given: Search | None = None) -> None:
        self.job, self.clock = job, clock
        self.most = max(8, min(_MOST_TRIED, _NODES_TRIED // job.graph.num_nodes))
        self.num_tried, self.all_tried = 0, False
        self._tried: dict[tuple[int, bytes], Fraction | None] = {}
        self._best: SwitchedIteration | None = None
        self.held: tuple[SwitchedIteration | None, ...]
        self.orders: list[MessageOrder]
        if given is None:
            self.held = tuple(map(self._held, range(job.num_configurations)))
            self.orders = self._orders()
        else:
            self.held, self.orders = given.held, given.orders
        best = fastest_held(self.held)
        self._best = None if best is None else self.held[best]

    def best(self) -> SwitchedIteration:
        """The best of what is held and all sequences that are worth a try.

        RanksStuckError if ranks wait for each other for ever under every one.
        """
        enumerated = [self._try_all(at) for at in range(len(self.orders))]
        if not all(enumerated):
            self._try_planned()
            self._try_moves()
        found = self._best
        if found is None:
            raise RanksStuckError(
                "no configuration serves all messages, and with changes ranks wait for each other "
                "for ever"
            )
        by_order = [order.instances is found.order for order in self.orders]
        self.all_tried = all(enumerated) or any(
            mine and tried for mine, tried in zip(by_order, enumerated, strict=True)
        )
        return found

    def planned(self, factors: tuple[Fraction, ...] = _FACTORS) -> SwitchedIteration | None:
        """The best of what is held and of the plans of the dynamic program."""
        self._try_planned(factors)
        return self._best

    def clocked(self, at: int, choice: NDArray[np.int64]) -> SwitchedIteration | None:
        """A sequence in the order of that number on the clock; None if ranks get stuck."""
        instances = self.orders[at].instances
        try:
            found = self.clock(self.job, instances, choice)
        except RanksStuckError:
            return None
        return SwitchedIteration(instances, choice, found)

    def _held(self, which: int) -> SwitchedIteration | None:
        job = self.job
        if not job.serves[which].all():
            return None
        order = np.flatnonzero(job.over_circuits)
        choice = np.full(len(order), which, dtype=np.int64)
        return SwitchedIteration(order, choice, self.clock(job, order, choice))

    def _orders(self) -> list[MessageOrder]:
        """The order under the fastest held configuration, and gradients last where that can be."""
        best = fastest_held(self.held)
        lead = None if best is None else self.held[best]
        reference = formula_clock(*_quickest(self.job)) if lead is None else lead.steady
        first = order_of(self.job, reference)
        late = gradients_last(self.job, first)
        return [first] if late is None or not self._can_run(late) else [first, late]

    def _can_run(self, order: MessageOrder) -> bool:
        """Whether no message of an order waits for one after it."""
        choice = np.arange(len(order.instances)) % 2
        try:
            with_changes(self.job, order.instances, choice)
        except ValueError:
            return False
        return True

    def _try(self, at: int, choice: NDArray[np.int64]) -> bool:
        """Whether a sequence is better than all before it."""
        key = at, choice.tobytes()
        if key in self._tried or not len(cuts_of(choice)) or self.num_tried >= self.most:
            return False
        served = self.job.serves[choice, self.orders[at].instances].all()
        if not served:
            return False
        self.num_tried += 1
        tell(self.num_tried, self.most)
        found = self.clocked(at, choice)
        self._tried[key] = None if found is None else found.period_s
        if found is None or (self._best and found.period_s >= self._best.period_s):
            return False
        self._best = found
        return True

    def _try_all(self, at: int) -> bool:
        """Whether all sequences of an order were tried, since they are few."""
        order, many = self.orders[at], self.job.num_configurations
        number = many ** min(len(order.instances), 20)
        if order.is_chain or number > min(MAX_ENUMERATED, self.most):
            return False
        self.most = max(self.most, self.num_tried + number)
        for choice in product(range(many), repeat=len(order.instances)):
            self._try(at, np.array(choice, dtype=np.int64))
        return True

    def _try_planned(self, factors: tuple[Fraction, ...] = _FACTORS) -> None:
        for at, order in enumerate(self.orders):
            for factor in factors[:1] if order.is_chain else factors:
                plan = _planned(self.job, order, factor)
                if plan is not None:
                    self._try(at, plan.choice.astype(np.int64))

    def _try_moves(self) -> None:
        """Move or drop one change of the best as long as that helps."""
        improves = self._best is not None
        while improves and self.num_tried < self.most:
            found = self._best
            if found is None:
                return
            at = next(
                (n for n, one in enumerate(self.orders) if one.instances is found.order), None
            )
            if at is None or self.orders[at].is_chain:
                return
            improves = any(self._try(at, choice) for choice in _moves(found.choice))


def _moves(choice: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """The sequence with one change earlier or later by 1, 2, 4 .. messages, or left out."""
    cuts, num = cuts_of(choice), len(choice)
    for number, cut in enumerate(cuts.tolist()):
        later = (int(cuts[(number + 1) % len(cuts)]) - cut) % num or num
        earlier = (cut - int(cuts[number - 1])) % num or num
        for most, sign in ((later, 1), (earlier, -1)):
            step = 1
            while step < most:
                places = (cut + (np.arange(step) if sign > 0 else -1 - np.arange(step))) % num
                moved = choice.copy()
                moved[places] = choice[cut - 1] if sign > 0 else choice[cut]
                yield moved
                step *= 2
        dropped = choice.copy()
        dropped[(cut + np.arange(later)) % num] = choice[cut - 1]
        yield dropped


def bound_s(job: ConfiguredJob, order: MessageOrder) -> Fraction:
    """Seconds that an iteration takes at least with messages over circuits in this order.

    What no order is below if every message is on its quickest configuration and changes are free;
    or for the owner who sends most, what its messages and changes between them take; and of a chain
    what the best plan takes.
    """
    quick, none, _ = _quickest(job)
    graph = with_changes(quick, none, none)
    whole = graph.changed(work=graph.ticks, latency=np.zeros_like(graph.latency))
    least = period_bound_s(whole)
    tick_s = job.graph.tick_s
    if order.is_chain:
        plan = _planned(job, order, Fraction(1))
        alone = int(job.graph.ticks[~_over(job)].sum())
        return max(least, (plan.total + alone) * tick_s if plan else least)
    mine = _of_busiest(job, quick, order)
    if not len(mine):
        return least
    costs = _costs(job)[:, mine].T.astype(object)
    costs[~job.serves[:, mine].T] = float("inf")
    plan = plan_round(costs, job.dead_ticks, np.zeros(len(mine), dtype=np.int64))
    return max(least, plan.total * tick_s if plan else least)


def _over(job: ConfiguredJob) -> NDArray[np.bool_]:
    """Nodes whose messages go over circuits."""
    over: NDArray[np.bool_] = np.append(job.over_circuits, False)[job.graph.instance]
    return over & job.graph.is_communication


def _costs(job: ConfiguredJob) -> NDArray[np.int64]:
    """Ticks of every instance on every configuration (configurations, instances)."""
    graph, over = job.graph, _over(job)
    costs = np.zeros((job.num_configurations, graph.num_instances), dtype=np.int64)
    for at in range(job.num_configurations):
        np.maximum.at(costs[at], graph.instance[over], (job.latency + job.work)[at, over])
    return costs


def _quickest(job: ConfiguredJob) -> tuple[ConfiguredJob, NDArray[np.int64], NDArray[np.int64]]:
    """The job in which all configurations are the quickest of every message, and no order."""
    both = np.where(
        job.serves[:, job.graph.instance], job.latency + job.work, np.iinfo(np.int64).max
    )
    best = np.argmin(both, axis=0)
    every = np.arange(job.graph.num_nodes)
    latency, work = job.latency[best, every][None], job.work[best, every][None]
    none = np.zeros(0, dtype=np.int64)
    return replace(job, latency=latency, work=work), none, none


def _of_busiest(job: ConfiguredJob, quick: ConfiguredJob, order: MessageOrder) -> NDArray[np.int64]:
    """The messages over circuits of the owner who sends most, in an order."""
    graph, over = job.graph, _over(job)
    if not over.any():
        return np.zeros(0, dtype=np.int64)
    sums = np.zeros(graph.num_owners, dtype=np.int64)
    np.add.at(sums, graph.owner[over], (quick.latency + quick.work)[0, over])
    mine = np.unique(graph.instance[over & (graph.owner == np.argmax(sums))])
    found: NDArray[np.int64] = order.instances[np.isin(order.instances, mine)]
    return found


def _planned(job: ConfiguredJob, order: MessageOrder, factor: Fraction) -> LegPlan | None:
    """The plan of messages in a row, each as long as it keeps ranks busy in the mean."""
    graph, over = job.graph, _over(job)
    shares = np.zeros(graph.num_instances, dtype=np.int64)
    np.add.at(shares, graph.instance[over], graph.ranks[graph.owner[over]])
    mine = shares[order.instances]
    total = int(graph.ranks.sum())
    unit = gcd(total, *np.unique(mine).tolist())
    weights: NDArray[Any] = (mine // unit).astype(object)
    costs = _costs(job)[:, order.instances].T.astype(object) * weights[:, None]
    costs[~job.serves[:, order.instances].T] = float("inf")
    whole = total // unit
    delta = job.dead_ticks.astype(object) * (whole * factor)
    return plan_round(costs, delta, order.gaps.astype(object) * whole)
