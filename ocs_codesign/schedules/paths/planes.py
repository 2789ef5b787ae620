"""All-to-all throughput where a group leaves few link orbits: cutting planes over their prices.

The dual has one price w an orbit of links (a generator of a Cayley graph):

    least busy time = max over w >= 0, sum of w * speed = 1, of the sum of cheapest paths under w

over the paths from one node of every orbit. That is concave in w; every tree of cheapest paths from
a source is a plane above its part, and a small linear program over the planes found so far picks
the next prices. Its own dual mixes the trees to an optimal routing. Source: Basu et al. (arXiv
2309.13541) for the program, Kelley (1960) for cutting planes; prices in between the best and the
program's, where there are many sources: Wentges (1997).
"""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.compute.kernels import compiled
from ocs_codesign.core.lp import DEFAULT_OPTIONS, Basis, LinearProgram, Status, exact_vertex, solve
from ocs_codesign.core.lp.program import AUTO, SIMPLEX, BasisStatus
from ocs_codesign.core.topology import starts_of
from ocs_codesign.schedules.paths.certificates import (
    Throughput,
    as_prices,
    cheapest_trees,
    dot,
    integer_prices,
)
from ocs_codesign.schedules.paths.kernels import soft_loads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.core.compute.symmetry import Quotient
    from ocs_codesign.core.lp import ExactSolution, Options, Solution


MAX_ORBITS = 20
_MAX_PLANES = 2000
_CLOSE = 1e-9
_TOWARDS_BEST = 0.7
_GRAIN = 2.0**-12
_PARTS = 2**40
_HARD_ROUNDS, _HARD_GAP = 100, 1e-6
"""Rounds after which many sources are hard, and the gap that is then enough."""
_SOFT_ROUNDS, _RATE, _PACE, _LEAST_PRICE, _KEPT, _PRICE_UNIT = 400, 10.0, 2.0, 0.02, 3, 2**16


def orbit_throughput(quotient: Quotient, options: Options = DEFAULT_OPTIONS) -> Throughput:
    """Optimal all-to-all routing of a topology with few link orbits, exact if its prices are small.

    With a gap in the options, or if many sources take many rounds, soft routings join in, and a
    small gap is enough. Out of time, the routing and the bound found so far. Raises
    SolverUnavailableError if the solver cannot take a program.
    """
    began, rounds, gap = time.monotonic(), 0, options.relative_gap
    planes = _Planes(quotient)
    planes.price(quotient.is_useful.astype(np.int64))
    basis, shares, most = None, planes.first_shares(), _MAX_PLANES * quotient.num_sources
    while True:
        left = options.after(time.monotonic() - began)
        if quotient.num_sources > 1 and ((gap and not rounds) or rounds == _HARD_ROUNDS):
            gap = gap or _HARD_GAP
            planes.soften(replace(left, relative_gap=gap))
            left = options.after(time.monotonic() - began)
        left = replace(left, method=SIMPLEX if left.method == AUTO else left.method, start=basis)
        solution = solve(planes.program(), options=left).taken()
        values, duals = solution.values, solution.row_duals
        if solution.status is not Status.OPTIMAL or values is None or duals is None:
            return planes.best(shares, f"cutting planes: {solution.status.value}")
        basis, shares, rounds = solution.basis, planes.rounded(-duals[1:]), rounds + 1
        prices, reach = values[: quotient.num_orbits], planes.reach(values)
        if gap and float(planes.bound) * (1 + gap) >= reach:
            return planes.best(shares)
        is_far = float(planes.bound) * (1 + _CLOSE) < reach and len(planes.hops) < most
        if is_far and planes.explore(prices):
            continue
        vertex = planes.vertex(solution)
        if vertex is None:
            return planes.best(shares)
        shares = [-dual for dual in vertex.row_duals[1:]]
        whole = integer_prices(vertex.values[: quotient.num_orbits])
        if whole is None or not planes.price(whole):
            return planes.best(shares)
        basis = None


def soft_routing(quotient: Quotient, rounds: int, options: Options = DEFAULT_OPTIONS) -> Throughput:
    """The best of so many rounds of soft routings, and what their prices prove.

    No program is solved; rounds end within the gap of the options.
    """
    planes = _Planes(quotient)
    planes.price(quotient.is_useful.astype(np.int64))
    planes.soften(options, rounds)
    return planes.best(planes.first_shares(), "soft routing")


