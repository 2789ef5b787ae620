"""The best times of a usage where planes are not held up by each other within a stretch of steps.

Without barriers a plane that serves steps of a stretch just has a load: its dead times, a latency a
step and what it sends. Bytes of a step may be split over the planes that serve it as one likes, so
the makespan of the stretch is, over all sets A of planes,

    max (dead times and latencies of A + sends of the steps that only planes of A serve) / |A|.

Where the whole fabric stops for changes, stretches are what lies between two stops.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import lcm
from typing import TYPE_CHECKING, final

from ocs_codesign.lp import ExactSolution, Options, Status, refine, solve
from ocs_codesign.reconfigure.planes.rows import ProgramRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.lp import LinearProgram

Planes = tuple[int, ...]

_EXACT_FLOATS = 2**52
_GRID = 2**40


@final
@dataclass(frozen=True, slots=True)
class Stretch:
    """What is to be sent by which planes (each set once), and the load that planes have anyway."""

    sends: dict[Planes, Fraction]
    loads: tuple[Fraction, ...]

    @classmethod
    def of(
        cls, planes: Sequence[Planes], sends: Sequence[Fraction], loads: Sequence[Fraction]
    ) -> Stretch:
        """The stretch of these steps."""
        total: dict[Planes, Fraction] = {}
        for some, send in zip(planes, sends, strict=True):
            total[some] = total.get(some, Fraction(0)) + send
        return cls(total, tuple(loads))


def makespan_s(stretch: Stretch) -> Fraction:
    """The least makespan, by the formula above.

    >>> makespan_s(Stretch({(0,): Fraction(3), (0, 1): Fraction(2)}, (Fraction(0), Fraction(2))))
    Fraction(7, 2)
    """
    masks = {sum(1 << plane for plane in planes): send for planes, send in stretch.sends.items()}
    best = Fraction(0)
    for chosen in _sets(len(stretch.loads)):
        inside = sum(1 << plane for plane in chosen)
        work = sum((send for mask, send in masks.items() if not mask & ~inside), Fraction(0))
        work += sum((stretch.loads[plane] for plane in chosen), Fraction(0))
        best = max(best, work / len(chosen))
    return best


def shares(stretch: Stretch) -> tuple[dict[Planes, dict[int, Fraction]], bool]:
    """What part of its sends every set gives to each of its planes, and whether that is exact.

    >>> shares(Stretch({(0, 1): Fraction(2)}, (Fraction(0), Fraction(1))))
    ({(0, 1): {0: Fraction(3, 4), 1: Fraction(1, 4)}}, True)
    """
    times = [*stretch.sends.values(), *stretch.loads]
    unit = Fraction(1, lcm(*(time.denominator for time in times)))
    largest = max(times)
    found = solve(_program(stretch, largest), options=Options("simplex"))
    if found.status is not Status.OPTIMAL or found.values is None:
        raise RuntimeError(found.message)
    exact = None
    if largest / unit <= _EXACT_FLOATS:
        exact = refine(_program(stretch, unit), found)
    if isinstance(exact, ExactSolution):
        return _parts(stretch, [value * unit for value in exact.values[1:]]), True
    scale = largest / _GRID
    sent = [scale * max(0, int(value * _GRID)) for value in found.values[1:].tolist()]
    return _parts(stretch, sent), False


def _sets(num_planes: int) -> Iterator[Planes]:
    for size in range(1, num_planes + 1):
        yield from combinations(range(num_planes), size)


def _program(stretch: Stretch, unit: Fraction) -> LinearProgram:
    """Columns: the makespan, then what every set gives to each of its planes; in units."""
    rows = ProgramRows()
    end = rows.column(cost=1.0)
    loads: list[list[tuple[int, float]]] = [[(end, -1.0)] for _ in stretch.loads]
    for planes, send in stretch.sends.items():
        columns = [(rows.column(), 1.0) for _ in planes]
        for plane, term in zip(planes, columns, strict=True):
            loads[plane].append(term)
        rows.row(columns, lower=float(send / unit), upper=float(send / unit))
    for terms, load in zip(loads, stretch.loads, strict=True):
        rows.row(terms, upper=-float(load / unit))
    return rows.program()


def _parts(stretch: Stretch, sent: Sequence[Fraction]) -> dict[Planes, dict[int, Fraction]]:
    """Parts of 1; the plane that sends most takes what rounding has left over."""
    parts: dict[Planes, dict[int, Fraction]] = {}
    first = 0
    for planes, send in stretch.sends.items():
        mine = {plane: sent[first + at] / send for at, plane in enumerate(planes)}
        first += len(planes)
        most = max(mine, key=lambda plane: (mine[plane], -plane))
        mine[most] += 1 - sum(mine.values())
        parts[planes] = {plane: part for plane, part in mine.items() if part > 0}
    return parts
