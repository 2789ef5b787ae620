"""Designs: what collectives cost on a recipe or a graph, how that is known, and its best schedule.

Two schedules compete for every recipe: BFB on the built graph, and the base's schedule mapped
through the expansions; on a base without expansions that is the stored one, if there is one. The
better one is the one with the lower t_b, then with fewer steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, final

from ocs_codesign.core.bounds import bound, topology_bound
from ocs_codesign.core.collective import GATHERING, Collective
from ocs_codesign.core.cost import Cost, total
from ocs_codesign.core.given import as_topology, takes_topology
from ocs_codesign.core.shown import Shown
from ocs_codesign.graphs.recipe import Base, Expanded, Recipe
from ocs_codesign.graphs.text import as_recipe_or_topology
from ocs_codesign.schedules.breadth_first.assembly import bfb, loads_of_half
from ocs_codesign.schedules.breadth_first.loads import (
    MAX_WORK,
    can_measure,
    is_measurable,
    num_chunks_for,
    too_long,
)
from ocs_codesign.verification.schedules import verify
from ocs_codesign.verification.sends import FORWARD_ONLY, Abilities

if TYPE_CHECKING:
    from ocs_codesign.core.given import TopologyLike
    from ocs_codesign.core.schedule import Schedule
    from ocs_codesign.core.topology import Topology


BFB, EXPANSION, STORED, BEST = "bfb", "expansion", "stored", "best"

_MAX_VERIFIED_SENDS = 2**22
_LONGEST_NAME = 120
"""Characters of recipes in a repr; longer ones are told by their labels."""


class Known(Enum):
    """How a cost is known."""

    PREDICTED = "predicted"
    """By a closed form: an upper bound on what the design can do."""
    MEASURED = "measured"
    """Exact: the loads of BFB, a verified schedule, or a routing that was found."""
    BOUNDED = "bounded"
    """Proven from below: the design takes at least this."""


@final
@dataclass(frozen=True, slots=True)
class Design(Shown):
    """What a collective costs on a topology, or on several held in turn, and how that is known.

    ``recipes`` name the topologies in the order in which they are held, none for a given graph.
    ``maker`` names what achieves the cost: a scheduler, or one for each half of an allreduce as in
    ``bfb+expansion``. ``loads`` are the largest link loads, in shards, of every step, where they
    are known; no schedule over these topologies has a t_b below ``least_t_b``, None if nothing is
    proven; ``forest_t_b`` is what forests come near to, None if it was not asked. ``others`` are
    what the same topology costs for other collectives. ``built`` is the verified schedule, if it
    was built, from whose sends the cost was computed, in switches with these ``abilities``.
    """

    collective: Collective
    cost: Cost
    maker: str
    known: Known
    recipes: tuple[Recipe, ...] = ()
    loads: tuple[Fraction, ...] = ()
    least_t_b: Fraction | None = None
    forest_t_b: Fraction | None = None
    others: tuple[Design, ...] = ()
    built: Schedule | None = None
    name: str = ""
    abilities: Abilities = FORWARD_ONLY

    def __repr__(self) -> str:
        named = " -> ".join(map(repr, self.recipes)) or self.name or "a graph"
        named = named if len(named) <= _LONGEST_NAME else self.label
        return f"Design({self.collective.name}, {self.cost!r}, {self.known.value}, {named})"

    @property
    def recipe(self) -> Recipe:
        """The recipe; ValueError for a given graph."""
        if not self.recipes:
            raise ValueError("this design is of a graph that no recipe describes")
        return self.recipes[0]

    @property
    def topology(self) -> Topology:
        """The graph; ValueError for a given one, or for one too large to hold."""
        return self.recipe.topology()

    @property
    def schedule(self) -> Schedule:
        """The verified schedule, built now if it was not; ValueError if only the cost is known.

        >>> measure("Complete(3)").schedule.num_sends
        6
        """
        if self.built is not None:
            return self.built
        if len(self.recipes) != 1 or self.collective not in GATHERING or not self.measured:
            raise ValueError(f"the schedule of {self.label or 'this graph'} was not built")
        return build(self.recipe, self.collective).schedule

    @property
    def label(self) -> str:
        """A name for people: the given one, or the recipes in the field's notation."""
        return self.name or " → ".join(recipe.label() for recipe in self.recipes)

    @property
    def measured(self) -> bool:
        """Whether the cost is exact rather than a bound on it."""
        return self.known == Known.MEASURED

    @property
    def changes(self) -> bool:
        """Whether circuits change."""
        return self.cost.num_configurations > 1

    @property
    def num_chunks(self) -> int:
        """Fewest chunks a shard with which whole chunks can have these loads."""
        return num_chunks_for(self.loads)

    def of(self, collective: Collective | str) -> Design:
        """The same topology under another collective, which knows what this one knows.

        An allreduce is that of its halves. ValueError if the collective's cost is not known.
        """
        collective = Collective.parse(collective)
        known = (self, *self.others)
        found = next((design for design in known if design.collective == collective), None)
        if found is None and collective == Collective.ALLREDUCE:
            halves = [self.of(half) for half in collective.halves()]
            found = halves[0].then(halves[1])
        if found is None:
            raise ValueError(f"what {self.label} costs for {collective.name} is not known")
        rest = (design for design in known if design is not found)
        return replace(found, others=tuple(replace(design, others=()) for design in rest))

    def cost_of(self, collective: Collective | str) -> Cost:
        """Cost of a collective; that of an allreduce is the sum of its halves."""
        collective = Collective.parse(collective)
        for design in (self, *self.others):
            if design.collective == collective:
                return design.cost
        return self.of(collective).cost

    @property
    def bound(self) -> Cost:
        """What no topology of this size and degree can beat."""
        return bound(self.recipe.num_nodes, self.recipe.degree, self.collective)

    def bound_on(self, topology: TopologyLike) -> Cost:
        """What no schedule on its topology can beat; every half of BFB takes the diameter."""
        halves = len(self.collective.halves())
        diameter = self.cost.steps // halves if self.maker == BFB else None
        return topology_bound(topology, self.collective, diameter, self.cost.t_b)

    @property
    def bw_optimal(self) -> bool:
        """Whether t_b is the least possible."""
        return self.cost.t_b == self.bound.t_b

    @property
    def late(self) -> bool:
        """Whether items arrive later than their distance, as a search for late arrivals found.

        >>> measure("Late(AffineSpliced(61, 3, (0, 22, 24, 2)), 4, 100000, 0)").late
        True
        """
        return is_late(" ".join(map(repr, self.recipes)), self.maker)

    @property
    def moore_optimal(self) -> bool:
        """Whether the number of steps meets the directed Moore bound."""
        return self.cost.steps == self.bound.steps

    def then(self, allgather: Design) -> Design:
        """The allreduce that runs this reduce-scatter first."""
        makers = dict.fromkeys((self.maker, allgather.maker))
        return Design(
            Collective.ALLREDUCE,
            self.cost + allgather.cost,
            "+".join(makers),
            Known.MEASURED if self.measured and allgather.measured else Known.PREDICTED,
            self.recipes,
            self.loads + allgather.loads,
        )


