"""The frontier with reconfiguration: steps, t_b and configurations, static designs always in it.

Static designs are what the finder knows. All-to-all adds sequences of Cayley digraphs with the best
routing over them and Bruck's algorithm on circuits that serve several steps; allgather,
reduce-scatter and allreduce add windows, a circulant a step, and products of small topologies, one
factor after the other; allreduce adds step-matched algorithms too.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from typing import TYPE_CHECKING

from ocs_codesign.circuits.change import OpenRange, merged
from ocs_codesign.circuits.legs.options import fewest_steps
from ocs_codesign.circuits.phases import (
    break_even_delta_s,
    fewest_hops,
    paying_messages,
    phase_network,
    sequence_bound,
    tree_bound,
)
from ocs_codesign.circuits.programs.gather import sequence_cost
from ocs_codesign.circuits.sequences import (
    EFFORT,
    MAX_NODES,
    direct_sequence,
    direct_time,
    in_turn,
    search_sequences,
    window_loads,
    window_sequence,
)
from ocs_codesign.circuits.step_matched import matched, reuse_plan
from ocs_codesign.core.bounds import bound
from ocs_codesign.core.collective import GATHERING, Collective
from ocs_codesign.core.cost import Cost, split_dominated, total, undominated
from ocs_codesign.core.progress import counted
from ocs_codesign.graphs.families.rings import BiRing, DirectedCirculant, UniRing
from ocs_codesign.graphs.families.shifts import DeBruijn
from ocs_codesign.schedules.design import Design, Known, Question, measure
from ocs_codesign.search.frontiers import frontier, joint_frontier
from ocs_codesign.search.pareto import Frontier, point_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.core.cost import CostModel
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.search.bases import Effort


# Collectives over a product of small topologies, one after the other: a configuration a factor.
#
# Reduce-scatter along the first coordinate on topologies of n_1 nodes, then what is left, M/n_1,
# along the second, and so on; allgathers go back, from the last to the first. Every configuration
# consists of disjoint copies of one small topology with all ports in use. With complete graphs on
# d + 1 nodes that takes the fewest steps possible; with factors of 2 it is recursive halving and
# doubling.


def factored_cost(factors: Sequence[Design]) -> Cost:
    """Steps of all factors; each one's t_b counts for the part of M that is left.

    With k factors k configurations are held in turn, 2k - 1 in an allreduce: the last factor's
    serves both halves.
    """
    halves = len(factors[0].collective.halves())
    total, left = Cost(0, Fraction(0), halves * (len(factors) - 1) + 1), Fraction(1)
    for factor in factors:
        total = total + Cost(factor.cost.steps, factor.cost.t_b * left)
        left /= factor.recipe.num_nodes
    return total


def factored(
    num_nodes: int,
    degree: int,
    max_configurations: int | None = None,
    collective: Collective = Collective.ALLREDUCE,
) -> list[tuple[Design, ...]]:
    """Two or more factors of a collective, undominated in steps, t_b and configurations.

    They are in the order of the reduce-scatters, the best topologies known for their sizes.
    """
    halves = len(collective.halves())
    most = None if max_configurations is None else (max_configurations - 1) // halves + 1
    sizes = [size for size in range(2, num_nodes // 2 + 1) if num_nodes % size == 0]
    options: list[Design] = []
    for size in counted(sizes, "factors"):
        options += factor_options(size, degree, collective)
    every = (
        tuple(sorted(chosen, key=_excess)) for chosen in _factorisations(num_nodes, options, most)
    )
    return split_dominated(every, lambda factors: factored_cost(factors).point())[0]


def factor_options(
    num_nodes: int, degree: int, collective: Collective = Collective.ALLREDUCE
) -> list[Design]:
    """Topologies of a size with d ports a node, undominated in the cost of a collective.

    Where a node has more ports than others to reach, ports are parallel.
    """
    if num_nodes > degree:
        return list(frontier(num_nodes, degree, collective).candidates)
    recipes: list[Recipe] = [UniRing(degree, num_nodes)]
    if degree % 2 == 0 and num_nodes > 2:
        recipes.append(BiRing(degree, num_nodes))
    if num_nodes > 2:
        offsets = (1 + i % (num_nodes - 1) for i in range(degree))
        recipes.append(DirectedCirculant(num_nodes, tuple(sorted(offsets))))
    measured = [measure(recipe, collective) for recipe in recipes]
    return undominated(measured, lambda factor: factor.cost)


def _factorisations(
    num_nodes: int, options: Sequence[Design], most: int | None, first: int = 0
) -> Iterator[tuple[Design, ...]]:
    """Multisets of options whose sizes multiply to N, at most ``most`` of them.

    None has N nodes itself, so there are at least two.
    """
    for at in range(first, len(options)):
        rest, over = divmod(num_nodes, options[at].recipe.num_nodes)
        if over:
            continue
        if rest == 1:
            yield (options[at],)
            continue
        if most is None or most > 1:
            less = None if most is None else most - 1
            for others in _factorisations(rest, options, less, at):
                yield (options[at], *others)


def _excess(factor: Design) -> Fraction:
    """How far t_b is above the least: such factors come late, where less data is left."""
    nodes = factor.recipe.num_nodes
    return factor.cost.t_b * Fraction(nodes, nodes - 1)


# Pairs of steps and t_b that one all-to-all has: over a topology, or over several in turn.
#
# The best routing of messages that split at will tells how fast an all-to-all can be, however
# many steps it takes; the fewest steps that connect everybody tell how few it can take, however
# slow. A schedule of so many steps has both, and its program says how good the best one is.


MAX_ARCS = 20_000
"""Columns of a program that is solved in passing: up to some seconds."""
_MORE_STEPS = 3
_MAX_ORDERED, _MAX_TRIED = 3, 4


def with_steps(design: Design, least_t_b: Fraction) -> Iterator[Design]:
    """The design with as few steps as there can be, then with more until its t_b is the least.

    Each is a pair that one schedule has, with the bound for its steps. A design whose programs are
    too large stays as it is, as a bound: no schedule has fewer steps, nor a smaller t_b.
    """
    topologies = [recipe.topology() for recipe in design.recipes]
    fewest = fewest_hops(phase_network(topologies))
    tries = list(dict.fromkeys(permutations(fewest))) if len(fewest) <= _MAX_ORDERED else [fewest]
    solved = _solved(topologies, tries)
    if not solved:
        cost = Cost(sum(fewest), least_t_b, len(topologies))
        yield replace(design, cost=cost, known=Known.BOUNDED)
    for more in range(_MORE_STEPS + 1):
        if not solved:
            return
        (t_b, bound), each = min((found, each) for each, found in solved.items())
        cost = Cost(sum(each), t_b, len(topologies))
        yield replace(design, cost=cost, least_t_b=bound)
        if t_b <= least_t_b or more == _MORE_STEPS:
            return
        solved = _solved(topologies, [_one_more(each, at) for at in range(len(each))][:_MAX_TRIED])


def _solved(
    topologies: Sequence[Topology], tries: Sequence[tuple[int, ...]]
) -> dict[tuple[int, ...], tuple[Fraction, Fraction]]:
    """The t_b and its bound by the steps in each phase, of those that are not too large."""
    costs = ((each, _cost(topologies, each)) for each in tries)
    return {each: cost for each, cost in costs if cost is not None}


def _cost(topologies: Sequence[Topology], each: Sequence[int]) -> tuple[Fraction, Fraction] | None:
    """The t_b and its bound with so many steps in each phase; None if too large or not served."""
    used = [phase for phase, steps in enumerate(each) for _ in range(steps)]
    try:
        return sequence_cost(topologies, used, MAX_ARCS)
    except ValueError:  # too large, or in this order not every pair is served
        return None


def _one_more(each: Sequence[int], at: int) -> tuple[int, ...]:
    return (*each[:at], each[at] + 1, *each[at + 1 :])


# Where the candidates of the frontier with reconfiguration come from.


STATIC, SEQUENCE, DIRECT, MATCHED, FACTORED, WINDOWS = (
    "static",
    "sequence",
    "direct",
    "step-matched",
    "factored",
    "windows",
)
_SOLVED_COLUMNS = 400_000
_MAX_COLUMNS = 100_000


def alltoall_candidates(
    num_nodes: int, degree: int, max_configurations: int, effort: Effort | None = None
) -> list[Design]:
    """Static designs, searched sequences, the direct one, and Bruck on reusable circuits."""
    found = list(_static_alltoalls(num_nodes, degree))
    effort = effort or EFFORT
    if num_nodes <= MAX_NODES:
        for phases in _numbers_to_search(num_nodes, degree, max_configurations):
            # Fewer programs are solved where they are large.
            most = max(
                2, min(effort.num_measured, _SOLVED_COLUMNS // (num_nodes * (degree + 1) * phases))
            )
            limited = replace(effort, num_measured=most)
            found += _searched(num_nodes, degree, phases, limited)
    direct = direct_sequence(num_nodes, degree)
    if 1 < len(direct) <= max_configurations:
        cost = Cost(len(direct), direct_time(num_nodes, degree), len(direct))
        name = f"direct circulants, {degree} offsets at a time"
        found.append(_design(Collective.ALLTOALL, DIRECT, cost, direct, name=name))
    if num_nodes <= MAX_NODES:
        found += _bruck_plans(num_nodes, max_configurations)
    return found


def gather_candidates(
    num_nodes: int, degree: int, collective: Collective, max_configurations: int
) -> list[Design]:
    """Static designs, products and windows for an allgather or a reduce-scatter."""
    found = [
        replace(design, maker=STATIC)
        for design in frontier(num_nodes, degree, collective).candidates
    ]
    return [*found, *_changing(num_nodes, degree, collective, max_configurations)]


def _changing(
    num_nodes: int, degree: int, collective: Collective, max_configurations: int
) -> Iterator[Design]:
    """Products of small topologies, of which allgathers go from the last to the first; windows."""
    order = -1 if collective == Collective.ALLGATHER else 1
    for factors in factored(num_nodes, degree, max_configurations, collective):
        name = " then ".join(factor.recipe.label() for factor in factors[::order])
        yield _design(collective, FACTORED, factored_cost(factors), name=name)
    yield from _windows(num_nodes, degree, collective, max_configurations)


def _windows(
    num_nodes: int, degree: int, collective: Collective, max_configurations: int
) -> Iterator[Design]:
    """A circulant a step; an allreduce scatters over them backwards and gathers forwards."""
    recipes: tuple[Recipe, ...] = window_sequence(num_nodes, degree)
    loads = window_loads(num_nodes, degree)
    t_b = total(loads) * Fraction(degree, num_nodes)
    if collective == Collective.ALLREDUCE:
        cost = Cost(2 * len(loads), 2 * t_b, 2 * len(recipes) - 1)
        recipes = (*recipes[:0:-1], *recipes)
    else:
        cost = Cost(len(loads), t_b, len(recipes))
        recipes = recipes[::-1] if collective == Collective.REDUCE_SCATTER else recipes
    if 1 < cost.num_configurations <= max_configurations:
        name = f"windows, {in_turn(recipes)}"
        yield _design(collective, WINDOWS, cost, recipes, name=name)


def allreduce_candidates(num_nodes: int, degree: int, max_configurations: int) -> list[Design]:
    """Static designs, windows, products of small topologies, and step-matched algorithms."""
    found = list(_static_allreduces(num_nodes, degree))
    if num_nodes <= MAX_NODES and not num_nodes & (num_nodes - 1):
        for name in ("recursive-doubling", "recursive-doubling-full"):
            algorithm = matched(name, "allreduce", num_nodes)
            cost = algorithm.cost(reuse_plan(algorithm, len(algorithm.needed)).choice)
            if cost.num_configurations <= max_configurations:
                found.append(_design(Collective.ALLREDUCE, MATCHED, cost, name=algorithm.name))
    return [*found, *_changing(num_nodes, degree, Collective.ALLREDUCE, max_configurations)]


def _static_alltoalls(num_nodes: int, degree: int) -> Iterator[Design]:
    answer = joint_frontier(num_nodes, degree, with_allgather=False)
    for design in answer.candidates:
        yield from with_steps(replace(design, maker=STATIC), design.cost.t_b)


def _static_allreduces(num_nodes: int, degree: int) -> Iterator[Design]:
    """What the finder knows, and for small messages exchanges of all of M.

    In an allgather of whole vectors every node reduces for itself. In a de Bruijn digraph there is
    one walk of k links between any two of its d^k nodes, so k rounds in which every node sends on
    the sum of what came in end with the sum of all.
    """

    def static(recipe: Recipe, what: str, cost: Cost) -> Design:
        name = what + recipe.label()
        return _design(Collective.ALLREDUCE, STATIC, cost, (recipe,), name=name)

    for candidate in frontier(num_nodes, degree, Collective.ALLREDUCE).candidates:
        yield static(candidate.recipe, "", candidate.cost)
    gathers = frontier(num_nodes, degree, Collective.ALLGATHER)
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


def _searched(num_nodes: int, degree: int, phases: int, effort: Effort) -> Iterator[Design]:
    found = search_sequences(num_nodes, degree, phases, effort=effort)
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
    for changes in range(min(max_configurations, len(algorithm.needed))):
        plan = reuse_plan(algorithm, changes)
        if plan.num_switches == changes:
            shifts = [algorithm.configurations[held].head[0] for held in plan.choice]
            name = f"Bruck on circuits of shift {', '.join(map(str, dict.fromkeys(shifts)))}"
            cost = algorithm.cost(plan.choice)
            yield _design(Collective.ALLTOALL, MATCHED, cost, name=name)


CRITERIA = ("configurations", "steps", "t_b")
MAX_CONFIGURATIONS = 16


def t_b_bound(frontier: Frontier, num_configurations: int) -> Fraction:
    """What no design that holds so many configurations in turn can beat, in M/B."""
    if frontier.collective == Collective.ALLTOALL:
        return sequence_bound(frontier.num_nodes, frontier.degree, num_configurations)
    return frontier.bound.t_b


def t_b_tree_bound(frontier: Frontier, num_configurations: int) -> Fraction:
    """The weaker bound of an all-to-all by a full (C d)-ary tree, else ``t_b_bound``."""
    if frontier.collective == Collective.ALLTOALL:
        return tree_bound(frontier.num_nodes, frontier.degree, num_configurations)
    return t_b_bound(frontier, num_configurations)


def best_static(frontier: Frontier, model: CostModel, message_bytes: Fraction | float) -> Design:
    """The fastest candidate that never changes circuits."""
    return min(frontier.static, key=lambda design: design.cost.time_s(model, message_bytes))


def break_even_of(
    frontier: Frontier, model: CostModel, message_bytes: Fraction | float
) -> tuple[Fraction, Design] | None:
    """Below which dead time (s) changing circuits pays for a message, and what it pays for.

    The one with the fewest configurations of those that pay last; None if nothing that changes
    circuits is faster, even at no dead time. Whether the start is cold is the same to all.
    """
    static = [design.cost for design in frontier.static]
    deltas = [
        (break_even_delta_s(static, design.cost, model, message_bytes), design)
        for design in frontier.switching
    ]
    last = max(deltas, key=lambda pair: pair[0], default=None)
    return None if last is None or last[0] <= 0 else last


def messages_that_pay(
    frontier: Frontier, model: CostModel, delta_s: Fraction | float
) -> tuple[OpenRange, ...]:
    """Message sizes for which changing circuits pays at a dead time, as ascending ranges."""
    static = [design.cost for design in frontier.static]
    sizes = (paying_messages(static, design.cost, model, delta_s) for design in frontier.switching)
    return merged(those for those in sizes if those is not None)


def reconfigured_frontier(
    num_nodes: int,
    degree: int,
    collective: Collective | str = Collective.ALLTOALL,
    *,
    max_configurations: int = MAX_CONFIGURATIONS,
    effort: Effort | None = None,
) -> Frontier:
    """The frontier of static designs and of those that hold up to so many configurations in turn.

    Costs leave out dead times: C configurations take C - 1 of them, and one more from a cold start.
    An all-to-all's steps and t_b are a pair that one schedule has; where its program is too large,
    a static design has a bound on both, and one that changes circuits is left ``unsolved``.
    ``effort`` limits the search for sequences. The same question always has the same answer. Raises
    ValueError for collectives that have a root, for sizes that the finder or the search for
    sequences does not take, and for fewer than 1 configuration.

    >>> found = reconfigured_frontier(8, 2, max_configurations=4)
    >>> [(one.cost.num_configurations, str(one.cost.t_b)) for one in found.candidates]
    [(1, '5/3'), (2, '5/4'), (3, '1'), (4, '7/8')]
    """
    collective = Collective.parse(collective)
    if max_configurations < 1:
        raise ValueError(f"{max_configurations} configurations: there must be at least 1")
    if collective == Collective.ALLTOALL:
        found = alltoall_candidates(num_nodes, degree, max_configurations, effort)
    elif collective == Collective.ALLREDUCE:
        found = allreduce_candidates(num_nodes, degree, max_configurations)
    elif collective in GATHERING:
        found = gather_candidates(num_nodes, degree, collective, max_configurations)
    else:
        raise ValueError(f"there is no frontier with reconfiguration of {collective.name}")
    known = [design for design in found if design.measured or not design.changes]
    front, rest = split_dominated(known, lambda design: point_of(design, CRITERIA))
    unsolved = tuple(design for design in found if not design.measured and design.changes)
    return Frontier(
        Question(num_nodes, degree),
        collective,
        tuple(front),
        tuple(rest),
        CRITERIA,
        max_configurations,
        unsolved,
    )


# What changing circuits can save on static designs, by their costs.


def optimal_static(
    num_nodes: int,
    degree: int,
    costs: Sequence[Cost],
    collective: Collective = Collective.ALLREDUCE,
) -> Cost | None:
    """The bandwidth-optimal cost with the fewest steps, None if there is none.

    Of diameter D changes save at most D - L of the steps of each half, whatever they make, L being
    the ``fewest_steps``: an allreduce that reduce-scatters and allgathers takes L steps twice.
    """
    least = bound(num_nodes, degree, collective).t_b
    optimal = (cost for cost in costs if cost.t_b == least)
    return min(optimal, key=lambda cost: cost.steps, default=None)


def most_saved_s(frontier: Frontier, model: CostModel, message_bytes: Fraction | float) -> Fraction:
    """Seconds by which changes can beat the fastest static design for a message at most."""
    halves = len(frontier.collective.halves())
    steps = halves * fewest_steps(frontier.num_nodes, frontier.degree)
    least = Cost(steps, frontier.bound.t_b).time_s(model, message_bytes)
    return best_static(frontier, model, message_bytes).cost.time_s(model, message_bytes) - least
