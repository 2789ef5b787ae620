"""What operations of a rank need: those before them that wrote, or read, what they touch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.lowering.placement import cut
from ocs_codesign.rank_program import ADD, COPY, RECEIVE_ADD, SEND
from ocs_codesign.runs import distinct, places, starts_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.lowering.transfers import Operations

    Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]


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
