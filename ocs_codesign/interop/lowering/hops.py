"""Hops: what goes from rank to rank in which step, of a schedule or of messages, as columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.demand import COPY, MOVE, SUM, demands_of
from ocs_codesign.core.plans import INPUT, OUTPUT
from ocs_codesign.core.schedule import SUMMING, Schedule
from ocs_codesign.core.topology import distinct, places, starts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.demand import Demand
    from ocs_codesign.core.schedule import Messages


# Where the pieces of a demand stand in the buffers of ranks, and where chunks of scratch do.


NOWHERE = -1
"""The buffer of what a rank has no place for."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """Chunks of ``buffer`` (int8, NOWHERE where there is none) from ``chunk`` (int64) on."""

    buffer: NDArray[np.int8]
    chunk: NDArray[np.int64]

    def at(self, rows: NDArray[Any]) -> Slots:
        """Some of the slots."""
        return Slots(self.buffer[rows], self.chunk[rows])

    def or_else(self, other: Slots, mine: NDArray[np.bool_]) -> Slots:
        """These slots where they are ``mine``, else the others."""
        buffer = np.where(mine, self.buffer, other.buffer)
        return Slots(buffer, np.where(mine, self.chunk, other.chunk))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Pieces in the input and output of ranks, all counted in chunks.

    ``edges`` (int64, pieces + 1) are the first chunks of all pieces, counted over all items, and
    the end of the last; ``root`` (int32) is that of every piece's item.
    """

    num_ranks: int
    edges: NDArray[np.int64]
    root: NDArray[np.int32]
    before: _Table
    after: _Table
    place_buffer: int | None

    @classmethod
    def of(
        cls, demands: Sequence[Demand], chunks_per_unit: int, place_buffer: int | None
    ) -> Placement:
        """That of a program; ``place_buffer`` is input and output in one, None if none is."""
        first = demands[0]
        return cls(
            first.num_hosts,
            first.first_units() * chunks_per_unit,
            first.root[first.item_of_piece()],
            _Table.of(first, chunks_per_unit, first=True),
            _Table.of(demands[-1], chunks_per_unit, first=False),
            place_buffer,
        )

    @property
    def stride(self) -> int:
        """Places of a rank where each is rank * stride + chunk; no rank's end is another's first.

        Chunks are counted over all items.
        """
        return int(self.edges[-1]) + 1

    def had(self, rank: NDArray[Any], piece: NDArray[Any], chunk: NDArray[Any]) -> Slots:
        """Where ranks have chunks of pieces before."""
        slots = self._slots(self.before, INPUT, rank, piece, chunk)
        if self.place_buffer != OUTPUT:
            return slots
        larger = self._slots(self.after, OUTPUT, rank, piece, chunk)
        return larger.or_else(slots, larger.buffer >= 0)

    def wanted(self, rank: NDArray[Any], piece: NDArray[Any], chunk: NDArray[Any]) -> Slots:
        """Where ranks must get chunks of pieces."""
        slots = self._slots(self.after, OUTPUT, rank, piece, chunk)
        if self.place_buffer != INPUT:
            return slots
        larger = self._slots(self.before, INPUT, rank, piece, chunk)
        return larger.or_else(slots, (larger.buffer >= 0) & (slots.buffer >= 0))

    def _slots(
        self,
        table: _Table,
        buffer: int,
        rank: NDArray[Any],
        piece: NDArray[Any],
        chunk: NDArray[Any],
    ) -> Slots:
        first = table.find(rank.astype(np.int64) * (len(self.edges) - 1) + piece)
        found = np.where(first >= 0, buffer, NOWHERE).astype(np.int8)
        return Slots(found, first + chunk - self.edges[piece])

    def own(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rank and piece of all that ranks have before and want after."""
        both = np.intersect1d(self.before.key, self.after.key, assume_unique=True)
        rank, piece = np.divmod(both, max(1, len(self.edges) - 1))
        return rank, piece


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """Keys rank * pieces + piece, ascending, and the first chunk of each in its buffer."""

    key: NDArray[np.int64]
    chunk: NDArray[np.int64]

    @classmethod
    def of(cls, demand: Demand, chunks_per_unit: int, *, first: bool) -> _Table:
        item = demand.item_of_piece()
        at_root = (demand.kind[item] != SUM) if first else (demand.kind[item] == SUM)
        rooted, shared = np.flatnonzero(at_root), np.flatnonzero(~at_root)
        group = demand.group[shared]
        run, member = places(demand.group_start[group], np.diff(demand.group_start)[group])
        host = np.concatenate([demand.root[item[rooted]], demand.member[member]]).astype(np.int64)
        piece = np.concatenate([rooted, shared[run]])
        key = host * demand.num_pieces + piece
        order = np.argsort(key, kind="stable")
        key, host = key[order], host[order]
        total = starts_of(demand.weight[piece[order]] * chunks_per_unit)[:-1]
        return cls(key, total - total[np.searchsorted(host, host)])

    def find(self, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """The first chunk of what has these keys, -1 where nothing has."""
        if not len(self.key):
            return np.full(len(wanted), -1)
        at = np.minimum(np.searchsorted(self.key, wanted), len(self.key) - 1)
        return np.where(self.key[at] == wanted, self.chunk[at], -1)


def cut(
    lo: NDArray[np.int64], hi: NDArray[np.int64], edges: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Intervals cut at ascending edges that reach as far: row, number of the edge, lo and hi.

    >>> [column.tolist() for column in cut(np.array([1, 4]), np.array([5, 6]), np.array([0, 4, 9]))]
    [[0, 0, 1], [0, 1, 1], [1, 4, 4], [4, 5, 6]]
    """
    first = np.searchsorted(edges, lo, side="right") - 1
    last = np.searchsorted(edges, hi, side="left")
    row, at = places(first, last - first)
    lo, hi = np.maximum(lo[row], edges[at]), np.minimum(hi[row], edges[at + 1])
    filled = lo < hi  # pieces without weight are between edges that are equal
    return (row, at, lo, hi) if filled.all() else (row[filled], at[filled], lo[filled], hi[filled])


def unions(
    lo: NDArray[np.int64], hi: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The runs that intervals make together, ascending: first places and ends.

    >>> [column.tolist() for column in unions(np.array([7, 0, 2]), np.array([9, 3, 5]))]
    [[0, 7], [5, 9]]
    """
    order = np.argsort(lo, kind="stable")
    lo, reach = lo[order], np.maximum.accumulate(hi[order])
    new = np.ones(len(lo), dtype=bool)
    new[1:] = lo[1:] > reach[:-1]
    last = np.append(new[1:], True)[: len(lo)]
    return lo[new], reach[last]


def runs_on_end(
    alike: Sequence[NDArray[Any]], ends: Sequence[NDArray[Any]], count: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The first row of every run of rows that are ``alike``, and the sum of its counts.

    Places in columns of ``ends`` go on by the count of the row before.
    """
    new = np.arange(len(count)) == 0
    for column in alike:
        new[1:] |= column[1:] != column[:-1]
    for column in ends:
        new[1:] |= column[1:] != column[:-1] + count[:-1]
    first = np.flatnonzero(new)
    return first, np.add.reduceat(count, first) if len(first) else count


# Hops over switches as hops from host to host: a switch keeps nothing and lasts no step.


def between_hosts(hops: Hops, num_hosts: int) -> Hops:
    """The same hops from host to host; nodes from ``num_hosts`` on are switches.

    What is copied comes from the host where its last hop began, so that a switch that sends it to
    several is as if its host did; what is summed goes to the host where its first hop ends up, so
    that what a switch adds up is added there. A channel of two hosts is a link out of the first.
    Raises ValueError if a switch sends what it does not get in the step, or keeps what it gets.
    """
    through = (hops.sender >= num_hosts) | (hops.receiver >= num_hosts)
    if not through.any():
        return hops
    passed = _passed(hops.at(np.flatnonzero(through)), num_hosts)
    joined = _joined(hops.at(np.flatnonzero(~through)), passed)
    joined = joined.at(np.lexsort((joined.lo, joined.line, joined.receiver, joined.step)))
    ends = joined.sender.astype(np.int64) * num_hosts + joined.receiver
    links = int(hops.line.max(initial=0)) + 1
    lines, line = np.unique(ends * links + joined.line, return_inverse=True)
    pair = lines // links
    channel = np.arange(len(lines)) - np.searchsorted(pair, pair)
    joined = replace(joined, line=line, channel=channel[line].astype(np.int32))
    return joined.at(np.lexsort((joined.line, joined.step)))


def _joined(direct: Hops, passed: Hops) -> Hops:
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in (direct, passed)]) for name in _NAMES
    }
    return replace(direct, **columns)


