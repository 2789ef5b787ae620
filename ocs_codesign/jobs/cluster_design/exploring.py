"""The search: best first by bounds, so that what is left out could not have been better."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.circuits.legs.options import recipe_option, serving_options, with_contenders
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.progress import tell_phase
from ocs_codesign.graphs.families.rings import DirectedCirculant
from ocs_codesign.jobs.cluster_design.candidates import (
    CODESIGNED,
    Candidate,
    Joining,
    across,
    changing,
    chosen,
    held,
    with_one,
)
from ocs_codesign.jobs.cluster_design.group_loads import placements
from ocs_codesign.jobs.cluster_design.optics import BestConceivable, JobPrices
from ocs_codesign.jobs.cluster_design.outcomes import (
    JobOutcome,
    fastest,
    simulated,
    traffic_of,
    traffic_of_graph,
)
from ocs_codesign.jobs.issue import RanksStuckError
from ocs_codesign.jobs.models.layer import Recommender
from ocs_codesign.schedules.design import Question
from ocs_codesign.search.bases import Effort
from ocs_codesign.search.catalogue.store import Catalogue
from ocs_codesign.search.frontiers import designs_serving
from ocs_codesign.search.pareto import baseline_recipes
from ocs_codesign.search.pool import measured_designs

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

    from ocs_codesign.circuits.legs.options import FabricOption
    from ocs_codesign.core.cost import CostModel
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.jobs.cluster_design.cluster import JobCluster, TrainedModel
    from ocs_codesign.jobs.cluster_design.group_loads import RankPlacement
    from ocs_codesign.jobs.cluster_design.optics import Rates
    from ocs_codesign.jobs.cluster_design.outcomes import Traffic
    from ocs_codesign.jobs.job_graph import JobGraph
    from ocs_codesign.jobs.models.building import Parallel


MAX_SIMULATED = 200
MAX_NODES = 1_000_000
"""Candidates that are simulated at most, and nodes of their jobs together."""
_GRAPHS_KEPT = 16


@final
@dataclass(slots=True)
class Planner:
    """A model on a cluster with the designs, traffic and graphs that were looked at.

    ``policies`` are those that candidates are simulated under, None for the best of all.
    """

    trained: TrainedModel
    cluster: JobCluster
    book: DesignBook
    policies: tuple[str, ...] | None = None
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
            return simulated(candidate, graph, self.cluster, bound_s, self.policies)
        except RanksStuckError:
            return None


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
            tell_phase("Bounding divisions", number)
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
        self.is_baseline = joinings[0] in (Joining.TORUS, Joining.RING, Joining.FAT_TREE)
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
            if self.is_baseline and not placement.optical:
                continue  # neither torus nor tree joins what stays inside a server
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
        tell_phase("Simulating", len(self.outcomes))
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


# The designs that groups of servers could hang on: those of the pool, each size looked up once.


SHORT_SEARCH = Effort(work=2**12)
"""How long a size is searched for that the catalogue does not have."""
MAX_SEARCHED = 32
"""Largest size that is searched as ``select`` does where the catalogue has it without a search."""
MAX_ALLTOALL = 128
"""Largest group whose all-to-all is solved in passing."""


@final
@dataclass(slots=True)
class DesignBook:
    """Options by nodes and ports, as ``select`` and ``plan`` take them from the pool.

    ``unsearched`` are larger sizes for which no search is stored, whose designs are those that are
    known, or that a short search finds.
    """

    unsearched: set[tuple[int, int]] = field(default_factory=set)
    _options: dict[tuple[int, int, bool], tuple[FabricOption, ...]] = field(default_factory=dict)
    _to_all: dict[tuple[int, int, bool], FabricOption] = field(default_factory=dict)
    _packed: dict[FabricOption, FabricOption] = field(default_factory=dict)

    def options(
        self, num_nodes: int, num_ports: int, *, exchanges: bool
    ) -> tuple[FabricOption, ...]:
        """The designs that no other beats, ring and torus beside them; ``exchanges``: all-to-all.

        Where all-to-alls are too large to solve, none has a cost of it and there are no options.
        """
        key = num_nodes, num_ports, exchanges
        if key not in self._options:
            self._options[key] = self._looked_up(Question(num_nodes, num_ports), exchanges)
        return self._options[key]

    def _looked_up(self, question: Question, exchanges: bool) -> tuple[FabricOption, ...]:
        if exchanges and question.num_nodes > MAX_ALLTOALL:
            return ()
        tell_phase(f"Designs of {question.num_nodes} nodes with {question.degree} ports")
        effort, known = None, None
        with Catalogue() as store:
            origin, entries = store.provenance(question), store.entries(question)
        is_searched = origin is not None and origin.work >= Effort().work
        if not is_searched and question.num_nodes > MAX_SEARCHED:
            self.unsearched.add((question.num_nodes, question.degree))
            if entries:
                known = [entry.design() for entry in entries]
                known += measured_designs(baseline_recipes(question))
            else:
                effort = SHORT_SEARCH
        wanted = [Collective.ALLGATHER, *[Collective.ALLTOALL] * exchanges]
        serving = designs_serving(question, wanted, effort=effort, known=known)
        return tuple(serving_options(serving, wanted))

    def options_of_servers(
        self, num_servers: int, num_ports: int, *, exchanges: bool
    ) -> tuple[FabricOption, ...]:
        """The same of servers with many ports: also circuits to all others, as many to each.

        What of the ports is left over then is not used.
        """
        options = self.options(num_servers, num_ports, exchanges=exchanges)
        many = num_ports // (num_servers - 1)
        if not many or num_servers > MAX_ALLTOALL:
            return options
        key = num_servers, many * (num_servers - 1), exchanges
        if key not in self._to_all:
            recipe = DirectedCirculant(num_servers, tuple(range(1, num_servers)) * many)
            wanted = [Collective.ALLGATHER, *[Collective.ALLTOALL] * exchanges]
            self._to_all[key] = recipe_option(recipe, wanted)
        return (self._to_all[key], *options)

    def named(self, recipe: Recipe, *, exchanges: bool) -> FabricOption | None:
        """The option of a recipe, None where its all-to-all is too large to solve."""
        if exchanges and recipe.num_nodes > MAX_ALLTOALL:
            return None
        for option in self.options(recipe.num_nodes, recipe.degree, exchanges=exchanges):
            if option.recipe == recipe:
                return option
        wanted = [Collective.ALLGATHER, *[Collective.ALLTOALL] * exchanges]
        return recipe_option(recipe, wanted)

    def baselines(self, num_nodes: int, num_ports: int) -> tuple[Recipe, ...]:
        """The ring of all ports, and the torus of least diameter if there is one."""
        return baseline_recipes(Question(num_nodes, num_ports))

    def packed(
        self, option: FabricOption, model: CostModel, largest: Fraction | int
    ) -> FabricOption:
        """The option with forests where messages up to the largest gain by them."""
        held = self._packed.get(option, option)
        if not held.contenders:
            held = with_contenders(held, model, largest)
            self._packed[option] = held
        return held
