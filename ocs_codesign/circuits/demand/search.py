"""Exact plans of small demands: all numbers of configurations on all switches are searched.

With a number of configurations on every switch the search is over what each serves of every row,
with a linear program in their durations at every node; see ``demand.search_kernels``. Numbers are
tried in ascending order as long as their bound is below the best plan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count, takewhile
from typing import TYPE_CHECKING, final

import numpy as np
from scipy.sparse import csr_matrix

from ocs_codesign.circuits.demand.covers import heaviest
from ocs_codesign.circuits.demand.matrix import TickPlan
from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.core.lp import LinearProgram, Options, solve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from ocs_codesign.circuits.demand.kernels import Problem, State
    from ocs_codesign.circuits.demand.matrix import DemandTicks


# What no plan for a demand can beat, from the rows and columns alone.


def line_bound(ticks: DemandTicks, num_switches: int, fewest: int = 0) -> Fraction:
    """A makespan, in ticks, that no plan of at least ``fewest`` configurations beats.

    Of all numbers of configurations it takes the one with the least bound. They are as many as a
    line has entries, or more; the busiest line and their setups, shared by all switches, bound any
    more of them.
    """
    if not ticks.demand.any():
        return Fraction(0)
    best: Fraction | None = None
    many = max(ticks.max_entries, fewest)
    while True:
        longest = least_times(ticks, many)
        bound = makespan_bound(longest, ticks, num_switches)
        best = bound if best is None else min(best, bound)
        shared = Fraction(ticks.longest_line + ticks.setup * many, num_switches)
        if many >= num_switches and (shared >= best or not longest.any()):
            return best
        many += 1


def least_times(ticks: DemandTicks, num_configurations: int) -> NDArray[np.int64]:
    """Times that the longest, second longest, ... of so many configurations last at least.

    A line has a configuration of its own for every entry but as many as it has entries fewer than
    there are configurations. So of its m + k largest entries, k being the difference, at least m
    are served by one configuration each.
    """
    nodes = ticks.num_nodes
    lines = -np.sort(-np.concatenate([ticks.demand, ticks.demand.T]), axis=1)
    spare = num_configurations - (lines > 0).sum(1)
    places = np.arange(num_configurations)[None, :] + spare[:, None]
    inside = (places >= 0) & (places < nodes) & (spare >= 0)[:, None]
    entries = np.take_along_axis(lines, np.clip(places, 0, nodes - 1), axis=1)
    return np.asarray(np.where(inside, entries, 0).max(axis=0), dtype=np.int64)


def makespan_bound(longest: NDArray[np.int64], ticks: DemandTicks, num_switches: int) -> Fraction:
    """What switches take at least for configurations that last at least so long, longest first.

    The switches that are used share all times; and of the longest m s + 1 configurations on s
    switches, some switch has m + 1.
    """
    many = len(longest)
    used = min(many, num_switches)
    total = max(ticks.longest_line, int(longest.sum()))
    bound = Fraction(total + ticks.setup * many, used)
    for more in range((many - 1) // num_switches + 1):
        last = more * num_switches + 1
        some = int(longest[last - more - 1 : last].sum()) + ticks.setup * (more + 1)
        bound = max(bound, Fraction(some))
    return bound


MAX_LINES = 8
"""Rows and columns with any demand that a search is for."""

_LEAST_NODES_A_CALL, _NODES_A_CALL = 50, 50_000
_MAX_CONFIGURATIONS = 62


@final
@dataclass(frozen=True, slots=True, eq=False)
class Searched:
    """What a search knows in the end: a plan that is better than the given one, if it found any.

    ``bound`` is what no plan beats: the best makespan if all was searched.
    """

    plan: TickPlan | None
    bound: Fraction
    is_complete: bool
    num_nodes: int


def search_levels(ticks: DemandTicks) -> int:
    """Lines times the fewest configurations, which a search is deep; 0 if there is none."""
    lines = int(max(ticks.demand.any(1).sum(), ticks.demand.any(0).sum()))
    return lines * ticks.max_entries if lines <= MAX_LINES else 0


def search(
    ticks: DemandTicks, num_switches: int, best: Fraction, goes_on: Callable[[int], bool]
) -> Searched:
    """Look for plans that take less than ``best`` ticks.

    Numbers of configurations are tried in ascending order. ``goes_on(nodes)`` is asked every now
    and then whether to go on after so many nodes; while it is so, the search ends with a proof.
    """
    plan: TickPlan | None = None
    nodes, left = 0, list[Fraction]()
    rows, columns = _lines(ticks.demand)
    if len(rows) > len(columns):
        across = replace(ticks, demand=ticks.demand.T.copy())
        found = search(across, num_switches, best, goes_on)
        plan = found.plan and replace(found.plan, permutations=found.plan.permutations.argsort(1))
        return replace(found, plan=plan)
    demand = ticks.demand[np.ix_(rows, columns)]
    for counts, bound, bound_of_rest in _counts(ticks, num_switches):
        if bound_of_rest >= best:
            break
        if sum(counts) > _MAX_CONFIGURATIONS or not goes_on(nodes):
            left.append(bound_of_rest)
            break
        if bound >= best:
            continue
        problem, state = _prepared(demand, ticks.setup, counts, best)
        ended = _searched(problem, state, nodes, goes_on)
        nodes += int(state.at[1])
        if not ended:
            left.append(bound)
        numerator, denominator = state.best.tolist()
        if Fraction(numerator, denominator) < best:
            best = Fraction(numerator, denominator)
            times = tuple(Fraction(time, denominator) for time in state.times.tolist())
            circuits = np.full((len(times), ticks.num_nodes), -1)
            circuits[:, rows] = np.append(columns, -1)[state.found.reshape(len(rows), -1).T]
            on_switch = np.repeat(np.arange(len(counts)), counts)
            plan = TickPlan(_completed(circuits), times, on_switch)
    return Searched(plan, min([best, *left]), not left, nodes)


def _lines(demand: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows and columns with any demand, in the order of the search.

    Rows with many and large entries are first, and columns in the order of the first row.
    """
    rows, columns = np.flatnonzero(demand.any(1)), np.flatnonzero(demand.any(0))
    kept = demand[rows]
    rows = rows[np.lexsort((-kept.max(1), -kept.sum(1), -(kept > 0).sum(1)))]
    return rows, columns[np.argsort(-demand[rows[0], columns], kind="stable")]


