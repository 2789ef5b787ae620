"""Independent check of schedules: replay every send, then recompute what the schedule costs.

Nothing here is shared with the code that makes schedules: the replay knows only the links, the
columns and the pre- and postcondition of the collective.

* Copies (allgather): a node sends a chunk only after the step in which it received it, receives
  every chunk exactly once, and in the end holds all.
* Sums (reduce-scatter): a node sends its partial sum of a chunk exactly once, after the last
  contribution it received; the root never does. So every contribution arrives exactly once.
* Moves (all-to-all): every chunk is at one node at a time. A node sends it on only after the step
  in which it arrived, its root never gets it back, and the node that it is for never sends it on;
  in the end all are there. What a node has for itself is never sent.
* Allreduce: phase 0 sums, phase 1 copies; a root may copy a chunk out only after its last
  contribution arrived.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.collective import Collective
from ocs_codesign.cost import Cost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ocs_codesign.schedule import Schedule

_BLOCK_ENTRIES = 2**27
_MARK_CHUNKS = 2**24

_RULES = {
    1: "the sender does not hold this chunk before the step",
    2: "the receiver already holds this chunk",
    3: "the root sends away the sum that must end with it",
    4: "the sender has already sent its partial sum of this chunk",
    5: "the sender receives a contribution in this very step, so its partial sum is incomplete",
    6: "the receiver has already sent its partial sum of this chunk, so the contribution is lost",
    7: "this chunk is of the root's piece for itself, which is never sent",
    8: "the sender has already sent this chunk on",
    9: "the sender is the node that this chunk is for, so it must stay",
    10: "the link leads from the sender to itself, so this chunk does not move",
    11: "this chunk comes back to the root that sent it",
}


@final
@dataclass(frozen=True, slots=True)
class Witness:
    """Where a schedule first breaks a rule: the send (row, step, link) or the node left without.

    ``row``, ``step`` and ``link`` are None when something is missing rather than wrong; ``node`` is
    then the node that lacks the chunk or never contributes to it. ``root`` and ``chunk`` are None
    for a claimed cost that the sends do not have. ``plane`` is known where circuits change; a
    circuit that breaks a rule of ports has no row, and ``node`` is then the port's.
    """

    rule: str
    root: int | None = None
    chunk: int | None = None
    node: int | None = None
    row: int | None = None
    step: int | None = None
    link: int | None = None
    plane: int | None = None

    def __str__(self) -> str:
        names = ("row", "step", "link", "root", "chunk", "node", "plane")
        known = [
            f"{name} {getattr(self, name)}" for name in names if getattr(self, name) is not None
        ]
        return ", ".join(known) + (": " if known else "") + self.rule


@final
@dataclass(frozen=True, slots=True)
class Verdict:
    """What the replay found: the cost recomputed from the sends, and the first witness if any.

    ``max_loads`` are the largest link loads of the steps in shards (in an all-to-all in pieces,
    which are M/N bytes too) a unit of link speed.
    """

    cost: Cost
    max_loads: tuple[Fraction, ...]
    witness: Witness | None

    @property
    def ok(self) -> bool:
        """Whether the schedule achieves its collective (and has the claimed cost, if one was)."""
        return self.witness is None


def verify(schedule: Schedule, claimed: Cost | None = None) -> Verdict:
    """Replay a schedule and recompute its cost; ``claimed`` must then be exactly that cost.

    Roots are replayed in blocks that fit in memory; the witness is the first bad send of the first
    block that fails, or else the first thing missing.

    >>> from ocs_codesign.topology import Topology
    >>> from ocs_codesign.schedule import Schedule
    >>> pair = Topology(2, [0, 1], [1, 0])
    >>> half = Schedule(pair, Collective.ALLGATHER, 1, [0], [0], [1], [0], [1])
    >>> print(verify(half).witness)
    root 1, chunk 0, node 0: the node never receives this chunk
    """
    max_loads = _max_loads(schedule)
    total = sum(max_loads, Fraction(0))
    topology = schedule.topology
    # B is the largest egress of a node and loads count units of M/N: see Topology.node_speed.
    cost = Cost(len(max_loads), total * topology.node_speed() / topology.num_nodes)
    witness = _replay(schedule)
    if witness is None and claimed is not None and claimed != cost:
        witness = Witness(
            f"the claimed cost is {claimed.steps} steps and t_b {claimed.t_b}, "
            f"the sends take {cost.steps} steps and t_b {cost.t_b}"
        )
    return Verdict(cost, max_loads, witness)


def _max_loads(schedule: Schedule) -> tuple[Fraction, ...]:
    """Largest load / speed of every step; the sends are sorted by (step, link)."""
    step, link, unit = schedule.step, schedule.link, schedule.chunks_per_unit
    if not len(step):
        return ()
    changes = (step[1:] != step[:-1]) | (link[1:] != link[:-1])
    start = np.concatenate([[0], np.flatnonzero(changes) + 1])
    load = np.add.reduceat(schedule.hi.astype(np.int64) - schedule.lo, start)
    step, speed = step[start], schedule.topology.speeds()[link[start]]
    loads = [Fraction(0)] * int(step[-1])
    for value in np.unique(speed).tolist():
        here = np.flatnonzero(speed == value)
        first = np.flatnonzero(np.diff(step[here], prepend=-1))
        top = np.maximum.reduceat(load[here], first)
        for at, chunks in zip(step[here][first].tolist(), top.tolist(), strict=True):
            loads[at - 1] = max(loads[at - 1], Fraction(chunks, value * unit))
    return tuple(loads)


def _replay(schedule: Schedule) -> Witness | None:
    """The first witness of the first block of roots that fails."""
    lo, hi, spans = _spans(schedule)
    columns = [schedule.root, lo, hi, schedule.link, schedule.step]
    nodes = schedule.topology.num_nodes
    if schedule.collective is Collective.ALLTOALL:
        moves = _Sends(schedule, spans, np.arange(schedule.num_sends), columns)
        found = (_replay_moves(moves, roots) for roots in _blocks(nodes, 2 * len(spans)))
        return next((witness for witness in found if witness is not None), None)
    sums, copies = (
        None if rows is None else _Sends(schedule, spans, rows, [c[rows] for c in columns])
        for rows in _split_phases(schedule)
    )
    for roots in _blocks(nodes, nodes * len(spans)):
        held_since = np.zeros((len(roots), len(spans)), dtype=np.int32)
        witness = None
        if sums is not None:
            witness, held_since = _replay_sums(sums, roots)
        if copies is not None and witness is None:
            witness = _replay_copies(copies, roots, held_since)
        if witness is not None:
            return witness
    return None


def _blocks(nodes: int, entries: int) -> Iterator[NDArray[np.int64]]:
    """All roots, in blocks that fit in memory when each takes so many entries."""
    block = max(1, _BLOCK_ENTRIES // entries)
    for first in range(0, nodes, block):
        yield np.arange(first, min(nodes, first + block))


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Sends:
    """The rows of a schedule that sum, copy or move, lo and hi counted in spans."""

    schedule: Schedule
    spans: NDArray[np.int64]
    rows: NDArray[np.int64]
    columns: list[NDArray[np.int32]]

    def bad(self, at: int, span: int, fault: int) -> Witness:
        """Witness of the send at a position among these rows."""
        row = int(self.rows[at])
        return Witness(
            _RULES[fault],
            int(self.schedule.root[row]),
            int(self.spans[span]),
            None,
            row,
            int(self.schedule.step[row]),
            int(self.schedule.link[row]),
        )

    def missing(self, rule: str, root: int, span: int, node: int) -> Witness:
        """Witness of something that never happens."""
        return Witness(rule, int(root), int(self.spans[span]), int(node))


def _replay_sums(
    sends: _Sends, roots: NDArray[np.int64]
) -> tuple[Witness | None, NDArray[np.int32]]:
    """First witness of the sends that sum, and the step at which every root's sum is complete."""
    from ocs_codesign.verification.replay_kernels import first_unsent, replay_reduce

    topology, first = sends.schedule.topology, int(roots[0])
    state = np.zeros((len(roots), topology.num_nodes, len(sends.spans)), dtype=np.int32)
    complete = state[roots - first, roots]
    at, span, fault = replay_reduce(topology.tail, topology.head, *sends.columns, first, state)
    if fault:
        return sends.bad(at, span, fault), complete
    block, node, span = first_unsent(state, first)
    if block >= 0:
        rule = "the node's contribution to this chunk is never sent"
        return sends.missing(rule, first + block, span, node), complete
    return None, state[roots - first, roots]


