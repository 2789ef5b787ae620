"""Timeline: what every plane does when, as columns, with its table and JSON forms."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


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
        if len({len(getattr(self, name)) for name in COLUMNS}) > 1:
            raise ValueError("the columns of a timeline have the same length")

    @classmethod
    def of(cls, intervals: Iterable[Interval]) -> Timeline:
        """The timeline of these intervals, sorted."""
        rows = sorted(intervals, key=lambda one: (one.plane, one.start_s, one.end_s))
        columns = (tuple(getattr(row, name) for row in rows) for name in COLUMNS)
        return cls(*columns)

    def __len__(self) -> int:
        return len(self.plane)

    def __iter__(self) -> Iterator[Interval]:
        for row in zip(*(getattr(self, name) for name in COLUMNS), strict=True):
            yield Interval(*row)

    @property
    def total_s(self) -> Fraction:
        """When the last interval ends."""
        return max(self.end_s, default=Fraction(0))

    def busy_s(self, activity: Activity) -> Fraction:
        """Plane-seconds of all intervals of this activity."""
        spans = zip(self.start_s, self.end_s, self.activity, strict=True)
        return sum((end - start for start, end, what in spans if what is activity), Fraction(0))

    def as_table(self, names: Sequence[str] | None = None) -> list[tuple[str, ...]]:
        """Rows of text under TABLE_HEADINGS; configurations by name if names are given.

        >>> row = Interval(1, Fraction(0), Fraction(1, 5), Activity.SEND, 0, 1, Fraction(10))
        >>> Timeline.of([row]).as_table(["ring"])
        [('1', '0', '200000', 'send', 'ring', '1', '10')]
        """
        return [
            (
                str(one.plane),
                f"{float(one.start_s * 10**6):.6g}",
                f"{float(one.end_s * 10**6):.6g}",
                one.activity.value,
                _name(one.configuration, names),
                "" if one.step is None else str(one.step),
                f"{float(one.bytes):.6g}" if one.activity is Activity.SEND else "",
            )
            for one in self
        ]

    def as_json(self, names: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """An object an interval; times and bytes are exact, as text, and rounded, as numbers."""
        return [
            {
                "plane": one.plane,
                "activity": one.activity.value,
                "start_s": float(one.start_s),
                "end_s": float(one.end_s),
                "start_s_exact": str(one.start_s),
                "end_s_exact": str(one.end_s),
                "configuration": _name(one.configuration, names) or None,
                "step": one.step,
                "bytes": float(one.bytes),
                "bytes_exact": str(one.bytes),
            }
            for one in self
        ]


COLUMNS = ("plane", "start_s", "end_s", "activity", "configuration", "step", "bytes")
TABLE_HEADINGS = ("plane", "start (us)", "end (us)", "activity", "configuration", "step", "bytes")


def _name(configuration: int | None, names: Sequence[str] | None) -> str:
    if configuration is None:
        return ""
    return str(configuration) if names is None else names[configuration]
