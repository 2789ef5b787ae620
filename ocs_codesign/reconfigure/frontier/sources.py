"""Where the candidates of the frontier with reconfiguration come from."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from ocs_codesign.collective import Collective
from ocs_codesign.cost import Cost
from ocs_codesign.design import Design, Known
from ocs_codesign.graphs.families.shifts import DeBruijn
from ocs_codesign.reconfigure.frontier.factors import factored_allreduces
from ocs_codesign.reconfigure.frontier.stepped import with_steps
from ocs_codesign.reconfigure.sequences.generators import direct_sequence, direct_time
from ocs_codesign.reconfigure.sequences.search import (
    EFFORT,
    MAX_NODES,
    search_sequences,
)
from ocs_codesign.reconfigure.step_matched import matched, reuse_plan
from ocs_codesign.search.frontier import frontier, joint_frontier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.search.effort import Effort

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


def alltoall_candidates(
    num_nodes: int,
    degree: int,
    max_configurations: int,
    effort: Effort | None = None,
    on_progress: Progress | None = None,
) -> list[Design]:
    """Static designs, searched sequences, the direct one, and Bruck on reusable circuits."""
    found = list(_static_alltoalls(num_nodes, degree, on_progress))
    effort = effort or EFFORT
    if num_nodes <= MAX_NODES:
        for phases in _numbers_to_search(num_nodes, degree, max_configurations):
            # Fewer programs are solved where they are large.
            most = max(
                2, min(effort.num_measured, _SOLVED_COLUMNS // (num_nodes * (degree + 1) * phases))
            )
            limited = replace(effort, num_measured=most)
            found += _searched(num_nodes, degree, phases, limited, on_progress)
    direct = direct_sequence(num_nodes, degree)
    if 1 < len(direct) <= max_configurations:
        cost = Cost(len(direct), direct_time(num_nodes, degree), len(direct))
        name = f"direct circulants, {degree} offsets at a time"
        found.append(_design(Collective.ALLTOALL, DIRECT, cost, direct, name=name))
    if num_nodes <= MAX_NODES:
        found += _bruck_plans(num_nodes, max_configurations)
    return found


def allreduce_candidates(
    num_nodes: int,
    degree: int,
    max_configurations: int,
    on_progress: Progress | None = None,
) -> list[Design]:
    """Static designs, products of small topologies, and step-matched algorithms."""
    found = list(_static_allreduces(num_nodes, degree, on_progress))
    found += [
        _design(Collective.ALLREDUCE, FACTORED, factored.cost, name=factored.label())
        for factored in factored_allreduces(num_nodes, degree, max_configurations, on_progress)
    ]
    if num_nodes <= MAX_NODES and not num_nodes & (num_nodes - 1):
        for name in ("recursive-doubling", "recursive-doubling-full"):
            algorithm = matched(name, "allreduce", num_nodes)
            plan = reuse_plan(algorithm, len(algorithm.steps))
            if plan.cost.num_configurations <= max_configurations:
                found.append(_design(Collective.ALLREDUCE, MATCHED, plan.cost, name=algorithm.name))
    return found


def _static_alltoalls(
    num_nodes: int, degree: int, on_progress: Progress | None
) -> Iterator[Design]:
    answer = joint_frontier(num_nodes, degree, with_allgather=False, on_progress=on_progress)
    for design in answer.candidates:
        yield from with_steps(replace(design, maker=STATIC), design.cost.t_b)


def _static_allreduces(
    num_nodes: int, degree: int, on_progress: Progress | None
) -> Iterator[Design]:
    """What the finder knows, and for small messages exchanges of all of M.

    In an allgather of whole vectors every node reduces for itself. In a de Bruijn digraph there is
    one walk of k links between any two of its d^k nodes, so k rounds in which every node sends on
    the sum of what came in end with the sum of all.
    """

    def static(recipe: Recipe, what: str, cost: Cost) -> Design:
        name = what + recipe.label()
        return _design(Collective.ALLREDUCE, STATIC, cost, (recipe,), name=name)

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
    num_nodes: int, degree: int, phases: int, effort: Effort, on_progress: Progress | None
) -> Iterator[Design]:
    found = search_sequences(num_nodes, degree, phases, effort=effort, on_progress=on_progress)
    maker = SEQUENCE if phases > 1 else STATIC
    best = _design(Collective.ALLTOALL, maker, found.alltoall.cost, found.recipes)
    yield from with_steps(best, found.alltoall.bound)


def _design(
    collective: Collective,
    maker: str,
    cost: Cost,
    recipes: tuple[Recipe, ...] = (),
    least_t_b: Fraction | None = None,
    name: str = "",
) -> Design:
    known = Known.MEASURED
    return Design(collective, cost, maker, known, recipes, least_t_b=least_t_b, name=name)


def _bruck_plans(num_nodes: int, max_configurations: int) -> Iterator[Design]:
    algorithm = matched("bruck", "alltoall", num_nodes)
    for changes in range(min(max_configurations, len(algorithm.steps))):
        plan = reuse_plan(algorithm, changes)
        if plan.num_reconfigurations == changes:
            shifts = [algorithm.configurations[held].head[0] for held in plan.held]
            name = f"Bruck on circuits of shift {', '.join(map(str, dict.fromkeys(shifts)))}"
            yield _design(Collective.ALLTOALL, MATCHED, plan.cost, name=name)
