"""Scores and designs: what a recipe costs, by prediction and by measurement, and its best schedule.

Two schedules compete for every recipe: BFB on the built graph, and the base's schedule mapped
through the expansions; on a base without expansions that is the stored one, if there is one. The
better one is the one with the lower t_b, then with fewer steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, final

from ocs_codesign.bounds import bound
from ocs_codesign.collective import Collective
from ocs_codesign.cost import Cost
from ocs_codesign.graphs.recipe import Base, Expanded, Recipe, measured_gather_loads
from ocs_codesign.schedulers.bfb.assembly import bfb
from ocs_codesign.schedulers.bfb.loads import bfb_loads, num_chunks_for
from ocs_codesign.schedulers.registry import Task, made_by
from ocs_codesign.verification.schedules import verify

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.schedule import Schedule
    from ocs_codesign.topology import Topology

BFB = "bfb"
EXPANSION = "expansion"
STORED = "stored"
BEST = "best"

_MAX_VERIFIED_SENDS = 2**22


@final
@dataclass(frozen=True, slots=True)
class Score:
    """Cost of one collective with the largest link load, in shards, of every step.

    ``schedule`` names what achieves it: ``bfb``, ``expansion`` or ``stored``, or one for each half
    of an allreduce as in ``bfb+expansion``. ``measured`` says that it is exact BFB or a verified
    schedule; otherwise it is a closed form, an upper bound on what the design can do.
    """

    collective: Collective
    cost: Cost
    loads: tuple[Fraction, ...]
    schedule: str
    measured: bool

    @property
    def num_chunks(self) -> int:
        """Fewest chunks a shard with which whole chunks can have these loads."""
        return num_chunks_for(self.loads)

    def then(self, allgather: Score) -> Score:
        """Score of the allreduce that runs this reduce-scatter first."""
        parts = (self.schedule, allgather.schedule)
        return Score(
            Collective.ALLREDUCE,
            self.cost + allgather.cost,
            self.loads + allgather.loads,
            parts[0] if parts[0] == parts[1] else "+".join(parts),
            self.measured and allgather.measured,
        )


@final
@dataclass(frozen=True, slots=True)
class Candidate:
    """A recipe, its score for one collective, and the costs of the allgather and its mirror."""

    recipe: Recipe
    score: Score
    allgather: Cost
    reduce_scatter: Cost

    @property
    def cost(self) -> Cost:
        """Cost of the collective in question."""
        return self.score.cost

    def cost_of(self, collective: Collective) -> Cost:
        """Cost of any collective of GATHERING."""
        return {
            Collective.ALLGATHER: self.allgather,
            Collective.REDUCE_SCATTER: self.reduce_scatter,
            Collective.ALLREDUCE: self.reduce_scatter + self.allgather,
        }[Collective.parse_gathering(collective)]

    @property
    def measured(self) -> bool:
        """Whether the cost is exact (measured) rather than an upper bound (predicted)."""
        return self.score.measured

    @property
    def bound(self) -> Cost:
        """What no topology of this size and degree can beat."""
        return bound(self.recipe.num_nodes, self.recipe.degree, self.score.collective)

    @property
    def bw_optimal(self) -> bool:
        """Whether t_b is the least possible."""
        return self.cost.t_b == self.bound.t_b

    @property
    def moore_optimal(self) -> bool:
        """Whether the number of steps meets the directed Moore bound."""
        return self.cost.steps == self.bound.steps


@final
@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """A verified schedule and the cost recomputed from its sends; recipe None for a given graph."""

    recipe: Recipe | None
    schedule: Schedule
    cost: Cost
    loads: tuple[Fraction, ...]
    maker: str


def predict(recipe: Recipe, collective: Collective | str = Collective.ALLGATHER) -> Candidate:
    """The candidate by formula alone; nothing bigger than a base graph is built."""
    collective = Collective.parse_gathering(collective)
    gather, scatter = (
        _mapped_half(recipe, kind) for kind in (Collective.ALLGATHER, Collective.REDUCE_SCATTER)
    )
    return _candidate(recipe, collective, gather, scatter)


def measure(
    recipe: Recipe, collective: Collective | str = Collective.ALLGATHER, *, confirm: bool = True
) -> Candidate:
    """The candidate with exact costs: BFB on the built graph, or a better schedule of the base.

    A mapped schedule that wins is built and verified; without ``confirm`` its cost stays predicted,
    which is all that a search needs of candidates that may yet be dropped. A stored one is verified
    when it is read.

    >>> from ocs_codesign.graphs.text import parse
    >>> candidate = measure(parse("Degree(CompleteBipartite(2), 2)"))
    >>> candidate.cost, candidate.score.schedule, candidate.moore_optimal
    (Cost(steps=2, t_b=Fraction(7, 8)), 'bfb', True)
    """
    collective = Collective.parse_gathering(collective)
    gather = _better_half(recipe, Collective.ALLGATHER, confirm)
    scatter = _better_half(recipe, Collective.REDUCE_SCATTER, confirm)
    return _candidate(recipe, collective, gather, scatter)


def can_confirm(recipe: Recipe) -> bool:
    """Whether a search may build and verify the recipe's mapped schedule: about N^2 sends."""
    return recipe.num_nodes**2 <= _MAX_VERIFIED_SENDS


