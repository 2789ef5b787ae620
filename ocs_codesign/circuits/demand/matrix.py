"""DemandMatrix: how many bytes every node has for every node, exactly."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, gcd, lcm
from numbers import Rational
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, final

import numpy as np

from ocs_codesign.core.quantities import exact
from ocs_codesign.core.shown import Brief

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


MAX_NODES = 512
_EXACT_FLOATS = 2.0**53


@final
@dataclass(frozen=True, slots=True, eq=False, init=False)
class DemandMatrix:
    """Bytes from every node (row) to every node (column), as multiples of one unit.

    ``entries``: rows of integers, fractions or floats, as sequences or as a numpy array; a float is
    read as the decimal that it prints as. Every entry counts as it is: what a node has for itself,
    on the diagonal, needs a circuit too, so set it to 0 if it does not. ``units`` (Python integers,
    num_nodes by num_nodes) times ``unit_bytes`` are the entries; ``names`` are those of the nodes,
    if they have any. Raises ValueError with the place for a matrix that is empty, not square or
    larger than MAX_NODES, and for entries that are negative or not finite.

    >>> demand = DemandMatrix([[0, 1.5], [3, 0]])
    >>> demand.units.tolist(), demand.unit_bytes, demand.max_line_bytes
    ([[0, 1], [2, 0]], Fraction(3, 2), Fraction(3, 1))
    """

    units: NDArray[np.object_]
    unit_bytes: Fraction
    names: tuple[str, ...] | None

    def __init__(self, entries: Any, names: tuple[str, ...] | None = None) -> None:
        listed = _listed(entries)
        if not listed:
            raise ValueError("a demand matrix has at least one node")
        if len(listed) > MAX_NODES:
            raise ValueError(f"{len(listed)} nodes: a demand matrix has at most {MAX_NODES}")
        rows = [_numbers(row, f"row {at}") for at, row in enumerate(listed)]
        for at, row in enumerate(rows):
            if len(row) != len(rows):
                raise ValueError(
                    f"row {at} has {len(row)} entries, but there are {len(rows)} rows: "
                    "a demand matrix is square"
                )
        flat = [entry for row in rows for entry in row]
        denominator = lcm(*(entry.denominator for entry in flat))
        whole = [entry.numerator * (denominator // entry.denominator) for entry in flat]
        common = gcd(*whole) or 1
        units = np.empty(len(flat), dtype=object)
        units[:] = [entry // common for entry in whole]
        object.__setattr__(self, "units", units.reshape(len(rows), len(rows)))
        object.__setattr__(self, "unit_bytes", Fraction(common, denominator))
        object.__setattr__(self, "names", names)
        self.units.flags.writeable = False

    @property
    def num_nodes(self) -> int:
        """How many nodes there are."""
        return len(self.units)

    @property
    def total_bytes(self) -> Fraction:
        """All bytes together."""
        return int(self.units.sum()) * self.unit_bytes

    @property
    def max_line_bytes(self) -> Fraction:
        """The most that a node sends or receives."""
        return int(max(self.units.sum(0).max(), self.units.sum(1).max())) * self.unit_bytes

    @property
    def max_peers(self) -> int:
        """The most nodes that a node sends to or receives from: so many configurations it takes."""
        some = self.units > 0
        return int(max(some.sum(0).max(), some.sum(1).max()))

    def entry_bytes(self, source: int, target: int) -> Fraction:
        """The bytes from one node to another."""
        return int(self.units[source, target]) * self.unit_bytes


def _listed(values: Any) -> list[Any]:
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    if not isinstance(listed, (list, tuple)):
        raise ValueError("a demand matrix is a list of rows, each a list of numbers")
    return list(listed)


def _numbers(row: Any, place: str) -> list[Fraction | int]:
    return [_number(entry, f"{place}, column {at}") for at, entry in enumerate(_listed(row))]


def _number(entry: Any, place: str) -> Fraction | int:
    """An entry as an exact number, ValueError with its place if it is no amount of bytes."""
    if isinstance(entry, (np.integer, np.floating)):
        entry = entry.item()
    if isinstance(entry, float):
        whole = entry.is_integer() and abs(entry) < _EXACT_FLOATS
        number = int(entry) if whole else exact(entry, place)
    elif isinstance(entry, bool) or not isinstance(entry, Rational):
        raise ValueError(f"{place}: {entry!r} is not a number")
    else:
        number = entry if isinstance(entry, int) else Fraction(entry)
    if number < 0:
        raise ValueError(f"{place} is {entry}: a demand cannot be negative")
    return number


# DemandPlan: configurations of circuit switches that serve a demand.


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DemandPlan(Brief):
    """Configurations that serve a demand, in the order in which each switch makes them.

    Configuration k is made on switch ``switch[k]`` (int32), which takes ``delta_s``, and then holds
    circuits from every node i to ``permutations[k, i]`` (int32) for ``durations_s[k]``; a node may
    have a circuit to itself or one that it needs no more. A circuit carries ``bandwidth_Bps``; a
    node has one on every switch. ``total_s`` is when the last switch is done, ``bound_s`` what no
    plan can beat. ``proof`` says why, ``method`` what found the plan.
    """

    demand: DemandMatrix = field(repr=False)
    bandwidth_Bps: Fraction  # noqa: N815 - the unit keeps its case
    delta_s: Fraction
    num_switches: int
    permutations: NDArray[np.int32] = field(repr=False)
    durations_s: tuple[Fraction, ...]
    switch: NDArray[np.int32] = field(repr=False)
    total_s: Fraction
    bound_s: Fraction
    proof: str
    method: str

    @property
    def num_configurations(self) -> int:
        """How many configurations are made, on all switches."""
        return len(self.durations_s)

    @property
    def is_optimal(self) -> bool:
        """Whether no plan takes less time, proven."""
        return self.total_s == self.bound_s

    @property
    def gap(self) -> Fraction:
        """How far the total may be above the least possible, relative to the bound."""
        return self.total_s / self.bound_s - 1 if self.bound_s else Fraction(0)

    @property
    def served_share(self) -> Fraction:
        """The share of all circuits' time that sends demanded bytes."""
        return self._share(self.demand.total_bytes / self.bandwidth_Bps)

    @property
    def idle_share(self) -> Fraction:
        """The share of all circuits' time between nodes that have nothing for each other."""
        idle = self.demand.units == 0
        return self._share(sum((time for time in self.served_s()[idle].tolist()), Fraction(0)))

    @property
    def overserved_share(self) -> Fraction:
        """The share of all circuits' time between nodes that were done before."""
        return 1 - self.served_share - self.idle_share if self.durations_s else Fraction(0)

    @property
    def dark_share(self) -> Fraction:
        """The share of all switches' time that configurations are made in."""
        if not self.total_s:
            return Fraction(0)
        return self.num_configurations * self.delta_s / (self.num_switches * self.total_s)

    def served_s(self) -> NDArray[np.object_]:
        """How long there is a circuit from every node to every node (Fractions, n by n)."""
        nodes = self.demand.num_nodes
        served = np.full((nodes, nodes), Fraction(0), dtype=object)
        for circuits, duration_s in zip(self.permutations, self.durations_s, strict=True):
            served[np.arange(nodes), circuits] += duration_s
        return served

    def up_from_s(self) -> list[Fraction]:
        """When the circuits of every configuration are up, delta after its switch is free."""
        free_s, up_from = [Fraction(0)] * self.num_switches, []
        for switch, duration_s in zip(self.switch.tolist(), self.durations_s, strict=True):
            up_from.append(free_s[switch] + self.delta_s)
            free_s[switch] = up_from[-1] + duration_s
        return up_from

    def used_circuits(self, configuration: int) -> list[tuple[int, int]]:
        """The circuits of a configuration between nodes with a demand: source and target."""
        circuits = enumerate(self.permutations[configuration].tolist())
        return [pair for pair in circuits if self.demand.units[pair]]

    def _share(self, time_s: Fraction) -> Fraction:
        whole = self.demand.num_nodes * sum(self.durations_s, Fraction(0))
        return time_s / whole if whole else Fraction(0)


