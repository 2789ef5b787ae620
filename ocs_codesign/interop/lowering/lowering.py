"""From a verified plan to what every rank does: operations on buffers, and what they need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.collective import CUSTOM
from ocs_codesign.core.plans import (
    ADD,
    COLUMNS,
    COPY,
    RECEIVE,
    RECEIVE_ADD,
    SCRATCH,
    SEND,
    RankProgram,
)
from ocs_codesign.core.topology import distinct, places, starts_of
from ocs_codesign.interop.lowering.hops import Placement, cut, hops_of, runs_on_end
from ocs_codesign.interop.lowering.raising import Scratch, rows_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.core.schedule import Messages, Schedule
    from ocs_codesign.interop.lowering.raising import Locals, Rows

    Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]


# What operations of a rank need: those before them that wrote, or read, what they touch.


def needs_of(
    operations: Operations,
    stream: NDArray[np.int64],
    base: NDArray[np.int64],
    *,
    ordered_adds: bool,
    rewrites: bool,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What every operation needs, as CSR; of one stream the latest alone, of its own none.

    Operations are in an order in which they could run one by one. ``base[rank, buffer]`` is where a
    buffer begins among all slots of all ranks.

    A chunk that is sent needs what wrote it last, and what is added what was added before: so that
    all is in one order. Without ``ordered_adds`` additions do not need each other. Who ``rewrites``
    what it has sent needs that send, too; elsewhere what comes over a slot that was sent comes
    because of that send.
    """
    operation, lo, hi, writes, adds = _accesses(operations, base)
    cell_of, at = _in_cells(lo, hi)
    order = np.lexsort((operation[at], cell_of))
    cell, at = cell_of[order], at[order]
    operation, writes, adds = operation[at], writes[at], adds[at]
    pairs = [_after_writes(cell, operation, writes, adds, ordered_adds=ordered_adds)]
    if rewrites:
        pairs.append(_after_reads(cell, operation, writes, adds))
    who, whom = (np.concatenate(column) for column in zip(*pairs, strict=True))
    return _latest(who, whom, stream, len(operations["rank"]))


