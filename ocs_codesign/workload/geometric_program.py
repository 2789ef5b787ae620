"""The convex program of a budget: logarithms of bandwidths, and of what every collective takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.workload.budgets import BudgetProblem


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
