"""The simulator: transfers on a network under rules, event by event."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.circuits import Timed
from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.core.shown import Tabular
from ocs_codesign.schedules.simulate.columns import LinkColumns, Rules, Seen, TransferColumns
from ocs_codesign.schedules.simulate.event_kernels import run
from ocs_codesign.schedules.simulate.kernels import inverted
from ocs_codesign.schedules.simulate.making import sums_of, transfer_of
from ocs_codesign.schedules.simulate.transfers import ADD

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.core.schedule import Schedule
    from ocs_codesign.schedules.simulate.transfers import TimingRules, Transfers


# Simulated: when every transfer ran, and what its links did meanwhile.


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


_ROUNDS = 10
"""What the loop does for a hop or a wait, in rounds of a simple loop."""


def simulate_transfers(transfers: Transfers, rules: TimingRules) -> Simulated:
    """When every transfer runs, if each begins as soon as it may and links serve in that order.

    What begins at the same tick does so in the order of the events that let it begin, transfers
    that one event lets begin in ascending order: the same input gives the same ticks. Raises
    ValueError if transfers wait for each other in a circle.

    >>> from ocs_codesign.core.network import Network
    >>> from ocs_codesign.schedules.simulate.transfers import TimingRules
    >>> from ocs_codesign.schedules.simulate.transfers import Transfers
    >>> line = Network(3, 3, [0, 1], [1, 2], [1, 1], [5, 5])
    >>> relay = Transfers(line, 8, [1, 1], [0, 1, 2], [0, 1], [0, 0, 1], [0])
    >>> done = simulate_transfers(relay, TimingRules(unit_Bps=10**9))
    >>> done.start.tolist(), done.end.tolist()
    ([0, 13], [13, 26])
    """
    network, num = transfers.network, transfers.num_transfers
    sizes, size_class = _classes(transfers.size)
    busy, flight, link_class = rules.link_ticks(network, transfers.chunk_bytes, sizes)
    injection, addition = rules.node_ticks(transfers, sizes)
    rounds = _ROUNDS * (num + len(transfers.path_link) + len(transfers.wait_for))
    after_start, after = for_work(inverted, rounds)(transfers.wait_start, transfers.wait_for, num)
    has_previous = transfers.previous >= 0
    following = np.full(num, -1, dtype=np.int32)
    following[transfers.previous[has_previous]] = np.flatnonzero(has_previous)
    waits = np.diff(transfers.wait_start) + has_previous
    hop_start = np.zeros(len(transfers.path_link), dtype=np.int64)
    arrival, end = np.zeros(num, dtype=np.int64), np.zeros(num, dtype=np.int64)
    ended, _, _ = for_work(run, rounds)(
        TransferColumns(
            *(transfers.path_start, transfers.path_link, waits, after_start, after, following),
            *(transfers.compute, transfers.kind == ADD, size_class),
        ),
        LinkColumns(
            *(network.tail, network.head, link_class, busy, flight, injection, addition),
            np.zeros(network.num_links, dtype=np.int64),
            np.zeros((3, network.num_nodes), dtype=np.int64),
        ),
        serving(rules),
        Seen(hop_start, arrival, end),
        *(None, None, None, None, None),
    )
    if ended < num:
        stuck = int((waits > 0).argmax())
        raise ValueError(
            f"{num - ended} transfers wait for each other in a circle: transfer {stuck} of step "
            f"{transfers.step[stuck]} never begins"
        )
    return Simulated(transfers, rules, hop_start, arrival, end)


def serving(rules: TimingRules) -> Rules:
    """How links and nodes serve, as the loop of events reads it."""
    return Rules(rules.overhead_ticks, rules.blocking, rules.cut_through, rules.pipelined)


def _classes(size: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The different sizes, ascending, and which each transfer has."""
    most = int(size.max(initial=0))
    if most > max(len(size), 2**16):
        sizes, number = np.unique(size, return_inverse=True)
        return sizes, number.astype(np.int32)
    is_used = np.zeros(most + 1, dtype=bool)
    is_used[size] = True
    number_of = (np.cumsum(is_used) - 1).astype(np.int32)
    return np.flatnonzero(is_used), number_of[size]
