"""Frontier: the mutually undominated designs of one question; exact comparison, no tolerance."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, final

from ocs_codesign.bounds import bound, topology_bound
from ocs_codesign.collective import GATHERING, Collective
from ocs_codesign.cost import Cost, no_worse, split_dominated
from ocs_codesign.design import Design, Known
from ocs_codesign.search.baselines import baseline_recipes
from ocs_codesign.search.literature import literature
from ocs_codesign.shown import Tabular

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from fractions import Fraction

    from ocs_codesign.cost import CostModel, Point
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.question import Question
    from ocs_codesign.search.catalogue.entry import Provenance

FOREST_T_B = "forest t_b"


def forest_t_b(design: Design) -> Fraction:
    """The t_b that no schedule on a design's topology beats and forests come near to.

    Nothing is built where the design's own t_b is the least of any topology.

    >>> from ocs_codesign.design import measure
    >>> design = measure("GeneralizedKautz(2, 9)")
    >>> design.cost.t_b, forest_t_b(design)
    (Fraction(14, 9), Fraction(8, 9))
    """
    if design.forest_t_b is not None:
        return design.forest_t_b
    cost = design.cost
    if design.bw_optimal:
        return cost.t_b
    topology = design.recipe.topology()
    return topology_bound(topology, design.collective, cost.steps, cost.t_b).t_b


CRITERIA: dict[str, Callable[[Design], Fraction | int]] = {
    "configurations": lambda design: design.cost.num_configurations,
    "steps": lambda design: design.cost.steps,
    "t_b": lambda design: design.cost.t_b,
    FOREST_T_B: forest_t_b,
    "allgather steps": lambda design: design.cost_of(Collective.ALLGATHER).steps,
    "allgather t_b": lambda design: design.cost_of(Collective.ALLGATHER).t_b,
    "reduce-scatter steps": lambda design: design.cost_of(Collective.REDUCE_SCATTER).steps,
    "reduce-scatter t_b": lambda design: design.cost_of(Collective.REDUCE_SCATTER).t_b,
    "allreduce steps": lambda design: design.cost_of(Collective.ALLREDUCE).steps,
    "allreduce t_b": lambda design: design.cost_of(Collective.ALLREDUCE).t_b,
}
"""What designs can be compared by; less is better."""

WITH_FORESTS = ("steps", "t_b", FOREST_T_B)


def criteria_of(collectives: Collection[Collective]) -> tuple[str, ...]:
    """All that counts for these collectives; ``steps`` and ``t_b`` are those of an all-to-all.

    >>> criteria_of([Collective.ALLTOALL, Collective.ALLREDUCE])
    ('allreduce steps', 'allreduce t_b', 'steps', 't_b')
    """
    wanted = [one for one in GATHERING if one in collectives]
    names = [f"{one.name} {what}" for one in wanted for what in ("steps", "t_b")]
    return (*names, *("steps", "t_b") * (Collective.ALLTOALL in collectives))


def point_of(design: Design, criteria: Iterable[str]) -> Point:
    """The design's values of some criteria."""
    return tuple(CRITERIA[name](design) for name in criteria)


def least_point_of(design: Design, criteria: Iterable[str]) -> Point:
    """The same with the t_b that is proven where that is less than what was found.

    What forests could do on a topology that was not asked for it is taken to be all that is
    possible.
    """
    at_best = replace(design.cost, t_b=proven_t_b(design))
    least = design.forest_t_b
    if least is None:
        least = design.bound.t_b if design.recipes else at_best.t_b
    return point_of(replace(design, cost=at_best, forest_t_b=least), criteria)


def proven_t_b(design: Design) -> Fraction:
    """The least t_b that is proven of a design, or what was found where nothing is."""
    return design.cost.t_b if design.least_t_b is None else design.least_t_b


