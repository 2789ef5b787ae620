"""Lines: what a plan costs as a function of the factor of all switching costs, between gaps.

A switch of cost factor * delta before a gap is hidden while that is at most the gap. Between two
such factors (a regime) the cost of every plan is a line, base + factor * slope.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.blocking.problem import SwitchProblem

MAX_REGIMES = 100_000
"""Largest number of pairs of a gap and a switching cost that differ."""

_NEVER = np.int32(2**31 - 1)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A plan (int32, S) and its cost in a regime, in ticks: base + factor * slope."""

    choice: NDArray[np.int32]
    base: int
    slope: int

    def at(self, factor: Fraction) -> Fraction:
        """Its cost."""
        return self.base + factor * self.slope

    def is_same_as(self, other: Line) -> bool:
        """Whether both cost the same at every factor."""
        return (self.base, self.slope) == (other.base, other.slope)

    def meets(self, flatter: Line) -> Fraction:
        """The factor at which a flatter line costs the same."""
        return Fraction(flatter.base - self.base, self.slope - flatter.slope)


@final
@dataclass(frozen=True, slots=True, eq=False)
class LineSearch:
    """A problem as line plans need it.

    ``slopes`` are the different switching costs in units of ``slope_unit`` ticks; ``delta``,
    ``first`` (int32) and ``gap_of_row`` number the switching costs (-1: infinite) and the different
    ``gaps``. ``bounds`` are the factors between regimes; ``since`` says from which regime on a gap
    hides a switch only in part; no base or slope exceeds ``largest``. Factors are those of
    ``slope_unit``.
    """

    problem: SwitchProblem
    slopes: NDArray[Any]
    slope_unit: int
    delta: NDArray[np.int32]
    first: NDArray[np.int32]
    gaps: NDArray[Any]
    gap_of_row: NDArray[np.int64]
    bounds: tuple[Fraction, ...]
    since: NDArray[np.int32]
    largest: int

    def cheapest(self, regime: int, factor: Fraction | None, *, from_below: bool = False) -> Line:
        """The cheapest line at a factor (None: beyond all); of equals the flattest, or steepest."""
        weights = [(0, 1), (1, 0)]
        if factor is not None:
            q, p = factor.denominator, factor.numerator
            weights = [(q, p), (0, -1 if from_below else 1)]
        solve = self._compiled if self._fits(weights[0]) else self._in_big_integers
        return self.line(solve(regime, weights), regime)

    def line(self, choice: NDArray[np.int32], regime: int) -> Line:
        """What a plan costs in a regime."""
        ticks, rows = self.problem.ticks, self.problem.rows
        at = np.flatnonzero(choice[1:] != choice[:-1]) + 1
        uniform = self.problem.is_uniform
        kinds = self.delta[0, [0] * len(at)] if uniform else self.delta[choice[at - 1], choice[at]]
        kinds = np.append(kinds, self.first[choice[0]])
        waits = self.gap_of_row[rows[np.append(at, 0)]]
        seen = self.since[waits, kinds] <= regime
        work = int(ticks.costs[rows, choice].sum())
        hidden = int(self.gaps[waits[seen]].sum())
        return Line(choice, work - hidden, int(self.slopes[kinds[seen]].sum()))

    def _fits(self, weights: tuple[int, int]) -> bool:
        """Whether the compiled search is exact."""
        q, p = weights
        return (
            self.problem.ticks.is_compiled
            and self.largest < 2**60
            and max(q, p) < 2**62
            and (q + p) * self.largest < 2**108
        )

    def _compiled(self, regime: int, weights: list[tuple[int, int]]) -> NDArray[np.int32]:
        from ocs_codesign.reconfigure.blocking.line_kernels import cheapest_line

        ticks, rows = self.problem.ticks, self.problem.rows
        choice = np.empty(len(rows), dtype=np.int32)
        margin = float(sum(weights[0]) * self.largest) * 2.0**-47
        found = cheapest_line(
            ticks.costs,
            rows,
            self.gaps,
            self.gap_of_row,
            self.slopes.astype(np.int64),
            self.delta,
            self.first,
            -1 if self.problem.start is None else self.problem.start,
            self.since,
            regime,
            np.array(weights, dtype=np.int64),
            margin,
            ticks.infinite,
            choice,
        )
        if not found:
            raise ValueError("no plan serves all steps without an infinite switch")
        return choice

    def _in_big_integers(self, regime: int, weights: list[tuple[int, int]]) -> NDArray[np.int32]:
        """The same, the weights and the number of switches as digits of one integer."""
        from ocs_codesign.reconfigure.blocking.big import cheapest_plan

        problem = self.problem
        ticks, many = problem.ticks, problem.num_topologies
        digit = problem.num_steps + 2
        worth = 4 * self.largest * sum(map(abs, weights[1])) + 1

        def weighed(base: Any, slope: Any) -> Any:
            (q, p), (q2, p2) = weights
            return ((q * base + p * slope) * worth + q2 * base + p2 * slope) * digit

        q, p = weights[0]
        infinite = 8 * (q + p + 1) * self.largest * worth * digit
        costs = ticks.costs.astype(object)
        costs = np.where(costs >= ticks.infinite, infinite, weighed(costs, 0))
        gaps, slopes = self.gaps.astype(object), np.append(self.slopes.astype(object), 0)

        def prices(classes: NDArray[np.int32], wait: int) -> NDArray[Any]:
            seen = np.append(self.since[wait], _NEVER)[classes] <= regime
            price = np.where(seen, weighed(-gaps[wait], slopes[classes]), 0)
            return np.where(classes < 0, infinite, price)

        edges: dict[int, NDArray[Any] | int] = {}

        def edges_of(row: int) -> NDArray[Any] | int:
            wait = int(self.gap_of_row[row])
            if wait not in edges:
                price = prices(self.delta, wait) + 1
                edges[wait] = int(price[0, 0])
                if not problem.is_uniform:
                    price[np.arange(many), np.arange(many)] = infinite
                    edges[wait] = price
            return edges[wait]

        entry = prices(self.first, int(self.gap_of_row[problem.rows[0]]))
        if problem.start is not None:
            entry = entry + (np.arange(many) != problem.start)
        choice, value = cheapest_plan(costs, problem.rows, edges_of, entry, infinite)
        if min((entry + value[0]).tolist()) >= infinite:
            raise ValueError("no plan serves all steps without an infinite switch")
        return choice


