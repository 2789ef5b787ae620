"""Capacities shared among trees of several kinds, by a linear program with cuts added as needed.

Where switches that only forward cannot let out what they let in, where groups run side by side, or
where sums and copies do, the narrowest cut is no longer the answer: the program says which part of
every link which trees should have. Its cuts are found by the same sweep of flows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import lcm
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.compute.cuts import bottleneck, first_short
from ocs_codesign.core.lp import (
    ExactSolution,
    LinearProgram,
    NotExact,
    Options,
    Solution,
    refine,
    solve,
)
from ocs_codesign.core.lp.program import IPX, SIMPLEX
from ocs_codesign.core.topology import starts_of
from ocs_codesign.schedules.forest.task import comes_back, switch_kinds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from ocs_codesign.schedules.forest.task import GroupTask, Tasks

    Switches = NDArray[np.bool_]


_OPTIONS = Options(SIMPLEX, tolerance=1e-9)

_MAX_EXACT = 2**53
"""Whole numbers up to here are floats."""

_FINE = 2**30
"""Parts of the largest capacity in which capacities that are not exact yet are counted."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Tenant:
    """A task whose node v sends ``coefficient[v]`` times the rate number ``rate[v]``, -1 for none.

    ``rate`` and ``coefficient`` (int64, nodes).
    """

    task: GroupTask
    rate: NDArray[np.int64]
    coefficient: NDArray[np.int64]


@final
@dataclass(frozen=True, slots=True, eq=False)
class SharedLinks:
    """The rates of the largest sum, and the capacity that every tenant has of every link."""

    rates: tuple[Fraction, ...]
    capacity: tuple[tuple[Fraction, ...], ...]

    @property
    def total_rate(self) -> Fraction:
        """The sum of the rates, which no other shares exceed."""
        return sum(self.rates, Fraction(0))


Found = tuple[Fraction, SharedLinks | None]
"""A rate, and the shares of the links that it takes where it takes any."""


def best_shares(tenants: Sequence[Tenant], *, levelled: bool = False) -> SharedLinks:
    """The exact best shares of tenants of the same links.

    With ``levelled`` the largest rate is as low as the largest sum of rates allows. Raises
    ValueError if a rank cannot be reached, and RuntimeError if no exact optimum is found.
    """
    program = _Program(tenants)
    shares = program.shares()
    total = shares.total_rate
    if levelled and max(total.numerator, total.denominator) <= _MAX_EXACT:
        program.level(total)
        shares = program.shares()
    return shares


