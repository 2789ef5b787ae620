"""Sends: the rows of a schedule from node to node, their chunks counted in spans."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from ocs_codesign.core.demand import COPY, SUM
from ocs_codesign.core.topology import row_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.core.network import Network
    from ocs_codesign.core.schedule import Schedule


_MARK_CHUNKS = 2**24


@final
@dataclass(frozen=True, slots=True, eq=False)
class Sends:
    """Equally long int32 columns: spans [``lo``, ``hi``) of ``item`` go from node to node.

    A span is a run of chunks, of one piece, that all sends carry together; ``spans`` (int64) has
    the first chunk of each. A send takes from ``start`` to ``end``, in steps or in any other order
    of time. ``row`` is the row of the schedule, ``phase`` its half of the collective, ``kind`` what
    its item's demand is.
    """

    spans: NDArray[np.int64]
    row: NDArray[np.int64]
    item: NDArray[np.int32]
    lo: NDArray[np.int32]
    hi: NDArray[np.int32]
    sender: NDArray[np.int32]
    receiver: NDArray[np.int32]
    start: NDArray[np.int32]
    end: NDArray[np.int32]
    phase: NDArray[np.int32]
    kind: NDArray[np.int8]

    def at(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Sends:
        """Some of the sends."""
        return Sends(self.spans, *(getattr(self, name)[rows] for name in SEND_COLUMNS))

    def of(self, phase: int, kind: int) -> Sends:
        """The sends of one half of the collective whose items are of a kind."""
        mine = (self.phase == phase) & (self.kind == kind)
        return self if mine.all() else self.at(mine)


SEND_COLUMNS = ("row", "item", "lo", "hi", "sender", "receiver", "start", "end", "phase", "kind")


def sends_of(schedule: Schedule) -> Sends:
    """All sends of a schedule, in its order."""
    lo, hi, spans = _spans(schedule)
    topology, phase = schedule.topology, schedule.phase
    kinds = np.stack([demand.kind for demand in schedule.demands])
    half = np.zeros(schedule.num_sends, dtype=np.int32) if phase is None else phase
    return Sends(
        spans,
        np.arange(schedule.num_sends),
        schedule.item,
        lo,
        hi,
        topology.tail[schedule.link],
        topology.head[schedule.link],
        schedule.step - 1,
        schedule.step,
        half,
        kinds[half, schedule.item],
    )


def _spans(schedule: Schedule) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Columns lo and hi counted in spans, and every span's first chunk."""
    ends = np.unique(
        np.concatenate([_piece_ends(schedule, at) for at in range(len(schedule.demands))])
    )
    if schedule.num_chunks <= _MARK_CHUNKS:
        marked = np.zeros(schedule.num_chunks + 1, dtype=bool)
        marked[schedule.lo] = marked[schedule.hi] = marked[ends] = True
        edges = np.flatnonzero(marked)
        number = (np.cumsum(marked) - 1).astype(np.int32)
        return number[schedule.lo], number[schedule.hi], edges[:-1]
    edges = np.unique(np.concatenate([schedule.lo, schedule.hi, ends]))
    lo = np.searchsorted(edges, schedule.lo).astype(np.int32)
    return lo, np.searchsorted(edges, schedule.hi).astype(np.int32), edges[:-1]


def _piece_ends(schedule: Schedule, half: int) -> NDArray[np.int64]:
    """First and last chunk of all pieces, counted within their items, each once."""
    demand = schedule.demands[half]
    ends = demand.first_units()
    sizes = np.diff(demand.piece_start)
    first = np.repeat(ends[demand.piece_start[:-1]], sizes)
    within = np.concatenate([ends[:-1] - first, ends[1:] - first])
    unique: NDArray[np.int64] = np.unique(within) * schedule.chunks_per_unit
    return unique


# Witness: where something generated first breaks a rule.


@final
@dataclass(frozen=True, slots=True)
class Witness:
    """Where a schedule first breaks a rule: the send (row, step, link) or the node left without.

    ``row``, ``step`` and ``link`` are None when something is missing rather than wrong; ``node`` is
    then the node that lacks the chunk or never contributes to it. ``root`` and ``chunk`` are None
    for a claimed cost that the sends do not have. ``plane`` is known where circuits change; a
    circuit that breaks a rule of ports has no row, and ``node`` is then the port's. Of programs of
    ranks the ``rank`` is told, and the ``operation`` by its place among those of all.
    """

    rule: str
    root: int | None = None
    chunk: int | None = None
    node: int | None = None
    row: int | None = None
    step: int | None = None
    link: int | None = None
    plane: int | None = None
    rank: int | None = None
    operation: int | None = None

    def __str__(self) -> str:
        names = ("row", "step", "link", "root", "chunk", "node", "plane", "rank", "operation")
        known = [
            f"{name} {getattr(self, name)}" for name in names if getattr(self, name) is not None
        ]
        return ", ".join(known) + (": " if known else "") + self.rule