def _passed(hops: Hops, num_hosts: int) -> Hops:
    """What hops to and from switches bring from host to host."""
    row, cell, lo, hi = cut(hops.lo, hops.hi, distinct(np.concatenate([hops.lo, hops.hi])))
    hops = hops.at(row, lo, hi)
    moment = (hops.step.astype(np.int64) * 3 + hops.kind) * (int(cell.max()) + 1) + cell
    moment = np.unique(moment, return_inverse=True)[1]
    switches = int(max(hops.sender.max(), hops.receiver.max())) + 1
    enters = np.where(hops.receiver >= num_hosts, moment * switches + hops.receiver, -1)
    leaves = np.where(hops.sender >= num_hosts, moment * switches + hops.sender, -1)
    adds = hops.kind == SUM
    begin = _followed(hops, np.where(adds, -1, leaves), np.where(adds, -1, enters))
    end = _followed(hops, np.where(adds, enters, -1), np.where(adds, leaves, -1))
    sender, line = hops.sender[begin], hops.line[begin]
    whole = replace(hops, sender=sender, line=line, receiver=hops.receiver[end])
    complete = np.where(adds, hops.sender < num_hosts, hops.receiver < num_hosts)
    return whole.at(np.flatnonzero(complete))


def _followed(hops: Hops, wanted: NDArray[Any], known: NDArray[Any]) -> NDArray[np.int64]:
    """Of every hop the far end of its chain: the hop with no stay ``wanted`` any more.

    The k-th hop that wants a stay continues in the k-th that is ``known`` for it, or in the last of
    fewer. Hops without a stay are their own end.
    """
    far = np.arange(len(wanted))
    going, there = np.flatnonzero(wanted >= 0), np.flatnonzero(known >= 0)
    if not len(going):
        return far
    going = going[np.argsort(wanted[going], kind="stable")]
    there = there[np.argsort(known[there], kind="stable")]
    stays, stay = known[there], wanted[going]
    first, end = np.searchsorted(stays, stay), np.searchsorted(stays, stay, side="right")
    if (first == end).any():
        _refuse(hops, int(going[(first == end).argmax()]))
    number = np.arange(len(going)) - np.searchsorted(stay, stay)
    onward = far.copy()
    onward[going] = there[first + np.minimum(number, end - first - 1)]
    for _ in range(len(going)):
        further = onward[far]
        if np.array_equal(further, far):
            return far
        far = further
        if (rounds := far[going] == going).any():
            _refuse(hops, int(going[rounds.argmax()]))
    return far


