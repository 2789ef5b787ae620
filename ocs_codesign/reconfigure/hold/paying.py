"""Where switching pays: the factors at which the optimum beats all that hold one topology."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, final

from ocs_codesign.reconfigure.hold.lines import LineSearch
from ocs_codesign.reconfigure.hold.policies import held_work
from ocs_codesign.reconfigure.ranges import OpenRange, merged

if TYPE_CHECKING:
    from ocs_codesign.reconfigure.hold.break_even import BreakEven
    from ocs_codesign.reconfigure.hold.problem import SwitchProblem

_CLOSE = Fraction(101, 100)
_DOUBLINGS = 64


def paying(found: BreakEven) -> tuple[OpenRange, ...]:
    """Where the least cost is below that of every topology that is held throughout.

    >>> from ocs_codesign.reconfigure.hold.break_even import break_even
    >>> from ocs_codesign.reconfigure.hold.problem import SwitchProblem
    >>> costs = [(4, 9), (4, 9), (9, 4), (4, 9), (9, 4), (9, 4)]
    >>> paying(break_even(SwitchProblem(costs, 1, start=0)))
    (OpenRange(begin=Fraction(0, 1), end=Fraction(10, 1)),)
    """
    held = _Held(found.problem)
    ranges: list[OpenRange] = []
    for piece in found.pieces:
        end = piece.end
        inner = [turn for turn in held.turns if piece.begin < turn and (end is None or turn < end)]
        for since, until in zip((piece.begin, *inner), (*inner, end), strict=True):
            # Held costs are concave here and not below the straight one: equal or above throughout.
            inside = OpenRange(since, until).inside
            if piece.total(inside) != held.least(inside):
                ranges.append(OpenRange(since, until))
    return merged(ranges)


def ceases_to_pay(problem: SwitchProblem, factor: Fraction) -> OpenRange | None:
    """Two factors a hundredth apart: switching pays at the first and not at the second.

    Searched upwards from a factor at which it pays; None if it does not there, or always does.

    >>> from ocs_codesign.reconfigure.hold.problem import SwitchProblem
    >>> costs = [(4, 9), (4, 9), (9, 4), (4, 9), (9, 4), (9, 4)]
    >>> found = ceases_to_pay(SwitchProblem(costs, 1, start=0), Fraction(1))
    >>> found.begin < 10 <= found.end
    True
    """
    search, held = LineSearch(problem), _Held(problem)

    def pays(at: Fraction) -> bool:
        least = held.least(at)
        return least is None or search.cheapest(OpenRange(at, at), at).total(at) < least

    if not factor or held.least(factor) is None or not pays(factor):
        return None
    begin, end = factor, factor * 2
    for _ in range(_DOUBLINGS):
        if not pays(end):
            break
        begin, end = end, end * 2
    else:
        return None
    while end > begin * _CLOSE:
        middle = (begin + end) / 2
        begin, end = (middle, end) if pays(middle) else (begin, middle)
    return OpenRange(begin, end)


@final
class _Held:
    """What holding a topology throughout costs, for each that can serve all steps."""

    def __init__(self, problem: SwitchProblem) -> None:
        ticks = problem.ticks
        work = held_work(problem)
        able = (work < ticks.infinite) & (ticks.first < ticks.infinite)
        self.tick, self.gap = ticks.tick, int(ticks.gaps[problem.rows[0]])
        self.costs = list(zip(work[able].tolist(), ticks.first[able].tolist(), strict=True))

    @property
    def turns(self) -> list[Fraction]:
        """The factors at which the first gap ceases to hide a first configuration."""
        return sorted({Fraction(self.gap, first) for _, first in self.costs if first})

    def least(self, factor: Fraction) -> Fraction | None:
        """What the best costs at a factor; None if there is none."""
        costs = (work + max(factor * first - self.gap, Fraction(0)) for work, first in self.costs)
        least = min(costs, default=None)
        return None if least is None else least * self.tick
