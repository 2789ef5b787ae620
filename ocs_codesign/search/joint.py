"""The joint frontier: topologies that serve both allgather and all-to-all.

Candidates are those that the allgather search scores and those of a search for all-to-all. Most are
ruled out by bounds on their all-to-all; the rest are solved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.bounds import bound
from ocs_codesign.collective import Collective
from ocs_codesign.cost import Cost
from ocs_codesign.design import BFB, measure
from ocs_codesign.graphs.expansions.reverse import Transpose
from ocs_codesign.lp import DEFAULT_OPTIONS
from ocs_codesign.search.alltoall.search import alltoall_recipes
from ocs_codesign.search.alltoall.solving import Solving, alltoall_graph
from ocs_codesign.search.search import enumerate_candidates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ocs_codesign.cost import CostModel
    from ocs_codesign.design import Candidate
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.lp import Options
    from ocs_codesign.question import Question
    from ocs_codesign.schedulers.alltoall.result import Throughput
    from ocs_codesign.search.effort import Effort

    Progress = Callable[[str, int, int], None]


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


@final
@dataclass(frozen=True, slots=True)
class JointCandidate:
    """A topology with its allgather (candidate), its diameter and its all-to-all.

    ``hop_bound`` is what distances alone prove: its all-to-all takes at least this, in M/B.
    ``alltoall`` is None where that was enough to rule it out, or where the program is too large to
    solve in a search; where a rough solution was enough, its gap is up to a fiftieth.
    """

    candidate: Candidate
    diameter: int
    hop_bound: Fraction
    alltoall: Throughput | None

    @property
    def recipe(self) -> Recipe:
        """The recipe."""
        return self.candidate.recipe

    @property
    def least_time(self) -> Fraction:
        """What is proven of its all-to-all: it takes at least this, in M/B."""
        return self.hop_bound if self.alltoall is None else self.alltoall.bound

    @property
    def alltoall_cost(self) -> Cost:
        """Diameter and all-to-all time, its bound where it was not solved."""
        return Cost(self.diameter, self._time)

    @property
    def _time(self) -> Fraction:
        return self.hop_bound if self.alltoall is None else self.alltoall.time

    def point(self, *, with_allgather: bool) -> tuple[Fraction, ...]:
        """What the frontier compares: steps, t_b of the allgather if wanted, all-to-all time.

        The steps are those of the allgather if it counts, else the diameter.
        """
        return self._at(self._time, with_allgather)

    def least_point(self, *, with_allgather: bool) -> tuple[Fraction, ...]:
        """The same with the least that is proven for the all-to-all."""
        return self._at(self.least_time, with_allgather)

    def _at(self, time: Fraction, with_allgather: bool) -> tuple[Fraction, ...]:
        if with_allgather:
            return Fraction(self.candidate.cost.steps), self.candidate.cost.t_b, time
        return Fraction(self.diameter), time

    def times(
        self, model: CostModel, message_bytes: float, alltoall_bytes: float | None = None
    ) -> JointTimes:
        """Seconds of an allgather of ``message_bytes`` and an all-to-all of as many, or of others.

        Either size is that of the whole data, M.
        """
        exchanged = message_bytes if alltoall_bytes is None else alltoall_bytes
        return JointTimes(
            self.candidate.cost.time_s(model, message_bytes),
            self.alltoall_cost.time_s(model, exchanged),
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class JointFrontier:
    """Solved candidates that no other beats in steps, all-to-all and, if it counts, allgather.

    ``candidates`` are in ascending order of what is compared, by the all-to-all times that were
    found; ``dominated`` are all others, solved only as far as it took to know; ``unsolved`` are
    those too large to solve that might belong to the frontier. ``stopped`` says why some are not
    solved as well as they could be, if a solver could not take them or memory ended, else None.
    """

    question: Question
    with_allgather: bool
    candidates: tuple[JointCandidate, ...]
    dominated: tuple[JointCandidate, ...]
    unsolved: tuple[JointCandidate, ...]
    stopped: str | None = None

    @property
    def bound(self) -> Fraction:
        """All-to-all time, in M/B, that no topology of this size can beat."""
        return bound(self.question.num_nodes, self.question.degree, Collective.ALLTOALL).t_b

    def best(
        self, model: CostModel, message_bytes: float, alltoall_bytes: float | None = None
    ) -> JointCandidate:
        """The candidate with the least time for an all-to-all of ``message_bytes``.

        If the allgather counts, for an allgather of so many bytes and then an all-to-all of as
        many, or of ``alltoall_bytes``. On a tie the first. Raises ValueError if none was solved.

        >>> from ocs_codesign.cost import CostModel
        >>> from ocs_codesign.search.effort import Effort
        >>> from ocs_codesign.search.frontier import joint_frontier
        >>> answer = joint_frontier(12, 4, effort=Effort(work=2**18))
        >>> times = answer.best(CostModel(1e-6, 1e9), 1e6).times(CostModel(1e-6, 1e9), 1e6)
        >>> round(times.allgather_s * 1e6), round(times.alltoall_s * 1e6)
        (919, 1502)
        """
        if not self.candidates:
            raise ValueError("no candidate was solved: none is known to be the best")

        def time_s(one: JointCandidate) -> Fraction:
            times = one.times(model, message_bytes, alltoall_bytes)
            return times.total_s if self.with_allgather else times.alltoall_s

        return min(self.candidates, key=time_s)

    def dominator(self, one: JointCandidate) -> JointCandidate | None:
        """The first candidate that is no worse in everything, None if there is none."""
        mine = one.least_point(with_allgather=self.with_allgather)
        for other in self.candidates:
            if _no_worse(other.point(with_allgather=self.with_allgather), mine):
                return other
        return None


def search_jointly(
    question: Question,
    effort: Effort,
    on_progress: Progress | None = None,
    *,
    with_allgather: bool,
    options: Options = DEFAULT_OPTIONS,
) -> JointFrontier:
    """The joint frontier of a question, or that of all-to-all alone."""
    scored = _scored(question, effort, on_progress, with_allgather)
    return rank_jointly(
        question, scored, on_progress, with_allgather=with_allgather, options=options
    )


def rank_jointly(
    question: Question,
    candidates: Iterable[Candidate],
    on_progress: Progress | None = None,
    *,
    with_allgather: bool,
    options: Options = DEFAULT_OPTIONS,
) -> JointFrontier:
    """The joint frontier of these candidates; nothing is searched."""
    solving = Solving(options)
    search = _Search(solving, with_allgather, on_progress)
    found = search.sketched([search.bounded(candidate) for candidate in candidates])
    answer = _frontier(question, search.settled(found), with_allgather)
    return replace(answer, stopped=solving.stopped)


def _scored(
    question: Question, effort: Effort, on_progress: Progress | None, with_allgather: bool
) -> list[Candidate]:
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
        self, solving: Solving, with_allgather: bool, on_progress: Progress | None
    ) -> None:
        self._solving, self._with_allgather = solving, with_allgather
        self._on_progress = on_progress

    def bounded(self, candidate: Candidate) -> JointCandidate:
        """The candidate with what distances alone say of its all-to-all."""
        steps, recipe = candidate.cost.steps, candidate.recipe
        is_bfb = candidate.score.schedule == BFB
        diameter = steps if is_bfb else alltoall_graph(recipe).topology().diameter()
        return JointCandidate(candidate, diameter, self._solving.hop_bound(recipe), None)

    def sketched(self, found: list[JointCandidate]) -> list[JointCandidate]:
        """All, those solved roughly that hops do not rule out; the small ones, the likely first."""

        def cost(one: JointCandidate) -> tuple[Any, ...]:
            return self._solving.size(one.recipe), one.hop_bound, _allgather(one)

        answer = sorted(found, key=cost)
        for place, one in enumerate(answer):
            self._tell("all-to-all, roughly", place, len(answer))
            if not self._is_beaten(one, answer, Fraction(0)):
                answer[place] = replace(one, alltoall=self._solving.sketch(one.recipe))
        return answer

    def settled(self, found: list[JointCandidate]) -> list[JointCandidate]:
        """All, those solved well that may be on the frontier; the likely first.

        What can only be better by as much as the solution would be off is left as it is.
        """

        def promise(one: JointCandidate) -> tuple[Any, ...]:
            return one.least_time, self._solving.size(one.recipe), _allgather(one)

        answer = sorted(found, key=promise)
        for place, one in enumerate(answer):
            self._tell("all-to-all", place, len(answer))
            if not self._is_beaten(one, answer, self._solving.error(one.recipe)):
                solution = self._solving.settle(one.recipe)
                answer[place] = one if solution is None else replace(one, alltoall=solution)
        return answer

    def _is_beaten(
        self, one: JointCandidate, others: list[JointCandidate], error: Fraction
    ) -> bool:
        """Whether some other is no worse in anything than the least that is proven of this one."""
        *costs, time = one.least_point(with_allgather=self._with_allgather)
        least = (*costs, time * (1 + error))
        return any(
            _no_worse(other.point(with_allgather=self._with_allgather), least)
            for other in others
            if other.alltoall is not None and other is not one
        )

    def _tell(self, phase: str, done: int, total: int) -> None:
        if self._on_progress is not None:
            self._on_progress(phase, done, total)


def _allgather(one: JointCandidate) -> tuple[int, Fraction]:
    return one.candidate.cost.steps, one.candidate.cost.t_b


def _frontier(
    question: Question, found: list[JointCandidate], with_allgather: bool
) -> JointFrontier:
    """The solved ones that no other beats, the first of a point; what may beat them; the rest."""

    def point(one: JointCandidate) -> tuple[Fraction, ...]:
        return one.point(with_allgather=with_allgather)

    first: dict[tuple[Fraction, ...], JointCandidate] = {}
    for one in found:
        if one.alltoall is not None:
            first.setdefault(point(one), one)
    least = [p for p in sorted(first) if not any(q != p and _no_worse(q, p) for q in first)]
    front = [first[one] for one in least]
    rest = [one for one in found if one not in front]
    open_ones = [
        one
        for one in rest
        if one.alltoall is None and not any(_no_worse(p, point(one)) for p in least)
    ]
    return JointFrontier(
        question,
        with_allgather,
        tuple(front),
        tuple(one for one in rest if one not in open_ones),
        tuple(open_ones),
    )


def _no_worse(one: tuple[Fraction, ...], other: tuple[Fraction, ...]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))
