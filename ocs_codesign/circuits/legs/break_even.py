"""Break-even factors: the least total cost as a function of how much switching costs, exactly.

Between gaps the least cost of all plans is concave and piecewise linear in the factor. Its pieces
are found as lines of an envelope: where two known lines meet, the cheapest plan either meets them,
and then they are neighbours, or is a new line between them (Eisner and Severance, 1976).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.circuits.change import OpenRange
from ocs_codesign.circuits.legs.plan import DynamicProgram, switches_of
from ocs_codesign.core.progress import tell

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.circuits.legs.plan import LegProblem


# Lines: what a plan costs as a function of the factor of all switching costs, between gaps.
#
# A switch of cost factor * delta before a gap is hidden while that is at most the gap. Between
# two factors at which a gap ceases to hide a switch, the cost of a plan is a line, base + factor
# * slope.


MAX_REGIMES = 100_000
"""Largest number of pairs of a gap and a switching cost that differ."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class BreakEvenPiece:
    """Factors from ``begin`` to ``end`` (None: all beyond), over which one plan is optimal.

    It costs base + factor * slope; ``choice`` (int32, S) is the topology of every step, and
    ``num_switches`` counts as in ``LegPlan``.
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

    def __init__(self, problem: LegProblem) -> None:
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


MAX_SOLVES = 20_000


@final
@dataclass(frozen=True, slots=True, eq=False)
class BreakEven:
    """The least total cost for every factor of the switching costs, piece by piece.

    Without gaps it is concave; with gaps it is concave between the factors at which a gap ceases
    to hide a switch. The pieces follow each other without a hole; unless ``complete``, those where
    the search was stopped are missing at either end.
    """

    problem: LegProblem
    pieces: tuple[BreakEvenPiece, ...]

    @property
    def complete(self) -> bool:
        """Whether all factors from 0 on are covered."""
        return self.pieces[0].begin == 0 and self.pieces[-1].end is None

    @property
    def factors(self) -> tuple[Fraction, ...]:
        """The factors at which the optimal plan changes."""
        neighbours = pairwise(self.pieces)
        return tuple(right.begin for left, right in neighbours if not right.has_plan_of(left))

    def piece_at(self, factor: Fraction | int) -> BreakEvenPiece:
        """The piece that holds a factor; ValueError if it is negative or was not searched."""
        for piece in self.pieces:
            if piece.begin <= factor and (piece.end is None or factor <= piece.end):
                return piece
        raise ValueError(
            f"factor {factor} is not between {self.pieces[0].begin} and {self.pieces[-1].end}"
        )

    def total(self, factor: Fraction | int) -> Fraction:
        """The least total cost at a factor."""
        return self.piece_at(factor).total(Fraction(factor))


def break_even(
    problem: LegProblem, *, around: Fraction | int = 0, max_solves: int = MAX_SOLVES
) -> BreakEven:
    """All optimal plans of a problem while its ``delta`` and ``first`` are scaled by a factor.

    With a delta of 1 the factor is the cost of a switch itself. The search begins at ``around`` and
    takes two plans a piece at most; after ``max_solves`` it stops, half of them spent above.
    Raises ValueError if no plan serves all
    steps, for a negative factor, too few solves for a single piece, or too many different gaps and
    switching costs.

    >>> from ocs_codesign.circuits.legs.plan import LegProblem
    >>> costs = [(4, 9), (4, 9), (9, 4), (4, 9), (9, 4), (9, 4)]
    >>> found = break_even(LegProblem(costs, 1, start=0))
    >>> [str(factor) for factor in found.factors], str(found.total(6))
    (['5/2', '10'], '35')
    """
    if around < 0:
        raise ValueError(f"around is {around}: a factor cannot be negative")
    search = LineSearch(problem)
    envelope = _Envelope(search, max_solves)
    pieces = envelope.pieces(Fraction(around))
    if not pieces:
        raise ValueError(f"max_solves is {max_solves}: not even one piece was found")
    return BreakEven(problem, tuple(_merged(_without_needless_changes(search, pieces))))


class _Envelope:
    """The search for the lines of the envelope, from some factor to both sides."""

    def __init__(self, search: LineSearch, max_solves: int) -> None:
        self.search, self.left = search, max_solves

    def pieces(self, around: Fraction) -> list[BreakEvenPiece]:
        """Pieces in ascending order, none over a turn, as far as the solves reach."""
        turns = self.search.turns
        up = [around, *(turn for turn in turns if turn > around), None]
        down = [around, *(turn for turn in reversed(turns) if turn < around), Fraction(0)]
        above = [OpenRange(begin, end) for begin, end in pairwise(up) if begin is not None]
        below = [OpenRange(begin, end) for end, begin in pairwise(down) if around]
        parts = len(above) + len(below)
        kept = self.left // 2 if below else 0
        found: list[BreakEvenPiece] = []
        self.left -= kept
        for done, span in enumerate(above):
            tell(done, parts)
            found += self._in_span(span)
            if self.left < 0:
                break
        self.left = max(self.left, 0) + kept
        for done, span in enumerate(below, len(above)):
            tell(done, parts)
            more = self._in_span(span)
            if self.left < 0 or not found:
                break  # what was found first does not reach to what is known already
            found = more + found
        return found

    def _in_span(self, span: OpenRange) -> list[BreakEvenPiece]:
        """The pieces of a span without turns in ascending order, as far as the solves reach."""
        found: list[BreakEvenPiece] = []
        self.left -= 2
        if self.left < 0:
            return found
        line = self.search.cheapest(span, span.begin, side=1)
        flatter = [self.search.cheapest(span, span.end, side=-1)]
        while flatter:
            if flatter[-1].is_in_line_with(line):
                flatter.pop()
                continue
            factor = line.meets(flatter[-1])
            self.left -= 1
            if self.left < 0:
                break
            between = self.search.cheapest(span, factor)
            if between.total(factor) == line.total(factor):
                found.append(replace(line, end=factor))
                line = replace(flatter.pop(), begin=factor)
            else:
                flatter.append(between)
        else:
            found.append(line)
        return [piece for piece in found if piece.begin != piece.end]


def _without_needless_changes(
    search: LineSearch, pieces: list[BreakEvenPiece]
) -> list[BreakEvenPiece]:
    """The same, a piece taking the plan of a neighbour where that costs the same."""
    for order in (range(len(pieces) - 2, -1, -1), range(1, len(pieces))):
        for at in order:
            same = search.line(pieces[at - order.step].choice, pieces[at])
            if same.is_in_line_with(pieces[at]):
                pieces[at] = same
    return pieces


def _merged(pieces: list[BreakEvenPiece]) -> list[BreakEvenPiece]:
    """One piece where neighbours are the same plan on the same line."""
    merged = pieces[:1]
    for piece in pieces[1:]:
        last = merged[-1]
        if piece.is_in_line_with(last) and piece.has_plan_of(last):
            merged[-1] = replace(last, end=piece.end)
        else:
            merged.append(piece)
    return merged
