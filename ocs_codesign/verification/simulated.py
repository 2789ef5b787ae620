"""Independent check of simulations: nothing before its time, one message at a time on a link."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.verification.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from numpy.typing import NDArray

    from ocs_codesign.simulate.simulated import Simulated

TOO_SOON = "this transfer begins before one that it waits for has ended"
OVERTAKES = "this transfer begins before the one before it on its pair"
NOT_THERE = "this transfer begins on a link before it has come to the node"
TAKEN = "this transfer begins while another one is on the link"
WRONG_ARRIVAL = "this transfer does not arrive when its last link has brought it"
WRONG_END = "this transfer does not end when what follows its arrival is over"
IDLE = "this transfer could have begun earlier: its link was free"
OUT_OF_TURN = "this transfer came to the link later than one that begins after it"


def check_simulated(simulated: Simulated) -> Witness | None:
    """The first transfer, as ``row``, that breaks a rule of its simulation; None if none does.

    What a message takes is computed anew, number by number. Nothing begins before what it waits for
    has ended, nor on a link before it has come to its tail; a link carries one message at a time.
    Where nodes take no time, nothing waits at a free link or behind what came later, so no
    transfer begins later than it must.

    >>> from ocs_codesign.network import Network
    >>> from ocs_codesign.simulate.engine import simulate_transfers
    >>> from ocs_codesign.simulate.rules import TimingRules
    >>> from ocs_codesign.simulate.transfers import Transfers
    >>> line = Network(3, 3, [0, 1], [1, 2], [1, 1], [5, 5])
    >>> relay = Transfers(line, 8, [1, 1], [0, 1, 2], [0, 1], [0, 0, 1], [0])
    >>> check_simulated(simulate_transfers(relay, TimingRules(unit_Bps=10**9)))
    """
    return next(_faults(simulated), None)


def _faults(done: Simulated) -> Iterator[Witness]:
    """One witness of every rule that is broken, the first of its kind."""
    transfers, rules = done.transfers, done.rules
    num, hops = transfers.num_transfers, np.diff(transfers.path_start)
    owner = np.repeat(np.arange(num), hops)
    first = np.zeros(len(owner), dtype=bool)
    first[transfers.path_start[:-1][hops > 0]] = True
    last = np.append(first[1:], True)[: len(first)]
    busy, flight = _ticks(done, owner)
    may_begin = _may_begin(done)
    begin = done.arrival.copy()
    begin[owner[first]] = done.hop_start[first]
    yield from _where(begin < may_begin, TOO_SOON)
    previous = np.flatnonzero(transfers.previous >= 0)
    gap = begin[previous] - begin[transfers.previous[previous]]
    yield from _where(gap < 0, OVERTAKES, previous)

    came, whole = _came(done, owner, first, busy, flight, may_begin)
    link = transfers.path_link
    yield from _where(done.hop_start < came, NOT_THERE, owner, link)
    leaves = np.maximum(done.hop_start + busy, whole)
    brings = leaves + flight - busy
    free = brings if rules.blocking else leaves
    order = np.lexsort((came, free, done.hop_start, link))
    same = np.diff(link[order], prepend=-1) == 0
    free_before = np.where(same, np.roll(free[order], 1), 0)
    start = done.hop_start[order]
    yield from _where(start < free_before, TAKEN, owner[order], link[order])
    own = np.arange(num)[hops > 0]
    late = done.arrival[own] - brings[last]
    is_wrong = late != 0 if rules.injection_Bps is None else late < 0
    yield from _where(is_wrong, WRONG_ARRIVAL, own)
    late = done.end - done.arrival - transfers.compute
    yield from _where(late != 0 if rules.is_free_at_ends else late < 0, WRONG_END)
    if rules.is_free_at_ends and not rules.pipelined:
        yield from _where(start > np.maximum(came[order], free_before), IDLE, owner[order])
        turns = same & (came[order] < np.roll(came[order], 1))
        yield from _where(turns, OUT_OF_TURN, owner[order], link[order])
        yield from _where((begin != may_begin) & (hops == 0), IDLE)


def _where(
    broken: NDArray[np.bool_],
    rule: str,
    row: NDArray[np.int64] | None = None,
    link: NDArray[np.int32] | None = None,
) -> Iterator[Witness]:
    if broken.any():
        at = int(broken.argmax())
        yield Witness(
            rule,
            row=at if row is None else int(row[at]),
            link=None if link is None else int(link[at]),
        )


def _may_begin(done: Simulated) -> NDArray[np.int64]:
    """When all that each transfer waits for has ended, and the one before it has arrived."""
    transfers = done.transfers
    at = np.zeros(transfers.num_transfers, dtype=np.int64)
    who = np.repeat(np.arange(len(at)), np.diff(transfers.wait_start))
    np.maximum.at(at, who, done.end[transfers.wait_for])
    if not done.rules.pipelined:
        chained = np.flatnonzero(transfers.previous >= 0)
        at[chained] = np.maximum(at[chained], done.arrival[transfers.previous[chained]])
    return at


def _ticks(
    done: Simulated, owner: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ticks of every hop until it has left its link, and until it has arrived."""
    transfers, rules = done.transfers, done.rules
    network = transfers.network
    size, link = transfers.size[owner], transfers.path_link
    asked = np.stack([size, network.bandwidth[link], network.latency[link]], axis=1)
    kinds, which = np.unique(asked, axis=0, return_inverse=True)
    found = np.zeros((len(kinds), 2), dtype=np.int64)
    for at, (chunks, bandwidth, latency) in enumerate(kinds.tolist()):
        num_bytes: Fraction = chunks * transfers.chunk_bytes
        rate: Fraction = bandwidth * rules.unit_Bps * network.tick_s
        lasts = float(num_bytes) / float(rate) if rules.in_doubles else num_bytes / rate
        found[at] = int(lasts), int(latency + lasts)
    return found[which.ravel(), 0], found[which.ravel(), 1]


def _came(
    done: Simulated,
    owner: NDArray[np.int64],
    first: NDArray[np.bool_],
    busy: NDArray[np.int64],
    flight: NDArray[np.int64],
    may_begin: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """When every hop's message may go on from the tail of its link, and when it is whole there."""
    came = np.where(first, may_begin[owner], 0)
    whole = came.copy()
    rest = np.flatnonzero(~first)
    if not done.rules.cut_through:
        came[rest] = whole[rest] = done.hop_start[rest - 1] + flight[rest - 1]
        return came, whole
    latency = flight - busy
    came[rest] = done.hop_start[rest - 1] + latency[rest - 1]
    place = np.arange(len(owner)) - done.transfers.path_start[owner]
    for hop in range(1, int(place.max(initial=0)) + 1):
        at = np.flatnonzero(place == hop)
        leaves = np.maximum(done.hop_start[at - 1] + busy[at - 1], whole[at - 1])
        whole[at] = leaves + latency[at - 1]
    return came, whole