def _completed(circuits: NDArray[np.int64]) -> NDArray[np.int64]:
    """Full permutations: rows without a circuit, -1, get the columns that are left, in order."""
    for permutation in circuits:
        idle = permutation < 0
        permutation[idle] = np.setdiff1d(np.arange(len(permutation)), permutation[~idle])
    return circuits


def _counts(
    ticks: DemandTicks, num_switches: int
) -> Iterator[tuple[tuple[int, ...], Fraction, Fraction]]:
    """Numbers of configurations on the switches in use, what such plans take at least, and what
    these and all that follow do."""
    for many in count(ticks.max_entries):
        bound = makespan_bound(least_times(ticks, many), ticks, num_switches)
        bound_of_rest = line_bound(ticks, num_switches, many)
        for counts in _partitions(many, num_switches, many):
            yield counts, max(bound, Fraction(ticks.setup * counts[0])), bound_of_rest


def _partitions(many: int, parts: int, most: int) -> Iterator[tuple[int, ...]]:
    """Numbers in descending order, at most ``most`` each, that add up to ``many``; even ones first.

    >>> list(_partitions(4, 2, 4))
    [(2, 2), (3, 1), (4,)]
    """
    if many == 0:
        yield ()
        return
    if parts == 0:
        return
    for first in range(-(-many // parts), min(many, most) + 1):
        for rest in _partitions(many - first, parts - 1, first):
            yield (first, *rest)


def _searched(problem: Problem, state: State, before: int, goes_on: Callable[[int], bool]) -> bool:
    """Whether the search of a problem came to its end."""
    from ocs_codesign.circuits.demand.kernels import DONE, OPEN, advance

    rows, columns = problem.demand.shape
    rounds_a_node, ended = rows * columns + 2**columns, OPEN
    while ended == OPEN and goes_on(before + int(state.at[1])):
        nodes = before + int(state.at[1])
        budget = min(_NODES_A_CALL, max(_LEAST_NODES_A_CALL, nodes))
        ended = for_work(advance, rounds_a_node * (nodes + budget))(problem, state, budget)
    return bool(ended == DONE)


def _prepared(
    demand: NDArray[np.int64], setup: int, counts: tuple[int, ...], best: Fraction
) -> tuple[Problem, State]:
    """The tables and the first state of a search."""
    from ocs_codesign.circuits.demand.kernels import Problem, State

    slots, (rows, columns) = sum(counts), demand.shape
    # A slot follows the one before on its switch, a first one that of a switch with as many.
    first = np.cumsum([0, *counts[:-1]])
    after = np.arange(-1, slots - 1)
    after[first] = -1
    alike = np.flatnonzero(np.diff(counts) == 0)
    after[first[1:][alike]] = first[alike]
    bits = (np.arange(2**columns)[:, None] >> np.arange(columns)) & 1
    problem = Problem(
        demand=demand,
        setups=setup * np.array(counts),
        on_switch=(2 ** np.array(counts) - 1) << first,
        after=after,
        subset=demand @ bits.T,
        idle=(demand == 0).any(1),
    )
    levels = slots * rows
    tableau = np.zeros((levels + 1, slots + 1, slots + 2), dtype=np.int64)
    tableau[0, :, :-1] = np.eye(slots + 1, dtype=np.int64)
    state = State(
        at=np.zeros(2, dtype=np.int64),
        tried=np.zeros(levels, dtype=np.int64),
        choice=np.full(levels, -1),
        able=np.tile((demand > 0) * (2**slots - 1), (levels + 1, 1, 1)),
        tableau=tableau,
        denominator=np.ones(levels + 1, dtype=np.int64),
        best=np.array([best.numerator, best.denominator]),
        found=np.full(levels, -1),
        times=np.zeros(slots, dtype=np.int64),
    )
    return problem, state


# A bound from prices: how much all demand is worth where no configuration is worth its cost.
#
# A configuration of time t sends at most min(t, demand) of every entry. If prices of entries are
# such that what it sends is never worth more than t and a setup, all configurations together cost
# at least what the demand is worth. The best prices are the duals of a linear program over all
# pairs of a permutation and a time; its columns are generated by matchings. Only times that are
# entries can be the best for a permutation, since what it sends is concave and piecewise linear
# in the time.


_LEVELS, _COLUMNS_A_PROGRAM = 48, 24
_SMOOTH, _CLOSE = 0.8, 1e-3
_PRICE_BITS = 26


def price_bound(ticks: DemandTicks, prices: NDArray[np.float64]) -> Fraction:
    """What all configurations together cost at least, in ticks, by prices of entries (n, n).

    The prices are rounded to integers and their worst configuration is found for every time, with
    potentials that prove it in integers; dividing by its worth over its cost makes them valid.
    """
    largest = float(prices.max(initial=0.0))
    if largest <= 0.0:
        return Fraction(0)
    scaled = np.rint(np.maximum(prices, 0.0) * (2**_PRICE_BITS / largest))
    whole, demand = scaled.astype(np.int64).astype(object), ticks.demand.astype(object)
    worst = Fraction(0)
    for level in np.unique(ticks.demand[ticks.demand > 0]).tolist():
        floats = potentials(scaled * np.minimum(ticks.demand, level))
        potential = np.array([round(number) for number in floats.tolist()], dtype=object)
        most = (whole * np.minimum(demand, level) + potential).max(axis=1).sum() - potential.sum()
        worst = max(worst, Fraction(int(most), level + ticks.setup))
    return int((whole * demand).sum()) / worst


def potentials(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Potentials of a matrix's columns: those of its heaviest matching, by shortest paths.

    Any potentials v bound all matchings of weights w: they weigh at most the sum over the rows of
    the largest w + v, less the sum of v. For these that is what the heaviest weighs.
    """
    matched = heaviest(weights)
    lost = np.take_along_axis(weights, matched[:, None], 1) - weights
    found = np.zeros(len(weights))
    for _ in range(len(weights)):
        shorter = np.minimum(found, (found[matched][:, None] + lost).min(0))
        if (shorter == found).all():
            break
        found = shorter
    return found


def relaxation_bound(
    ticks: DemandTicks,
    permutations: NDArray[np.int64],
    known: float,
    goes_on: Callable[[int], bool],
) -> Fraction:
    """What all configurations together cost at least, in ticks, by the best prices found.

    ``permutations`` are configurations to begin with, such as those of a good plan. It ends when no
    prices can prove more than is ``known`` or found. ``goes_on(done)`` is asked after so many
    programs whether to solve one more.
    """
    rows = np.arange(ticks.num_nodes)
    first = np.concatenate([(rows + rows[:, None]) % ticks.num_nodes, permutations])
    entries = ticks.demand[rows, first]
    times = np.concatenate([entries.max(1), np.median(entries, axis=1).astype(np.int64)])
    # A column a line: its permutation and then its time.
    columns = np.column_stack([np.concatenate([first, first]), times])[times > 0]
    center, best = np.zeros(ticks.demand.shape), 0.0
    for _ in takewhile(goes_on, count()):
        value, prices = _solved(ticks, columns)
        if value <= max(known, best) * (1 + _CLOSE):
            break
        # Prices near the best ones, or else the program's own: those alone would swing widely.
        for smooth in (_SMOOTH, 0.0):
            tried = smooth * center + (1 - smooth) * prices
            bound, new = _separated(ticks, tried, prices)
            if bound > best:
                best, center = bound, tried
            if len(new):
                break
        else:
            break
        columns = np.unique(np.concatenate([columns, new]), axis=0)
    return price_bound(ticks, center)


def _solved(ticks: DemandTicks, columns: NDArray[np.int64]) -> tuple[float, NDArray[np.float64]]:
    """The least cost of configurations that send all of the demand, and the prices of entries.

    RuntimeError if it cannot be solved.
    """
    permutations, times = columns[:, :-1], columns[:, -1]
    wanted = ticks.demand > 0
    row_of = np.cumsum(wanted.ravel()).reshape(wanted.shape) - 1
    rows = np.arange(ticks.num_nodes)
    demanded = ticks.demand[rows, permutations]
    used = demanded > 0
    # Rows are shares of the demand, so that all numbers are of one size.
    shares = np.minimum(demanded, times[:, None])[used] / demanded[used]
    where = (row_of[rows, permutations][used], np.nonzero(used)[0])
    matrix = csr_matrix((shares, where), (int(wanted.sum()), len(columns)))
    costs = times.astype(np.float64) + ticks.setup
    scale = costs.max()
    program = LinearProgram(
        cost=costs / scale,
        start=matrix.indptr.astype(np.int64),
        index=matrix.indices.astype(np.int64),
        values=matrix.data,
        row_lower=np.ones(matrix.shape[0]),
        row_upper=np.full(matrix.shape[0], np.inf),
        col_lower=np.zeros(len(columns)),
        col_upper=np.full(len(columns), np.inf),
    )
    solution = solve(program, "highs", Options("ipx-no-crossover"))
    _, duals = solution.point_and_duals()
    prices = np.zeros(wanted.shape)
    prices[wanted] = np.maximum(duals, 0.0) * scale / ticks.demand[wanted]
    return float(solution.objective or 0.0) * scale, prices


def _separated(
    ticks: DemandTicks, tried: NDArray[np.float64], prices: NDArray[np.float64]
) -> tuple[float, NDArray[np.int64]]:
    """The bound of prices that are tried, about, and columns too good at the program's prices."""
    levels = np.unique(ticks.demand[ticks.demand > 0])
    levels = levels[:: -(-len(levels) // _LEVELS)]
    permutations = heaviest(tried * np.minimum(ticks.demand, levels[:, None, None]))
    rows = np.arange(ticks.num_nodes)
    sent = np.minimum(ticks.demand[rows, permutations], levels[:, None])
    costs = levels + ticks.setup
    worst = float(((tried[rows, permutations] * sent).sum(1) / costs).max())
    worth = (prices[rows, permutations] * sent).sum(1) / costs
    best = np.argsort(-worth, kind="stable")[:_COLUMNS_A_PROGRAM]
    best = best[worth[best] > 1 + _CLOSE / 2]
    bound = float((tried * ticks.demand).sum()) / worst if worst else 0.0
    return bound, np.column_stack([permutations[best], levels[best]])