def _replay_copies(
    sends: _Sends, roots: NDArray[np.int64], own_since: NDArray[np.int32]
) -> Witness | None:
    """First witness of the sends that copy; a root holds its own chunks from ``own_since`` on."""
    from ocs_codesign.verification.replay_kernels import NEVER, first_unheld, replay_gather

    topology, first = sends.schedule.topology, int(roots[0])
    shape = (len(roots), topology.num_nodes, len(sends.spans))
    held_since = np.full(shape, NEVER, dtype=np.int32)
    held_since[roots - first, roots] = own_since
    at, span, fault = replay_gather(topology.tail, topology.head, *sends.columns, first, held_since)
    if fault:
        return sends.bad(at, span, fault)
    block, node, span = first_unheld(held_since)
    if block >= 0:
        return sends.missing("the node never receives this chunk", first + block, span, node)
    return None


def _replay_moves(sends: _Sends, roots: NDArray[np.int64]) -> Witness | None:
    """First witness of the sends that move."""
    from ocs_codesign.verification.replay_kernels import NOT_HELD, SENT_ON, replay_moves

    topology, first = sends.schedule.topology, int(roots[0])
    owner = sends.spans // sends.schedule.chunks_per_unit
    place = np.repeat(roots.astype(np.int32)[:, None], len(owner), axis=1)
    since = np.zeros_like(place)
    at, span, fault = replay_moves(
        topology.tail, topology.head, *sends.columns, first, owner, place, since
    )
    if fault:
        sent_on = fault == NOT_HELD and _sent_earlier(sends, at, span)
        return sends.bad(at, span, SENT_ON if sent_on else fault)
    if (astray := place != owner).any():
        block, span = np.unravel_index(astray.argmax(), astray.shape)
        rule = "this chunk never reaches the node that it is for"
        return sends.missing(rule, first + int(block), int(span), owner[span])
    return None