# Sends through switches, as what they bring from host to host; a switch keeps and invents
# nothing.
#
# Within a step whatever enters a switch leaves it again. A switch that only forwards sends a
# chunk on as often as it gets it; one that multicasts may send more copies of what is copied, one
# that aggregates fewer partial sums of what is summed up.


OUT_OF_NOTHING = "the switch sends on a chunk that it does not get in this step"
KEPT = "the switch does not send this chunk on in the step in which it gets it: it keeps nothing"
DUPLICATED = "the switch sends this chunk on more often than it gets it, but it cannot multicast"
MERGED = "the switch sends fewer partial sums on than it gets, but it cannot aggregate"
IN_A_CIRCLE = "this chunk goes round among switches and comes from no host"


@final
@dataclass(frozen=True, slots=True)
class Abilities:
    """The switches, by node, that send what is copied to several, or add up what is summed."""

    multicast: frozenset[int] = frozenset()
    aggregate: frozenset[int] = frozenset()

    @classmethod
    def of(cls, network: Network) -> Abilities:
        """What the switches of a network can do."""
        able = (network.multicast, network.aggregate)
        return cls(*(frozenset(np.flatnonzero(switches).tolist()) for switches in able))


FORWARD_ONLY = Abilities()


def direct_sends(schedule: Schedule, sends: Sends, abilities: Abilities) -> Sends | Witness:
    """The same sends from host to host, or the first in which a switch does what it cannot."""
    hosts = schedule.num_hosts
    through = (sends.sender >= hosts) | (sends.receiver >= hosts)
    hops = _Hops.of(schedule, sends.at(np.flatnonzero(through)))
    witness = hops.first_fault(abilities)
    if witness is not None:
        return witness
    passed = hops.passed()
    if isinstance(passed, Witness):
        return passed
    parts = (sends.at(np.flatnonzero(~through)), passed)
    columns = [np.concatenate([getattr(part, name) for part in parts]) for name in SEND_COLUMNS]
    direct = Sends(sends.spans, *columns)
    return direct.at(np.lexsort((direct.row, direct.start)))


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Hops:
    """Sends of one span each to or from a switch, and the stays that they begin and end.

    A stay is one span of one item at one switch in one step. ``enters`` and ``leaves`` (int64,
    hops) number the stay that a hop begins or ends, -1 if its receiver or sender is a host.
    """

    schedule: Schedule
    sends: Sends
    enters: NDArray[np.int64]
    leaves: NDArray[np.int64]
    num_stays: int

    @classmethod
    def of(cls, schedule: Schedule, sends: Sends) -> _Hops:
        size = sends.hi - sends.lo
        at = np.repeat(np.arange(len(size)), size)
        first = np.repeat(np.cumsum(size) - size, size)
        span = (sends.lo[at] + np.arange(len(at)) - first).astype(np.int32)
        single = replace(sends.at(at), lo=span, hi=span + 1)
        base = (np.tile(column, 2) for column in (single.end, single.phase, single.item, span))
        ends = np.concatenate([single.receiver, single.sender])
        stay = row_numbers(*base, ends)
        enters, leaves = stay.reshape(2, -1)
        hosts = schedule.num_hosts
        enters = np.where(single.receiver < hosts, -1, enters)
        leaves = np.where(single.sender < hosts, -1, leaves)
        return cls(schedule, single, enters, leaves, int(stay.max()) + 1 if len(stay) else 0)

    def first_fault(self, abilities: Abilities) -> Witness | None:
        """The first hop, in the order of the schedule, at which a switch does what it cannot."""
        into = np.bincount(self.enters[self.enters >= 0], minlength=self.num_stays)
        out = np.bincount(self.leaves[self.leaves >= 0], minlength=self.num_stays)
        faults = []
        for number, switch, is_entry in (
            (self.enters, self.sends.receiver, True),
            (self.leaves, self.sends.sender, False),
        ):
            here = number >= 0
            gets, gives = into[number], out[number]
            copies, sums = self.sends.kind == COPY, self.sends.kind == SUM
            fans_out = np.isin(switch, list(abilities.multicast)) & copies
            adds_up = np.isin(switch, list(abilities.aggregate)) & sums
            if is_entry:
                faults.append((here & (gives == 0), KEPT, switch))
                faults.append((here & (gives < gets) & ~adds_up & sums, MERGED, switch))
                faults.append((here & (gives < gets) & ~sums, KEPT, switch))
            else:
                faults.append((here & (gets == 0), OUT_OF_NOTHING, switch))
                faults.append((here & (gives > gets) & ~fans_out, DUPLICATED, switch))
        found = [
            (int(broken.argmax()), rule, switch) for broken, rule, switch in faults if broken.any()
        ]
        if not found:
            return None
        at, rule, where = min(found, key=lambda fault: self.sends.row[fault[0]])
        return self._witness(at, rule, int(where[at]))

    def _witness(self, at: int, rule: str, switch: int | None = None) -> Witness:
        sends = self.sends
        demand = self.schedule.demands[int(sends.phase[at])]
        row = int(sends.row[at])
        return Witness(
            rule,
            int(demand.root[sends.item[at]]),
            int(sends.spans[sends.lo[at]]),
            switch,
            row,
            int(sends.end[at]),
            int(self.schedule.link[row]),
        )

    def passed(self) -> Sends | Witness:
        """What the hops bring from host to host: copies by their last hop, sums by their first.

        Or the first hop of a chunk that goes round among switches however it is told apart.
        """
        sums = self.sends.kind == SUM
        copied = _begins(self.enters, self.leaves, np.flatnonzero(~sums))
        summed = _begins(self.leaves, self.enters, np.flatnonzero(sums))
        round_trips = np.concatenate([copied.nowhere, summed.nowhere])
        if len(round_trips):
            at = round_trips[np.argmin(self.sends.row[round_trips])]
            return self._witness(int(at), IN_A_CIRCLE)
        sender = np.where(sums, self.sends.sender, self.sends.sender[copied.hop])
        receiver = np.where(sums, self.sends.receiver[summed.hop], self.sends.receiver)
        resolved = replace(
            self.sends, sender=sender.astype(np.int32), receiver=receiver.astype(np.int32)
        )
        last, first = (self.enters < 0) & ~sums, (self.leaves < 0) & sums
        return resolved.at(np.flatnonzero(last | first))


