"""Lines: what a plan costs as a function of the factor of all switching costs, between gaps.

A switch of cost factor * delta before a gap is hidden while that is at most the gap. Between two
factors at which a gap ceases to hide a switch, the cost of a plan is a line, base + factor * slope.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.reconfigure.hold.dynamic_program import DynamicProgram
from ocs_codesign.reconfigure.hold.plan import switches_of
from ocs_codesign.reconfigure.ranges import OpenRange

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.hold.problem import SwitchProblem

MAX_REGIMES = 100_000
"""Largest number of pairs of a gap and a switching cost that differ."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class BreakEvenPiece:
    """Factors from ``begin`` to ``end`` (None: all beyond), over which one plan is optimal.

    It costs base + factor * slope; ``choice`` (int32, S) is the topology of every step, and
    ``num_switches`` counts as in ``SwitchPlan``.
    """

    begin: Fraction
    end: Fraction | None
    base: Fraction
    slope: Fraction
    choice: NDArray[np.int32]
    num_switches: int

    @property
    def topologies(self) -> tuple[int, ...]:
        """The topologies of the plan, in the order in which they are first held."""
        return tuple(dict.fromkeys(self.choice.tolist()))

    @property
    def inside(self) -> Fraction:
        """A factor in the interior."""
        return OpenRange(self.begin, self.end).inside

    def total(self, factor: Fraction) -> Fraction:
        """What the plan costs at a factor of this piece."""
        return self.base + factor * self.slope

    def is_in_line_with(self, other: BreakEvenPiece) -> bool:
        """Whether both cost the same at every factor."""
        return (self.base, self.slope) == (other.base, other.slope)

    def has_plan_of(self, other: BreakEvenPiece) -> bool:
        """Whether both hold the same topologies."""
        return np.array_equal(self.choice, other.choice)

    def meets(self, flatter: BreakEvenPiece) -> Fraction:
        """The factor at which a flatter line costs the same."""
        return (flatter.base - self.base) / (self.slope - flatter.slope)


@final
class LineSearch:
    """The cheapest lines of a problem, and its ``turns``: the factors at which they may bend.

    Raises ValueError if there are more than MAX_REGIMES.
    """

    def __init__(self, problem: SwitchProblem) -> None:
        self.problem, ticks = problem, problem.ticks
        both = np.concatenate([ticks.delta.ravel(), ticks.first])
        prices = np.unique(both[both < ticks.infinite]).tolist()
        gaps, self.gap_of_row = np.unique(ticks.gaps, return_inverse=True)
        self.gaps = gaps.tolist()
        if len(self.gaps) * len(prices) > MAX_REGIMES:
            raise ValueError(
                f"{len(gaps)} different gaps and {len(prices)} different switching costs: "
                f"break-even factors are found for up to {MAX_REGIMES} pairs of them"
            )
        turns = {Fraction(gap, price) for gap in self.gaps if gap for price in prices if price}
        self.turns = sorted(turns)
        self.unit = math.gcd(*prices) or 1
        delta, first = (
            np.where(array < ticks.infinite, array // self.unit, ticks.infinite)
            for array in (ticks.delta, ticks.first)
        )
        self.program = DynamicProgram(replace(ticks, delta=delta, first=first), problem.rows)

    def cheapest(self, span: OpenRange, factor: Fraction | None, side: int = 0) -> BreakEvenPiece:
        """A line of a span without turns that is cheapest at a factor (None: beyond all).

        Of equals the one that is cheapest beyond it too if ``side`` is 1, or before it if -1, as
        far as the numbers are not too long for compiled loops.
        """
        program, rows = self.program, self.problem.rows
        if factor is None:
            work, switch = 1, 2 * (program.most_work + self.gaps[-1] * (len(rows) + 1)) + 1
        else:
            work, switch = (factor * self.unit).denominator, (factor * self.unit).numerator
            worth = program.most_switching + 1
            if side and program.fits(work * worth, switch * worth + 1):
                work, switch = work * worth, switch * worth + side
        program.weigh(work, switch)
        choice = program.follow(program.costs_to_go(rows, rows), rows, self.problem.start)
        if choice is None:
            raise ValueError("no plan serves all steps without an infinite switch")
        return self.line(choice, span)

    def line(self, choice: NDArray[np.int32], span: OpenRange | BreakEvenPiece) -> BreakEvenPiece:
        """What a plan costs in a span without turns."""
        problem, ticks = self.problem, self.problem.ticks
        begins, prices, gaps = switches_of(problem, choice)
        q, p = span.inside.denominator, span.inside.numerator
        most = [min(gap * q // p, ticks.infinite) for gap in self.gaps]
        hidden = np.array(most, dtype=prices.dtype)[self.gap_of_row[problem.rows[begins]]]
        seen = prices > hidden
        base = int(ticks.costs[problem.rows, choice].sum()) - int(gaps[seen].sum())
        slope = int(prices[seen].sum())
        number = len(begins) - (problem.start in {None, int(choice[0])})
        return BreakEvenPiece(
            span.begin, span.end, ticks.tick * base, ticks.tick * slope, choice, number
        )