def is_late(recipe: str, maker: str) -> bool:
    """Whether the schedule of a recipe's text, or a half of it, is one of late arrivals.

    >>> is_late("Line(Late(Complete(40), 2, 9, 1))", "bfb+expansion"), is_late("Cube()", "bfb")
    (True, False)
    """
    return maker.startswith("late") or ("Late(" in recipe and EXPANSION in maker.split("+"))


def of_halves(collective: Collective, scatter: Design, gather: Design) -> Design:
    """The design for a collective of GATHERING that knows the costs of both halves."""
    halves = (scatter, gather)
    if collective == Collective.ALLREDUCE:
        return replace(scatter.then(gather), others=halves)
    mine, other = halves if collective == Collective.REDUCE_SCATTER else halves[::-1]
    return replace(mine, others=(other,))


def predict(recipe: TopologyLike, collective: Collective | str = Collective.ALLGATHER) -> Design:
    """The cost by formula alone; nothing bigger than a base is built. A graph is measured."""
    recipe, collective = as_recipe_or_topology(recipe), Collective.parse_gathering(collective)
    if not isinstance(recipe, Recipe):
        return measure_topology(recipe, collective)
    scatter, gather = (_mapped_half(recipe, half) for half in Collective.ALLREDUCE.halves())
    return of_halves(collective, scatter, gather)


