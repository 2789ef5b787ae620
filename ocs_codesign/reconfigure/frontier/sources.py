"""Where the candidates of the frontier with reconfiguration come from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, final

from ocs_codesign.collective import Collective
from ocs_codesign.cost import Cost
from ocs_codesign.graphs.families.shifts import DeBruijn
from ocs_codesign.reconfigure.frontier.factors import factored_allreduces
from ocs_codesign.reconfigure.phases.message_times import SwitchedCost
from ocs_codesign.reconfigure.sequences.generators import direct_sequence, direct_time, in_turn
from ocs_codesign.reconfigure.sequences.search import (
    MAX_NODES,
    SequenceEffort,
    search_sequences,
)
from ocs_codesign.reconfigure.step_matched import matched, reuse_plan
from ocs_codesign.search.frontier import frontier, joint_frontier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ocs_codesign.graphs.recipe import Recipe

    Progress = Callable[[str, int, int], None]

STATIC, SEQUENCE, DIRECT, MATCHED, FACTORED = (
    "static",
    "sequence",
    "direct",
    "step-matched",
    "factored",
)
_SOLVED_COLUMNS = 400_000
_MAX_COLUMNS = 100_000


@final
@dataclass(frozen=True, slots=True)
class ReconfiguredCandidate:
    """A design with its cost and the configurations that it holds in turn.

    ``maker`` says where it comes from. ``recipes`` names the configurations where they have names,
    one for each. ``proven`` is the least t_b of any routing over just these configurations, where
    that is known.
    """

    maker: str
    label: str
    switched: SwitchedCost
    recipes: tuple[Recipe, ...] = ()
    proven: Fraction | None = None

    @property
    def changes(self) -> bool:
        """Whether circuits change."""
        return self.switched.num_configurations > 1


def alltoall_candidates(
    num_nodes: int,
    degree: int,
    max_configurations: int,
    effort: SequenceEffort | None = None,
    on_progress: Progress | None = None,
) -> list[ReconfiguredCandidate]:
    """Static designs, searched sequences, the direct one, and Bruck on reusable circuits."""
    found = list(_static_alltoalls(num_nodes, degree, on_progress))
    effort = effort or SequenceEffort()
    if num_nodes <= MAX_NODES:
        for phases in _numbers_to_search(num_nodes, degree, max_configurations):
            # Fewer programs are solved where they are large.
            most = max(
                2, min(effort.num_solved, _SOLVED_COLUMNS // (num_nodes * (degree + 1) * phases))
            )
            limited = replace(effort, num_solved=most)
            found.append(_searched(num_nodes, degree, phases, limited, on_progress))
    direct = direct_sequence(num_nodes, degree)
    if 1 < len(direct) <= max_configurations:
        cost = Cost(len(direct), direct_time(num_nodes, degree))
        switched = SwitchedCost(cost, len(direct))
        label = f"direct circulants, {degree} offsets at a time"
        found.append(ReconfiguredCandidate(DIRECT, label, switched, direct))
    if num_nodes <= MAX_NODES:
        found += _bruck_plans(num_nodes, max_configurations)
    return found


def allreduce_candidates(
    num_nodes: int,
    degree: int,
    max_configurations: int,
    on_progress: Progress | None = None,
) -> list[ReconfiguredCandidate]:
    """Static designs, products of small topologies, and step-matched algorithms."""
    found = list(_static_allreduces(num_nodes, degree, on_progress))
    found += [
        ReconfiguredCandidate(FACTORED, factored.label(), factored.switched)
        for factored in factored_allreduces(num_nodes, degree, max_configurations, on_progress)
    ]
    if num_nodes <= MAX_NODES and not num_nodes & (num_nodes - 1):
        for name in ("halving-doubling", "recursive-doubling"):
            algorithm = matched(name, num_nodes)
            plan = reuse_plan(algorithm, len(algorithm.steps))
            if plan.switched.num_configurations <= max_configurations:
                found.append(ReconfiguredCandidate(MATCHED, algorithm.name, plan.switched))
    return found


def _static_alltoalls(
    num_nodes: int, degree: int, on_progress: Progress | None
) -> Iterator[ReconfiguredCandidate]:
    answer = joint_frontier(num_nodes, degree, with_allgather=False, on_progress=on_progress)
    for candidate in answer.candidates:
        recipe, routed = candidate.recipe, candidate.alltoall
        if routed is not None:
            cost = SwitchedCost(Cost(candidate.diameter, routed.time), 1)
            yield ReconfiguredCandidate(STATIC, recipe.label(), cost, (recipe,), routed.bound)


def _static_allreduces(
    num_nodes: int, degree: int, on_progress: Progress | None
) -> Iterator[ReconfiguredCandidate]:
    """What the finder knows, and for small messages exchanges of all of M.

    In an allgather of whole vectors every node reduces for itself. In a de Bruijn digraph there is
    one walk of k links between any two of its d^k nodes, so k rounds in which every node sends on
    the sum of what came in end with the sum of all.
    """

    def static(recipe: Recipe, what: str, cost: Cost) -> ReconfiguredCandidate:
        return ReconfiguredCandidate(
            STATIC, what + recipe.label(), SwitchedCost(cost, 1), (recipe,)
        )

    for candidate in frontier(
        num_nodes, degree, Collective.ALLREDUCE, on_progress=on_progress
    ).candidates:
        yield static(candidate.recipe, "", candidate.cost)
    gathers = frontier(num_nodes, degree, Collective.ALLGATHER, on_progress=on_progress)
    fewest = gathers.candidates[0]
    cost = Cost(fewest.cost.steps, num_nodes * fewest.cost.t_b)
    yield static(fewest.recipe, "allgather of whole vectors on ", cost)
    letters = 1
    while degree**letters < num_nodes and degree > 1:
        letters += 1
    if degree > 1 and degree**letters == num_nodes and letters > 1:
        cost = Cost(letters, Fraction(degree * letters))
        yield static(DeBruijn(degree, letters), "sums of whole vectors on ", cost)


def _numbers_to_search(num_nodes: int, degree: int, most: int) -> list[int]:
    """Numbers of configurations that are searched: all up to 4, then two an octave, then the last.

    None beyond what connects everybody directly, nor with programs that take too long.

    >>> _numbers_to_search(64, 4, 100)
    [1, 2, 3, 4, 6, 8, 12, 16]
    """
    last = min(most, -(-(num_nodes - 1) // degree), _MAX_COLUMNS // (num_nodes * (degree + 1)))
    numbers, step = [1], 1
    while numbers[-1] + step <= last:
        numbers.append(numbers[-1] + step)
        if numbers[-1] >= 4 and numbers[-1] & (numbers[-1] - 1) == 0:
            step = numbers[-1] // 2
    return numbers if numbers[-1] >= last else [*numbers, last]


def _searched(
    num_nodes: int, degree: int, phases: int, effort: SequenceEffort, on_progress: Progress | None
) -> ReconfiguredCandidate:
    found = search_sequences(num_nodes, degree, phases, effort=effort, on_progress=on_progress)
    return ReconfiguredCandidate(
        SEQUENCE if phases > 1 else STATIC,
        in_turn(found.recipes),
        SwitchedCost(found.alltoall.cost, phases),
        found.recipes,
        found.alltoall.bound,
    )


def _bruck_plans(num_nodes: int, max_configurations: int) -> Iterator[ReconfiguredCandidate]:
    algorithm = matched("bruck", num_nodes)
    for changes in range(min(max_configurations, len(algorithm.steps))):
        plan = reuse_plan(algorithm, changes)
        if plan.num_reconfigurations == changes:
            shifts = [algorithm.configurations[held].head[0] for held in plan.held]
            label = f"Bruck on circuits of shift {', '.join(map(str, dict.fromkeys(shifts)))}"
            yield ReconfiguredCandidate(MATCHED, label, plan.switched)