def line_search(problem: SwitchProblem) -> LineSearch:
    """Number the switching costs and gaps of a problem, and find its regimes.

    Raises ValueError if there are more than MAX_REGIMES.
    """
    ticks = problem.ticks
    both = np.concatenate([ticks.delta.ravel(), ticks.first])
    costs = np.unique(both[both < ticks.infinite])
    unit = int(np.gcd.reduce(costs)) or 1
    classes = np.searchsorted(costs, np.minimum(both, costs[-1])).astype(np.int32)
    classes[both >= ticks.infinite] = -1
    gaps, gap_of_row = np.unique(ticks.gaps, return_inverse=True)
    if len(gaps) * len(costs) > MAX_REGIMES:
        raise ValueError(
            f"{len(gaps)} different gaps and {len(costs)} different switching costs: break-even "
            f"factors are found for up to {MAX_REGIMES} pairs of them"
        )
    slopes = costs // unit
    bounds, since = _regimes(gaps.tolist(), slopes.tolist())
    return LineSearch(
        problem,
        slopes,
        unit,
        classes[: ticks.delta.size].reshape(ticks.delta.shape),
        classes[ticks.delta.size :],
        gaps,
        gap_of_row.astype(np.int64),
        bounds,
        since,
        _largest(problem, int(slopes.max()), int(gaps.max())),
    )


def _largest(problem: SwitchProblem, slope: int, gap: int) -> int:
    """What neither the base nor the slope of any plan, or of its end, exceeds."""
    ticks = problem.ticks
    finite = np.where(ticks.costs >= ticks.infinite, 0, ticks.costs).max(axis=1)
    times = np.bincount(problem.rows, minlength=len(finite)).tolist()
    work: int = sum(cost * count for cost, count in zip(finite.tolist(), times, strict=True))
    return max(work, (problem.num_steps + 1) * max(slope, gap)) + 1


def _regimes(gaps: list[int], slopes: list[int]) -> tuple[tuple[Fraction, ...], NDArray[np.int32]]:
    """The factors at which gaps cease to hide switches, and which of them belongs to each pair."""
    ends = [[Fraction(gap, slope) if slope else None for slope in slopes] for gap in gaps]
    bounds = sorted({end for of_gap in ends for end in of_gap if end})
    rank = {end: at for at, end in enumerate(bounds, 1)}
    since = [[_NEVER if end is None else rank.get(end, 0) for end in of_gap] for of_gap in ends]
    return tuple(bounds), np.array(since, dtype=np.int32)


def regimes(search: LineSearch) -> list[tuple[Fraction, Fraction | None]]:
    """The factors from where to where each regime reaches."""
    begins = (Fraction(0), *search.bounds)
    return list(zip(begins, (*search.bounds, None), strict=True))
