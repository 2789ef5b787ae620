"""Timed: when every send of a schedule runs, in whole ticks."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.shown import Tabular

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.schedule import Schedule


@final
@dataclass(frozen=True, slots=True, eq=False)
class Timed(Tabular):
    """A schedule whose send i runs from tick ``start[i]`` to ``end[i]`` (int64, sends).

    At its start the sender has what is sent, at its end the receiver does. A tick takes ``tick_s``
    seconds. The steps of the schedule are an order, no barriers. Raises ValueError for columns of
    unequal length or times that are no whole numbers from 0 on, the end not before the start.

    >>> from ocs_codesign.collective import Collective
    >>> from ocs_codesign.schedule import Schedule
    >>> from ocs_codesign.topology import Topology
    >>> pair = Topology(2, [0, 1], [1, 0])
    >>> swap = Schedule(pair, Collective.ALLGATHER, 1, [0, 1], [0, 0], [1, 1], [0, 1], [1, 1])
    >>> Timed(swap, [0, 0], [3, 5], Fraction(1, 1000)).total_s
    Fraction(1, 200)
    """

    schedule: Schedule
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    tick_s: Fraction

    def __init__(
        self, schedule: Schedule, start: ArrayLike, end: ArrayLike, tick_s: Fraction
    ) -> None:
        if tick_s <= 0:
            raise ValueError(f"tick_s is {tick_s}: a tick takes some time")
        times = {"start": np.asarray(start), "end": np.asarray(end)}
        for name, values in times.items():
            if values.shape != (schedule.num_sends,) or values.dtype.kind not in "iu":
                raise ValueError(f"{name} must be {schedule.num_sends} whole numbers, one a send")
            column = values.astype(np.int64)
            column.setflags(write=False)
            object.__setattr__(self, name, column)
        backwards = (self.start < 0) | (self.end < self.start)
        if backwards.any():
            row = int(backwards.argmax())
            raise ValueError(f"send {row} runs from tick {self.start[row]} to {self.end[row]}")
        object.__setattr__(self, "schedule", schedule)
        object.__setattr__(self, "tick_s", Fraction(tick_s))

    def __repr__(self) -> str:
        return f"Timed({self.schedule!r}, {self.total_ticks} ticks of {self.tick_s} s)"

    @property
    def total_ticks(self) -> int:
        """When the last send ends."""
        return int(self.end.max(initial=0))

    @property
    def total_s(self) -> Fraction:
        """When the last send ends, in seconds."""
        return self.total_ticks * self.tick_s


def synchronous(
    schedule: Schedule, begin: ArrayLike, chunk_ticks: int, latency: int, tick_s: Fraction
) -> Timed:
    """A schedule whose step i + 1 begins at tick ``begin[i]``, one send after the other on a link.

    A chunk takes ``chunk_ticks`` on a link of speed 1 and ``latency`` until it has arrived. Raises
    ValueError if on a faster link it would not take whole ticks.

    >>> from ocs_codesign.collective import Collective
    >>> from ocs_codesign.schedule import Schedule
    >>> from ocs_codesign.topology import Topology
    >>> line = Topology(3, [0, 1, 1, 2], [1, 0, 2, 1])
    >>> columns = [0, 1, 1, 2, 0, 2], [0] * 6, [1] * 6, [0, 1, 2, 3, 2, 1], [1, 1, 1, 1, 2, 2]
    >>> gather = Schedule(line, Collective.ALLGATHER, 1, *columns)
    >>> timed = synchronous(gather, [0, 4], 3, 1, Fraction(1))
    >>> timed.start.tolist(), timed.end.tolist()
    ([0, 0, 0, 0, 4, 4], [4, 4, 4, 4, 8, 8])
    """
    speed = schedule.topology.speeds()
    if (chunk_ticks % speed).any():
        raise ValueError(f"{chunk_ticks} ticks a chunk are no whole ticks on links of all speeds")
    lasts = (schedule.hi.astype(np.int64) - schedule.lo) * (chunk_ticks // speed)[schedule.link]
    # Sends are sorted by (step, link): those before on the same link in the same step come first.
    before = np.cumsum(lasts) - lasts
    turn = np.flatnonzero(np.diff(schedule.step, prepend=0) | np.diff(schedule.link, prepend=-1))
    waits = before - np.repeat(before[turn], np.diff(turn, append=len(before)))
    start = np.asarray(begin, dtype=np.int64)[schedule.step - 1] + waits
    return Timed(schedule, start, start + lasts + latency, tick_s)
