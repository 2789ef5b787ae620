"""Simulated: when every transfer ran, and what its links did meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.shown import Tabular
from ocs_codesign.simulate.making import sums_of, transfer_of
from ocs_codesign.timed import Timed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.schedule import Schedule
    from ocs_codesign.simulate.rules import TimingRules
    from ocs_codesign.simulate.transfers import Transfers


@final
@dataclass(frozen=True, slots=True, eq=False)
class Simulated(Tabular):
    """When transfers ran under rules, in ticks of the network's ``tick_s``.

    ``hop_start`` (int64, one an entry of ``path_link``) is when each began on each of its links,
    ``arrival`` when it was whole at its last node, ``end`` when it had ended (int64, transfers).
    Arrays are made read-only.
    """

    transfers: Transfers
    rules: TimingRules
    hop_start: NDArray[np.int64]
    arrival: NDArray[np.int64]
    end: NDArray[np.int64]

    def __post_init__(self) -> None:
        for name in ("hop_start", "arrival", "end"):
            getattr(self, name).setflags(write=False)

    def __repr__(self) -> str:
        return f"Simulated({self.transfers!r}, {self.total_ticks} ticks)"

    @property
    def total_ticks(self) -> int:
        """When the last transfer ended."""
        return int(self.end.max(initial=0))

    @property
    def total_s(self) -> Fraction:
        """When the last transfer ended, in seconds."""
        return self.total_ticks * self.transfers.network.tick_s

    @property
    def start(self) -> NDArray[np.int64]:
        """When every transfer began on its first link; of one without links, when it began."""
        start = self.arrival.copy()
        first = self.transfers.path_start[:-1]
        has_path = np.diff(self.transfers.path_start) > 0
        start[has_path] = self.hop_start[first[has_path]]
        return start

    def hop_ticks(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Ticks of every hop until its link has sent it, and until it has arrived."""
        transfers = self.transfers
        sizes, number = np.unique(transfers.size, return_inverse=True)
        ticks = self.rules.link_ticks(transfers.network, transfers.chunk_bytes, sizes)
        busy, flight, link_class = ticks
        at = number[self.owner()], link_class[transfers.path_link]
        return busy[at], flight[at]

    def owner(self) -> NDArray[np.int64]:
        """The transfer of every entry of the paths."""
        return np.repeat(
            np.arange(self.transfers.num_transfers), np.diff(self.transfers.path_start)
        )

    def link_busy(self) -> NDArray[np.int64]:
        """Ticks that every link sends, shape (links,)."""
        busy = np.zeros(self.transfers.network.num_links, dtype=np.int64)
        np.add.at(busy, self.transfers.path_link, self.hop_ticks()[0])
        return busy


def timed(simulated: Simulated, schedule: Schedule) -> Timed:
    """When every send of a schedule ran whose transfers, each over one link, were simulated.

    Chunks that crossed a link as one transfer did so one send after the other. Raises ValueError
    if these are not its transfers, or they take more than one link.
    """
    transfers, adds = simulated.transfers, sums_of(schedule)
    order = np.lexsort((adds, schedule.link, schedule.step))
    apart = schedule.topology.num_nodes > schedule.num_hosts
    ordered = schedule.step[order], schedule.link[order], adds[order]
    owner = transfer_of(*ordered, apart=apart)
    num = int(owner.max(initial=-1)) + 1
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    if (np.diff(transfers.path_start)[:num] != 1).any():
        raise ValueError("only sends over one link each have a time: these lead over switches")
    if num > transfers.num_transfers or (transfers.step[:num] != ordered[0][first]).any():
        raise ValueError("what was simulated is not this schedule")
    chunks = (schedule.hi.astype(np.int64) - schedule.lo)[order]
    until = np.cumsum(chunks)
    until -= (until - chunks)[first][owner]
    latency = transfers.network.latency[transfers.path_link[:num]]
    begin, size = simulated.start[:num], transfers.size[:num]
    # So much of the time on the link is over after so many of its chunks, without an overflow.
    whole, rest = np.divmod(simulated.arrival[:num] - latency - begin, size)
    since, until = (
        begin[owner] + whole[owner] * done + rest[owner] * done // size[owner]
        for done in (until - chunks, until)
    )
    start, end = np.empty((2, len(order)), dtype=np.int64)
    start[order], end[order] = since, until + latency[owner]
    return Timed(schedule, start, end, transfers.network.tick_s)