def _refuse(hops: Hops, row: int) -> None:
    raise ValueError(
        f"step {int(hops.step[row])}: what goes from node {int(hops.sender[row])} to "
        f"{int(hops.receiver[row])} does not pass a switch from host to host in this step: "
        "only verified plans can be lowered"
    )


_NAMES = ("step", "line", "sender", "receiver", "channel", "lo", "hi", "kind", "adds", "piece")


@final
@dataclass(frozen=True, slots=True, eq=False)
class Hops:
    """Chunks [``lo``, ``hi``) of one item each, from rank to rank, sorted by (step, line).

    Chunks (int64) are counted over all items, as units of weight are. A ``line`` is one channel
    from one rank to another. ``kind`` (int8) is what happens to the item, COPY, MOVE or SUM;
    ``adds`` (bool) whether what is summed is added up rather than kept as the whole sum. With
    ``is_twofold`` sums are copied out again, of the same pieces; with ``rewrites`` ranks may send
    parts of sums to which something is added later.
    """

    demands: tuple[Demand, ...]
    chunks_per_unit: int
    step: NDArray[np.int32]
    line: NDArray[np.int64]
    sender: NDArray[np.int32]
    receiver: NDArray[np.int32]
    channel: NDArray[np.int32]
    lo: NDArray[np.int64]
    hi: NDArray[np.int64]
    kind: NDArray[np.int8]
    adds: NDArray[np.bool_]
    piece: NDArray[np.int64]
    rewrites: bool = False

    @property
    def is_twofold(self) -> bool:
        """Whether it is an allreduce."""
        return len(self.demands) > 1

    def at(
        self,
        rows: NDArray[Any],
        lo: NDArray[np.int64] | None = None,
        hi: NDArray[np.int64] | None = None,
        piece: NDArray[np.int64] | None = None,
    ) -> Hops:
        """Some of the hops, perhaps cut to other chunks, of other pieces then."""
        columns = {name: getattr(self, name)[rows] for name in _NAMES}
        if lo is not None and hi is not None:
            columns |= {"lo": lo, "hi": hi}
        if piece is not None:
            columns["piece"] = piece
        return replace(self, **columns)