# DemandTicks: a demand and what a configuration costs as whole multiples of one time.


MAX_TICKS = 2**34
"""What the busiest line and SETUPS configurations may take, so that compiled loops are exact."""

_SETUPS = 64


@final
@dataclass(frozen=True, slots=True, eq=False)
class DemandTicks:
    """Times of single circuits in ticks of ``tick_s`` seconds, rounded up unless ``is_exact``.

    ``demand`` (int64, n by n) is how long a circuit takes for every entry, ``setup`` what making a
    configuration takes.
    """

    demand: NDArray[np.int64]
    setup: int
    tick_s: Fraction
    is_exact: bool

    @property
    def num_nodes(self) -> int:
        """How many nodes there are."""
        return len(self.demand)

    @property
    def longest_line(self) -> int:
        """The largest sum of a row or column: all configurations together last that long."""
        return int(max(self.demand.sum(0).max(), self.demand.sum(1).max()))

    @property
    def max_entries(self) -> int:
        """The most entries of a row or column: it takes as many configurations."""
        some = self.demand > 0
        return int(max(some.sum(0).max(), some.sum(1).max()))

    def error(self, makespan: Fraction, num_switches: int) -> int:
        """How much more than the exact demand the rounded one takes at most, in ticks.

        A best plan that takes no longer than ``makespan`` makes on a switch as many configurations
        as fit, and no more than there are entries and switches: its times are a vertex. With a tick
        more for each and for its setup it serves the rounded demand.
        """
        if self.is_exact:
            return 0
        most = int((self.demand > 0).sum()) + num_switches
        return 2 * (min(most, int(makespan // self.setup)) if self.setup else most)


def demand_ticks(
    demand: DemandMatrix,
    bandwidth_Bps: Fraction,  # noqa: N803 - the unit keeps its case
    delta_s: Fraction,
    most: int = MAX_TICKS,
) -> DemandTicks:
    """The demand in ticks: exactly if that takes at most ``most`` of them, else rounded up."""
    unit = demand.unit_bytes / bandwidth_Bps
    longest = demand.max_line_bytes / bandwidth_Bps + _SETUPS * delta_s
    denominator = unit.denominator * delta_s.denominator
    tick = Fraction(gcd(int(unit * denominator), int(delta_s * denominator)), denominator)
    is_exact = longest <= most * tick
    if not is_exact:
        tick = longest / most
    times = [ceil(entry * unit / tick) for entry in demand.units.ravel().tolist()]
    shape = demand.units.shape
    return DemandTicks(
        np.array(times, dtype=np.int64).reshape(shape), ceil(delta_s / tick), tick, is_exact
    )


# TickPlan: which switch makes which configuration, and which of them two switches share.


_Time = TypeVar("_Time", int, Fraction)
Pieces: TypeAlias = list[tuple[int, _Time, int]]
"""Configurations, or parts of them: which one, how long, and on which switch."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class TickPlan:
    """Full permutations with their times, in ticks, and switches."""

    permutations: NDArray[np.int64]
    times: tuple[Fraction, ...]
    switch: NDArray[np.int64]

    def makespan(self, setup: int) -> Fraction:
        """When the last switch is done, in ticks."""
        busy = [Fraction(0)] * (int(self.switch.max(initial=0)) + 1)
        for time, switch in zip(self.times, self.switch.tolist(), strict=True):
            busy[switch] += time + setup
        return max(busy)


def on_switches(
    permutations: NDArray[np.int64], times: Sequence[int], setup: int, num_switches: int
) -> TickPlan:
    """Configurations on switches, the least makespan that packing finds; some may be split."""
    # Parts of a tick, so that switches can share evenly.
    fine = [time * num_switches for time in times]
    pieces = packed(fine, setup * num_switches, num_switches)
    return TickPlan(
        permutations[[configuration for configuration, _, _ in pieces]],
        tuple(Fraction(time, num_switches) for _, time, _ in pieces),
        np.array([switch for _, _, switch in pieces], dtype=np.int64),
    )


def packed(times: Sequence[int], setup: int, num_switches: int) -> Pieces[int]:
    """Pieces on switches such that the last one is done early: the least makespan that is found.

    Whole times, longest first, or else some that fit on no switch are split, and every part pays
    for its own configuration.
    """
    whole, high = longest_first(times, setup, num_switches)
    low = -(-(sum(times) + setup * len(times)) // num_switches)

    def pieces(makespan: int) -> Pieces[int] | None:
        return _fitted(times, setup, num_switches, makespan)

    fits = bisect_left(range(low, high), True, key=lambda span: pieces(span) is not None)
    return (pieces(low + fits) if low + fits < high else None) or whole


def longest_first(
    times: Sequence[_Time], setup: _Time, num_switches: int
) -> tuple[Pieces[_Time], _Time]:
    """Whole times, longest first, each on the least busy switch, and when the last is done."""
    busy = [0 * setup] * num_switches
    pieces = []
    for at in sorted(range(len(times)), key=lambda place: (-times[place], place)):
        switch = busy.index(min(busy))
        pieces.append((at, times[at], switch))
        busy[switch] += times[at] + setup
    return pieces, max(busy)


def _fitted(
    times: Sequence[int], setup: int, num_switches: int, makespan: int
) -> Pieces[int] | None:
    """Pieces that are done by then, None if this way finds none.

    Long times first, each on the fullest switch that still has room for it, or else in parts on the
    emptiest ones.
    """
    room = [makespan] * num_switches
    pieces = []
    for at in sorted(range(len(times)), key=lambda place: (-times[place], place)):
        left = times[at]
        while left > 0:
            fits = [space for space in room if space >= left + setup]
            switch = room.index(min(fits) if fits else max(room))
            time = min(left, room[switch] - setup)
            if time <= 0:
                return None
            pieces.append((at, time, switch))
            room[switch] -= time + setup
            left -= time
    return pieces