class _Planes:
    """Trees of cheapest paths found so far, and the best prices."""

    def __init__(self, quotient: Quotient) -> None:
        self.quotient = quotient
        self.hops: list[NDArray[np.float64]] = []
        self.source: list[int] = []
        self.bound = Fraction(0)
        self.prices = np.ones(quotient.num_orbits, dtype=np.int64)
        self.soft: list[int] = []
        self._known: dict[tuple[int, bytes], int] = {}

    def price(self, prices: NDArray[np.int64]) -> bool:
        """Raise the bound by what the prices (int64, an orbit) prove; whether trees are new."""
        quotient = self.quotient
        trees = cheapest_trees(quotient, prices)
        self.raise_bound(dot(prices, quotient.weights() @ trees), prices)
        return self.add(trees.astype(float))

    def raise_bound(self, paid: int, prices: NDArray[np.int64]) -> None:
        """Keep prices and what all cheapest paths pay, if they prove more."""
        bound = self.quotient.scale * Fraction(paid, dot(prices, self.quotient.speed))
        if bound > self.bound:
            self.bound, self.prices = bound, prices

    def add(self, loads: NDArray[np.float64]) -> bool:
        """Add a plane for the loads of every source; whether one is new."""
        before = len(self.hops)
        for source, hops in enumerate(loads):
            if (source, hops.tobytes()) not in self._known:
                self._known[source, hops.tobytes()] = len(self.hops)
                self.source.append(source)
                self.hops.append(hops)
        return len(self.hops) > before

    def explore(self, weights: NDArray[np.float64]) -> bool:
        """Price by the program's weights, of many sources near the best prices; whether it helps.

        Far from the best prices trees of many sources rarely fit each other.
        """
        before, is_new = self.bound, False
        if self.quotient.num_sources > 1:
            best = self.prices / dot(self.prices, self.quotient.speed)
            own = weights / (weights @ self.quotient.speed)
            is_new = self.price(as_prices(_TOWARDS_BEST * best + (1 - _TOWARDS_BEST) * own))
        return (is_new and self.bound > before) or self.price(as_prices(weights)) or is_new

    def soften(self, options: Options, rounds: int = _SOFT_ROUNDS) -> None:
        """Play rounds of soft routings and of prices that follow their loads.

        Of them the bound counts, and the routings with the least largest loads become planes.
        """
        began, quotient = time.monotonic(), self.quotient
        topology, speed = quotient.topology, quotient.speed.astype(float)
        out, into = topology.links_by_tail(), topology.links_by_head()
        kept: list[tuple[float, int, NDArray[np.float64]]] = []
        powers, rate = np.zeros(quotient.num_orbits), _RATE
        for number in range(rounds):
            prices = np.maximum(np.exp(powers - powers.mean()), _LEAST_PRICE)
            whole = np.where(quotient.is_useful, np.rint(prices * _PRICE_UNIT), _PRICE_UNIT)
            whole = whole.astype(np.int64)
            loads = np.empty((quotient.num_sources, quotient.num_orbits))
            paid = compiled(soft_loads)(
                *(quotient.sources, topology.tail, topology.head, out.start, out.order),
                *(into.start, into.order, whole[quotient.link_orbit], rate / _PRICE_UNIT),
                *(quotient.link_orbit, loads),
            )
            self.raise_bound(dot(quotient.weights(), paid), whole)
            busy = quotient.weights() @ loads / speed
            kept = sorted([*kept, (float(busy.max()), number, loads)], key=lambda each: each[:2])
            kept, least = kept[:_KEPT], float(self.bound / quotient.scale)
            is_late = options.after(time.monotonic() - began).time_limit_s == 0
            if is_late or kept[0][0] <= least * (1 + (options.relative_gap or 0)):
                break
            powers += _PACE * np.where(quotient.is_useful, busy / least - 1, 0) / rate
            rate *= 2 if number == rounds // 2 else 1
        # Rounded up, and by more than the errors of floats, they are loads that suffice.
        rounded = [np.ceil(loads * (1 + _CLOSE) / _GRAIN) * _GRAIN for _, _, loads in kept]
        for loads in rounded:
            self.add(loads)
        self.soft = [self._known[source, row.tobytes()] for source, row in enumerate(rounded[0])]

    def reach(self, values: NDArray[np.float64]) -> float:
        """The time that the program's optimum is."""
        whole = values[self.quotient.num_orbits :] @ self.quotient.weights()
        return float(self.quotient.scale) * float(whole) / int(self.quotient.speed.sum())

    def program(self, rows: NDArray[np.int64] | None = None) -> LinearProgram:
        """Maximise the weights @ t, t[s] <= hops @ w for every plane of s, over prices w and t.

        Prices are 1 on average over links. ``rows`` are those of planes, by default all.
        """
        quotient, orbits = self.quotient, self.quotient.num_orbits
        sources = quotient.num_sources
        planes = range(len(self.hops)) if rows is None else rows.tolist()
        columns = [np.arange(orbits)]
        entries = [quotient.speed.astype(float)]
        for plane in planes:
            used = np.flatnonzero(self.hops[plane])
            columns.append(np.append(used, orbits + self.source[plane]))
            entries.append(np.append(-self.hops[plane][used], 1.0))
        total = float(quotient.speed.sum())
        return LinearProgram(
            np.concatenate([np.zeros(orbits), -quotient.weights().astype(float)]),
            starts_of(np.array([len(each) for each in columns])),
            np.concatenate(columns),
            np.concatenate(entries),
            np.append(total, np.full(len(planes), -np.inf)),
            np.append(total, np.zeros(len(planes))),
            np.append(np.zeros(orbits), np.full(sources, -np.inf)),
            # A self-loop is of no use: at price 0 it leaves the budget to the others.
            np.append(np.where(quotient.is_useful, np.inf, 0.0), np.full(sources, np.inf)),
        )

    def vertex(self, solution: Solution) -> ExactSolution | None:
        """The exact optimum of the program, from what it was solved to."""
        basis = solution.basis
        if basis is None:
            return None
        tight = np.flatnonzero(basis.rows[1:] != BasisStatus.BASIC)
        small = replace(solution, basis=Basis(basis.columns, basis.rows[np.append(0, tight + 1)]))
        vertex = exact_vertex(self.program(tight), small)
        if vertex is None:
            return None
        duals = [Fraction(0)] * (1 + len(self.hops))
        for row, dual in zip([0, *(tight + 1).tolist()], vertex.row_duals, strict=True):
            duals[row] = dual
        return replace(vertex, row_duals=tuple(duals))

    def first_shares(self) -> list[Fraction]:
        """The first tree of every source alone."""
        sources = self.quotient.num_sources
        shares = [Fraction(int(weight)) for weight in self.quotient.weights()]
        return shares + [Fraction(0)] * (len(self.hops) - sources)

    def rounded(self, duals: NDArray[np.float64]) -> list[Fraction]:
        """Shares near the duals that are, of every source, its weight in all."""
        sources, parts = np.array(self.source), np.maximum(duals, 0)
        whole = np.bincount(sources, parts, minlength=self.quotient.num_sources)
        units = np.floor(parts / whole[sources] * _PARTS).astype(np.int64)
        for source in range(self.quotient.num_sources):
            mine = np.flatnonzero(sources == source)
            units[mine[np.argmax(units[mine])]] += _PARTS - int(units[mine].sum())
        weights = self.quotient.weights()[sources].tolist()
        return [Fraction(u * w, _PARTS) for u, w in zip(units.tolist(), weights, strict=True)]

    def best(self, shares: list[Fraction], method: str = "cutting planes") -> Throughput:
        """The better of the routings that uses planes in these shares and the best soft one."""
        found = self.result(shares, method)
        if not self.soft:
            return found
        alone = [Fraction(0)] * len(self.hops)
        for plane in self.soft:
            alone[plane] = Fraction(int(self.quotient.weights()[self.source[plane]]))
        soft = self.result(alone, method)
        return min(found, soft, key=lambda each: each.time)

    def result(self, shares: list[Fraction], method: str = "cutting planes") -> Throughput:
        """The routing that uses the trees in these shares, with the best bound so far."""
        unit = lcm(*(share.denominator for share in shares))
        used = [place for place, share in enumerate(shares) if share]
        total = np.zeros(self.quotient.num_orbits, dtype=object)
        for place in used:
            grains = (self.hops[place] / _GRAIN).astype(np.int64).astype(object)
            total += int(shares[place] * unit) * grains
        loads = tuple(Fraction(int(each), unit * int(1 / _GRAIN)) for each in total)
        least = self.quotient.time(loads)
        return Throughput(
            *(least, self.bound, method), quotient=self.quotient, prices=self.prices, loads=loads
        )