def _sent_earlier(sends: _Sends, at: int, span: int) -> bool:
    """Whether an earlier row takes the same chunks of the same root away from the same sender."""
    root, lo, hi, link, _ = sends.columns
    sender = sends.schedule.topology.tail[link[: at + 1]]
    same = (root[:at] == root[at]) & (lo[:at] <= span) & (span < hi[:at])
    return bool((same & (sender[:at] == sender[at])).any())


def _split_phases(
    schedule: Schedule,
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """Rows that sum and rows that copy; None for what the collective does not do."""
    rows = np.arange(schedule.num_sends)
    if schedule.phase is not None:
        return rows[schedule.phase == 0], rows[schedule.phase == 1]
    return (None, rows) if schedule.collective is Collective.ALLGATHER else (rows, None)


def _spans(
    schedule: Schedule,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Columns lo and hi counted in spans, and every span's first chunk.

    A span is a run of chunks that all sends carry together; in an all-to-all it is of one piece.
    """
    unit = schedule.chunks_per_unit
    if schedule.num_chunks <= _MARK_CHUNKS:
        marked = np.zeros(schedule.num_chunks + 1, dtype=bool)
        marked[schedule.lo] = marked[schedule.hi] = marked[::unit] = True
        edges = np.flatnonzero(marked)
        number = (np.cumsum(marked) - 1).astype(np.int32)
        return number[schedule.lo], number[schedule.hi], edges[:-1]
    bounds = np.arange(0, schedule.num_chunks + 1, unit)
    edges = np.unique(np.concatenate([schedule.lo, schedule.hi, bounds]))
    lo = np.searchsorted(edges, schedule.lo).astype(np.int32)
    return lo, np.searchsorted(edges, schedule.hi).astype(np.int32), edges[:-1]
