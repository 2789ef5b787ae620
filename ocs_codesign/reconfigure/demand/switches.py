"""Which switch makes which configuration, and which of them two switches share."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.reconfigure.demand.durations import Timed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@final
@dataclass(frozen=True, slots=True)
class Piece:
    """A configuration, or a part of its time, on a switch."""

    configuration: int
    time: int
    switch: int


def on_switches(
    permutations: NDArray[np.int64], times: Sequence[int], setup: int, num_switches: int
) -> Timed:
    """Configurations on switches, the least makespan that packing finds; some may be split."""
    # Parts of a tick, so that switches can share evenly.
    fine = [time * num_switches for time in times]
    pieces = packed(fine, setup * num_switches, num_switches)
    pieces.sort(key=lambda piece: (piece.switch, -piece.time, piece.configuration))
    return Timed(
        permutations[[piece.configuration for piece in pieces]],
        tuple(Fraction(piece.time, num_switches) for piece in pieces),
        np.array([piece.switch for piece in pieces], dtype=np.int64),
    )


def packed(times: Sequence[int], setup: int, num_switches: int) -> list[Piece]:
    """Pieces on switches such that the last one is done early: the least makespan that is found.

    Whole times, longest first, or else some that fit on no switch are split, and every part pays
    for its own configuration.

    >>> packed([10, 3], 1, 2)
    [Piece(configuration=0, time=7, switch=0), Piece(configuration=0, time=3, switch=1), \
Piece(configuration=1, time=3, switch=1)]
    """
    best, busy = _whole(times, setup, num_switches)
    low, high = max(0, -(-(sum(times) + setup * len(times)) // num_switches) - 1), max(busy)
    while high - low > 1:
        middle = (low + high) // 2
        pieces = _fitted(times, setup, num_switches, middle)
        if pieces is None:
            low = middle
        else:
            best, high = pieces, middle
    return best


def _whole(times: Sequence[int], setup: int, num_switches: int) -> tuple[list[Piece], list[int]]:
    """Longest first, each on the least busy switch; and how busy all are."""
    busy = [0] * num_switches
    pieces = []
    for at in sorted(range(len(times)), key=lambda one: (-times[one], one)):
        switch = busy.index(min(busy))
        pieces.append(Piece(at, times[at], switch))
        busy[switch] += times[at] + setup
    return pieces, busy


def _fitted(
    times: Sequence[int], setup: int, num_switches: int, makespan: int
) -> list[Piece] | None:
    """Pieces that are done by then, None if this way finds none.

    Long times first, each on the fullest switch that still has room for it, or else in parts on the
    emptiest ones.
    """
    room = [makespan] * num_switches
    pieces = []
    for at in sorted(range(len(times)), key=lambda one: (-times[one], one)):
        left = times[at]
        while left > 0:
            fits = [switch for switch in range(num_switches) if room[switch] >= left + setup]
            switch = (
                min(fits, key=lambda one: room[one])
                if fits
                else max(range(num_switches), key=lambda one: room[one])
            )
            time = min(left, room[switch] - setup)
            if time <= 0:
                return None
            pieces.append(Piece(at, time, switch))
            room[switch] -= time + setup
            left -= time
    return pieces
