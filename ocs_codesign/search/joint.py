"""The joint frontier: topologies that serve both allgather and all-to-all.

Candidates are those that the allgather search scores and those of a search for all-to-all. Most are
ruled out by bounds on their all-to-all; the rest are solved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.collective import Collective
from ocs_codesign.cost import Cost, no_worse, split_dominated
from ocs_codesign.design import BFB, Design, Known, measure
from ocs_codesign.graphs.expansions.reverse import Transpose
from ocs_codesign.lp import DEFAULT_OPTIONS
from ocs_codesign.search.alltoall.search import alltoall_recipes
from ocs_codesign.search.alltoall.solving import Solving, alltoall_graph
from ocs_codesign.search.pareto import Frontier, least_point_of, point_of, proven_t_b
from ocs_codesign.search.search import enumerate_candidates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ocs_codesign.cost import CostModel, Point
    from ocs_codesign.lp import Options
    from ocs_codesign.question import Question
    from ocs_codesign.schedulers.alltoall.result import Throughput
    from ocs_codesign.search.effort import Effort

    Progress = Callable[[str, int, int], None]

WITH_ALLGATHER = ("allgather steps", "allgather t_b", "t_b")
ALLTOALL_ALONE = ("steps", "t_b")
"""What the joint frontier compares; the steps of an all-to-all alone are the diameter."""


@final
@dataclass(frozen=True, slots=True)
class JointTimes:
    """Seconds of an allgather and of an all-to-all on one topology, each on its own."""

    allgather_s: Fraction
    alltoall_s: Fraction

    @property
    def total_s(self) -> Fraction:
        """One after the other."""
        return self.allgather_s + self.alltoall_s


def hop_bound(design: Design) -> Fraction:
    """What distances alone prove of its all-to-all: it takes at least this, in M/B."""
    known = (design, *design.others)
    return next(other.cost.t_b for other in known if other.known == Known.BOUNDED)


def joint_times(
    design: Design,
    model: CostModel,
    message_bytes: float,
    alltoall_bytes: float | None = None,
) -> JointTimes:
    """Seconds of an allgather of ``message_bytes`` and an all-to-all of as many, or of others.

    Either size is M, the buffer of a rank: the result of the allgather, all that one rank sends.
    """
    exchanged = message_bytes if alltoall_bytes is None else alltoall_bytes
    gather = design.cost_of(Collective.ALLGATHER)
    return JointTimes(gather.time_s(model, message_bytes), design.cost.time_s(model, exchanged))


def counts_allgather(frontier: Frontier) -> bool:
    """Whether the allgather is compared as well."""
    return frontier.criteria == WITH_ALLGATHER


def best_jointly(
    frontier: Frontier,
    model: CostModel,
    message_bytes: float,
    alltoall_bytes: float | None = None,
) -> Design:
    """The candidate with the least time for an all-to-all of ``message_bytes``.

    If the allgather counts, for an allgather of so many bytes and then an all-to-all of as
    many, or of ``alltoall_bytes``. On a tie the first. Raises ValueError if none was solved.

    >>> from ocs_codesign.cost import CostModel
    >>> from ocs_codesign.search.effort import Effort
    >>> from ocs_codesign.search.frontier import joint_frontier
    >>> answer = joint_frontier(12, 4, effort=Effort(work=2**18))
    >>> model = CostModel(1e-6, 1e9)
    >>> times = joint_times(best_jointly(answer, model, 1e6), model, 1e6)
    >>> round(times.allgather_s * 1e6), round(times.alltoall_s * 1e6)
    (919, 1502)
    """
    if not frontier.candidates:
        raise ValueError("no candidate was solved: none is known to be the best")

    def time_s(design: Design) -> Fraction:
        times = joint_times(design, model, message_bytes, alltoall_bytes)
        return times.total_s if counts_allgather(frontier) else times.alltoall_s

    return min(frontier.candidates, key=time_s)


def search_jointly(
    question: Question,
    effort: Effort,
    on_progress: Progress | None = None,
    *,
    with_allgather: bool,
    options: Options = DEFAULT_OPTIONS,
) -> Frontier:
    """The joint frontier of a question, or that of all-to-all alone."""
    scored = _scored(question, effort, on_progress, with_allgather)
    return rank_jointly(
        question, scored, on_progress, with_allgather=with_allgather, options=options
    )


def rank_jointly(
    question: Question,
    candidates: Iterable[Design],
    on_progress: Progress | None = None,
    *,
    with_allgather: bool,
    options: Options = DEFAULT_OPTIONS,
) -> Frontier:
    """The joint frontier of these candidates; nothing is searched."""
    solving = Solving(options)
    criteria = WITH_ALLGATHER if with_allgather else ALLTOALL_ALONE
    search = _Search(solving, criteria, on_progress)
    found = search.sketched([search.bounded(candidate) for candidate in candidates])
    answer = _frontier(question, search.settled(found), criteria)
    return replace(answer, stopped=solving.stopped)


def _scored(
    question: Question, effort: Effort, on_progress: Progress | None, with_allgather: bool
) -> list[Design]:
    """Measured candidates of the allgather search, and those of the search for all-to-all.

    Transposes of the latter are of use only if the allgather counts.
    """
    scored = enumerate_candidates(question, Collective.ALLGATHER, effort, on_progress)
    measured = {candidate.recipe: candidate for candidate in scored if candidate.measured}
    for recipe in alltoall_recipes(question, effort, on_progress):
        both = with_allgather and not recipe.reverse_symmetric
        for one in (recipe, Transpose(recipe)) if both else (recipe,):
            if one not in measured:
                measured[one] = measure(one, confirm=False)
    return [candidate for candidate in measured.values() if candidate.measured]


@final
class _Search:
    """Solves as few candidates as it takes to know the frontier, each no further than it takes."""

    def __init__(
        self, solving: Solving, criteria: tuple[str, ...], on_progress: Progress | None
    ) -> None:
        self._solving, self._criteria = solving, criteria
        self._on_progress = on_progress

    def bounded(self, gather: Design) -> Design:
        """What distances alone say of the all-to-all of a topology with this allgather."""
        recipe, is_bfb = gather.recipe, gather.maker == BFB
        diameter = gather.cost.steps if is_bfb else alltoall_graph(recipe).topology().diameter()
        least = Cost(diameter, self._solving.hop_bound(recipe))
        recipes, others = (recipe,), (replace(gather, others=()),)
        return Design(Collective.ALLTOALL, least, "hops", Known.BOUNDED, recipes, others=others)

    def sketched(self, found: list[Design]) -> list[Design]:
        """All, those solved roughly that hops do not rule out; the small ones, the likely first."""

        def cost(one: Design) -> tuple[Any, ...]:
            return self._solving.size(one.recipe), hop_bound(one), _allgather(one)

        answer = sorted(found, key=cost)
        for place, one in enumerate(answer):
            self._tell("all-to-all, roughly", place, len(answer))
            if not self._is_beaten(one, answer, Fraction(0)):
                answer[place] = _routed(one, self._solving.sketch(one.recipe))
        return answer

    def settled(self, found: list[Design]) -> list[Design]:
        """All, those solved well that may be on the frontier; the likely first.

        What can only be better by as much as the solution would be off is left as it is.
        """

        def promise(one: Design) -> tuple[Any, ...]:
            return proven_t_b(one), self._solving.size(one.recipe), _allgather(one)

        answer = sorted(found, key=promise)
        for place, one in enumerate(answer):
            self._tell("all-to-all", place, len(answer))
            if not self._is_beaten(one, answer, self._solving.error(one.recipe)):
                answer[place] = _routed(one, self._solving.settle(one.recipe))
        return answer

    def _is_beaten(self, one: Design, others: list[Design], error: Fraction) -> bool:
        """Whether some other is no worse in anything than the least that is proven of this one."""
        *costs, time = least_point_of(one, self._criteria)
        least = (*costs, time * (1 + error))
        return any(
            no_worse(point_of(other, self._criteria), least)
            for other in others
            if other.measured and other is not one
        )

    def _tell(self, phase: str, done: int, total: int) -> None:
        if self._on_progress is not None:
            self._on_progress(phase, done, total)


def _routed(design: Design, routing: Throughput | None) -> Design:
    """The design with a routing that was found, or as it is; its hop bound stays known."""
    if routing is None:
        return design
    hops = [other for other in (design, *design.others) if other.known == Known.BOUNDED]
    gather = design.of(Collective.ALLGATHER)
    return replace(
        design,
        cost=Cost(design.cost.steps, routing.time),
        maker=routing.method,
        known=Known.MEASURED,
        least_t_b=routing.bound,
        others=(gather, replace(hops[0], others=())),
    )


def _allgather(design: Design) -> tuple[int, Fraction]:
    cost = design.cost_of(Collective.ALLGATHER)
    return cost.steps, cost.t_b


def _frontier(question: Question, found: list[Design], criteria: tuple[str, ...]) -> Frontier:
    """The solved ones that no other beats, the first of a point; what may beat them; the rest."""

    def point(design: Design) -> Point:
        return point_of(design, criteria)

    front, _ = split_dominated((design for design in found if design.measured), point)
    rest = [design for design in found if design not in front]
    points = [point(design) for design in front]
    unsolved = [
        design
        for design in rest
        if not design.measured and not any(no_worse(best, point(design)) for best in points)
    ]
    dominated = tuple(design for design in rest if design not in unsolved)
    return Frontier(
        question, Collective.ALLTOALL, tuple(front), dominated, criteria, unsolved=tuple(unsolved)
    )
