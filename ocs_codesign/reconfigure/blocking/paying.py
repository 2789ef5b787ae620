"""Where switching pays: the factors at which the optimum beats all that hold one topology."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.reconfigure.blocking.lines import line_search
from ocs_codesign.reconfigure.blocking.ticks import is_finite, number_at

if TYPE_CHECKING:
    from ocs_codesign.reconfigure.blocking.break_even import BreakEven
    from ocs_codesign.reconfigure.blocking.problem import SwitchProblem


@final
@dataclass(frozen=True, slots=True)
class FactorRange:
    """Factors strictly between two; ``end`` None is without limit."""

    begin: Fraction
    end: Fraction | None


_CLOSE = Fraction(101, 100)
_DOUBLINGS = 64


def paying(found: BreakEven) -> tuple[FactorRange, ...]:
    """Where the least cost is below that of every topology that is held throughout.

    >>> from ocs_codesign.reconfigure.blocking.break_even import break_even
    >>> from ocs_codesign.reconfigure.blocking.problem import SwitchProblem
    >>> costs = [(4, 9), (4, 9), (9, 4), (4, 9), (9, 4), (9, 4)]
    >>> paying(break_even(SwitchProblem(costs, 1, start=0)))
    (FactorRange(begin=Fraction(0, 1), end=Fraction(10, 1)),)
    """
    problem = found.problem
    gap = number_at(problem.gaps, int(problem.rows[0]))
    static = _static_costs(problem)
    turns = sorted({gap / cost.first for cost in static if cost.first})
    ranges: list[FactorRange] = []
    for piece in found.pieces:
        end = piece.end
        inner = [turn for turn in turns if piece.begin < turn and (end is None or turn < end)]
        for since, until in zip((piece.begin, *inner), (*inner, end), strict=True):
            # Held costs are concave here and not below the straight one: equal or above throughout.
            inside = since + 1 if until is None else (since + until) / 2
            if piece.total(inside) == _least_held(static, gap, inside):
                continue
            begin = ranges.pop().begin if ranges and ranges[-1].end == since else since
            ranges.append(FactorRange(begin, until))
    return tuple(ranges)


def ceases_to_pay(problem: SwitchProblem, factor: Fraction) -> FactorRange | None:
    """Two factors a hundredth apart: switching pays at the first and not at the second.

    Searched upwards from a factor at which it pays; None if it does not there, or always does.

    >>> from ocs_codesign.reconfigure.blocking.problem import SwitchProblem
    >>> costs = [(4, 9), (4, 9), (9, 4), (4, 9), (9, 4), (9, 4)]
    >>> found = ceases_to_pay(SwitchProblem(costs, 1, start=0), Fraction(1))
    >>> found.begin < 10 <= found.end
    True
    """
    search, static = line_search(problem), _static_costs(problem)
    gap = number_at(problem.gaps, int(problem.rows[0]))

    def pays(at: Fraction) -> bool:
        inner = at * search.slope_unit
        least = search.cheapest(bisect_left(search.bounds, inner), inner).at(inner)
        held = _least_held(static, gap, at)
        return held is None or least * problem.ticks.tick < held

    begin, end = factor, factor * 2
    if not factor or not static or not pays(begin):
        return None
    for _ in range(_DOUBLINGS):
        if not pays(end):
            break
        begin, end = end, end * 2
    else:
        return None
    while end > begin * _CLOSE:
        middle = (begin + end) / 2
        begin, end = (middle, end) if pays(middle) else (begin, middle)
    return FactorRange(begin, end)


def _least_held(static: list[_StaticCost], gap: Fraction, factor: Fraction) -> Fraction | None:
    """What the best topology to hold throughout costs, None if there is none."""
    held = (cost.work + max(factor * cost.first - gap, Fraction(0)) for cost in static)
    return min(held, default=None)


@final
@dataclass(frozen=True, slots=True)
class _StaticCost:
    """What holding a topology throughout costs: all steps, and the first configuration."""

    work: Fraction
    first: Fraction


def _static_costs(problem: SwitchProblem) -> list[_StaticCost]:
    """One for each topology that can serve all steps."""
    times = np.bincount(problem.rows, minlength=len(problem.costs)).tolist()
    used = [row for row, count in enumerate(times) if count]
    able = is_finite(problem.costs)[used].all(axis=0) & is_finite(problem.first)
    return [
        _StaticCost(
            sum((number_at(problem.costs, (row, at)) * times[row] for row in used), Fraction(0)),
            number_at(problem.first, at),
        )
        for at in np.flatnonzero(able).tolist()
    ]
