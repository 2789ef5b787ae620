"""The least sum of times whatever the chunks: columns are priced in until none is worth it.

The prices of a master say what every send costs; the cheapest way to bring a shard to all nodes at
these prices, one integer program a root, is a column that it lacks, or proves that it lacks none.
Any prices prove a bound: what all roots cost at least, over the most that a unit of time pays.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, isfinite, lcm
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.lp import Options, Status, exact_vertex, solve
from ocs_codesign.lp.options import SIMPLEX
from ocs_codesign.schedulers.exact.search import CLOSE, middle_point
from ocs_codesign.schedulers.late.master import Arrivals, Master, arrivals_at, takes_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ocs_codesign.schedulers.exact.model import Broadcasts

    Progress = Callable[[int, int], None]

_PRICE_BITS = 16
"""Prices are integers up to 2**_PRICE_BITS: a bound loses some parts in 2**_PRICE_BITS."""
_MAX_DENOMINATOR = 2**20


@final
@dataclass(frozen=True, slots=True, eq=False)
class Mixed:
    """A master, and a sum of times in shards that no schedule has less than, in 1 / unit."""

    master: Master
    least: Fraction


def mixed(
    model: Broadcasts, least: Fraction, options: Options, on_progress: Progress | None = None
) -> Mixed:
    """Columns enough for the least sum of times, or as many as the time limit allows.

    ``least`` is what is proven already. Raises SolverUnavailableError if the solver cannot take a
    program.
    """
    search = _Search(model, least, options)
    while not search.improve():
        if on_progress is not None:
            on_progress(search.rounds, search.rounds + 1)
    return Mixed(search.master(), search.least)


class _Search:
    """The arrivals found so far, which grow."""

    def __init__(self, model: Broadcasts, least: Fraction, options: Options) -> None:
        self.model, self.least, self.rounds = model, least, 0
        self._options, self._began = options, time.monotonic()
        self._roots = [model.of_root(position) for position in range(len(model.roots))]
        self._held: dict[tuple[int, bytes], Arrivals] = {}
        for position, hops in enumerate(model.topology.distances()[model.roots]):
            self._add(position, hops.astype(np.int64))

    def master(self) -> Master:
        """That of what is held, roots in order."""
        held = sorted(self._held.values(), key=lambda some: some.position)
        return Master.of(self.model, held)

    def improve(self) -> bool:
        """Price in what the master lacks; whether that was nothing, or all that time allows."""
        self.rounds += 1
        master, left = self.master(), self._left()
        if left.time_limit_s == 0:
            return True
        solution = middle_point(master.program(), left)
        if solution.status is not Status.OPTIMAL or solution.objective is None:
            return True
        if solution.objective <= float(self.least) * (1 + CLOSE):
            return True
        _, duals = solution.point_and_duals()
        return not (self._grows(_rounded(master.prices(duals))) or self._grows_at_vertex(master))

    def _grows_at_vertex(self, master: Master) -> bool:
        """Whether exact duals find what those of the middle did not; if not, they prove the best.

        Only here is the bound that is proven the optimum itself.
        """
        program = master.program()
        vertex = exact_vertex(
            program, solve(program, options=replace(self._left(), method=SIMPLEX))
        )
        if vertex is None:
            return False
        duals = np.array(vertex.row_duals, dtype=object)
        unit = lcm(*(dual.denominator for dual in vertex.row_duals))
        if unit > _MAX_DENOMINATOR:
            return False
        return self._grows(master.prices(duals * unit).astype(np.int64))

    def _grows(self, prices: NDArray[np.int64]) -> bool:
        """Whether arrivals were missing at these prices, or time that says so ran out."""
        num = len(self._held)
        self._price(prices)
        return len(self._held) > num

    def _price(self, prices: NDArray[np.int64]) -> None:
        """Add the cheapest arrivals of every root at these prices, and see what they prove."""
        model, total = self.model, 0
        most = int(prices.sum(axis=0).max())
        cost = prices[model.link_class[model.link], model.step - 1] * takes_of(model)
        for position, one in enumerate(self._roots):
            program = one.priced_program(cost[model.root == position].astype(float))
            solution = solve(program, options=self._left()).taken()
            if solution.bound is not None and isfinite(solution.bound):
                # Branch and bound is in floats, of integers.
                total += max(0, ceil(solution.bound - CLOSE * max(1.0, abs(solution.bound))))
            if solution.values is not None and (solution.violation or 0.0) <= CLOSE:
                step = np.zeros(model.topology.num_nodes, dtype=np.int64)
                chosen = solution.values > 0.5
                step[one.head[chosen]] = one.step[chosen]
                self._add(position, step)
        if most:
            self.least = max(self.least, Fraction(total, most))

    def _add(self, position: int, step: NDArray[np.int64]) -> None:
        self._held.setdefault((position, step.tobytes()), arrivals_at(self.model, position, step))

    def _left(self) -> Options:
        return self._options.after(time.monotonic() - self._began)


def _rounded(prices: NDArray[np.float64]) -> NDArray[np.int64]:
    """The prices as integers, such that the dearest step has about 2**_PRICE_BITS."""
    most = float(prices.sum(axis=0).max())
    scale = 2**_PRICE_BITS / most if most > 0 else 1.0
    rounded: NDArray[np.int64] = np.rint(prices * scale).astype(np.int64)
    return rounded