def measure_topology(
    topology: Topology, collective: Collective | str = Collective.ALLGATHER
) -> Score:
    """Exact BFB score of any topology, for instance an imported one."""
    collective = Collective.parse_gathering(collective)
    if collective == Collective.ALLREDUCE:
        scatter = measure_topology(topology, Collective.REDUCE_SCATTER)
        return scatter.then(measure_topology(topology, Collective.ALLGATHER))
    if collective == Collective.ALLGATHER:
        loads = bfb_loads(topology)
    else:
        loads = bfb_loads(topology.transpose())[::-1]
    cost = Cost(len(loads), topology.t_b(sum(loads, Fraction(0))))
    return Score(collective, cost, loads, BFB, True)


def build(
    recipe: Recipe,
    collective: Collective | str = Collective.ALLGATHER,
    schedule: str = BEST,
    on_progress: Callable[[int, int], None] | None = None,
) -> Design:
    """The verified design of a recipe: with the best schedule, or that of a scheduler by name.

    The best is that of "bfb", "expansion" or "stored". Raises ValueError if the schedule is too
    large, or the scheduler has none, RuntimeError if it does not verify.

    >>> from ocs_codesign.graphs.text import parse
    >>> build(parse("Line(Complete(3))"), "allreduce").cost
    Cost(steps=4, t_b=Fraction(2, 1))
    """
    collective = Collective.parse_gathering(collective)
    if schedule != BEST:
        return _made(recipe, collective, schedule, on_progress)
    halves = [
        _made(recipe, half, _better_half(recipe, half).schedule, on_progress)
        for half in collective.halves()
    ]
    if len(halves) == 1:
        return halves[0]
    made = halves[0].schedule.then(halves[1].schedule)
    makers = dict.fromkeys(half.maker for half in halves)
    return verified(recipe, made, "+".join(makers))


def _made(
    recipe: Recipe,
    collective: Collective,
    scheduler: str,
    on_progress: Callable[[int, int], None] | None,
) -> Design:
    task = Task(recipe.topology(), collective, recipe, on_progress=on_progress)
    made = made_by(scheduler, task)
    if made.schedule is None:
        raise ValueError(f"scheduler {scheduler} finds no {collective.name} of {recipe!r}")
    return verified(recipe, made.schedule, made.maker)


def build_topology(
    topology: Topology,
    collective: Collective | str = Collective.ALLGATHER,
    on_progress: Callable[[int, int], None] | None = None,
) -> Design:
    """The verified BFB design on any topology."""
    return verified(None, bfb(topology, collective, on_progress), BFB)


def _candidate(recipe: Recipe, collective: Collective, gather: Score, scatter: Score) -> Candidate:
    scores = {
        Collective.ALLGATHER: gather,
        Collective.REDUCE_SCATTER: scatter,
        Collective.ALLREDUCE: scatter.then(gather),
    }
    return Candidate(recipe, scores[collective], gather.cost, scatter.cost)


def _better_half(recipe: Recipe, collective: Collective, confirm: bool = True) -> Score:
    """Score of an allgather or reduce-scatter under the better of the two schedules."""
    transposed = collective == Collective.REDUCE_SCATTER
    loads = measured_gather_loads(recipe, transposed and not recipe.reverse_symmetric)
    loads = loads[::-1] if transposed else loads
    total = sum(loads, Fraction(0)) * recipe.degree / recipe.num_nodes
    measured = Score(collective, Cost(len(loads), total), loads, BFB, True)
    if not (isinstance(recipe, Expanded) or _is_stored(recipe, collective)):
        return measured
    mapped = _mapped_half(recipe, collective)
    if _rank(mapped) >= _rank(measured):
        return measured
    if mapped.schedule == STORED:  # verified when it was read
        return replace(mapped, measured=True)
    if not confirm or not can_confirm(recipe):
        return mapped
    verdict = verify(recipe.expansion_schedule(collective))
    if not verdict.ok:
        raise RuntimeError(f"the mapped schedule of {recipe!r} fails: {verdict.witness}")
    return Score(collective, verdict.cost, verdict.max_loads, EXPANSION, True)


def _mapped_half(recipe: Recipe, collective: Collective) -> Score:
    """Predicted score of the base's schedule, mapped through the expansions if there are any."""
    maker = STORED if _is_stored(recipe, collective) else EXPANSION
    cost, loads = recipe.predict(collective), recipe.predicted_loads(collective)
    return Score(collective, cost, loads, maker, False)


def _is_stored(recipe: Recipe, collective: Collective) -> bool:
    """Whether the recipe is a base with a stored schedule of this allgather or reduce-scatter."""
    transposed = collective == Collective.REDUCE_SCATTER
    return isinstance(recipe, Base) and recipe.stored_schedule(transposed=transposed) is not None


def _rank(score: Score) -> tuple[Fraction, int]:
    return score.cost.t_b, score.cost.steps


def verified(recipe: Recipe | None, schedule: Schedule, maker: str) -> Design:
    """The design of a schedule that verifies; RuntimeError with the witness if it does not."""
    verdict = verify(schedule)
    if not verdict.ok:
        raise RuntimeError(f"the schedule made by {maker} fails: {verdict.witness}")
    return Design(recipe, schedule, verdict.cost, verdict.max_loads, maker)