@final
@dataclass(frozen=True, slots=True, eq=False)
class Frontier(Tabular):
    """Answer to a question: which designs of this size trade the criteria off best?

    ``candidates`` are no worse than each other in no case and have pairwise different values of
    the criteria, in whose order they ascend; ``dominated`` are all others that were looked at. With
    ``max_configurations`` above 1 designs may change circuits. ``unsolved`` are those that might
    belong to the frontier but were too large to solve, and ``stopped`` says why some are not solved
    as well as they could be, else None. ``origin`` says how the catalogue came to them, None if
    they were searched for; ``alltoall`` are exact all-to-all times, in M/B, that it has of some.
    """

    question: Question
    collective: Collective
    candidates: tuple[Design, ...]
    dominated: tuple[Design, ...]
    criteria: tuple[str, ...] = ("steps", "t_b")
    max_configurations: int = 1
    unsolved: tuple[Design, ...] = ()
    stopped: str | None = None
    origin: Provenance | None = None
    alltoall: Mapping[Recipe, Fraction] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"Frontier({self.num_nodes} nodes, degree {self.degree}, {self.collective.name}: "
            f"{len(self.candidates)} candidates, {len(self.dominated)} dominated)"
        )

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.question.num_nodes

    @property
    def degree(self) -> int:
        """d, the ports of a node."""
        return self.question.degree

    @property
    def published(self) -> tuple[Design, ...]:
        """The designs of the literature that have this size, on the frontier or dominated."""
        return self._scored(literature(self.num_nodes, self.degree))

    @property
    def baselines(self) -> tuple[Design, ...]:
        """The ring and the torus of this size, on the frontier or dominated."""
        return self._scored(baseline_recipes(self.question))

    def _scored(self, recipes: Iterable[Recipe]) -> tuple[Design, ...]:
        scored = {design.recipe: design for design in self.looked_at}
        return tuple(scored[recipe] for recipe in recipes if recipe in scored)

    @property
    def looked_at(self) -> tuple[Design, ...]:
        """All designs that were compared; what is said of the best is said among these."""
        return (*self.candidates, *self.dominated, *self.unsolved)

    @property
    def static(self) -> tuple[Design, ...]:
        """The candidates that never change circuits."""
        return tuple(design for design in self.candidates if not design.changes)

    @property
    def switching(self) -> tuple[Design, ...]:
        """The candidates that do."""
        return tuple(design for design in self.candidates if design.changes)

    @property
    def bound(self) -> Cost:
        """Least steps and least t_b of any static topology of this size; no one need meet both."""
        return bound(self.num_nodes, self.degree, self.collective)

    def best(
        self,
        model: CostModel,
        message_bytes: Fraction | float,
        delta_s: Fraction | float = 0,
        *,
        cold_start: bool = False,
    ) -> Design:
        """The candidate with the least time for a message, on a tie the first.

        >>> from ocs_codesign.cost import CostModel
        >>> from ocs_codesign.search.frontier import frontier
        >>> answer = frontier(12, 4)
        >>> answer.best(CostModel(1e-5, 1e10), 1e6).cost.steps
        2
        """

        def time_s(design: Design) -> Fraction:
            return design.cost.time_s(model, message_bytes, delta_s, cold_start=cold_start)

        return min(self.candidates, key=time_s)

    def dominator(self, other: Design | Cost) -> Design | None:
        """The first candidate no worse than the least that is proven of the other, None if none is.

        A candidate is its own dominator. Anything is compared by its cost alone, if the allgather
        does not count beside another collective.
        """
        if isinstance(other, Cost):
            other = Design(self.collective, other, "given", Known.MEASURED)
        mine = least_point_of(other, self.criteria)
        for candidate in self.candidates:
            if no_worse(point_of(candidate, self.criteria), mine):
                return candidate
        return None


def with_forests(designs: Iterable[Design]) -> tuple[list[Design], list[Design]]:
    """Undominated designs in steps, t_b and what forests come near to, and the rest, ascending.

    The cuts of a topology are looked at only where it could be undominated.
    """
    front: list[Design] = []
    rest: list[Design] = []
    for design in sorted(designs, key=lambda one: (*one.cost.point(), not one.measured)):
        found = design
        if not _is_beaten(least_point_of(design, WITH_FORESTS), front):
            found = replace(design, forest_t_b=forest_t_b(design))
        is_beaten = _is_beaten(least_point_of(found, WITH_FORESTS), front)
        (rest if is_beaten else front).append(found)
    best, beaten = split_dominated(front, lambda design: point_of(design, WITH_FORESTS))
    return best, [*beaten, *rest]


def _is_beaten(point: Point, front: Iterable[Design]) -> bool:
    return any(no_worse(point_of(design, WITH_FORESTS), point) for design in front)


def pareto(
    designs: Iterable[Design], collective: Collective | None = None
) -> tuple[list[Design], list[Design]]:
    """Undominated designs, one a cost, and the rest, both ascending in (steps, t_b).

    By the cost of the collective, or of that for which they were scored. Of equal costs the first
    measured one stays.
    """
    measured_first = sorted(designs, key=lambda design: not design.measured)
    return split_dominated(
        measured_first,
        lambda design: (design.cost_of(collective) if collective else design.cost).point(),
    )
