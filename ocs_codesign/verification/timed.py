"""Independent check of timed schedules: held by start, link free, circuit up."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.verification.schedules import EXACTLY_ONCE, replay_sends
from ocs_codesign.verification.sends import sends_of
from ocs_codesign.verification.witness import Witness

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.timed import Timed

BUSY = "this send begins while another one is on the link"
HASTY = "this send takes less time than its chunks occupy the link and are on the way"
DARK = "the circuit of this link is not up all the time that the send takes"


def check_timed(
    timed: Timed,
    latency: ArrayLike = 0,
    up: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
    *,
    chunk_ticks: ArrayLike = 0,
    strictness: str = EXACTLY_ONCE,
) -> Witness | None:
    """The first send that breaks a rule, None if all that is demanded happens in time.

    A sender has all of what it sends at the start of a send. A link carries one send at a time; it
    is free again ``latency`` ticks (one number, or one a link) before the send ends, and until then
    takes at least ``chunk_ticks`` (one number, or one a link) for every chunk. ``up`` are
    columns link, start and end of the ticks in which circuits are up, None if they always are: a
    send is within one of them. Raises ValueError for a schedule that names switches.

    >>> from fractions import Fraction
    >>> from ocs_codesign.collective import Collective
    >>> from ocs_codesign.schedule import Schedule
    >>> from ocs_codesign.timed import Timed
    >>> from ocs_codesign.topology import Topology
    >>> ring = Topology(3, [0, 1, 2], [1, 2, 0])
    >>> columns = [0, 1, 2, 2, 0, 1], [0] * 6, [1] * 6, [0, 1, 2, 0, 1, 2], [1, 1, 1, 2, 2, 2]
    >>> gather = Schedule(ring, Collective.ALLGATHER, 1, *columns)
    >>> check_timed(Timed(gather, [0, 0, 0, 5, 5, 5], [5] * 3 + [9] * 3, Fraction(1)))
    >>> print(check_timed(Timed(gather, [0, 0, 0, 4, 5, 5], [5] * 3 + [9] * 3, Fraction(1))))
    row 3, step 2, link 0: this send begins while another one is on the link
    """
    schedule = timed.schedule
    if schedule.topology.num_nodes > schedule.num_hosts:
        raise ValueError("a timed schedule is of sends from host to host: route it over switches")
    links = schedule.topology.num_links
    on_the_way, busy = np.broadcast_to(latency, links), np.broadcast_to(chunk_ticks, links)
    least = (schedule.hi.astype(np.int64) - schedule.lo) * busy[schedule.link]
    hasty = timed.end - timed.start < least + on_the_way[schedule.link]
    if busy.any() and hasty.any():
        return _witness(timed, int(hasty.argmax()), HASTY)
    return _overlap(timed, on_the_way) or (
        (None if up is None else _in_the_dark(timed, *up)) or _replay(timed, strictness)
    )


def _witness(timed: Timed, row: int, rule: str) -> Witness:
    schedule = timed.schedule
    return Witness(rule, row=row, step=int(schedule.step[row]), link=int(schedule.link[row]))


def _overlap(timed: Timed, latency: NDArray[np.int64]) -> Witness | None:
    """The first send on a link that is not free."""
    link = timed.schedule.link
    order = np.lexsort((timed.end, timed.start, link))
    free = np.maximum(timed.end - latency[link], timed.start)[order]
    same = link[order][1:] == link[order][:-1]
    # Sorted by start, a send overlaps an earlier one only if it overlaps one of those before it;
    # the first that does overlaps its neighbour.
    overlaps = np.flatnonzero(same & (timed.start[order][1:] < free[:-1]))
    if not len(overlaps):
        return None
    rows = order[overlaps + 1]
    return _witness(timed, int(rows[timed.start[rows].argmin()]), BUSY)


def _in_the_dark(timed: Timed, link: ArrayLike, start: ArrayLike, end: ArrayLike) -> Witness | None:
    """The first send that is not within an interval in which its circuit is up."""
    links, starts, ends = (np.asarray(column, dtype=np.int64) for column in (link, start, end))
    order = np.lexsort((starts, links))
    links, starts, ends = links[order], starts[order], ends[order]
    times = np.unique(np.concatenate([starts, timed.start]))
    rank = links * (len(times) + 1) + np.searchsorted(times, starts)
    wanted = timed.schedule.link.astype(np.int64) * (len(times) + 1)
    at = np.searchsorted(rank, wanted + np.searchsorted(times, timed.start), side="right") - 1
    is_up = (at >= 0) & (links[at] == timed.schedule.link) & (timed.end <= ends[at])
    if is_up.all():
        return None
    dark = np.flatnonzero(~is_up)
    return _witness(timed, int(dark[timed.start[dark].argmin()]), DARK)


def _replay(timed: Timed, strictness: str) -> Witness | None:
    """The replay in the order of time; only the order counts, so times are numbered."""
    sends = sends_of(timed.schedule)
    # Zero is when everything begins, so that what roots have from the beginning comes before all.
    times = np.unique(np.concatenate([[0], timed.start, timed.end]))
    start, end = (np.searchsorted(times, column) for column in (timed.start, timed.end))
    ranked = replace(sends, start=start.astype(np.int32), end=end.astype(np.int32))
    return replay_sends(timed.schedule, ranked.at(np.lexsort((end, start))), strictness)
