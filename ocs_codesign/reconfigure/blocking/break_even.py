"""Break-even factors: the least total cost as a function of how much switching costs, exactly.

Between gaps the least cost of all plans is concave and piecewise linear in the factor. Its pieces
are found as lines of an envelope: where two known lines meet, the cheapest plan either meets them,
and then they are neighbours, or is a new line between them (Eisner and Severance, 1976).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.reconfigure.blocking.lines import Line, LineSearch, line_search, regimes

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.blocking.problem import SwitchProblem

MAX_SOLVES = 20_000


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

    def total(self, factor: Fraction) -> Fraction:
        """What the plan costs at a factor of this piece."""
        return self.base + factor * self.slope

    @property
    def inside(self) -> Fraction:
        """A factor in the interior."""
        return self.begin + 1 if self.end is None else (self.begin + self.end) / 2


@final
@dataclass(frozen=True, slots=True, eq=False)
class BreakEven:
    """The least total cost for every factor of the switching costs, piece by piece.

    Without gaps it is concave; with gaps it is concave between the factors at which a gap ceases
    to hide a switch. The pieces follow each other without a hole; unless ``complete``, those where
    the search was stopped are missing at either end.
    """

    problem: SwitchProblem
    pieces: tuple[BreakEvenPiece, ...]

    @property
    def complete(self) -> bool:
        """Whether all factors from 0 on are covered."""
        return self.pieces[0].begin == 0 and self.pieces[-1].end is None

    @property
    def factors(self) -> tuple[Fraction, ...]:
        """The factors at which the optimal plan changes."""
        return tuple(
            right.begin
            for left, right in pairwise(self.pieces)
            if not np.array_equal(left.choice, right.choice)
        )

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
    problem: SwitchProblem,
    *,
    around: Fraction | int = 0,
    max_solves: int = MAX_SOLVES,
    on_progress: Callable[[int, int], None] | None = None,
) -> BreakEven:
    """All optimal plans of a problem while its ``delta`` and ``first`` are scaled by a factor.

    With a delta of 1 the factor is the cost of a switch itself. The search begins at ``around`` and
    takes two plans a piece at most; after ``max_solves`` it stops, half of them spent above.
    ``on_progress(parts done, all)`` is told how far it is. If a problem's floats were rounded, it
    is about the rounded ones. Raises ValueError if no plan serves all steps, for a negative factor,
    too few solves for a single piece, or too many different gaps and switching costs.

    >>> from ocs_codesign.reconfigure.blocking.problem import SwitchProblem
    >>> costs = [(4, 9), (4, 9), (9, 4), (4, 9), (9, 4), (9, 4)]
    >>> found = break_even(SwitchProblem(costs, 1, start=0))
    >>> [str(factor) for factor in found.factors], str(found.total(6))
    (['5/2', '10'], '35')
    """
    if around < 0:
        raise ValueError(f"around is {around}: a factor cannot be negative")
    envelope = _Envelope(line_search(problem), max_solves, on_progress)
    stretches = envelope.stretches(Fraction(around))
    if not stretches:
        raise ValueError(f"max_solves is {max_solves}: not even one piece was found")
    return BreakEven(problem, _pieces(envelope.search, stretches))


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Stretch:
    """Factors of a regime over which a line is cheapest, in those of the search."""

    regime: int
    begin: Fraction
    end: Fraction | None
    line: Line


@final
@dataclass(frozen=True, slots=True)
class _Span:
    """Factors of one regime."""

    regime: int
    begin: Fraction
    end: Fraction | None


def _pieces(search: LineSearch, stretches: list[_Stretch]) -> tuple[BreakEvenPiece, ...]:
    """Stretches as pieces, one where neighbours are the same plan on the same line."""
    unit, tick, start = search.slope_unit, search.problem.ticks.tick, search.problem.start
    pieces: list[BreakEvenPiece] = []
    for stretch in stretches:
        line, choice = stretch.line, stretch.line.choice
        base, slope = line.base * tick, line.slope * unit * tick
        begin, end = stretch.begin / unit, None if stretch.end is None else stretch.end / unit
        last = pieces[-1] if pieces else None
        if (
            last is not None
            and (last.base, last.slope) == (base, slope)
            and np.array_equal(last.choice, choice)
        ):
            begin = pieces.pop().begin
        moves = start not in {None, int(choice[0])}
        number = int((choice[1:] != choice[:-1]).sum()) + moves
        pieces.append(BreakEvenPiece(begin, end, base, slope, choice, number))
    return tuple(pieces)


class _Envelope:
    """The search for the lines of the envelope, from some factor to both sides."""

    def __init__(
        self,
        search: LineSearch,
        max_solves: int,
        on_progress: Callable[[int, int], None] | None,
    ) -> None:
        self.search, self.left, self.on_progress = search, max_solves, on_progress

    def stretches(self, around: Fraction) -> list[_Stretch]:
        """Stretches in ascending order that reach as far as the solves do."""
        at = around * self.search.slope_unit
        above, below = self._spans(at)
        kept = self.left // 2 if below else 0
        found: list[_Stretch] = []
        self.left -= kept
        for done, span in enumerate(above):
            self._tell(done, len(above) + len(below))
            found += self._in_span(span)
            if self._is_spent():
                break
        self.left = max(self.left, 0) + kept
        for done, span in enumerate(below):
            self._tell(len(above) + done, len(above) + len(below))
            more = self._in_span(span)
            if self._is_spent() or not found:
                break  # what was found first does not reach to what is known already
            found = more + found
        return self._without_needless_changes(found)

    def _spans(self, at: Fraction) -> tuple[list[_Span], list[_Span]]:
        """Regimes above a factor, and those below in descending order; its own is cut in two."""
        above, below = [], []
        for regime, (begin, end) in enumerate(regimes(self.search)):
            if end is None or end > at:
                above.append(_Span(regime, max(begin, at), end))
            if begin < at:
                below.append(_Span(regime, begin, at if end is None else min(end, at)))
        return above, below[::-1]

    def _in_span(self, span: _Span) -> list[_Stretch]:
        """The stretches of a span in ascending order; as far as the solves reach."""
        found: list[_Stretch] = []
        self.left -= 2
        if self._is_spent():
            return found
        regime, begin = span.regime, span.begin
        line = self.search.cheapest(regime, begin)
        flatter = [self.search.cheapest(regime, span.end, from_below=True)]
        while flatter:
            if flatter[-1].is_same_as(line):
                flatter.pop()
                continue
            factor = line.meets(flatter[-1])
            self.left -= 1
            if self._is_spent():
                return found
            between = self.search.cheapest(regime, factor)
            if between.at(factor) == line.at(factor):
                found.append(_Stretch(regime, begin, factor, line))
                begin, line = factor, flatter.pop()
            else:
                flatter.append(between)
        found.append(_Stretch(regime, begin, span.end, line))
        return found

    def _without_needless_changes(self, found: list[_Stretch]) -> list[_Stretch]:
        """The same, a stretch taking the plan of a neighbour where that costs the same."""
        for order in (range(len(found) - 2, -1, -1), range(1, len(found))):
            neighbour = 1 if order.step < 0 else -1
            for at in order:
                mine, choice = found[at], found[at + neighbour].line.choice
                same = self.search.line(choice, mine.regime)
                if same.is_same_as(mine.line):
                    found[at] = replace(mine, line=same)
        return found

    def _is_spent(self) -> bool:
        return self.left < 0

    def _tell(self, done: int, total: int) -> None:
        if self.on_progress is not None:
            self.on_progress(done, total)
