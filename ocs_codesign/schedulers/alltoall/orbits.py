"""All-to-all throughput where a group leaves few link orbits: cutting planes over their prices.

The dual has one price w an orbit of links (a generator of a Cayley graph):

    least busy time = max over w >= 0, sum of w * speed = 1, of the sum of cheapest paths under w

over the paths from one node of every orbit. That is concave in w; every set of trees of cheapest
paths is a plane above it, and a small linear program over the planes found so far picks the next
prices. Its own dual mixes the trees to an optimal routing. Source: Basu et al. (arXiv 2309.13541)
for the program, Kelley (1960) for cutting planes.
"""

from __future__ import annotations

import time
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.lp import DEFAULT_OPTIONS, LinearProgram, Status, exact_vertex, solve
from ocs_codesign.schedulers.alltoall.certificates import as_prices, integer_prices, price_bound
from ocs_codesign.schedulers.alltoall.result import Throughput

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.lp import Options
    from ocs_codesign.symmetry.quotient import Quotient

MAX_ORBITS = 20
_MAX_PLANES = 2000
_CLOSE = 1e-9


def orbit_throughput(quotient: Quotient, options: Options = DEFAULT_OPTIONS) -> Throughput:
    """Optimal all-to-all routing of a topology with few link orbits, exact if its prices are small.

    Out of time, the routing and the bound found so far. Raises SolverUnavailableError if the solver
    cannot take a program.

    >>> from ocs_codesign.symmetry.quotient import quotient
    >>> from ocs_codesign.graphs.families.rings import Circulant
    >>> orbit_throughput(quotient(Circulant(12, (2, 3)).topology())).time
    Fraction(14, 9)
    """
    began = time.monotonic()
    planes = _Planes(quotient)
    planes.price(quotient.is_useful.astype(np.int64))
    shares = [Fraction(1)]
    while True:
        program = planes.program()
        solution = solve(program, options=options.after(time.monotonic() - began)).taken()
        values, duals = solution.values, solution.row_duals
        if solution.status is not Status.OPTIMAL or values is None or duals is None:
            return planes.result(shares, f"cutting planes: {solution.status.value}")
        shares = [Fraction(max(0.0, -float(dual))) for dual in duals[:-1]]
        reach = float(quotient.scale) * values[-1]
        is_far = float(planes.bound) * (1 + _CLOSE) < reach and len(planes.hops) < _MAX_PLANES
        if is_far and planes.price(as_prices(values[:-1])):
            continue
        vertex = exact_vertex(program, solution)
        if vertex is None:
            return planes.result(shares)
        shares = [-dual for dual in vertex.row_duals[:-1]]
        prices = integer_prices(vertex.values[:-1])
        if prices is None or not planes.price(prices):
            return planes.result(shares)


class _Planes:
    """Trees of cheapest paths found so far, and the best prices."""

    def __init__(self, quotient: Quotient) -> None:
        self.quotient = quotient
        self.hops: list[NDArray[np.int64]] = []
        self.bound = Fraction(0)
        self.prices = np.ones(quotient.num_orbits, dtype=np.int64)
        self._known: set[bytes] = set()

    def price(self, prices: NDArray[np.int64]) -> bool:
        """Raise the bound by what the prices (int64, an orbit) prove; whether the trees are new."""
        bound, hops = price_bound(self.quotient, prices)
        if bound > self.bound:
            self.bound, self.prices = bound, prices
        if hops.tobytes() in self._known:
            return False
        self._known.add(hops.tobytes())
        self.hops.append(hops)
        return True

    def program(self) -> LinearProgram:
        """Maximise t <= hops @ w for every plane, w >= 0, sum of w * speed = 1; t is the last."""
        orbits, planes = self.quotient.num_orbits, len(self.hops)
        above = np.concatenate([-np.stack(self.hops), np.ones((planes, 1))], axis=1)
        dense = np.vstack([above, np.append(self.quotient.speed, 0)])
        cost = np.zeros(orbits + 1)
        cost[-1] = -1
        return LinearProgram(
            cost,
            np.arange(planes + 2) * (orbits + 1),
            np.tile(np.arange(orbits + 1), planes + 1),
            dense.ravel().astype(float),
            np.append(np.full(planes, -np.inf), 1.0),
            np.append(np.zeros(planes), 1.0),
            np.append(np.zeros(orbits), -np.inf),
            # A self-loop is of no use: at price 0 it leaves the budget to the others.
            np.append(np.where(self.quotient.is_useful, np.inf, 0.0), np.inf),
        )

    def result(self, shares: list[Fraction], method: str = "cutting planes") -> Throughput:
        """The routing that uses the first trees in these shares, with the best bound so far."""
        whole = sum(shares)
        parts = zip(shares, self.hops[: len(shares)], strict=True)
        used = [(share / whole, hops.tolist()) for share, hops in parts if share]
        loads = tuple(
            sum((share * hops[orbit] for share, hops in used), Fraction(0))
            for orbit in range(self.quotient.num_orbits)
        )
        least = self.quotient.time(loads)
        return Throughput(self.quotient, least, self.bound, self.prices, loads, method)