class _Begins(NamedTuple):
    """The ``hop`` at a host with which every hop begins, and those that begin ``nowhere``."""

    hop: NDArray[np.int64]
    nowhere: NDArray[np.int64]


def _begins(
    enters: NDArray[np.int64], leaves: NDArray[np.int64], hops: NDArray[np.int64]
) -> _Begins:
    """Where some of the hops begin, followed back from stay to stay as ``told_apart`` has them."""
    begin = _followed(told_apart(enters, leaves, hops))
    wanted = np.zeros(len(begin), dtype=bool)
    wanted[hops] = True
    return _Begins(begin, np.flatnonzero(wanted & (leaves[begin] >= 0)))


def told_apart(
    enters: NDArray[np.int64], leaves: NDArray[np.int64], hops: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Of some of the hops the one before it, itself if it leaves no stay.

    Chunks that are alike are told apart as one likes: the k-th hop out of a stay goes on with what
    the k-th into it brought, or the last of them if there are fewer. Where that goes round among
    switches, what goes round is exchanged with what passes there and comes from a host, so that
    hops go round only if no way of telling them apart brings them from a host.
    """
    before = np.arange(len(enters))
    into, out = hops[enters[hops] >= 0], hops[leaves[hops] >= 0]
    into = into[np.argsort(enters[into], kind="stable")]
    out = out[np.argsort(leaves[out], kind="stable")]
    start = np.searchsorted(enters[into], leaves[out])
    number = np.arange(len(out)) - np.searchsorted(leaves[out], leaves[out])
    count = np.searchsorted(enters[into], leaves[out], side="right") - start
    before[out] = into[start + np.minimum(number, count - 1)]
    wanted = np.zeros(len(before), dtype=bool)
    wanted[hops] = True
    while True:
        begin = _followed(before)
        lost = wanted & (leaves[begin] >= 0)
        if not lost.any() or not _exchanged(before, begin, lost, leaves, out):
            return before


def _followed(before: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where every hop begins, by doubling; of one that goes round, a hop on that round."""
    begin, length = before, 1
    while length < len(before) and not np.array_equal(further := begin[begin], begin):
        begin, length = further, 2 * length
    return begin


def _exchanged(
    before: NDArray[np.int64],
    begin: NDArray[np.int64],
    lost: NDArray[np.bool_],
    leaves: NDArray[np.int64],
    out: NDArray[np.int64],
) -> bool:
    """Lead rounds through what comes from hosts at the stays that both pass; whether one could."""
    met = out[~lost[out] & np.isin(leaves[out], leaves[lost])]
    through = dict(zip(leaves[met].tolist(), met.tolist(), strict=True))
    seen: set[int] = set()
    is_changed = False
    for first in np.unique(begin[lost]).tolist():
        circle, hop = [], first
        while hop not in seen:
            seen.add(hop)
            circle.append(hop)
            hop = int(before[hop])
        for hop in circle:
            other = through.get(int(leaves[hop]))
            if other is not None:
                before[hop], before[other] = before[other], before[hop]
                is_changed = True
                break
    return is_changed