def _accesses(operations: Operations, base: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
    """Operation, first slot and end, and whether it writes and adds, of all that can matter."""
    kind, rank, count = operations["kind"], operations["rank"], operations["count"]
    reads = np.flatnonzero((kind == SEND) | (kind == COPY) | (kind == ADD))
    writes = np.flatnonzero(kind != SEND)
    read_at = base[rank[reads], operations["source_buffer"][reads]] + operations["source"][reads]
    at = base[rank[writes], operations["target_buffer"][writes]] + operations["target"][writes]
    # Of all that is written some must end after a read begins, and begin before it ends.
    ended = np.searchsorted(np.sort(at + count[writes]), read_at, side="right")
    begun = np.searchsorted(np.sort(at), read_at + count[reads], side="left")
    matters = ended < begun
    reads, read_at = reads[matters], read_at[matters]
    operation = np.concatenate([reads, writes])
    lo = np.concatenate([read_at, at])
    is_write = np.arange(len(operation)) >= len(reads)
    adds = is_write & np.isin(kind[operation], (RECEIVE_ADD, ADD))
    return operation, lo, lo + count[operation], is_write, adds


def _in_cells(lo: NDArray[np.int64], hi: NDArray[np.int64]) -> Pairs:
    """Every access of every cell that no access begins or ends within: cell and access."""
    edges = distinct(np.concatenate([lo, hi]))
    row, cell, _, _ = cut(lo, hi, edges)
    return cell, row


def _after_writes(
    cell: NDArray[np.int64],
    operation: NDArray[np.int64],
    writes: NDArray[np.bool_],
    adds: NDArray[np.bool_],
    *,
    ordered_adds: bool,
) -> Pairs:
    """Who follows a write of a cell, or all additions to it, and which."""
    index = np.arange(len(cell))
    begin = np.searchsorted(cell, cell)
    last = _last_before(index, writes, begin)
    if ordered_adds:
        follows = np.flatnonzero(last >= 0)
        return operation[follows], operation[last[follows]]
    plain = _last_before(index, writes & ~adds, begin)
    follows = np.flatnonzero(adds & (plain >= 0))
    pairs = [(operation[follows], operation[plain[follows]])]
    others = np.flatnonzero(~adds)
    since = np.where(plain[others] >= 0, plain[others], begin[others])
    row, at = places(since, index[others] - since)
    mine = writes[at]
    pairs.append((operation[others[row[mine]]], operation[at[mine]]))
    who, whom = (np.concatenate(column) for column in zip(*pairs, strict=True))
    return who, whom


def _last_before(
    index: NDArray[np.int64], marked: NDArray[np.bool_], begin: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The last marked entry before every entry of the same cell, -1 if there is none."""
    last = np.maximum.accumulate(np.where(marked, index, -1))
    last = np.concatenate([[-1], last[:-1]])[: len(index)]
    return np.where(last >= begin, last, -1)


def _after_reads(
    cell: NDArray[np.int64],
    operation: NDArray[np.int64],
    writes: NDArray[np.bool_],
    adds: NDArray[np.bool_],
) -> Pairs:
    """Who writes a cell next, and who reads it before.

    A whole sum comes because of the only send of the cell so far: without that it were not whole.
    """
    index = np.arange(len(cell))
    begin = np.searchsorted(cell, cell)
    following = np.minimum.accumulate(np.where(writes, index, len(index))[::-1])[::-1]
    reads = np.flatnonzero(~writes)
    reads = reads[following[reads] < len(index)]
    reads = reads[cell[following[reads]] == cell[reads]]
    after = following[reads]
    total = starts_of(~writes)
    only = ~adds[after] & (total[after] - total[begin[after]] == 1)
    return operation[after[~only]], operation[reads[~only]]


def _latest(
    who: NDArray[np.int64], whom: NDArray[np.int64], stream: NDArray[np.int64], num: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """CSR of whom each operation needs: the latest of every other stream of its rank."""
    apart = stream[who] != stream[whom]
    who, whom = who[apart], whom[apart]
    order = np.lexsort((whom, stream[whom], who))
    who, whom = who[order], whom[order]
    last = np.ones(len(who), dtype=bool)
    last[:-1] = (np.diff(who) != 0) | (np.diff(stream[whom]) != 0)
    who, whom = who[last], whom[last]
    order = np.lexsort((whom, who))
    return starts_of(np.bincount(who, minlength=num)), whom[order]


# Transfers: rows joined to runs that are contiguous at both ends, and their operations.


FIELDS = (
    *("rank", "kind", "peer", "channel", "source_buffer", "source"),
    *("target_buffer", "target", "count", "step", "turn"),
)
Operations = dict[str, "NDArray[Any]"]
"""Columns of a RankProgram and ``turn``: in a step ranks send, receive and then work alone."""

SENDS, RECEIVES, ALONE = range(3)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Transfers: chunks of slots of one rank that go to slots of another, sorted by (step, line).

    What is ``aside`` (bool) is received in scratch of its own, since its target is sent in the same
    step, and goes to its target in the receiver afterwards.
    """

    columns: dict[str, NDArray[Any]]
    aside: NDArray[np.bool_]


def runs_of(parts: list[Rows]) -> Runs:
    """Rows of a step and a line that read and write on end, as one."""
    columns = _columns(parts)
    columns["aside"] = np.zeros(len(columns["step"]), dtype=bool)
    if any(part.hops.rewrites for part in parts):
        columns["aside"] = _read_while_written(columns)
    flags = np.zeros(len(columns["step"]), dtype=np.int64)
    for name in ("adds", "aside", "source_buffer", "target_buffer"):
        flags = flags * 4 + columns[name]
    order = np.lexsort((columns["source"], flags, columns["line"], columns["step"]))
    columns = {name: column[order] for name, column in columns.items()}
    alike, ends = (columns["step"], columns["line"], flags[order]), ("source", "target")
    first, total = runs_on_end(alike, [columns[name] for name in ends], columns["count"])
    columns = {name: column[first] for name, column in columns.items()}
    columns["count"] = total
    return Runs(columns, columns.pop("aside"))


def _columns(parts: list[Rows]) -> dict[str, NDArray[Any]]:
    named = [
        {
            **{name: getattr(part.hops, name) for name in ("step", "line", "sender", "receiver")},
            "channel": part.hops.channel,
            "source_buffer": part.source.buffer,
            "source": part.source.chunk,
            "target_buffer": part.target.buffer,
            "target": part.target.chunk,
            "count": part.hops.hi - part.hops.lo,
            "adds": part.adds,
        }
        for part in parts
    ]
    return {name: np.concatenate([part[name] for part in named]) for name in named[0]}


def _read_while_written(columns: dict[str, NDArray[Any]]) -> NDArray[np.bool_]:
    """Whether what a row brings is for a slot that its receiver sends in the same step.

    Messages are of items, so that what is sent and what is written begin at the same slots.
    """
    places = [("sender", "source_buffer", "source"), ("receiver", "target_buffer", "target")]
    key = np.zeros((2, len(columns["step"])), dtype=np.int64)
    for names in (*zip(*places, strict=True), ("step", "step")):
        both = np.stack([columns[name] for name in names]).astype(np.int64)
        key = key * (int(both.max(initial=0)) + 1) + both
    return np.isin(key[1], key[0])


def operations_of(runs: Runs, copied: list[Locals], scratch: Scratch) -> Operations:
    """Two operations a run, one more for what is set aside, and the copies at the beginning.

    They are sorted by rank, step and turn, and then as the runs are.
    """
    columns, aside = runs.columns, np.flatnonzero(runs.aside)
    parts = [*(_copy(local) for local in copied), _sends(columns)]
    received = _receives(columns)
    if len(aside):
        chunk = scratch.taken(columns["receiver"][aside], columns["count"][aside])
        alone = {name: column[aside] for name, column in received.items()}
        alone["kind"] = np.where(alone["kind"] == RECEIVE_ADD, ADD, COPY)
        alone |= {
            "peer": np.full(len(aside), -1),
            "channel": np.zeros(len(aside), np.int64),
            "source_buffer": np.full(len(aside), SCRATCH),
            "source": chunk,
            "turn": np.full(len(aside), ALONE),
        }
        for name, value in (("kind", RECEIVE), ("target_buffer", SCRATCH), ("target", chunk)):
            received[name][aside] = value
        parts.append(alone)
    parts.append(received)
    joined = {name: np.concatenate([part[name] for part in parts]) for name in FIELDS}
    key = joined["rank"].astype(np.int64) * (int(joined["step"].max(initial=0)) + 1)
    key = (key + joined["step"]) * 3 + joined["turn"]
    order = np.argsort(key, kind="stable")
    return {name: column[order] for name, column in joined.items()}


def _operations(rank: NDArray[Any], kind: Any, turn: int, given: Operations) -> Operations:
    """Operations of ranks, with 0 for what is not given."""
    none = np.zeros(len(rank), dtype=np.int8)
    known = {"rank": rank, "kind": (none + kind).astype(np.int8), "turn": none + turn}
    return dict.fromkeys(FIELDS, none) | known | given


def _sends(columns: dict[str, NDArray[Any]]) -> Operations:
    names = ("channel", "source_buffer", "source", "count", "step")
    given = {name: columns[name] for name in names} | {"peer": columns["receiver"]}
    return _operations(columns["sender"], SEND, SENDS, given)


def _receives(columns: dict[str, NDArray[Any]]) -> Operations:
    """They have columns of their own, but for what they share with the sends."""
    given = {name: columns[name] for name in ("channel", "count", "step")}
    given |= {name: columns[name].copy() for name in ("target_buffer", "target")}
    given["peer"] = columns["sender"]
    kind = np.where(columns["adds"], RECEIVE_ADD, RECEIVE)
    return _operations(columns["receiver"], kind, RECEIVES, given)


def _copy(local: Locals) -> Operations:
    """Copies of one rank that read and write on end are one."""
    buffers = local.source.buffer.astype(np.int64) * 4 + local.target.buffer
    order = np.lexsort((local.source.chunk, buffers, local.rank))
    rank, source, target = local.rank[order], local.source.at(order), local.target.at(order)
    ends = (source.chunk, target.chunk)
    first, count = runs_on_end((rank, buffers[order]), ends, local.count[order])
    source, target = source.at(first), target.at(first)
    given: Operations = {
        "peer": np.full(len(first), -1, dtype=np.int8),
        "source_buffer": source.buffer,
        "source": source.chunk,
        "target_buffer": target.buffer,
        "target": target.chunk,
        "count": count,
    }
    return _operations(rank[first], COPY, 0, given)


def lower(
    plan: Schedule | Messages, *, in_place: bool = False, ordered_adds: bool = True
) -> RankProgram:
    """The operations of a verified plan, step by step: a stream for every end of a link.

    What crosses a link in a step is one transfer as long as it is contiguous in the buffers of
    both ends; parallel links are channels, and the k-th step of the plan is step k. An operation
    begins when what it sends, or adds to, is there: there are no barriers. Out of place the input
    is never written. All additions to a chunk are in one order, but without ``ordered_adds``, which
    leaves a race that the interpreter must find. Raises ValueError for what cannot be in place, and
    for sends that no slot can be found for; whatever else is wrong with a plan, its program has.
    """
    hops = hops_of(plan)
    collective = plan.collective
    demanded = hops.demands[0] if collective.name == CUSTOM else collective
    ranks = hops.demands[0].num_hosts
    nothing = RankProgram(
        demanded, ranks, hops.chunks_per_unit, in_place, np.zeros(ranks, np.int64), {"rank": []}
    )
    place_buffer = nothing.place_buffer if in_place else None
    placed = Placement.of(hops.demands, hops.chunks_per_unit, place_buffer)
    scratch = Scratch(np.zeros(ranks, dtype=np.int64))
    rows, copied = rows_of(hops, placed, scratch)
    operations = operations_of(runs_of(rows), copied, scratch)
    stream, number = _streams(operations)
    sizes = np.stack([*nothing.buffer_sizes()[:2], scratch.size], axis=1)
    base = (np.cumsum(sizes) - sizes.ravel()).reshape(sizes.shape)
    needs = needs_of(operations, stream, base, ordered_adds=ordered_adds, rewrites=hops.rewrites)
    columns = {name: operations[name] for name in COLUMNS if name != "stream"}
    return RankProgram(
        *(demanded, ranks, hops.chunks_per_unit, in_place, scratch.size),
        {**columns, "stream": number},
        *needs,
    )


def _streams(operations: Operations) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The stream of every operation, numbered over all ranks and within its rank.

    Outgoing ends of links come first, by peer and channel, then those that come in, and then what a
    rank does alone.
    """
    kind, rank = operations["kind"], operations["rank"].astype(np.int64)
    side = np.full(len(kind), 2)
    side[kind == SEND] = 0
    side[(kind == RECEIVE) | (kind == RECEIVE_ADD)] = 1
    peers = int(operations["peer"].max(initial=0)) + 2
    channels = int(operations["channel"].max(initial=0)) + 1
    key = ((rank * 3 + side) * peers + operations["peer"] + 1) * channels + operations["channel"]
    streams, stream = np.unique(key, return_inverse=True)
    owner = streams // (3 * peers * channels)
    return stream, stream - np.searchsorted(owner, owner)[stream]