def hops_of(plan: Schedule | Messages) -> Hops:
    """The hops between hosts of a schedule, whose links may lead over switches, or of messages."""
    if isinstance(plan, Schedule):
        return between_hosts(_of_schedule(plan), plan.num_hosts)
    return _of_messages(plan)


def _of_schedule(schedule: Schedule) -> Hops:
    demands, topology, link = schedule.demands, schedule.topology, schedule.link
    first = demands[0].first_units()[demands[0].piece_start[:-1]] * schedule.chunks_per_unit
    kinds = np.stack([demand.kind for demand in demands])
    phase = 0 if schedule.phase is None else schedule.phase
    kind = kinds[phase, schedule.item]
    return Hops(
        demands,
        schedule.chunks_per_unit,
        schedule.step,
        link.astype(np.int64),
        topology.tail[link],
        topology.head[link],
        channels(topology.tail, topology.head)[link],
        first[schedule.item] + schedule.lo,
        first[schedule.item] + schedule.hi,
        kind,
        kind == SUM,
        demands[0].piece_start[schedule.item],
    )


def channels(tail: NDArray[np.int32], head: NDArray[np.int32]) -> NDArray[np.int32]:
    """The number of every link among those between the same nodes.

    >>> channels(np.array([0, 1, 0, 0]), np.array([1, 0, 1, 2])).tolist()
    [0, 0, 1, 0]
    """
    order = np.lexsort((head, tail))
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(tail[order]) != 0) | (np.diff(head[order]) != 0)
    count = np.arange(len(order))
    number = np.empty(len(order), dtype=np.int32)
    number[order] = count - np.maximum.accumulate(np.where(new, count, 0))
    return number


def _of_messages(messages: Messages) -> Hops:
    """Items are as large as chunks allow, where whole numbers of both make a unit of weight."""
    demands = demands_of(messages.collective, messages.num_ranks)
    units = int(demands[0].weight.sum())
    chunks_per_unit = lcm(units, messages.num_items) // units
    size = units * chunks_per_unit // messages.num_items
    item = messages.item.astype(np.int64) * size  # items are counted as pieces are
    is_sum = messages.collective.name in SUMMING
    kind = SUM if is_sum else COPY if demands[0].kind[0] == COPY else MOVE
    sender, receiver = messages.source, messages.target
    return Hops(
        demands,
        chunks_per_unit,
        messages.step,
        sender.astype(np.int64) * messages.num_ranks + receiver,
        sender,
        receiver,
        np.zeros(len(sender), dtype=np.int32),
        item,
        item + size,
        np.full(len(sender), kind, dtype=np.int8),
        messages.adds,
        np.zeros(len(sender), dtype=np.int64),
        rewrites=is_sum,
    )
