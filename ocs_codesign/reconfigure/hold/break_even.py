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

from ocs_codesign.reconfigure.hold.lines import BreakEvenPiece, LineSearch
from ocs_codesign.reconfigure.ranges import OpenRange

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.reconfigure.hold.problem import SwitchProblem

MAX_SOLVES = 20_000


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
    problem: SwitchProblem,
    *,
    around: Fraction | int = 0,
    max_solves: int = MAX_SOLVES,
    on_progress: Callable[[int, int], None] | None = None,
) -> BreakEven:
    """All optimal plans of a problem while its ``delta`` and ``first`` are scaled by a factor.

    With a delta of 1 the factor is the cost of a switch itself. The search begins at ``around`` and
    takes two plans a piece at most; after ``max_solves`` it stops, half of them spent above.
    ``on_progress(parts done, all)`` is told how far it is. Raises ValueError if no plan serves all
    steps, for a negative factor, too few solves for a single piece, or too many different gaps and
    switching costs.

    >>> from ocs_codesign.reconfigure.hold.problem import SwitchProblem
    >>> costs = [(4, 9), (4, 9), (9, 4), (4, 9), (9, 4), (9, 4)]
    >>> found = break_even(SwitchProblem(costs, 1, start=0))
    >>> [str(factor) for factor in found.factors], str(found.total(6))
    (['5/2', '10'], '35')
    """
    if around < 0:
        raise ValueError(f"around is {around}: a factor cannot be negative")
    search = LineSearch(problem)
    envelope = _Envelope(search, max_solves, on_progress)
    pieces = envelope.pieces(Fraction(around))
    if not pieces:
        raise ValueError(f"max_solves is {max_solves}: not even one piece was found")
    return BreakEven(problem, tuple(_merged(_without_needless_changes(search, pieces))))


class _Envelope:
    """The search for the lines of the envelope, from some factor to both sides."""

    def __init__(
        self,
        search: LineSearch,
        max_solves: int,
        on_progress: Callable[[int, int], None] | None,
    ) -> None:
        self.search, self.left = search, max_solves
        self.tell = on_progress or (lambda *_: None)

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
            self.tell(done, parts)
            found += self._in_span(span)
            if self.left < 0:
                break
        self.left = max(self.left, 0) + kept
        for done, span in enumerate(below, len(above)):
            self.tell(done, parts)
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
