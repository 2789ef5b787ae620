"""Transfers: rows joined to runs that are contiguous at both ends, and their operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.rank_program import ADD, COPY, RECEIVE, RECEIVE_ADD, SCRATCH, SEND

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.lowering.slots import Locals, Rows, Scratch

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
    flags, count = flags[order], columns["count"]
    new = np.ones(len(order), dtype=bool)
    new[1:] = np.diff(columns["step"]) != 0
    for column in (columns["line"], flags):
        new[1:] |= column[1:] != column[:-1]
    for name in ("source", "target"):
        new[1:] |= columns[name][1:] != columns[name][:-1] + count[:-1]
    first = np.flatnonzero(new)
    total = np.add.reduceat(count, first) if len(first) else count
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


def _sends(columns: dict[str, NDArray[Any]]) -> Operations:
    none = np.zeros(len(columns["step"]), dtype=np.int8)
    return {
        "rank": columns["sender"],
        "kind": none + SEND,
        "peer": columns["receiver"],
        "channel": columns["channel"],
        "source_buffer": columns["source_buffer"],
        "source": columns["source"],
        "target_buffer": none,
        "target": none,
        "count": columns["count"],
        "step": columns["step"],
        "turn": none + SENDS,
    }


def _receives(columns: dict[str, NDArray[Any]]) -> Operations:
    none = np.zeros(len(columns["step"]), dtype=np.int8)
    return {
        "rank": columns["receiver"],
        "kind": np.where(columns["adds"], RECEIVE_ADD, RECEIVE).astype(np.int8),
        "peer": columns["sender"],
        "channel": columns["channel"],
        "source_buffer": none,
        "source": none,
        "target_buffer": columns["target_buffer"].copy(),
        "target": columns["target"].copy(),
        "count": columns["count"],
        "step": columns["step"],
        "turn": none + RECEIVES,
    }


def _copy(local: Locals) -> Operations:
    """Copies of one rank that read and write on end are one."""
    buffers = local.source.buffer.astype(np.int64) * 4 + local.target.buffer
    order = np.lexsort((local.source.chunk, buffers, local.rank))
    rank, buffers, count = local.rank[order], buffers[order], local.count[order]
    source, target = local.source.at(order), local.target.at(order)
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(rank) != 0) | (np.diff(buffers) != 0)
    for slots in (source, target):
        new[1:] |= slots.chunk[1:] != slots.chunk[:-1] + count[:-1]
    first = np.flatnonzero(new)
    none = np.zeros(len(first), dtype=np.int8)
    return {
        "rank": rank[first],
        "kind": none + COPY,
        "peer": none - 1,
        "channel": none,
        "source_buffer": source.buffer[first],
        "source": source.chunk[first],
        "target_buffer": target.buffer[first],
        "target": target.chunk[first],
        "count": np.add.reduceat(count, first) if len(first) else count,
        "step": none,
        "turn": none,
    }
