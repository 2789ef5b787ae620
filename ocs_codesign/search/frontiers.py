"""The finder: for N nodes of degree d, the exact latency-throughput Pareto frontier."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.core.collective import GATHERING, Collective
from ocs_codesign.core.cost import Cost, no_worse, split_dominated
from ocs_codesign.core.given import whole
from ocs_codesign.core.lp import DEFAULT_OPTIONS
from ocs_codesign.core.progress import tell_phase
from ocs_codesign.core.topology import check_all_pairs
from ocs_codesign.graphs.recipe import MAX_BUILT_LINKS
from ocs_codesign.schedules.design import BFB, Design, Known, Question
from ocs_codesign.schedules.paths.throughput import columns_to_solve
from ocs_codesign.search.alltoall.solving import Solving, alltoall_graph
from ocs_codesign.search.bases import Effort
from ocs_codesign.search.pareto import (
    WITH_FORESTS,
    Frontier,
    baseline_recipes,
    criteria_of,
    least_point_of,
    pareto,
    point_of,
    proven_t_b,
    with_forests,
)
from ocs_codesign.search.pool import pool

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from ocs_codesign.core.cost import CostModel, Point
    from ocs_codesign.core.lp import Options
    from ocs_codesign.core.proven import Proven
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.schedules.design import Question
    from ocs_codesign.search.bases import Effort


MAX_NODES = 2**20


def frontier(
    num_nodes: int,
    degree: int,
    collective: Collective | str = Collective.ALLGATHER,
    *,
    bidirectional: bool = False,
    forests: bool = False,
    fresh: bool = False,
    effort: Effort | None = None,
) -> Frontier:
    """The frontier of all recipes the finder knows for N nodes of degree d.

    Bases of theory, named graphs and a seeded search, under nested expansions; the most promising
    are measured exactly. ``bidirectional`` asks for topologies whose links come in pairs, one in
    each direction, as many fabrics force; with ``forests`` the least t_b of any schedule on a
    topology counts as well, which spanning trees come near to; sizes that the shipped catalogue has
    searched are looked up unless ``fresh``, as the answer's ``origin`` says; ``effort`` limits the
    search. The same question always has
    the same answer. Raises ValueError unless 2 <= N <= MAX_NODES and 1 <= d < N, or if no topology
    of the size is known.

    >>> [(c.recipe.label(), c.cost.steps, str(c.cost.t_b)) for c in frontier(8, 4).candidates]
    [('K4,4', 2, '7/8')]
    """
    collective = Collective.parse_gathering(collective)
    question = _question(num_nodes, degree, bidirectional)
    known = pool(question, effort, fresh=fresh)
    scored = [design.of(collective) for design in known.designs]
    candidates, dominated = with_forests(scored) if forests else pareto(scored)
    if not candidates:
        raise ValueError(_nothing_known(question))
    criteria = WITH_FORESTS if forests else ("steps", "t_b")
    return Frontier(
        question,
        collective,
        tuple(candidates),
        tuple(dominated),
        criteria,
        origin=known.origin,
        here=known.here,
        alltoall=known.times,
    )


def joint_frontier(
    num_nodes: int,
    degree: int,
    *,
    with_allgather: bool = True,
    bidirectional: bool = False,
    fresh: bool = False,
    effort: Effort | None = None,
    options: Options | None = None,
) -> Frontier:
    """Which topologies serve all-to-all best, and with ``with_allgather`` both collectives.

    Undominated in (steps, all-to-all time), or in (steps, allgather t_b, all-to-all time), among
    the candidates of ``frontier`` and of a search for all-to-all. Times that the shipped catalogue
    has are not solved again, and sizes that it was searched for all-to-all are looked up unless
    ``fresh``, as the answer's ``origin`` says. ``options`` are those of the solver; their time
    limit is that of all programs together, and the answer's ``stopped`` says if the solver cannot
    take a program. Other arguments and errors are those of ``frontier``.

    >>> [(c.recipe.label(), str(c.cost.t_b)) for c in joint_frontier(8, 4).candidates]
    [('K4,4', '5/4')]
    """
    from ocs_codesign.core.lp import DEFAULT_OPTIONS

    question = _question(num_nodes, degree, bidirectional)
    check_all_pairs(question.num_nodes)
    known = pool(question, effort, fresh=fresh, exchanges=True)
    designs = [one for one in known.designs if one.measured]
    criteria = WITH_ALLGATHER if with_allgather else ALLTOALL_ALONE
    options = options or DEFAULT_OPTIONS
    found = rank_jointly(question, designs, criteria, options, known.times)
    if not found.candidates and not found.unsolved:
        raise ValueError(_nothing_known(question))
    return replace(found, origin=known.origin, here=known.here, alltoall=known.times)


def _question(num_nodes: int, degree: int, bidirectional: bool) -> Question:
    num_nodes, degree = whole(num_nodes, "num_nodes"), whole(degree, "degree")
    if not 2 <= num_nodes <= MAX_NODES:
        raise ValueError(f"{num_nodes} nodes: the finder answers for 2 to {MAX_NODES}")
    if not 1 <= degree < num_nodes:
        raise ValueError(
            f"degree {degree} of {num_nodes} nodes: it must be from 1 to {num_nodes - 1}, "
            "since more ports than other nodes cannot help"
        )
    return Question(num_nodes, degree, bidirectional)


def _nothing_known(question: Question) -> str:
    nodes, degree = question.num_nodes, question.degree
    kind, why = "bidirectional " if question.bidirectional else "", ""
    if question.bidirectional and nodes % 2 and degree % 2:
        why = ": an odd number of nodes needs an even degree"
    elif nodes * degree > MAX_BUILT_LINKS:
        why = f": its {nodes * degree} links are more than the {MAX_BUILT_LINKS} that are built"
    return f"no {kind}topology of {nodes} nodes and degree {degree} is known{why}"


# The joint frontier: topologies that serve both allgather and all-to-all.
#
# Candidates are those of the pool. Most are ruled out by bounds on their all-to-all; the rest are
# solved.


WITH_ALLGATHER = ("allgather steps", "allgather t_b", "t_b")
ALLTOALL_ALONE = criteria_of([Collective.ALLTOALL])
"""What the joint frontier compares; the steps of an all-to-all alone are the diameter."""

MAX_COLUMNS = 200_000
"""Largest all-to-all program that is solved for a design in passing."""


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
    design: Design, model: CostModel, message_bytes: float, alltoall_bytes: float | None = None
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
    frontier: Frontier, model: CostModel, message_bytes: float, alltoall_bytes: float | None = None
) -> Design:
    """The candidate with the least time for an all-to-all of ``message_bytes``.

    If the allgather counts, for an allgather of so many bytes and then an all-to-all of as
    many, or of ``alltoall_bytes``. On a tie the first. Raises ValueError if none was solved.

    >>> from ocs_codesign.core.cost import CostModel
    >>> from ocs_codesign.search.bases import Effort
    >>> from ocs_codesign.search.frontiers import joint_frontier
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