def measure(
    recipe: TopologyLike,
    collective: Collective | str = Collective.ALLGATHER,
    *,
    confirm: bool = True,
    max_work: int = MAX_WORK,
) -> Design:
    """The exact cost: BFB on the built graph, or a better schedule of the base; of a graph BFB.

    A mapped schedule that wins is built and verified; without ``confirm`` its cost stays predicted,
    which is all that a search needs of candidates that may yet be dropped. So does that of an
    expansion on which BFB takes more than ``max_work`` operations on words; ValueError for others.
    A stored schedule is verified when it is read.

    >>> design = measure("Degree(CompleteBipartite(2), 2)")
    >>> design.cost, design.maker, design.moore_optimal
    (Cost(steps=2, t_b=Fraction(7, 8)), 'bfb', True)
    """
    recipe, collective = as_recipe_or_topology(recipe), Collective.parse_gathering(collective)
    if not isinstance(recipe, Recipe):
        if can_measure(recipe, max_work):
            return measure_topology(recipe, collective)
        raise ValueError(too_long(recipe))
    scatter, gather = (
        _better_half(recipe, half, confirm, max_work) for half in Collective.ALLREDUCE.halves()
    )
    return of_halves(collective, scatter, gather)


def can_confirm(recipe: Recipe) -> bool:
    """Whether a search may build and verify the recipe's mapped schedule: about N^2 sends."""
    return recipe.num_nodes**2 <= _MAX_VERIFIED_SENDS


@takes_topology
def measure_topology(
    topology: Topology, collective: Collective | str = Collective.ALLGATHER
) -> Design:
    """The exact cost of BFB on any topology, for instance an imported one."""
    collective = Collective.parse_gathering(collective)
    if collective == Collective.ALLREDUCE:
        scatter = measure_topology(topology, Collective.REDUCE_SCATTER)
        return scatter.then(measure_topology(topology, Collective.ALLGATHER))
    loads = loads_of_half(topology, collective)
    cost = Cost(len(loads), topology.t_b(total(loads)))
    return Design(collective, cost, BFB, Known.MEASURED, loads=loads)


def build(
    recipe: TopologyLike, collective: Collective | str = Collective.ALLGATHER, schedule: str = BEST
) -> Design:
    """The verified design of a recipe: with the best schedule, or that of a scheduler by name.

    The best is that of "bfb", "expansion" or "stored", of a graph BFB. Raises ValueError if it is
    too large, or the scheduler has none, RuntimeError if it does not verify.

    >>> build("Line(Complete(3))", "allreduce").cost
    Cost(steps=4, t_b=Fraction(2, 1))
    """
    recipe, collective = as_recipe_or_topology(recipe), Collective.parse_gathering(collective)
    if schedule != BEST or not isinstance(recipe, Recipe):
        return _made(recipe, collective, BFB if schedule == BEST else schedule)
    halves = [_made(recipe, half, _better_half(recipe, half).maker) for half in collective.halves()]
    if len(halves) == 1:
        return halves[0]
    made = halves[0].schedule.then(halves[1].schedule)
    makers = dict.fromkeys(half.maker for half in halves)
    return verified(recipe, made, "+".join(makers))


def _made(recipe: Recipe | Topology, collective: Collective, scheduler: str) -> Design:
    from ocs_codesign.schedules.registry import Task, made_by

    known = recipe if isinstance(recipe, Recipe) else None
    task = Task(as_topology(recipe), collective, known)
    made = made_by(scheduler, task)
    if made.schedule is None:
        raise ValueError(f"no {collective.name} of {recipe!r} was found ({made.maker})")
    return verified(known, made.schedule, made.maker)


