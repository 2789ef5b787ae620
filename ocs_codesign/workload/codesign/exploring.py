"""The search: best first by bounds, so that what is left out could not have been better."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.workload.codesign.candidates import (
    CODESIGNED,
    Candidate,
    Joining,
    across,
    changing,
    chosen,
    held,
    with_one,
)
from ocs_codesign.workload.codesign.optics import BestConceivable, JobPrices
from ocs_codesign.workload.codesign.outcomes import JobOutcome, fastest, simulated
from ocs_codesign.workload.codesign.placements import placements
from ocs_codesign.workload.codesign.traffic import traffic_of, traffic_of_graph
from ocs_codesign.workload.issue import RanksStuckError
from ocs_codesign.workload.models.recommender import Recommender

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ocs_codesign.workload.codesign.cluster import JobCluster
    from ocs_codesign.workload.codesign.designs import DesignBook
    from ocs_codesign.workload.codesign.divisions import TrainedModel
    from ocs_codesign.workload.codesign.optics import Rates
    from ocs_codesign.workload.codesign.placements import RankPlacement
    from ocs_codesign.workload.codesign.traffic import Traffic
    from ocs_codesign.workload.job_graph import JobGraph
    from ocs_codesign.workload.models.parallel import Parallel

MAX_SIMULATED, MAX_NODES = 200, 1_000_000
"""Candidates that are simulated at most, and nodes of their jobs together."""
_GRAPHS_KEPT = 16


@final
@dataclass(slots=True)
class Planner:
    """A model on a cluster with the designs, traffic and graphs that were looked at."""

    trained: TrainedModel
    cluster: JobCluster
    book: DesignBook
    on_progress: Callable[[str, int, int], None] | None = None
    _traffic: dict[Parallel, Traffic] = field(default_factory=dict)
    _graphs: dict[Parallel, JobGraph] = field(default_factory=dict)
    _rates: Rates = field(default_factory=dict)
    _placed: dict[Parallel, tuple[tuple[RankPlacement, float], ...]] = field(default_factory=dict)

    def traffic(self, parallel: Parallel) -> Traffic:
        """What ranks compute and send under a division."""
        if parallel not in self._traffic:
            model = self.trained.model
            if isinstance(model, Recommender):
                made = traffic_of_graph(self.graph(parallel), parallel)
            else:
                made = traffic_of(model.on_ranks(parallel), parallel, self.cluster.accelerator)
            self._traffic[parallel] = made
        return self._traffic[parallel]

    def graph(self, parallel: Parallel) -> JobGraph:
        """The job under a division, without times of messages."""
        if parallel not in self._graphs:
            if len(self._graphs) >= _GRAPHS_KEPT:
                self._graphs.pop(next(iter(self._graphs)))
            self._graphs[parallel] = self.trained.graph(parallel, self.cluster.accelerator)
        return self._graphs[parallel]

    def placed(self, parallel: Parallel) -> tuple[tuple[RankPlacement, float], ...]:
        """Where a division can lie on the servers, and what it takes at least on any circuits."""
        if parallel not in self._placed:
            cluster, traffic = self.cluster, self.traffic(parallel)
            least = BestConceivable(cluster)
            self._placed[parallel] = tuple(
                (
                    placement,
                    traffic.bound_s(JobPrices(cluster, parallel, placement, least, self._rates)),
                )
                for placement in placements(parallel, cluster.accelerators_a_server)
                if placement.num_servers <= cluster.num_servers
            )
        return self._placed[parallel]

    def bound_s(self, candidate: Candidate) -> float:
        """What a candidate takes at least, under every policy."""
        traffic = self.traffic(candidate.parallel)
        prices = candidate.prices(self.cluster, self._rates)
        if not candidate.late_ports:
            return traffic.bound_s(prices)
        late = traffic.late_bound_s(candidate.late_prices(self.cluster, self._rates))
        return traffic.passes_bound_s(prices) + late + 2 * float(self.cluster.delta_s)

    def simulated(self, candidate: Candidate, bound_s: float) -> JobOutcome | None:
        """The candidate on the clock; None if its ranks wait for each other for ever."""
        graph = self.graph(candidate.parallel)
        try:
            return simulated(candidate, graph, self.cluster, bound_s)
        except RanksStuckError:
            return None

    def tell(self, phase: str, done: int, total: int) -> None:
        """Say what is being done."""
        if self.on_progress is not None:
            self.on_progress(phase, done, total)


@final
@dataclass(frozen=True, slots=True)
class Explored:
    """Candidates that were simulated, the fastest first, and how many bounds left out.

    ``skipped`` counts, by what they are, those whose bound is not below the best; ``unseen`` those
    that the limit of simulations left out although their bound, at least ``unseen_bound_s``, is.
    """

    outcomes: tuple[JobOutcome, ...]
    skipped: Counter[str]
    unseen: int = 0
    unseen_bound_s: float | None = None
    num_stuck: int = 0
    num_unsolved: int = 0


def explored(
    planner: Planner,
    divided: Iterable[Parallel],
    joinings: tuple[Joining, ...] = CODESIGNED,
    max_simulated: int = MAX_SIMULATED,
    below_s: float = float("inf"),
) -> Explored:
    """Candidates of these divisions and ways to join servers, by ascending bound until none is.

    A candidate whose bound is not below the best that was simulated is skipped: it could not be
    better under any policy; so is one whose bound is not under ``below_s``. Of equal bounds the
    first in order is looked at first, so that the answer is always the same.
    """
    search = _Search(planner, joinings, below_s)
    for number, parallel in enumerate(divided):
        if not number % 256:
            planner.tell("Bounding divisions", number, 0)
        search.push(planner.traffic(parallel).compute_bound_s(), parallel)
    while search.heap and len(search.outcomes) < max_simulated and search.num_nodes < MAX_NODES:
        bound_s, _, _, item = heapq.heappop(search.heap)
        if bound_s >= search.best_s:
            heapq.heappush(search.heap, (bound_s, -1, (), item))
            break
        search.expand(bound_s, item)
    left = [(entry[0], entry[3]) for entry in search.heap]
    skipped = Counter(_name(item) for bound_s, item in left if bound_s >= search.best_s)
    unseen = [bound_s for bound_s, _ in left if bound_s < search.best_s]
    return Explored(
        tuple(fastest(search.outcomes)),
        skipped + search.skipped,
        len(unseen),
        min(unseen, default=None),
        search.num_stuck,
        search.num_unsolved,
    )


@final
class _Search:
    """What is to be looked at, by bound."""

    def __init__(self, planner: Planner, joinings: tuple[Joining, ...], below_s: float) -> None:
        self.planner, self.joinings = planner, joinings
        self.heap: list[tuple[float, int, tuple[Any, ...], Any]] = []
        self.outcomes: list[JobOutcome] = []
        self.skipped: Counter[str] = Counter()
        self.seen: set[tuple[Any, ...]] = set()
        self.best_s = below_s
        self.num_nodes = self.num_stuck = self.num_unsolved = self._number = 0

    def push(self, bound_s: float, item: Any) -> None:
        """Something to look at, unless it cannot be better."""
        if bound_s >= self.best_s:
            self.skipped[_name(item)] += 1
            return
        self._number += 1
        heapq.heappush(self.heap, (bound_s, self._number, (), item))

    def expand(self, bound_s: float, item: Any) -> None:
        """What a division, a placement or a candidate leads to."""
        if isinstance(item, tuple):
            self._push_candidates(*item)
        elif isinstance(item, Candidate):
            self._settle(bound_s, item)
        else:
            self._push_placements(item)

    def _push_placements(self, parallel: Parallel) -> None:
        for placement, bound_s in self.planner.placed(parallel):
            if self.joinings == (Joining.FAT_TREE,):
                tree = Candidate(Joining.FAT_TREE, parallel, placement)
                self.push(self.planner.bound_s(tree), tree)
            else:
                self.push(bound_s, (parallel, placement))

    def _push_candidates(self, parallel: Parallel, placement: RankPlacement) -> None:
        planner, cluster = self.planner, self.planner.cluster
        traffic = planner.traffic(parallel)
        found: list[Candidate] = []
        for joining in self.joinings:
            if joining is Joining.GROUPS:
                found += held(parallel, placement, cluster)
            elif joining is Joining.ACROSS:
                found += across(parallel, placement, cluster)
            elif joining is Joining.CHANGING:
                found += changing(traffic, placement, cluster)
            elif joining is not Joining.ONE or len(placement.optical) > 1:
                found += with_one(joining, traffic, placement, cluster, planner.book)
            if joining in (Joining.TORUS, Joining.RING) and not placement.optical:
                found.append(Candidate(joining, parallel, placement))
        for candidate in found:
            if len(placement.optical) > 1 and "" in candidate.designs:
                candidate = replace(candidate, is_ideal=True)  # groups are routed if it may win
            key = candidate.price_key()
            if key not in self.seen:
                self.seen.add(key)
                self.push(planner.bound_s(candidate), candidate)

    def _settle(self, bound_s: float, candidate: Candidate) -> None:
        planner = self.planner
        if candidate.is_ideal:
            traffic = planner.traffic(candidate.parallel)
            made = chosen(candidate, traffic, planner.cluster, planner.book)
            if made is None:
                self.num_unsolved += 1
            else:
                self.push(planner.bound_s(made), made)
            return
        planner.tell("Simulating", len(self.outcomes), 0)
        outcome = planner.simulated(candidate, bound_s)
        self.num_nodes += planner.graph(candidate.parallel).num_nodes
        if outcome is None:
            self.num_stuck += 1
            return
        self.outcomes.append(outcome)
        self.best_s = min(self.best_s, float(outcome.period_s))


def _name(item: Any) -> str:
    if isinstance(item, tuple):
        return "placements"
    return "candidates" if isinstance(item, Candidate) else "divisions"