def link_prices(tenants: Sequence[Tenant]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The best rates, about, and by how much a unit of every link's capacity would raise their sum.

    Both are floats. Raises as ``best_shares`` does.
    """
    program = _Program(tenants)
    _, solution = program.in_floats()
    point, duals = solution.point_and_duals()
    if len(tenants) == 1 and solution.col_duals is not None:
        duals = solution.col_duals[program.num_rates :]
    # Rates are maximised as costs below 0 are minimised; what links bear are the first rows.
    return point[: program.num_rates], np.maximum(-duals[: len(program.capacity)], 0)


def at_one_rate(tasks: Tasks) -> Found:
    """The highest rate that every task can have, and its shares where no cut alone attains it."""
    if len(tasks) == 1 and tasks[0].is_balanced:
        return 1 / bottleneck(tasks[0].problem).inv_rate, None
    shares = shared_at_one_rate(tasks)
    return shares.total_rate, shares


def shared_at_one_rate(tasks: Tasks) -> SharedLinks:
    """The highest rate that every task can have, and its shares."""
    weights = [task.problem.weight for task in tasks]
    tenants = [
        Tenant(task, np.where(weight > 0, 0, -1), weight)
        for task, weight in zip(tasks, weights, strict=True)
    ]
    return best_shares(tenants)


def best_spanning(tasks: Tasks, num_hosts: int, most: Fraction) -> tuple[Tasks, Found]:
    """Tasks in which every switch that is able is spanned or forwards, and what they reach.

    None is spanned, or all are that could help, or those left when all of a kind after those of
    another are tried the other way; ``most`` is a rate that nothing exceeds, which ends the search.
    Where hosts are relays none is: a host passes on a step later, and a switch keeps nothing for
    it. Raises ValueError if a node cannot be reached.
    """
    kinds = switch_kinds(tasks)
    if not all(task.problem.is_rank[:num_hosts].all() for task in tasks):
        kinds = []

    def reached(switches: NDArray[np.bool_]) -> tuple[Tasks, Found]:
        made = tuple(task.spanning(switches) for task in tasks)
        return made, at_one_rate(made)

    spanned = np.zeros_like(tasks[0].able)
    best = reached(spanned)
    for at in range(-1, len(kinds)):
        if best[1][0] >= most or not kinds:
            break
        trial = spanned ^ (np.any(kinds, axis=0) if at < 0 else kinds[at])
        if any(comes_back(task, trial) for task in tasks):
            continue
        try:
            found = reached(trial)
        except ValueError:
            continue
        if found[1][0] > best[1][0]:
            best, spanned = found, trial
    return best


@final
class _Program:
    """Columns are the rates, then what every tenant has of every link; cuts join the rows.

    Rows are what links bear, what switches balance, and cuts, at first those around single ranks.
    """

    def __init__(self, tenants: Sequence[Tenant]) -> None:
        self.capacity = tenants[0].task.problem.capacity
        self.num_rates = 1 + max(int(tenant.rate.max()) for tenant in tenants)
        self.first = self.num_rates + len(self.capacity) * np.arange(len(tenants) + 1)
        self.tenants = list(zip(tenants, self.first[:-1].tolist(), strict=True))
        self.is_levelled = False
        self.rows: list[tuple[NDArray[np.int64], NDArray[np.int64], float, float]] = []
        if len(tenants) > 1:
            ones = np.ones(len(tenants), dtype=np.int64)
            for link, most in enumerate(self.capacity.tolist()):
                self.rows.append((self.first[:-1] + link, ones, -np.inf, float(most)))
        for tenant, first in self.tenants:
            self._balance(tenant, first)
            problem = tenant.task.problem
            for rank in np.flatnonzero(problem.is_rank).tolist():
                self._add_cut(tenant, first, np.arange(problem.num_nodes) == rank)

    def _balance(self, tenant: Tenant, first: int) -> None:
        problem = tenant.task.problem
        for node in np.flatnonzero(tenant.task.must_balance).tolist():
            into, out = np.flatnonzero(problem.head == node), np.flatnonzero(problem.tail == node)
            if len(into) + len(out):
                signs = np.repeat([1, -1], [len(into), len(out)])
                self.rows.append((first + np.concatenate([into, out]), signs, 0.0, 0.0))

    def _add_cut(self, tenant: Tenant, first: int, outside: NDArray[np.bool_]) -> None:
        """What leaves the complement of a set is at least all that its nodes send."""
        problem = tenant.task.problem
        leaves = np.flatnonzero(~outside[problem.tail] & outside[problem.head])
        sends = ~outside & (tenant.rate >= 0)
        sent = np.zeros(self.num_rates, dtype=np.int64)
        np.add.at(sent, tenant.rate[sends], tenant.coefficient[sends])
        rates = np.flatnonzero(sent)
        if not len(leaves) and len(rates):
            rank = np.flatnonzero(outside & problem.is_rank)[0]
            raise ValueError(f"rank {rank} cannot be reached from all others")
        values = np.append(-sent[rates], np.ones(len(leaves), int))
        self.rows.append((np.append(rates, first + leaves), values, 0.0, np.inf))

    def level(self, total: Fraction) -> None:
        """Ask for the least largest rate of this sum of rates: the last column from now on."""
        rates, up = np.arange(self.num_rates), float(total.numerator)
        self.rows.append((rates, np.full(self.num_rates, total.denominator), up, up))
        for rate in rates.tolist():
            self.rows.append((np.array([rate, self.first[-1]]), np.array([-1, 1]), 0.0, np.inf))
        self.is_levelled = True

    def shares(self) -> SharedLinks:
        """The exact optimum under these rows and all cuts."""
        while True:
            values = _exact(*self.in_floats()).values
            if not self._add_missing_cuts(*_in_integers(values), only_first=True):
                columns = [values[first:end] for first, end in pairwise(self.first.tolist())]
                return SharedLinks(values[: self.num_rates], tuple(columns))

    def in_floats(self) -> tuple[LinearProgram, Solution]:
        """The program whose optimum keeps to all cuts but for rounding, and this optimum."""
        options, unit = _OPTIONS, float(self.capacity.max()) / _FINE
        while True:
            program = self._linear()
            solution = solve(program, options=options)
            # The last optimum misses only the new cuts: from there it is not far to the next.
            options = replace(_OPTIONS, start=solution.basis)
            point, _ = solution.point_and_duals()
            # In integers, which rounding may make wrong by a few.
            fine = np.rint(point / unit).astype(np.int64)
            if not self._add_missing_cuts(fine, 2 * len(point)):
                return program, solution

    def _linear(self) -> LinearProgram:
        """For the largest sum of rates, or for the least largest one."""
        columns = int(self.first[-1]) + self.is_levelled
        most, cost = np.full(columns, np.inf), np.zeros(columns)
        most[self.num_rates : self.first[-1]] = np.tile(self.capacity, len(self.tenants))
        if self.is_levelled:
            cost[-1] = 1.0
        else:
            cost[: self.num_rates] = -1.0
        column, value, lower, upper = zip(*self.rows, strict=True)
        return LinearProgram(
            cost,
            starts_of(np.array([len(row) for row in column])),
            np.concatenate(column),
            np.concatenate(value).astype(float),
            np.array(lower),
            np.array(upper),
            np.zeros(columns),
            most,
        )

    def _add_missing_cuts(
        self, point: NDArray[Any], slack: int, *, only_first: bool = False
    ) -> bool:
        """Add cuts of ranks that cannot get all at a point, by more than ``slack``; if there are.

        The point is in integers.
        """
        known = len(self.rows)
        for tenant, first in self.tenants:
            problem = tenant.task.problem
            ranks = np.flatnonzero(problem.is_rank)
            capacity = point[first : first + len(problem.capacity)] + slack
            own = np.where(tenant.rate >= 0, tenant.coefficient * point[tenant.rate], 0)
            begin = 0
            while begin < len(ranks):
                begin, outside = first_short(problem, ranks, begin, capacity, own)
                if begin < len(ranks):
                    self._add_cut(tenant, first, outside)
                    if only_first:
                        return True
                begin += 1
        return len(self.rows) > known


def _exact(program: LinearProgram, solution: Solution) -> ExactSolution:
    """The exact optimum at the basis of a solution, or at that of another method."""
    exact = refine(program, solution)
    if isinstance(exact, NotExact):
        exact = refine(program, solve(program, options=Options(IPX)))
    if isinstance(exact, NotExact):
        raise RuntimeError(f"the shares of the links have no exact optimum: {exact.reason}")
    return exact


def _in_integers(values: Sequence[Fraction]) -> tuple[NDArray[np.object_], int]:
    """A point without denominators, and what rounding may be wrong by: nothing."""
    common = lcm(*(value.denominator for value in values))
    whole = [value.numerator * (common // value.denominator) for value in values]
    return np.array(whole, dtype=object), 0


# Trees of several kinds, each of which spans other switches, that share the links.
#
# Where all trees span the same switches, they all pay for reaching them: of two rails between
# boxes a tree needs one. Which switches the next kind should span is what links are worth: a
# linear program of the kinds there are prices them, and the cheapest trees at these prices tell
# (Dantzig and Wolfe, 1960; the trees by Takahashi and Matsuyama, 1980, so that a kind may be
# missed).


MAX_LINKS = 400
"""Links up to which kinds are mixed: the program grows with every kind."""

_MAX_KINDS, _KINDS_A_ROUND = 12, 2
_CLOSE = 1e-9
"""Rates in floats that are as good as equal, and rates that are as good as none."""

_HOP = 1e-6
"""What a link costs at least, of the highest price: short paths are better than long ones."""


def mixed_spanning(
    tasks: Tasks, spanned: Tasks, found: Found, num_hosts: int, most: Fraction
) -> tuple[Tasks, Found]:
    """Tasks of several kinds, one after the other, and what they reach, if that is more.

    ``tasks`` say which switches are able; ``spanned`` are the best of one kind, and reach
    ``found``; ``most`` is a rate that nothing exceeds. A kind has a rate of its own, and each of
    its tasks a share of the links. Where hosts are relays there is one kind (see ``spanning``).
    """
    first = tasks[0].problem
    able = np.any([task.able for task in tasks], axis=0)
    has_relays = not all(task.problem.is_rank[:num_hosts].all() for task in tasks)
    if found[0] >= most or has_relays or not able.any() or len(first.capacity) > MAX_LINKS:
        return spanned, found
    kinds = [able & np.any([task.problem.is_rank for task in spanned], axis=0)]
    while True:
        rates, prices = link_prices(_tenants(tasks, kinds))
        if rates.sum() >= float(most) * (1 - _CLOSE) or len(kinds) >= _MAX_KINDS:
            break
        new = _new_kinds(tasks, prices, kinds)
        if not new:
            break
        kinds += new
    order = np.argsort(-rates, kind="stable")
    kinds = [kinds[at] for at in order if rates[at] > _CLOSE * rates.sum()]
    shares = best_shares(_tenants(tasks, kinds))
    if shares.total_rate <= found[0]:
        return spanned, found
    mixed = tuple(task.spanning(kind) for kind in kinds for task in tasks)
    return mixed, (shares.total_rate, shares)


def _tenants(tasks: Tasks, kinds: Sequence[Switches]) -> list[Tenant]:
    """The tasks of every kind, which have its rate."""
    return [
        Tenant(task.spanning(kind), np.where(weight > 0, at, -1), weight)
        for at, kind in enumerate(kinds)
        for task, weight in ((task, task.problem.weight) for task in tasks)
    ]


def _new_kinds(
    tasks: Tasks, prices: NDArray[np.float64], kinds: Sequence[Switches]
) -> list[Switches]:
    """Kinds of the cheapest trees that are not there yet; more is tried where there are none."""
    paths = [_Paths(task, prices) for task in tasks]
    for is_thorough in (False, True):
        counted: Counter[bytes] = Counter()
        for each in paths:
            counted.update(kind.tobytes() for kind in each.branching(is_thorough=is_thorough))
        known = {kind.tobytes() for kind in kinds}
        new = [np.frombuffer(kind, bool) for kind, _ in counted.most_common() if kind not in known]
        new = [kind for kind in new if not any(comes_back(task, kind) for task in tasks)]
        if new:
            return new[:_KINDS_A_ROUND]
    return []


class _Paths:
    """The cheapest paths between nodes at some prices, and cheap trees made of them."""

    def __init__(self, task: GroupTask, prices: NDArray[np.float64]) -> None:
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import dijkstra

        problem = self.problem = task.problem
        shape = (problem.num_nodes, problem.num_nodes)
        cost = prices + _HOP * max(float(prices.max()), _HOP)
        graph = csr_matrix((cost, (problem.tail, problem.head)), shape=shape)
        self.far, self.before = dijkstra(graph, return_predecessors=True)
        self.able, self.may_branch = task.able, problem.is_rank | task.able

    def branching(self, *, is_thorough: bool) -> Iterator[Switches]:
        """Of a cheap tree from every root the switches (bool, nodes) at which it branches.

        A thorough search begins trees with one more switch as long as that makes them cheaper.
        """
        for root in np.flatnonzero(self.problem.weight > 0).tolist():
            first = np.zeros_like(self.able)
            able = self.able & np.isfinite(self.far[root])
            cost, branching = self.tree(root, first)
            while is_thorough:
                trials = []
                for switch in np.flatnonzero(able & ~first).tolist():
                    more = first.copy()
                    more[switch] = True
                    trials.append((*self.tree(root, more), more))
                best = min(trials, key=lambda trial: trial[0], default=None)
                if best is None or best[0] >= cost * (1 - _CLOSE):
                    break
                cost, branching, first = best
            yield branching

    def tree(self, root: int, first: Switches) -> tuple[float, Switches]:
        """What a tree costs that leads to some switches first, but for idle ones; its branchings.

        The node that is nearest to what is reached joins it by its cheapest path, until all are
        there.
        """
        nodes, far = self.problem.num_nodes, self.far
        near, origin = far[root].copy(), np.full(nodes, root)
        missing = self.problem.is_rank | first
        missing[root] = False
        above, order = np.full(nodes, -1), [root]
        while missing.any():
            wanted = missing & first if (missing & first).any() else missing
            to = int(np.where(wanted, near, np.inf).argmin())
            path, node = [to], to
            while node != origin[to]:
                node = int(self.before[origin[to], node])
                if self.may_branch[node]:
                    path.append(node)
            above[path[:-1]] = path[1:]
            missing[path] = False
            for node in path[-2::-1]:
                order.append(node)
                is_nearer = far[node] < near
                near[is_nearer], origin[is_nearer] = far[node][is_nearer], node
        children, cost = np.zeros(nodes, dtype=np.int64), 0.0
        for node in order[:0:-1]:
            if children[node] or self.problem.is_rank[node]:
                children[above[node]] += 1
                cost += float(far[above[node], node])
        return cost, (children > 1) & ~self.problem.is_rank