@takes_topology
def build_topology(
    topology: Topology, collective: Collective | str = Collective.ALLGATHER
) -> Design:
    """The verified BFB design on any topology."""
    return verified(None, bfb(topology, collective), BFB)


def _better_half(
    recipe: Recipe, collective: Collective, confirm: bool = True, max_work: int = MAX_WORK
) -> Design:
    """The allgather or reduce-scatter under the better of the two schedules."""
    if not is_measurable(recipe, max_work):
        if isinstance(recipe, Expanded):
            return _mapped_half(recipe, collective)
        if isinstance(recipe, Base):
            recipe.loads()  # which says what is too many
        raise ValueError(too_long(recipe))
    transposed = collective == Collective.REDUCE_SCATTER
    loads = recipe.bfb_gather_loads(transposed=transposed)
    loads = loads[::-1] if transposed else loads
    cost = Cost(len(loads), total(loads) * recipe.degree / recipe.num_nodes)
    measured = Design(collective, cost, BFB, Known.MEASURED, (recipe,), loads)
    if not (isinstance(recipe, Expanded) or _is_stored(recipe, collective)):
        return measured
    mapped = _mapped_half(recipe, collective)
    if _rank(mapped) >= _rank(measured):
        return measured
    if mapped.maker == STORED:  # verified when it was read
        return replace(mapped, known=Known.MEASURED)
    if not confirm or not can_confirm(recipe):
        return mapped
    verdict = verify(recipe.expansion_schedule(collective))
    if not verdict.ok:
        raise RuntimeError(f"the mapped schedule of {recipe!r} fails: {verdict.witness}")
    return replace(mapped, cost=verdict.cost, loads=verdict.max_loads, known=Known.MEASURED)


def _mapped_half(recipe: Recipe, collective: Collective) -> Design:
    """Predicted cost of the base's schedule, mapped through the expansions if there are any."""
    maker = STORED if _is_stored(recipe, collective) else EXPANSION
    cost, loads = recipe.predict(collective), recipe.predicted_loads(collective)
    return Design(collective, cost, maker, Known.PREDICTED, (recipe,), loads)


def _is_stored(recipe: Recipe, collective: Collective) -> bool:
    """Whether the recipe is a base with a stored schedule of this allgather or reduce-scatter."""
    transposed = collective == Collective.REDUCE_SCATTER
    return isinstance(recipe, Base) and recipe.stored_schedule(transposed=transposed) is not None


def _rank(design: Design) -> tuple[Fraction, int]:
    return design.cost.t_b, design.cost.steps


def verified(
    recipe: Recipe | None, schedule: Schedule, maker: str, abilities: Abilities = FORWARD_ONLY
) -> Design:
    """The design of a schedule that verifies; RuntimeError with the witness if it does not."""
    verdict = verify(schedule, abilities=abilities)
    if not verdict.ok:
        raise RuntimeError(f"the schedule made by {maker} fails: {verdict.witness}")
    recipes = () if recipe is None else (recipe,)
    known = schedule.collective, verdict.cost, maker, Known.MEASURED, recipes, verdict.max_loads
    return Design(*known, built=schedule, abilities=abilities)


# Question: the size, the degree and the kind of links that a topology is wanted for.


@final
@dataclass(frozen=True, slots=True, order=True)
class Question:
    """N nodes of degree d; ``bidirectional`` asks that every link has one in the other direction.

    Questions are ordered such that all that an expansion starts from come first.
    """

    num_nodes: int
    degree: int
    bidirectional: bool = False

    def is_answered_by(self, recipe: Recipe) -> bool:
        """Whether the recipe's topology has this size, degree and kind of links."""
        return (recipe.num_nodes, recipe.degree) == (self.num_nodes, self.degree) and (
            recipe.bidirectional or not self.bidirectional
        )