def designs_serving(
    question: Question,
    collectives: Collection[Collective],
    *,
    catalogue: str | Path | None = None,
    effort: Effort | None = None,
    known: Iterable[Design] | None = None,
    options: Options = DEFAULT_OPTIONS,
) -> Frontier:
    """The designs of the pool that no other beats at all these collectives, at any sizes.

    A frontier in everything that counts for them; ring and torus are solved in any case, and what
    has more than MAX_COLUMNS to solve is left ``unsolved``. ``known`` are all designs that count
    instead of those of the pool. Raises ValueError for no collectives.
    """
    if not collectives:
        raise ValueError("there are no collectives that designs should serve")
    times: Mapping[Recipe, Fraction] = {}
    if known is None:
        found = pool(question, effort, catalogue, exchanges=Collective.ALLTOALL in collectives)
        known, times = found.designs, found.times
    designs = [one for one in known if one.measured]
    criteria = criteria_of(collectives)
    if Collective.ALLTOALL in collectives:
        large = [one for one in designs if one.recipe not in times and _columns(one) > MAX_COLUMNS]
        small = [one for one in designs if one not in large]
        ranked = rank_jointly(question, small, criteria, options, times)
        return replace(ranked, unsolved=(*ranked.unsolved, *large))
    collective = next(one for one in GATHERING if one in collectives)
    scored = [design.of(collective) for design in designs]
    front, rest = split_dominated(scored, lambda design: point_of(design, criteria))
    return Frontier(question, collective, tuple(front), tuple(rest), criteria)


