"""Budgets in whole units: ports, wavelengths or links, and the dimensions of a network."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import comb, floor
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.quantities import exact
from ocs_codesign.core.topology import places
from ocs_codesign.jobs.budgets import BudgetProblem, Objective, allocate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ocs_codesign.core.network import Network


MAX_ENUMERATED, MAX_UNITS = 2_000_000, 2**20
_CLOSE = 1e-9


@final
@dataclass(frozen=True, slots=True)
class WholeAllocation:
    """Units of every dimension, and what they come to, exact.

    ``is_best``: all ways to share the units were tried; else those around the best real numbers.
    ``bound`` is the value of the best real numbers, which no whole ones are below.
    """

    units: tuple[int, ...]
    time_s: Fraction
    cost: Fraction
    value: Fraction
    is_best: bool
    bound: float


def allocate_units(
    problem: BudgetProblem,
    unit_Bps: Fraction | float,  # noqa: N803 - units keep their case
    objective: Objective = Objective.TIME,
    *,
    most_enumerated: int = MAX_ENUMERATED,
) -> WholeAllocation:
    """The best whole numbers of units of so many bytes a second, all of a given sum spent.

    All of them are tried where they are few; else those beside the best real numbers, from which
    units move between dimensions as long as that is better. Raises ValueError if there are fewer
    units than dimensions that need one.

    >>> problem = BudgetProblem([[3, 1], [0, 1]], total_Bps=8)
    >>> found = allocate_units(problem, 1)
    >>> found.units, found.time_s, found.is_best
    ((5, 3), Fraction(14, 15), True)
    """
    unit = exact(unit_Bps, "unit_Bps")
    if unit <= 0:
        raise ValueError(f"unit_Bps is {unit_Bps}: it must be positive")
    space = _Space(problem, unit)
    bound = allocate(problem, objective)
    if space.num_ways <= most_enumerated:
        units, is_best = _best_row(problem, unit, objective, space.rows()), True
    else:
        units, is_best = _near(problem, unit, objective, space, bound.bandwidths_Bps), False
    rates = [number * unit for number in units]
    value = problem.value(rates, objective)
    return WholeAllocation(
        units, problem.time_s(rates), problem.cost(rates), value, is_best, bound.value
    )


class _Space:
    """Which whole numbers of units there are to share, and how many ways."""

    def __init__(self, problem: BudgetProblem, unit: Fraction) -> None:
        self.problem, self.unit = problem, unit
        self.least = [int(any(row[dim] for row in problem.sent)) for dim in _dims(problem)]
        for dim, rate in problem.fixed.items():
            if rate % unit:
                raise ValueError(f"dimension {dim} is fixed to what is no whole number of units")
        self.total = None if problem.total_Bps is None else floor(problem.total_Bps / unit)
        self.most = [self._most(dim) for dim in _dims(problem)]
        if max(self.most) > MAX_UNITS:
            raise ValueError(f"more than {MAX_UNITS} units to share: take larger ones")
        if any(most < least for most, least in zip(self.most, self.least, strict=True)) or (
            self.total is not None and self.total < sum(self.least)
        ):
            raise ValueError("there are fewer units than dimensions that need one")

    def _most(self, dim: int) -> int:
        problem = self.problem
        if dim in problem.fixed:
            return int(problem.fixed[dim] / self.unit)
        most = [most for dims, most in problem.limits if dim in dims]
        most += [] if problem.total_Bps is None else [problem.total_Bps]
        if problem.money is not None and problem.price[dim]:
            most.append(problem.money / problem.price[dim])
        if not most:
            raise ValueError(f"nothing limits dimension {dim}: it costs nothing")
        return floor(min(most) / self.unit)

    @property
    def num_ways(self) -> int:
        """At most so many ways."""
        free = [most for dim, most in enumerate(self.most) if dim not in self.problem.fixed]
        if self.total is None:
            ways = 1
            for most in free:
                ways *= most + 1
            return ways
        return comb(self.total + len(free), max(len(free) - 1, 0))

    def rows(self) -> NDArray[np.int64]:
        """All ways that the limits allow, one a row."""
        problem, unit = self.problem, self.unit
        rows = np.zeros((1, 0), dtype=np.int64)
        for dim in _dims(problem):
            low, high = self.least[dim], self.most[dim]
            if dim in problem.fixed:
                low = high
            left = np.full(len(rows), high)
            if self.total is not None:
                later = sum(self.least[dim + 1 :])
                left = np.minimum(left, self.total - rows.sum(axis=1) - later)
            row, number = places(np.full(len(rows), low), np.maximum(left - low + 1, 0))
            rows = np.concatenate([rows[row], number[:, None]], axis=1)
        keep = np.ones(len(rows), dtype=bool)
        if self.total is not None and len(problem.fixed) < len(self.least):
            keep &= (rows.sum(axis=1) == self.total) | (not self._all_is_spent())
        if problem.money is not None:
            paid = rows @ np.array([float(price * unit) for price in problem.price])
            keep &= paid <= float(problem.money) * (1 + _CLOSE)
        for dims, most in problem.limits:
            keep &= rows[:, list(dims)].sum(axis=1) <= floor(most / unit)
        rows = rows[keep]
        if not len(rows):
            raise ValueError("no whole numbers of units keep the limits")
        return rows

    def _all_is_spent(self) -> bool:
        """Whether a given sum can be spent, for nothing else limits."""
        return self.problem.money is None and not self.problem.limits


def _dims(problem: BudgetProblem) -> range:
    return range(problem.num_dimensions)


def _values(
    problem: BudgetProblem, unit: Fraction, objective: Objective, rows: NDArray[np.int64]
) -> NDArray[np.float64]:
    time = np.full(len(rows), float(problem.compute_s))
    rates = rows * float(unit)
    for sent in problem.sent:
        longest = np.zeros(len(rows))
        for dim, part in enumerate(sent):
            if part:
                np.maximum(longest, float(part) / rates[:, dim], out=longest)
        time += longest
    if objective is Objective.TIME_COST:
        time *= rates @ np.array([float(price) for price in problem.price])
    return time


def _best_row(
    problem: BudgetProblem, unit: Fraction, objective: Objective, rows: NDArray[np.int64]
) -> tuple[int, ...]:
    """The best of these; those too close for floats are compared exactly, the first of equals."""
    values = _values(problem, unit, objective, rows)
    close = rows[values <= values.min() * (1 + _CLOSE)]
    ways = [tuple(map(int, row)) for row in close[:10_000]]
    allowed = [row for row in ways if problem.allows([number * unit for number in row])]
    if not allowed:
        raise ValueError("no whole numbers of units keep the limits")
    return min(
        allowed, key=lambda row: (problem.value([number * unit for number in row], objective), row)
    )


def _near(
    problem: BudgetProblem,
    unit: Fraction,
    objective: Objective,
    space: _Space,
    rates: tuple[float, ...],
) -> tuple[int, ...]:
    """The best of the real numbers rounded up or down, improved by moving units."""
    options = [
        sorted({max(least, min(most, floor(rate / unit) + more)) for more in (0, 1)})
        for rate, least, most in zip(rates, space.least, space.most, strict=True)
    ]
    rows = [row for row in product(*options) if _is_allowed(problem, space, unit, row)]
    rows = rows or [_repaired(problem, space, unit, [option[0] for option in options])]
    best = min(rows, key=lambda row: problem.value([n * unit for n in row], objective))
    while True:
        moved = [row for row in _moves(best, space) if _is_allowed(problem, space, unit, row)]
        values = {row: problem.value([n * unit for n in row], objective) for row in [best, *moved]}
        found = min(values, key=lambda row: (values[row], row))
        if values[found] >= values[best]:
            return best
        best = found


def _repaired(
    problem: BudgetProblem, space: _Space, unit: Fraction, row: list[int]
) -> tuple[int, ...]:
    """A way that the limits allow: units are taken where there are most, then spent."""
    while not problem.allows([number * unit for number in row]):
        spare = [number - least for number, least in zip(row, space.least, strict=True)]
        spare = [0 if dim in problem.fixed else left for dim, left in enumerate(spare)]
        if not max(spare):
            raise ValueError("no whole numbers of units beside the best real ones keep the limits")
        row[spare.index(max(spare))] -= 1
    while not _is_allowed(problem, space, unit, tuple(row)):  # some are left to be spent
        room = [most - number for number, most in zip(row, space.most, strict=True)]
        if not max(room):
            raise ValueError("no whole numbers of units beside the best real ones keep the limits")
        row[room.index(max(room))] += 1
    return tuple(row)


def _moves(row: tuple[int, ...], space: _Space) -> Iterator[tuple[int, ...]]:
    """One unit more somewhere, one less, or moved."""
    steps = [[0] * len(row)]
    for one in range(len(row)):
        for change in (1, -1):
            step = [0] * len(row)
            step[one] = change
            steps.append(step)
    for step, other in product(steps, steps):
        moved = tuple(a + b + c for a, b, c in zip(row, step, other, strict=True))
        inside = zip(moved, space.least, space.most, strict=True)
        if all(least <= number <= most for number, least, most in inside):
            yield moved


def _is_allowed(
    problem: BudgetProblem, space: _Space, unit: Fraction, row: tuple[int, ...]
) -> bool:
    spent = space.total is None or problem.money is not None or bool(problem.limits)
    return (spent or sum(row) == space.total) and problem.allows([n * unit for n in row])


@final
@dataclass(frozen=True, slots=True)
class NetworkDimension:
    """A dimension of a network: ranks that it joins, and what leaves a rank in it (units)."""

    number: int
    num_ranks: int
    bandwidth: int


def dimensions_of(network: Network) -> list[NetworkDimension]:
    """The dimensions of a network without switches, ascending.

    Raises ValueError if its links have no dimension, if it has switches, or if a dimension does not
    divide the hosts into blocks of one size with the same bandwidth of every host.

    >>> from ocs_codesign.core.networks.builders import torus
    >>> [(each.num_ranks, each.bandwidth) for each in dimensions_of(torus((4, 8), 1))]
    [(4, 2), (8, 2)]
    """
    if network.dimension is None:
        raise ValueError("the links of the network have no dimension: nothing can be divided")
    if network.num_nodes > network.num_hosts:
        raise ValueError("the network has switches: only links between hosts are divided")
    found = []
    for number in np.unique(network.dimension).tolist():
        links = network.dimension == number
        tail, head = network.tail[links], network.head[links]
        out = np.bincount(tail, network.bandwidth[links].astype(float), network.num_hosts)
        block = _blocks(tail, head, network.num_hosts)
        sizes = np.unique(np.unique(block, return_counts=True)[1])
        if len(sizes) > 1 or len(np.unique(out)) > 1:
            raise ValueError(
                f"dimension {number} is not alike at all hosts: its blocks have "
                f"{', '.join(map(str, sizes[:5].tolist()))} hosts"
            )
        found.append(NetworkDimension(int(number), int(sizes[0]), int(out[0])))
    return found


def _blocks(tail: NDArray[Any], head: NDArray[Any], num_hosts: int) -> NDArray[np.int64]:
    """The least host that every host is joined with."""
    block = np.arange(num_hosts)
    while True:
        least = block.copy()
        np.minimum.at(least, head, block[tail])
        np.minimum.at(least, tail, block[head])
        if (least == block).all():
            return block
        block = least
