"""CircuitProgram: which circuits are up at which steps while a schedule runs.

A fabric of planes gives every node one simplex port out and one in a plane: at every step a plane
holds at most one circuit out of a node and one into it. A circuit is one directed link, up for an
interval of steps. When a port changes its circuit it is dark meanwhile: for whole steps in which
other circuits send, or in a pause between two steps, during which everything stops.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.given import as_topology
from ocs_codesign.core.shown import Tabular
from ocs_codesign.core.topology import MAX_STEPS, Topology

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.core.given import TopologyLike
    from ocs_codesign.core.schedule import Schedule


MAX_INTERVALS = 2**28
"""Largest number of intervals that a program may have: 3 GB of columns."""


@final
@dataclass(frozen=True, slots=True)
class PlaneChange:
    """Circuits of a plane that come up together: so many at the beginning of ``step``.

    Their ports have been dark for the ``dark_steps`` steps before, in which the plane makes no
    other change; if 0, the fabric stops between two steps, or has not begun (``step`` 1).
    """

    step: int
    plane: int
    num_circuits: int
    dark_steps: int


@final
@dataclass(frozen=True, slots=True, eq=False)
class CircuitProgram:
    """Circuits of a fabric of planes, and the steps in which each is up.

    ``topology`` has a link for every circuit that is ever up; ``plane`` (int32, links) is where.
    Row i of the int32 columns ``link``, ``first_step``, ``last_step`` says that the circuit is up
    from the beginning of one step to the end of another; a circuit that comes back has more rows.
    Before the steps ``pauses`` (int32) everything stops, so that ports can change circuits. Rows
    are sorted by (link, first_step), columns copied to read-only. Raises ValueError for values out
    of range, links never up, planes left out in numbering, rows of one link that overlap or touch,
    and pauses in which nothing comes up. Whether ports hold one circuit at a time, and are dark in
    between, is for ``verification.programs.verify_program`` to say.

    >>> swap = Topology(4, [0, 1, 2, 3, 0, 2], [1, 0, 3, 2, 2, 0])
    >>> up = [0, 1, 2, 3, 4, 5]
    >>> program = CircuitProgram(swap, [0] * 6, up, [1] * 4 + [2] * 2, [1] * 4 + [3] * 2, [2])
    >>> program.num_planes, program.is_up([4, 4, 0], [1, 3, 1]).tolist()
    (1, [False, True, True])
    """

    topology: Topology
    plane: NDArray[np.int32]
    link: NDArray[np.int32]
    first_step: NDArray[np.int32]
    last_step: NDArray[np.int32]
    pauses: NDArray[np.int32]

    def __init__(
        self,
        topology: TopologyLike,
        plane: ArrayLike,
        link: ArrayLike,
        first_step: ArrayLike,
        last_step: ArrayLike,
        pauses: ArrayLike = (),
    ) -> None:
        topology = as_topology(topology)
        links = topology.num_links
        planes = _column(plane, "plane", 0, max(links - 1, 0))
        if len(planes) != links:
            raise ValueError(f"plane has {len(planes)} entries, but there are {links} links")
        rows = [
            _column(link, "link", 0, links - 1),
            _column(first_step, "first_step", 1, MAX_STEPS),
            _column(last_step, "last_step", 1, MAX_STEPS),
        ]
        if len({len(column) for column in rows}) != 1:
            raise ValueError("link, first_step and last_step must be equally long")
        order = np.lexsort((rows[1], rows[0]))
        rows = [column[order] for column in rows]
        stops = np.unique(_column(pauses, "pauses", 2, MAX_STEPS))
        _check_planes(planes)
        _check_intervals(links, *rows)
        idle = stops[~np.isin(stops, rows[1])]
        if len(idle):
            raise ValueError(
                f"there is a pause before step {idle[0]}, but no circuit comes up then"
            )
        object.__setattr__(self, "topology", topology)
        names = ("plane", "link", "first_step", "last_step", "pauses")
        for name, column in zip(names, (planes, *rows, stops), strict=True):
            column.setflags(write=False)
            object.__setattr__(self, name, column)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, CircuitProgram)
            and self.topology == other.topology
            and all(
                np.array_equal(mine, theirs)
                for mine, theirs in zip(self.columns(), other.columns(), strict=True)
            )
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"CircuitProgram({self.topology.num_nodes} nodes, {self.num_planes} planes, "
            f"{self.topology.num_links} circuits up in {len(self.link)} intervals, "
            f"{len(self.pauses)} pauses)"
        )

    @property
    def num_planes(self) -> int:
        """Planes, each a port out and a port in at every node."""
        return int(self.plane.max()) + 1

    def columns(self) -> list[NDArray[np.int32]]:
        """The columns in the order plane, link, first_step, last_step, pauses."""
        return [self.plane, self.link, self.first_step, self.last_step, self.pauses]

    def node_speed(self) -> int:
        """Largest total speed of a node's ports out, in units of ``link_speed``: what B stands for.

        The speed of a port is that of its fastest circuit, so with links of speed 1 and every port
        in use it is the number of planes.
        """
        tail, speeds = self.topology.tail, self.topology.speeds()
        order = np.lexsort((speeds, self.plane, tail))
        tail, plane = tail[order], self.plane[order]
        # The last of a port's circuits in this order is its fastest.
        is_last = np.append((np.diff(tail) != 0) | (np.diff(plane) != 0), True)
        total = np.zeros(self.topology.num_nodes, dtype=np.int64)
        np.add.at(total, tail[is_last], speeds[order][is_last])
        return int(total.max())

    def t_b(self, total_load: Fraction) -> Fraction:
        """T_B in units of M/B of a schedule whose largest link loads add up to ``total_load``.

        Loads are in shards (all-to-all: pieces), M/N bytes either way, a unit of link speed; B is
        shared by the ports that a node has, not by all circuits that they ever hold.
        """
        return total_load * self.node_speed() / self.topology.num_nodes

    def is_up(self, link: ArrayLike, step: ArrayLike) -> NDArray[np.bool_]:
        """Whether each link's circuit is up in the step at the same position."""
        wanted, at = np.asarray(link, dtype=np.int64), np.asarray(step, dtype=np.int64)
        stride = MAX_STEPS + 2
        rank = self.link.astype(np.int64) * stride + self.first_step
        row = np.searchsorted(rank, wanted * stride + np.minimum(at, stride - 1), side="right") - 1
        found: NDArray[np.bool_] = (row >= 0) & (self.link[row] == wanted)
        found &= at <= self.last_step[row]
        return found

    def links_up(self, step: int) -> NDArray[np.int32]:
        """The links whose circuits are up in a step, ascending."""
        return self.link[(self.first_step <= step) & (step <= self.last_step)]


