"""Open ranges of exact numbers: factors, or sizes of messages, for which something pays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction


@final
@dataclass(frozen=True, slots=True)
class OpenRange:
    """Numbers strictly between two; ``end`` None is without limit."""

    begin: Fraction
    end: Fraction | None

    @property
    def inside(self) -> Fraction:
        """A number in the interior."""
        return self.begin + 1 if self.end is None else (self.begin + self.end) / 2


def merged(ranges: Iterable[OpenRange]) -> tuple[OpenRange, ...]:
    """What lies in any of the ranges, as ranges that do not touch, ascending.

    >>> from fractions import Fraction
    >>> some = [OpenRange(Fraction(5), None), OpenRange(Fraction(1), Fraction(2))]
    >>> [(str(span.begin), span.end) for span in merged(some)]
    [('1', Fraction(2, 1)), ('5', None)]
    """
    found: list[OpenRange] = []
    for span in sorted(ranges, key=lambda span: span.begin):
        last = found[-1] if found else None
        if last is None or (last.end is not None and last.end < span.begin):
            found.append(span)
        elif last.end is not None:
            end = None if span.end is None else max(last.end, span.end)
            found[-1] = OpenRange(last.begin, end)
    return tuple(found)