def rank_jointly(
    question: Question,
    designs: Iterable[Design],
    criteria: tuple[str, ...],
    options: Options = DEFAULT_OPTIONS,
    times: Mapping[Recipe, Fraction] | None = None,
) -> Frontier:
    """The frontier of these designs in all-to-all and more; nothing is searched.

    ``times`` are exact all-to-all times that are known of some: these are not solved.
    """
    solving = Solving(options, times)
    search = _Search(solving, criteria, baseline_recipes(question))
    found = search.sketched([search.bounded(design) for design in designs])
    answer = _frontier(question, search.settled(found), criteria)
    return replace(answer, stopped=solving.stopped)


@final
class _Search:
    """Solves as few candidates as it takes to know the frontier, each no further than it takes."""

    def __init__(
        self, solving: Solving, criteria: tuple[str, ...], always: Collection[Recipe]
    ) -> None:
        self._solving, self._criteria = solving, criteria
        self._always = always

    def bounded(self, gather: Design) -> Design:
        """What distances alone say of the all-to-all of a topology with this allgather."""
        recipe, one = gather.recipe, gather.of(Collective.ALLGATHER)
        is_bfb = one.maker == BFB
        diameter = one.cost.steps if is_bfb else alltoall_graph(recipe).topology().diameter()
        least = Cost(diameter, self._solving.hop_bound(recipe))
        halves = tuple(gather.of(half) for half in Collective.ALLREDUCE.halves())
        others = tuple(replace(half, others=()) for half in halves)
        return Design(Collective.ALLTOALL, least, "hops", Known.BOUNDED, (recipe,), others=others)

    def sketched(self, found: list[Design]) -> list[Design]:
        """All, those solved roughly that hops do not rule out.

        Those whose time is known come first, then the small ones, the likely first.
        """

        def cost(one: Design) -> tuple[Any, ...]:
            is_open = not self._solving.is_settled(one.recipe)
            return is_open, self._solving.size(one.recipe), hop_bound(one), _allgather(one)

        answer = sorted(found, key=cost)
        for place, one in enumerate(answer):
            tell_phase("all-to-all, roughly", place, len(answer))
            is_known = self._solving.is_settled(one.recipe)
            if is_known or not self._is_beaten(one, answer, Fraction(0)):
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
            tell_phase("all-to-all", place, len(answer))
            is_asked = one.recipe in self._always
            if is_asked or not self._is_beaten(one, answer, self._solving.error(one.recipe)):
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


def _routed(design: Design, routing: Proven[Fraction] | None) -> Design:
    """The design with a routing that was found, or as it is; its hop bound stays known."""
    if routing is None:
        return design
    known = [replace(one, others=()) for one in (design, *design.others)]
    hops = [one for one in known if one.known == Known.BOUNDED]
    halves = [one for one in known if one.collective in GATHERING]
    return replace(
        design,
        cost=Cost(design.cost.steps, routing.value),
        maker=routing.proof,
        known=Known.MEASURED,
        least_t_b=routing.bound,
        others=(*halves, hops[0]),
    )


def _columns(design: Design) -> int:
    return columns_to_solve(alltoall_graph(design.recipe).topology())


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