def _column(values: ArrayLike, name: str, least: int, most: int) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"{name} must be a one-dimensional array of integers")
    if array.size > MAX_INTERVALS:
        raise ValueError(f"{name} has {array.size} entries: at most {MAX_INTERVALS} are supported")
    if array.size and not (array.min() >= least and array.max() <= most):
        at = int(np.argmax((array < least) | (array > most)))
        raise ValueError(
            f"{name} is {int(array[at])} at position {at}: it is from {least} to {most}"
        )
    return array.astype(np.int32)


def _check_planes(plane: NDArray[np.int32]) -> None:
    if not len(plane):
        raise ValueError("a program needs at least one circuit")
    used = np.unique(plane)
    if used[-1] != len(used) - 1:
        missing = int(np.argmax(used != np.arange(len(used))))
        raise ValueError(f"no circuit is of plane {missing}: planes are numbered from 0 on")


def _check_intervals(
    links: int, link: NDArray[np.int32], first: NDArray[np.int32], last: NDArray[np.int32]
) -> None:
    if (backwards := last < first).any():
        row = int(np.argmax(backwards))
        raise ValueError(f"link {link[row]} is up from step {first[row]} to step {last[row]}")
    again = (link[1:] == link[:-1]) & (first[1:] <= last[:-1] + 1)
    if again.any():
        row = int(np.argmax(again)) + 1
        raise ValueError(
            f"link {link[row]} comes up at step {first[row]}, but is up until "
            f"step {last[row - 1]}: an interval must be one row"
        )
    never = np.flatnonzero(np.bincount(link, minlength=links) == 0)
    if len(never):
        raise ValueError(f"link {never[0]} is never up")


# Timed: when every send of a schedule runs, in whole ticks.


@final
@dataclass(frozen=True, slots=True, eq=False)
class Timed(Tabular):
    """A schedule whose send i runs from tick ``start[i]`` to ``end[i]`` (int64, sends).

    At its start the sender has what is sent, at its end the receiver does. A tick takes ``tick_s``
    seconds. The steps of the schedule are an order, no barriers. Raises ValueError for columns of
    unequal length or times that are no whole numbers from 0 on, the end not before the start.

    >>> from ocs_codesign.core.collective import Collective
    >>> from ocs_codesign.core.schedule import Schedule
    >>> from ocs_codesign.core.topology import Topology
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

    >>> from ocs_codesign.core.collective import Collective
    >>> from ocs_codesign.core.schedule import Schedule
    >>> from ocs_codesign.core.topology import Topology
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


# Timeline: what every plane does when, as columns.


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
