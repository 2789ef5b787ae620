"""Timeline: what every plane does when, as columns."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Activity(Enum):
    """What a plane does in an interval."""

    SEND = "send"
    RECONFIGURE = "reconfigure"
    IDLE = "idle"


@final
@dataclass(frozen=True, slots=True)
class Interval:
    """A plane's activity from ``start_s`` to ``end_s``.

    ``configuration`` is the one that is sent over, the one that the plane changes to, or the one
    that it holds while idle (None: nothing). ``step`` (from 1) and ``bytes`` (a node) are of sends.
    """

    plane: int
    start_s: Fraction
    end_s: Fraction
    activity: Activity
    configuration: int | None = None
    step: int | None = None
    bytes: Fraction = Fraction(0)


@final
@dataclass(frozen=True, slots=True)
class Timeline:
    """Intervals as columns, sorted by plane, then time; all columns have the same length.

    >>> timeline = Timeline.of([Interval(0, Fraction(0), Fraction(1, 5), Activity.RECONFIGURE, 1)])
    >>> timeline.total_s, timeline.activity[0].value, len(timeline)
    (Fraction(1, 5), 'reconfigure', 1)
    """

    plane: tuple[int, ...]
    start_s: tuple[Fraction, ...]
    end_s: tuple[Fraction, ...]
    activity: tuple[Activity, ...]
    configuration: tuple[int | None, ...]
    step: tuple[int | None, ...]
    bytes: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        if len({len(getattr(self, column.name)) for column in fields(self)}) > 1:
            raise ValueError("the columns of a timeline have the same length")

    @classmethod
    def of(cls, intervals: Iterable[Interval]) -> Timeline:
        """The timeline of these intervals, sorted."""
        rows = sorted(intervals, key=lambda row: (row.plane, row.start_s, row.end_s))
        return cls(*(tuple(getattr(row, column.name) for row in rows) for column in fields(cls)))

    def __len__(self) -> int:
        return len(self.plane)

    def __iter__(self) -> Iterator[Interval]:
        columns = (getattr(self, column.name) for column in fields(self))
        return (Interval(*row) for row in zip(*columns, strict=True))

    @property
    def total_s(self) -> Fraction:
        """When the last interval ends."""
        return max(self.end_s, default=Fraction(0))

    def busy_s(self, activity: Activity) -> Fraction:
        """Plane-seconds of all intervals of this activity."""
        spans = zip(self.start_s, self.end_s, self.activity, strict=True)
        return sum((end - start for start, end, what in spans if what is activity), Fraction(0))
