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
from ocs_codesign.reconfigure.sequences.generators import direct_sequence, direct_time
from ocs_codesign.reconfigure.sequences.search import (
    MAX_NODES,
    SequenceEffort,
    search_sequences,
)
from ocs_codesign.reconfigure.step_matched.collectives import (
    bruck,
    halving_doubling,
    recursive_doubling,
)
from ocs_codesign.reconfigure.step_matched.reuse import ReusePlan, reuse_plan
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
            limited = _limited(effort, num_nodes * (degree + 1) * phases)
            found.append(_searched(num_nodes, degree, phases, limited, on_progress))
    direct = direct_sequence(num_nodes, degree)
    if 1 < direct.num_configurations <= max_configurations:
        cost = Cost(direct.num_configurations, direct_time(num_nodes, degree))
        switched = SwitchedCost(cost, direct.num_configurations)
        label = f"direct circulants, {degree} offsets at a time"
        found.append(ReconfiguredCandidate(DIRECT, label, switched, direct.recipes()))
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
        for matched in (halving_doubling(num_nodes), recursive_doubling(num_nodes)):
            plan = reuse_plan(matched, len(matched.steps))
            if plan.switched.num_configurations <= max_configurations:
                found.append(ReconfiguredCandidate(MATCHED, matched.name, plan.switched))
    return found


def _static_alltoalls(
    num_nodes: int, degree: int, on_progress: Progress | None
) -> Iterator[ReconfiguredCandidate]:
    answer = joint_frontier(num_nodes, degree, with_allgather=False, on_progress=on_progress)
    for one in answer.candidates:
        if one.alltoall is not None:
            yield ReconfiguredCandidate(
                STATIC,
                one.recipe.label(),
                SwitchedCost(Cost(one.diameter, one.alltoall.time), 1),
                (one.recipe,),
                one.alltoall.bound,
            )


def _static_allreduces(
    num_nodes: int, degree: int, on_progress: Progress | None
) -> Iterator[ReconfiguredCandidate]:
    """What the finder knows, and for small messages exchanges of all of M.

    In an allgather of whole vectors every node reduces for itself. In a de Bruijn digraph there is
    one walk of k links between any two of its d^k nodes, so k rounds in which every node sends on
    the sum of what came in end with the sum of all.
    """
    answer = frontier(num_nodes, degree, Collective.ALLREDUCE, on_progress=on_progress)
    for candidate in answer.candidates:
        recipe, cost = candidate.recipe, candidate.cost
        yield ReconfiguredCandidate(STATIC, recipe.label(), SwitchedCost(cost, 1), (recipe,))
    fewest = frontier(num_nodes, degree, Collective.ALLGATHER, on_progress=on_progress).candidates[
        0
    ]
    cost = Cost(fewest.cost.steps, num_nodes * fewest.cost.t_b)
    label = f"allgather of whole vectors on {fewest.recipe.label()}"
    yield ReconfiguredCandidate(STATIC, label, SwitchedCost(cost, 1), (fewest.recipe,))
    letters = 1
    while degree**letters < num_nodes and degree > 1:
        letters += 1
    if degree > 1 and degree**letters == num_nodes and letters > 1:
        words = DeBruijn(degree, letters)
        label = f"sums of whole vectors on {words.label()}"
        switched = SwitchedCost(Cost(letters, Fraction(degree * letters)), 1)
        yield ReconfiguredCandidate(STATIC, label, switched, (words,))


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


def _limited(effort: SequenceEffort, columns: int) -> SequenceEffort:
    """The effort with fewer programs to solve where these are large."""
    return replace(effort, num_solved=max(2, min(effort.num_solved, _SOLVED_COLUMNS // columns)))


def _searched(
    num_nodes: int, degree: int, phases: int, effort: SequenceEffort, on_progress: Progress | None
) -> ReconfiguredCandidate:
    found = search_sequences(num_nodes, degree, phases, effort=effort, on_progress=on_progress)
    return ReconfiguredCandidate(
        SEQUENCE if phases > 1 else STATIC,
        found.sequence.label(),
        SwitchedCost(found.alltoall.cost, phases),
        found.sequence.recipes(),
        found.alltoall.bound,
    )


def _bruck_plans(num_nodes: int, max_configurations: int) -> Iterator[ReconfiguredCandidate]:
    matched = bruck(num_nodes)
    for changes in range(min(max_configurations, len(matched.steps))):
        plan = reuse_plan(matched, changes)
        if plan.num_reconfigurations == changes:
            yield ReconfiguredCandidate(MATCHED, _bruck_label(plan), plan.switched)


def _bruck_label(plan: ReusePlan) -> str:
    """Bruck's algorithm with the shifts that circuits are made for."""
    shifts = [int(plan.matched.configurations[held].head[0]) for held in plan.held]
    return f"Bruck on circuits of shift {', '.join(map(str, dict.fromkeys(shifts)))}"
