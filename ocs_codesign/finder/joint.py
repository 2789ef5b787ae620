"""The joint frontier: topologies that serve both allgather and all-to-all.

Candidates are those that the allgather search scores. All-to-all is solved in the order of a bound
that needs only distances, and not at all for candidates that could not be on the frontier even if
they met their bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.alltoall import columns_to_solve, throughput
from ocs_codesign.alltoall.certificates import price_bound
from ocs_codesign.alltoall.quotient import quotient
from ocs_codesign.bounds import bound
from ocs_codesign.collective import Collective
from ocs_codesign.design import BFB
from ocs_codesign.finder.search import enumerate_candidates
from ocs_codesign.recipe import Transpose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ocs_codesign.alltoall import Throughput
    from ocs_codesign.design import Candidate
    from ocs_codesign.finder.effort import Effort
    from ocs_codesign.question import Question
    from ocs_codesign.recipe import Recipe
    from ocs_codesign.topology import Topology

_MAX_SOLVED = 40
_MAX_COLUMNS = 60_000


@final
@dataclass(frozen=True, slots=True)
class JointCandidate:
    """A topology with its allgather (candidate), its diameter and its all-to-all.

    ``alltoall`` is None where the program is too large to solve in a search; ``hop_bound`` is then
    all that is known: its all-to-all takes at least this, in M/B.
    """

    candidate: Candidate
    diameter: int
    hop_bound: Fraction
    alltoall: Throughput | None

    @property
    def recipe(self) -> Recipe:
        """The recipe."""
        return self.candidate.recipe

    def point(self, *, with_allgather: bool) -> tuple[Fraction, ...]:
        """What the frontier compares: steps, t_b of the allgather if wanted, all-to-all time.

        The steps are those of the allgather if it counts, else the diameter.
        """
        time = self.hop_bound if self.alltoall is None else self.alltoall.time
        if with_allgather:
            return Fraction(self.candidate.cost.steps), self.candidate.cost.t_b, time
        return Fraction(self.diameter), time


@final
@dataclass(frozen=True, slots=True, eq=False)
class JointFrontier:
    """Solved candidates that no other beats in steps, all-to-all and, if it counts, allgather.

    ``candidates`` are in ascending order of what is compared; ``dominated`` are all others that
    were solved, ``unsolved`` those too large to solve that might belong to the frontier.
    """

    question: Question
    with_allgather: bool
    candidates: tuple[JointCandidate, ...]
    dominated: tuple[JointCandidate, ...]
    unsolved: tuple[JointCandidate, ...]

    @property
    def bound(self) -> Fraction:
        """All-to-all time, in M/B, that no topology of this size can beat."""
        return bound(self.question.num_nodes, self.question.degree, Collective.ALLTOALL).t_b


def search_jointly(
    question: Question,
    effort: Effort,
    on_progress: Callable[[str, int, int], None] | None = None,
    *,
    with_allgather: bool,
) -> JointFrontier:
    """The joint frontier of a question, or that of all-to-all alone."""
    scored = enumerate_candidates(question, Collective.ALLGATHER, effort, on_progress)
    pending = sorted(
        (_bounded(candidate) for candidate in scored if candidate.measured),
        key=lambda one: (one.hop_bound, one.candidate.cost.steps, one.candidate.cost.t_b),
    )
    solved: list[JointCandidate] = []
    unsolved: list[JointCandidate] = []
    times: dict[Recipe, Throughput] = {}
    columns = 0
    for done, one in enumerate(pending):
        if on_progress is not None:
            on_progress("all-to-all", done, len(pending))
        if _is_beaten(one, solved, with_allgather):
            continue
        graph = _up_to_reversal(one.recipe)
        topology = graph.topology()
        if graph not in times:
            more = columns_to_solve(topology)
            if len(times) == _MAX_SOLVED or columns + more > _MAX_COLUMNS:
                unsolved.append(one)
                continue
            columns += more
            times[graph] = throughput(topology)
        solved.append(JointCandidate(one.candidate, one.diameter, one.hop_bound, times[graph]))
    front = [one for one in solved if not _is_beaten(one, _others(one, solved), with_allgather)]
    front = _one_a_point(front, with_allgather)
    return JointFrontier(
        question,
        with_allgather,
        tuple(front),
        tuple(one for one in solved if one not in front),
        tuple(one for one in unsolved if not _is_beaten(one, front, with_allgather)),
    )


def _bounded(candidate: Candidate) -> JointCandidate:
    """The candidate with what distances alone say of its all-to-all."""
    topology = _up_to_reversal(candidate.recipe).topology()
    whole = quotient(topology)
    least, _ = price_bound(whole, whole.is_useful.astype(np.int64))
    return JointCandidate(candidate, _diameter(candidate, topology), least, None)


def _diameter(candidate: Candidate, topology: Topology) -> int:
    is_bfb = candidate.score.schedule == BFB
    return candidate.cost.steps if is_bfb else topology.diameter()


def _up_to_reversal(recipe: Recipe) -> Recipe:
    """All-to-all takes as long on the transpose."""
    return recipe.g if isinstance(recipe, Transpose) else recipe


def _is_beaten(one: JointCandidate, others: Iterable[JointCandidate], with_allgather: bool) -> bool:
    """Whether some other is no worse in everything; of equals in everything, the first stays."""
    mine = one.point(with_allgather=with_allgather)
    for other in others:
        theirs = other.point(with_allgather=with_allgather)
        if all(a <= b for a, b in zip(theirs, mine, strict=True)) and (
            theirs != mine or one.alltoall is None
        ):
            return True
    return False


def _others(one: JointCandidate, solved: list[JointCandidate]) -> list[JointCandidate]:
    return [other for other in solved if other is not one]


def _one_a_point(front: list[JointCandidate], with_allgather: bool) -> list[JointCandidate]:
    """The first candidate of every point, ascending."""
    first: dict[tuple[Fraction, ...], JointCandidate] = {}
    for one in front:
        first.setdefault(one.point(with_allgather=with_allgather), one)
    return [first[point] for point in sorted(first)]
