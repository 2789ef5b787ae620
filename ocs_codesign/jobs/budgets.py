"""Budgets of bandwidth: how much of it every dimension of a network gets, for what a job sends.

With logarithms of bandwidths as unknowns, time and cost are sums of exponentials: the problem is
convex, so what the solver finds is the best there is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.collective import WITHOUT_PARAMETERS, Collective
from ocs_codesign.core.quantities import exact, exact_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


# The convex program of a budget: logarithms of bandwidths, and of what every collective takes.


@final
class GeometricProgram:
    """The problem in x = log(B / unit) of the dimensions that are free, and log of each term."""

    def __init__(self, problem: BudgetProblem, *, is_cost: bool) -> None:
        self.problem, self.is_cost = problem, is_cost
        self.sent = np.array([[float(part) for part in row] for row in problem.sent])
        self.price = np.array([float(each) for each in problem.price])
        self.fixed = {dim: float(rate) for dim, rate in problem.fixed.items()}
        self.free = np.array([dim not in self.fixed for dim in range(problem.num_dimensions)])
        self.limits: list[tuple[NDArray[np.float64], float]] = []
        self._add_limits()
        self.unit = self._unit()
        alone = (self.sent / self.unit).max(axis=1).sum()
        self.second = float(problem.compute_s) + float(alone)
        self.absorbs = self._absorbing()

    def _add_limits(self) -> None:
        problem, num = self.problem, self.problem.num_dimensions
        if problem.total_Bps is not None:
            self.limits.append((np.ones(num), float(problem.total_Bps)))
        if problem.money is not None:
            self.limits.append((self.price, float(problem.money)))
        for dims, most in problem.limits:
            self.limits.append((np.isin(np.arange(num), dims).astype(float), float(most)))
        held = np.zeros(num)
        for dim, rate in self.fixed.items():
            held[dim] = rate
        left = [
            (weights * self.free, most - float(weights @ held)) for weights, most in self.limits
        ]
        if any(most <= 0 and weights.any() for weights, most in left):
            raise ValueError("what is fixed leaves nothing for the other dimensions")
        if any(
            most < -1e-9 * abs(whole)
            for (_, most), (_, whole) in zip(left, self.limits, strict=True)
        ):
            raise ValueError("what is fixed is more than there is")
        self.limits = [pair for pair in left if pair[0].any()]

    def _unit(self) -> float:
        sizes = [most / weights[weights > 0].min() for weights, most in self.limits]
        return min(sizes) if sizes else 1.0

    def _absorbing(self) -> int | None:
        """The cheapest free dimension, which takes what the others leave of a given sum."""
        if not self.is_cost or self.problem.total_Bps is None or not self.free.any():
            return None
        return int(np.argmin(np.where(self.free, self.price, np.inf)))

    @property
    def num_free(self) -> int:
        """Dimensions that are not fixed."""
        return int(self.free.sum())

    def bandwidths(self, point: NDArray[np.float64]) -> list[float]:
        """The bandwidths of all dimensions at a point."""
        rates = np.empty(len(self.free))
        rates[self.free] = self.unit * np.exp(point[: self.num_free])
        for dim, rate in self.fixed.items():
            rates[dim] = rate
        return [float(rate) for rate in rates]

    def starts(self) -> list[NDArray[np.float64]]:
        """An even split, and one in proportion to what is sent."""
        loads = self.sent.sum(axis=0)[self.free]
        weights = [np.ones(self.num_free), loads + loads.max(initial=0) * 1e-3 + 1e-300]
        points = []
        for weight in weights:
            point = np.concatenate([np.log(weight / weight.sum()), np.zeros(len(self.sent))])
            points.append(self.made_feasible(point))
        return points

    def made_feasible(self, point: NDArray[np.float64]) -> NDArray[np.float64]:
        """The point with bandwidths scaled into the limits, its dear dimension filled up."""
        point = point.copy()
        num = self.num_free
        rates = np.exp(point[:num])
        for weights, most in self.limits:
            used = float(weights[self.free] @ rates) * self.unit
            if used > 0:
                rates = np.where(weights[self.free] > 0, rates * min(1.0, most / used), rates)
        if num:
            filled = int(np.flatnonzero(self.free).searchsorted(self.absorbs or 0))
            if self.absorbs is None:
                scale = [
                    most / (float(weights[self.free] @ rates) * self.unit)
                    for weights, most in self.limits
                ]
                rates = rates * min(scale, default=1.0)
            else:
                total = self.limits[0][1] / self.unit
                rates[filled] += total - rates.sum()
            point[:num] = np.log(rates)
        full = np.array(self.bandwidths(point))
        with np.errstate(divide="ignore"):
            point[num:] = np.maximum(np.log((self.sent / full).max(axis=1) / self.second), -60)
        return point

    def _time(self, point: NDArray[np.float64]) -> float:
        return float(self.problem.compute_s) / self.second + float(
            np.exp(point[self.num_free :]).sum()
        )

    def _cost_parts(self, point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """The cost in units, and its part of every free dimension.

        Where a sum is given, the cheapest dimension is what the others leave: all of the sum at its
        price, and the others at what they cost more.
        """
        rates, price = np.exp(point[: self.num_free]), self.price[self.free]
        constant = sum(self.price[dim] * rate for dim, rate in self.fixed.items()) / self.unit
        if self.absorbs is not None:
            least = self.price[self.absorbs]
            constant += least * self.limits[0][1] / self.unit
            price = price - least
        parts = price * rates
        return constant + float(parts.sum()), parts

    def objective(self, point: NDArray[np.float64]) -> float:
        """Logarithm of the time, or of the time times the cost."""
        value = np.log(self._time(point))
        return float(value + np.log(self._cost_parts(point)[0]) if self.is_cost else value)

    def gradient(self, point: NDArray[np.float64]) -> NDArray[np.float64]:
        """Its gradient."""
        num = self.num_free
        gradient = np.zeros(len(point))
        gradient[num:] = np.exp(point[num:]) / self._time(point)
        if self.is_cost:
            whole, parts = self._cost_parts(point)
            gradient[:num] = parts / whole
        return gradient

    def _pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        terms, dims = np.nonzero(self.sent)
        return terms, dims

    def slacks(self, point: NDArray[np.float64]) -> NDArray[np.float64]:
        """What is left of every limit, and of every term over its parts; not negative."""
        num = self.num_free
        terms, dims = self._pairs()
        logs = np.log(self.bandwidths(point))
        waits = point[num:][terms] - np.log(self.sent[terms, dims] / self.second) + logs[dims]
        rates = np.exp(point[:num]) * self.unit
        used = [np.log(most) - np.log(weights[self.free] @ rates) for weights, most in self.limits]
        return np.concatenate([waits, used])

    def slack_gradients(self, point: NDArray[np.float64]) -> NDArray[np.float64]:
        """Their gradients, a row each."""
        num = self.num_free
        terms, dims = self._pairs()
        place = np.cumsum(self.free) - 1
        rows: NDArray[Any] = np.zeros((len(terms) + len(self.limits), len(point)))
        at = np.arange(len(terms))
        rows[at, num + terms] = 1
        moves = self.free[dims]
        rows[at[moves], place[dims[moves]]] = 1
        rates = np.exp(point[:num])
        for number, (weights, _) in enumerate(self.limits):
            parts = weights[self.free] * rates
            rows[len(terms) + number, :num] = -parts / parts.sum()
        return rows


COLLECTIVES_OF_BUDGETS = tuple(kind.name for kind in WITHOUT_PARAMETERS)
MAX_DIMENSIONS, MAX_TERMS = 16, 1000


class Objective(Enum):
    """What is least: the time, or the time multiplied with the cost."""

    TIME = "time"
    TIME_COST = "time-cost"


def sent_bytes(
    collective: str, message_bytes: Fraction | float, sizes: Sequence[int]
) -> tuple[Fraction, ...]:
    """Bytes of M that a rank sends in every dimension, of so many ranks, one after another.

    Each dimension of a reduction leaves a share of the data to the next; an allgather is its
    mirror, an all-to-all sends all of it in each.

    >>> [str(share) for share in sent_bytes("allreduce", 64, (4, 4))]
    ['96', '24']
    """
    name = Collective.parse(collective).name
    message = exact(message_bytes, "message_bytes")
    if message < 0 or any(size < 1 for size in sizes):
        raise ValueError("a message and the ranks of a dimension are not negative")
    shares = []
    for place, size in enumerate(sizes):
        rest = message if name == "alltoall" else message / prod(sizes[:place])
        shares.append(rest * Fraction(size - 1, size) * (2 if name == "allreduce" else 1))
    return tuple(shares)


@final
@dataclass(frozen=True, slots=True, init=False)
class BudgetProblem:
    """What a job sends in the dimensions of a network, and what may be spent on them.

    Row k of ``sent`` are bytes in every dimension of collective k (all its repetitions), which
    takes the longest of them: T = ``compute_s`` + sum over k of max over d of sent / B. Bandwidths
    B are bytes a second a rank. ``price`` (dimensions) is the cost of one byte a second. ``total``
    is what all bandwidths make together, ``money`` the most that they cost; ``fixed`` gives the
    bandwidth of some dimensions, ``limits`` the most that several have together.

    Raises ValueError if something is negative or missing, nothing is sent, and nothing limits.
    """

    sent: tuple[tuple[Fraction, ...], ...]
    compute_s: Fraction
    price: tuple[Fraction, ...]
    total_Bps: Fraction | None  # noqa: N815 - the unit keeps its case
    money: Fraction | None
    fixed: dict[int, Fraction]
    limits: tuple[tuple[tuple[int, ...], Fraction], ...]

    def __init__(
        self,
        sent: Sequence[Sequence[Fraction | float]],
        *,
        compute_s: Fraction | float = 0,
        price: Sequence[Fraction | float] | None = None,
        total_Bps: Fraction | float | None = None,  # noqa: N803
        money: Fraction | float | None = None,
        fixed: dict[int, Fraction | float] | None = None,
        limits: Sequence[tuple[Sequence[int], Fraction | float]] = (),
    ) -> None:
        rows = tuple(tuple(exact(value, "sent") for value in row) for row in sent)
        num = len(rows[0]) if rows else 0
        if not 1 <= num <= MAX_DIMENSIONS or not 1 <= len(rows) <= MAX_TERMS:
            raise ValueError("a budget has from 1 to 16 dimensions and from 1 to 1000 collectives")
        if any(len(row) != num or min(row) < 0 for row in rows) or not any(map(max, rows)):
            raise ValueError("every collective sends something in a dimension, nowhere less than 0")
        prices = tuple(exact(value, "price") for value in price or [0] * num)
        if len(prices) != num or min(prices) < 0:
            raise ValueError(f"there is a price a dimension, not negative: {num} of them")
        for name, value in (("total_Bps", total_Bps), ("money", money)):
            given = None if value is None else exact(value, name)
            if given is not None and given <= 0:
                raise ValueError(f"{name} is {value}: it must be positive")
            object.__setattr__(self, name, given)
        if total_Bps is None and money is None:
            raise ValueError("nothing limits the bandwidths: give their sum or the money")
        if money is not None and not max(prices):
            raise ValueError("money limits nothing where no dimension has a price")
        bounds = tuple((tuple(dims), exact(most, "a limit")) for dims, most in limits)
        held = {dim: exact(value, "a fixed bandwidth") for dim, value in (fixed or {}).items()}
        named = {*held, *(dim for dims, _ in bounds for dim in dims)}
        given_rates = [*held.values(), *(most for _, most in bounds)]
        if not named <= set(range(num)) or any(rate <= 0 for rate in given_rates):
            raise ValueError(f"what is fixed or limited is positive, of dimensions 0 to {num - 1}")
        object.__setattr__(self, "sent", rows)
        object.__setattr__(self, "compute_s", exact_time(compute_s, "compute_s"))
        object.__setattr__(self, "price", prices)
        object.__setattr__(self, "fixed", held)
        object.__setattr__(self, "limits", bounds)

    @property
    def num_dimensions(self) -> int:
        """Dimensions."""
        return len(self.price)

    def time_s(self, bandwidths: Sequence[Fraction | float]) -> Fraction:
        """T at these bandwidths, exact; ValueError if one that is used is 0."""
        rates = [exact(value, "a bandwidth") for value in bandwidths]
        if any(rate <= 0 and any(row[dim] for row in self.sent) for dim, rate in enumerate(rates)):
            raise ValueError("a dimension in which something is sent has no bandwidth")
        longest = (
            max(part / rate for part, rate in zip(row, rates, strict=True) if part)
            for row in self.sent
            if any(row)
        )
        return self.compute_s + sum(longest, Fraction(0))

    def cost(self, bandwidths: Sequence[Fraction | float]) -> Fraction:
        """What these bandwidths cost."""
        pairs = zip(self.price, bandwidths, strict=True)
        return sum((price * exact(rate) for price, rate in pairs), Fraction(0))

    def value(self, bandwidths: Sequence[Fraction | float], objective: Objective) -> Fraction:
        """What is least: T in seconds, or T times the cost."""
        time_s = self.time_s(bandwidths)
        return time_s if objective is Objective.TIME else time_s * self.cost(bandwidths)

    def allows(self, bandwidths: Sequence[Fraction | float]) -> bool:
        """Whether these bandwidths keep the sum, the money and the limits."""
        rates = [exact(rate) for rate in bandwidths]
        return (
            (self.total_Bps is None or sum(rates) <= self.total_Bps)
            and (self.money is None or self.cost(rates) <= self.money)
            and all(rates[dim] == rate for dim, rate in self.fixed.items())
            and all(sum(rates[dim] for dim in dims) <= most for dims, most in self.limits)
        )


@final
@dataclass(frozen=True, slots=True)
class Allocation:
    """Bandwidths of the dimensions (bytes a second a rank), and what they come to."""

    bandwidths_Bps: tuple[float, ...]  # noqa: N815 - the unit keeps its case
    time_s: float
    cost: float
    value: float


def allocate(problem: BudgetProblem, objective: Objective = Objective.TIME) -> Allocation:
    """The best bandwidths, in real numbers; the sum of all is spent where a sum is given.

    Raises ValueError where fixed bandwidths leave nothing, RuntimeError if the solver fails.

    >>> found = allocate(BudgetProblem([[3, 1]], total_Bps=8))
    >>> [round(rate, 6) for rate in found.bandwidths_Bps], round(found.time_s, 9)
    ([6.0, 2.0], 0.5)
    """
    if objective is Objective.TIME_COST and not max(problem.price):
        raise ValueError("no dimension has a price: the time alone can be least")
    from scipy.optimize import minimize

    program = GeometricProgram(problem, is_cost=objective is Objective.TIME_COST)

    best: NDArray[np.float64] | None = None
    for start in program.starts():
        found = minimize(
            program.objective,
            start,
            jac=program.gradient,
            method="SLSQP",
            constraints={"type": "ineq", "fun": program.slacks, "jac": program.slack_gradients},
            options={"ftol": 1e-15, "maxiter": 2000},
        )
        feasible = program.made_feasible(found.x)
        if best is None or program.objective(feasible) < program.objective(best):
            best = feasible
    if best is None or not np.isfinite(best).all():
        raise RuntimeError("the solver found no bandwidths")
    rates = program.bandwidths(best)
    time_s, cost = float(problem.time_s(rates)), float(problem.cost(rates))
    value = time_s * (cost if objective is Objective.TIME_COST else 1)
    return Allocation(tuple(rates), time_s, cost, value)
