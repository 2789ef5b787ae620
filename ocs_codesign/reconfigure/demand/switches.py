"""TickPlan: which switch makes which configuration, and which of them two switches share."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias, TypeVar, final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

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

    >>> packed([10, 3], 1, 2)
    [(0, 7, 0), (0, 3, 1), (1, 3, 1)]
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
